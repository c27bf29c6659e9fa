//! The probe: one application, over each of the three databases.

mod account;
mod ask;
mod business;
mod charge;
mod config;
mod events;
mod failure;
mod gates;
mod gateway;
mod handlers;
mod reply;
mod signals;
mod state;
mod typed;

pub(crate) use config::Config;
pub(crate) use events::install as install_events;

handlers::over! { postgres, sqlx::Postgres }
handlers::over! { sqlite, sqlx::Sqlite }
handlers::over! { mysql, sqlx::MySql }

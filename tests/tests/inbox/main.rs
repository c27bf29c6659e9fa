//! The inbox: messages that come again have one effect, on every database and with real brokers.
#![allow(clippy::unwrap_used)]

mod brokers;
mod burying;
mod consuming;
mod fake;
mod order;
mod outage;
mod processing;
mod setup;
mod start;
mod transaction;

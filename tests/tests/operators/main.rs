//! What operators see and decide: the library, the program, and the commands of the runbook, on every database.
#![allow(clippy::unwrap_used)]

mod decisions;
mod events;
mod handler;
mod looking;
mod plan;
mod program;
mod provider;
mod runbook;
mod setup;

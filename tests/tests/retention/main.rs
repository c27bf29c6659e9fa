//! Retention, and the public test of the contract, on every backend, in process.
#![allow(clippy::unwrap_used)]

mod erasing;
mod planted;
mod setup;
mod sweeping;
mod testing_contract;

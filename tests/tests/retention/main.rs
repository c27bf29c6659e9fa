//! Retention, and the public test of the contract, on every backend, in process.
#![allow(clippy::unwrap_used)]

mod charging;
mod erasing;
mod planted;
mod schema;
mod setup;
mod step_faults;
mod stopping;
mod sweeping;
mod testing_contract;
mod testing_crashes;

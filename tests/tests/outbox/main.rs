//! The outbox: what is staged with an effect is published afterwards, at least once, with an id that stays the same.
#![allow(clippy::unwrap_used)]

mod checker;
mod clocks;
mod crash;
mod failures;
mod office;
mod operators;
mod order;
mod outage;
mod program;
mod publisher;
mod setup;
mod staging;
mod wake;

//! The outbox: what is staged with an effect is published afterwards, at least once, with an id that stays the same.

mod failures;
mod office;
mod order;
mod publisher;
mod setup;
mod staging;

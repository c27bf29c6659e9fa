//! Publishers of the outbox, each against the real thing: what `Ok` says is there is there, at the far end.
#![allow(clippy::unwrap_used, reason = "tests")]

mod amqp;
mod amqp_outage;
mod nats;
mod nats_outage;
mod setup;
mod webhook;
mod webhook_addresses;

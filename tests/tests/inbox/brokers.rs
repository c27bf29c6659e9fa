//! Real brokers.

mod amqp;
mod child;
mod link;
mod nats;
mod nats_restart;
mod nats_silence;

/// A server that `tests/run` started, or that somebody has.
fn url(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run the tests with tests/run, or set it to a server's URL")
    })
}

/// A name that no other test has.
fn name(what: &str) -> String {
    format!("{what}_{}", uuid::Uuid::new_v4().simple())
}

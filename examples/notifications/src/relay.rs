//! What publishes the shop's messages.

use std::error::Error;
use std::time::Duration;

use idem_runtime::Idempotency;
use idem_runtime::outbox::webhook::{Endpoint, Secret, Webhooks};
use idem_runtime::outbox::{Publisher, Relay};

use crate::database::Db;

/// Of this example. A real one is drawn for each receiver, and kept as secrets are.
pub const EXAMPLE_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Events to the broker, and webhooks to the receiver. It may run in the shop's process, beside others in others.
pub fn relay(
    idempotency: &Idempotency<Db>,
    broker: impl Publisher,
    receiver: impl Publisher,
) -> Relay<Db> {
    idempotency
        .relay()
        .to("order.", broker)
        .to("webhook.", receiver)
        // A crash holds messages up for so long.
        .lease(Duration::from_secs(3))
}

/// Signed webhooks to one receiver.
pub fn webhooks(url: &str, secret: &str) -> Result<Webhooks, Box<dyn Error + Send + Sync>> {
    let endpoint = Endpoint::new(url, Secret::parse(secret)?)?;
    // The example's receiver is on this machine. In production neither line belongs here: receivers have https, and no address
    // of your own network.
    let webhooks = Webhooks::to(endpoint)
        .allow_http()
        .allow_addresses(|address| address.is_loopback());
    Ok(webhooks.build()?)
}

//! The stream of orders, and how it is consumed.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::stream::{Config, Stream};
use async_nats::jetstream::{self, Context};
use idem_runtime::inbox::nats::JetStream;

/// The durable consumer.
pub const LEDGER: &str = "ledger";
const ORDERS: &str = "ORDERS";
const DEAD: &str = "DEAD";
const DEAD_ORDERS: &str = "dead.orders";
/// How long a message is kept. A consumer's `ttl` is as long.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How long the stream knows a message's id, and drops what it is given again. A shop that is away for longer publishes again what
/// is stored: the consumers see it, and tell it by the id.
pub const DUPLICATE_WINDOW: Duration = Duration::from_secs(2 * 60);
/// When a message is delivered again whose consumer has died.
const ACK_WAIT: Duration = Duration::from_secs(3);

type Result<T, E = async_nats::Error> = std::result::Result<T, E>;

/// Makes the streams that are missing, and the ledger's place in the one of orders.
pub async fn open(client: &async_nats::Client, duplicate_window: Duration) -> Result<Stream> {
    let context = jetstream::new(client.clone());
    let orders = Config {
        name: ORDERS.to_owned(),
        subjects: vec!["order.>".to_owned()],
        max_age: MAX_AGE,
        duplicate_window,
        ..Config::default()
    };
    let orders = context.get_or_create_stream(orders).await?;
    let dead = Config {
        name: DEAD.to_owned(),
        subjects: vec!["dead.>".to_owned()],
        ..Config::default()
    };
    context.get_or_create_stream(dead).await?;
    let ledger = pull::Config {
        durable_name: Some(LEDGER.to_owned()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        // Nothing is delivered before what came before it is acknowledged, or an account's orders would lose their order when a
        // consumer dies.
        max_ack_pending: 1,
        ..pull::Config::default()
    };
    orders.get_or_create_consumer(LEDGER, ledger).await?;
    Ok(orders)
}

/// Removes the streams, with all that is in them.
pub async fn remove(client: &async_nats::Client) -> Result<()> {
    let context = jetstream::new(client.clone());
    for stream in [ORDERS, DEAD] {
        context.delete_stream(stream).await?;
    }
    Ok(())
}

/// Where the shop publishes to.
pub fn publisher(client: async_nats::Client) -> idem_runtime::outbox::nats::JetStream {
    let context: Context = jetstream::new(client);
    idem_runtime::outbox::nats::JetStream::new(context)
}

/// What the ledger consumes.
pub fn source(client: async_nats::Client) -> JetStream {
    JetStream::new(client, ORDERS, LEDGER, DEAD_ORDERS)
}

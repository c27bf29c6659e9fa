//! A consumer of orders that leaves an effect for each message, to be killed.
//!
//! `DATABASE` is a database's URL with the tables in it. `NATS` (a server's URL), `STREAM`, `DURABLE` and `ACK_WAIT` (milliseconds), or
//! `AMQP` (a server's URL) and `QUEUE`, say where the messages come from; `DEAD_LETTERS` where those go that can't be processed, and
//! `MAX_DELIVERIES` after how many deliveries. It prints one line, `consuming`, once it can, and goes on until it is killed; the message
//! `poison` kills it.

use std::time::Duration;

use idem_runtime::inbox::amqp::Amqp;
use idem_runtime::inbox::nats::JetStream;
use idem_runtime::inbox::{Consumers, ConsumersHandle, Incoming};
use idem_runtime::{Idempotency, Tx, consumer};
use sqlx::pool::PoolOptions;

/// The messages are their ids; one ends the process.
macro_rules! consumes {
    ($module:ident, $db:ty, $insert:literal) => {
        mod $module {
            use super::*;

            #[consumer(source = "orders", name = "ledger", ttl = "1d")]
            async fn ledger(tx: &mut Tx<$db>, message: Incoming) -> sqlx::Result<()> {
                let id = String::from_utf8_lossy(message.payload()).into_owned();
                let is_poison = id == "poison";
                sqlx::query($insert).bind(id).execute(&mut *tx).await?;
                if is_poison {
                    std::process::abort();
                }
                Ok(())
            }

            pub(super) async fn start(database: &str) -> ConsumersHandle {
                let pool = idem_runtime::guard(PoolOptions::<$db>::new());
                let pool = pool
                    .connect(database)
                    .await
                    .expect("the database is reachable");
                consume(Idempotency::new(pool).consumers(()).register(ledger)).await
            }
        }
    };
}

consumes!(
    postgres,
    sqlx::Postgres,
    "INSERT INTO effects (consumer, message) VALUES ('ledger', $1)"
);
consumes!(
    sqlite,
    sqlx::Sqlite,
    "INSERT INTO effects (consumer, message) VALUES ('ledger', ?)"
);
consumes!(
    mysql,
    sqlx::MySql,
    "INSERT INTO effects (consumer, message) VALUES ('ledger', ?)"
);

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

async fn consume<DB: idem_runtime::Backend>(consumers: Consumers<DB, ()>) -> ConsumersHandle {
    let dead_letters = variable("DEAD_LETTERS");
    let consumers = match std::env::var("NATS") {
        Ok(url) => {
            let client = async_nats::connect(url)
                .await
                .expect("the broker is reachable");
            let ack_wait = variable("ACK_WAIT").parse().expect("milliseconds");
            let source = JetStream::new(
                client,
                variable("STREAM"),
                variable("DURABLE"),
                dead_letters,
            );
            consumers.source("orders", source.ack_wait(Duration::from_millis(ack_wait)))
        }
        Err(_) => consumers.source(
            "orders",
            Amqp::new(variable("AMQP"), variable("QUEUE"), dead_letters),
        ),
    };
    let mut consumers = consumers.concurrency(4);
    if let Ok(most) = std::env::var("MAX_DELIVERIES") {
        consumers = consumers.max_deliveries(most.parse().expect("a number"));
    }
    consumers.spawn().await.expect("the consumers start")
}

#[tokio::main]
async fn main() {
    let database = variable("DATABASE");
    let running = match database.split(':').next() {
        Some("postgres") => postgres::start(&database).await,
        Some("sqlite") => sqlite::start(&database).await,
        _ => mysql::start(&database).await,
    };
    println!("consuming");
    std::future::pending::<()>().await;
    running.stop().await;
}

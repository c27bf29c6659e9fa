//! A relay in a process of its own, with a broker that is a file: a line for each message that it was given, which outlives
//! the process.
//!
//! `DATABASE_URL`, `BROKER` (the file), `LEASE` and `LATENCY` (milliseconds) come from the environment. It prints one line,
//! `listening on http://IP:PORT`, once the relay runs, and stops at SIGTERM.

use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

use idem_runtime::outbox::{OutboxMessage, PublishError, Publisher};
use idem_runtime::{Backend, Idempotency};
use sqlx::pool::PoolOptions;
use sqlx::{MySql, Postgres, Sqlite};
use tokio::signal::unix::{SignalKind, signal};

struct Lines {
    file: File,
    latency: Duration,
}

impl Publisher for Lines {
    async fn publish(&self, message: &OutboxMessage) -> Result<(), PublishError> {
        tokio::time::sleep(self.latency).await;
        let key = message.ordering_key().unwrap_or("-");
        let payload = String::from_utf8_lossy(message.payload());
        let line = format!("{} {key} {payload}\n", message.id());
        // One write of a file that is appended to: lines of several processes do not mix.
        let written = (&self.file).write_all(line.as_bytes());
        written.map_err(|error| PublishError::Failed(error.into()))
    }
}

fn millis(name: &str, default: u64) -> Duration {
    let value = std::env::var(name).ok().and_then(|text| text.parse().ok());
    Duration::from_millis(value.unwrap_or(default))
}

async fn run<DB: Backend>(url: &str) -> Result<(), Box<dyn std::error::Error>> {
    let pool = PoolOptions::<DB>::new()
        .max_connections(4)
        .connect(url)
        .await?;
    let broker = std::env::var_os("BROKER").ok_or("BROKER is not set")?;
    let lines = Lines {
        file: File::options().append(true).create(true).open(broker)?,
        latency: millis("LATENCY", 1),
    };
    let relay = Idempotency::new(pool)
        .relay()
        .publisher(lines)
        .batch(10)
        .poll(Duration::from_millis(20))
        .lease(millis("LEASE", 1000));
    let mut terminated = signal(SignalKind::terminate())?;
    // Nothing is served: whoever started it learns that it runs.
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("listening on http://{}", listener.local_addr()?);
    relay
        .run_until(async move {
            terminated.recv().await;
        })
        .await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("DATABASE_URL")?;
    match url.split_once(':').map_or("", |(scheme, _)| scheme) {
        "postgres" => run::<Postgres>(&url).await,
        "mysql" => run::<MySql>(&url).await,
        _ => run::<Sqlite>(&url).await,
    }
}

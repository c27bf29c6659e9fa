//! First uses with keys that have no order and with such as have one: what they write to the write-ahead log, from one checkpoint
//! on, and how fast they are, at either end of the isolation levels.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use idem_runtime::{Idempotency, Isolation};
use sqlx::Executor;
use uuid::Uuid;

use super::filling::Table;
use super::median;
use super::requests::{send, service_of};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(3);
const CLIENTS: usize = 8;

/// Requests a second, and bytes a request.
async fn write(table: &Arc<Table>, app: &Router, key: fn() -> Uuid) -> (f64, f64) {
    let mut connection = table.connect().await;
    connection.execute("CHECKPOINT").await.expect("it is done");
    let position = "SELECT (pg_current_wal_lsn() - '0/0')::bigint";
    let before = table.number(position).await;
    let (started, done) = (Instant::now(), Arc::new(AtomicI64::new(0)));
    let tasks: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (app, done) = (app.clone(), done.clone());
            tokio::spawn(async move {
                while started.elapsed() < ROUND {
                    assert!(!send(&app, &key().to_string()).await);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no client fails");
    }
    let elapsed = started.elapsed().as_secs_f64();
    let written = table.number(position).await - before;
    let done = done.load(Ordering::Relaxed) as f64;
    (done / elapsed, written as f64 / done)
}

pub(crate) async fn measure(small: &Arc<Table>, large: &Arc<Table>) {
    for table in [small, large] {
        for isolation in [Isolation::ReadCommitted, Isolation::Serializable] {
            let idempotency = Idempotency::builder(table.pool.clone()).isolation(isolation);
            let app = service_of(idempotency.build().expect("the settings make sense"));
            let (mut rates, mut bytes, mut ratios) = (
                [Vec::new(), Vec::new()],
                [Vec::new(), Vec::new()],
                Vec::new(),
            );
            for round in 0..=ROUNDS {
                let random = write(table, &app, Uuid::new_v4).await;
                let timed = write(table, &app, Uuid::now_v7).await;
                // The first makes connections, plans and caches.
                if round > 0 {
                    for (index, (rate, written)) in [random, timed].into_iter().enumerate() {
                        rates[index].push(rate);
                        bytes[index].push(written);
                    }
                    ratios.push(timed.0 / random.0);
                }
            }
            let ([random, timed], [of_random, of_timed]) = (rates.map(median), bytes.map(median));
            println!(
                "{} records, {isolation:?}: UUIDv4 {random:.0} a second, {of_random:.0} bytes of log a request; \
                 UUIDv7 {timed:.0} a second, {of_timed:.0} bytes; speed × {:.2}",
                table.rows,
                median(ratios)
            );
        }
    }
}

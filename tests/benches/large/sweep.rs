//! A sweep of what is over while requests run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use idem_runtime::Idempotency;
use tokio::task::JoinSet;

use super::filling::Table;
use super::requests::{send, service};
use super::{given, number};

/// Two hundred a second.
const INTERVAL: Duration = Duration::from_millis(5);
const CALM: Duration = Duration::from_secs(15);

/// Sends fresh keys at the interval until it is over, whatever became of those before. In order.
async fn requests(table: &Arc<Table>, app: &Router, over: &AtomicBool) -> Vec<Duration> {
    let mut ticks = tokio::time::interval(INTERVAL);
    let mut running = JoinSet::new();
    while !over.load(Ordering::Relaxed) {
        ticks.tick().await;
        let (table, app) = (table.clone(), app.clone());
        running.spawn(async move {
            let started = Instant::now();
            assert!(!send(&app, &table.fresh()).await);
            started.elapsed()
        });
    }
    let mut latencies = running.join_all().await;
    latencies.sort();
    latencies
}

fn at(latencies: &[Duration], quantile: f64) -> f64 {
    let last = latencies.len() - 1;
    latencies[(last as f64 * quantile).round() as usize].as_secs_f64() * 1000.0
}

/// The oldest transaction that a sweep had, and the most dead rows that there were.
#[derive(Default)]
struct Watched {
    longest: Duration,
    dead: i64,
}

async fn watch(table: &Table, over: &AtomicBool) -> Watched {
    let mut connection = table.connect().await;
    let mut watched = Watched::default();
    while !over.load(Ordering::Relaxed) {
        let age = "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start) * 1000)::bigint, 0) \
             FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%DELETE FROM idem_keys%' \
              AND state <> 'idle' AND pid <> pg_backend_pid()";
        let age = number(&mut connection, age).await;
        watched.longest = watched
            .longest
            .max(Duration::from_millis(age.unsigned_abs()));
        let dead = number(&mut connection, DEAD).await;
        watched.dead = watched.dead.max(dead);
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    watched
}

const DEAD: &str = "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'idem_keys'";

pub(crate) async fn measure(table: &Arc<Table>) {
    let app = service(&table.pool);
    let over = Arc::new(AtomicBool::new(false));
    let ending = over.clone();
    let calm = async {
        tokio::time::sleep(CALM).await;
        ending.store(true, Ordering::Relaxed);
    };
    let (calm, ()) = tokio::join!(requests(table, &app, &over), calm);

    over.store(false, Ordering::Relaxed);
    let idempotency = Idempotency::new(table.pool.clone());
    let sweep = {
        let over = over.clone();
        let mut sweeper = idempotency.sweeper();
        if let Some(records) = given("--batch") {
            sweeper = sweeper.batch(records);
        }
        if let Some(pause) = given("--pause") {
            sweeper = sweeper.pause(Duration::from_millis(pause));
        }
        tokio::spawn(async move {
            let started = Instant::now();
            let swept = sweeper.sweep_once().await;
            over.store(true, Ordering::Relaxed);
            (swept.expect("it sweeps"), started.elapsed())
        })
    };
    let (busy, watched) = tokio::join!(requests(table, &app, &over), watch(table, &over));
    let (swept, took) = sweep.await.expect("it ends");
    println!(
        "swept {} records in {} batches, {took:?}, the longest {:?}",
        swept.records, swept.batches, watched.longest
    );
    println!(
        "requests, calm → sweep: p50 {:.2} → {:.2} ms, p99 {:.2} → {:.2} ms (× {:.2}), worst {:.2} → {:.2} ms",
        at(&calm, 0.5),
        at(&busy, 0.5),
        at(&calm, 0.99),
        at(&busy, 0.99),
        at(&busy, 0.99) / at(&calm, 0.99),
        at(&calm, 1.0),
        at(&busy, 1.0),
    );
    println!(
        "dead rows: {} at most, {} at the end, {} vacuums",
        watched.dead,
        table.number(DEAD).await,
        table
            .number("SELECT autovacuum_count FROM pg_stat_user_tables WHERE relname = 'idem_keys'")
            .await
    );
}

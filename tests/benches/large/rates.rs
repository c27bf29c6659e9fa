//! First uses and replays, by eight clients at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;

use super::filling::Table;
use super::median;
use super::requests::{send, service};

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(1500);
const CLIENTS: usize = 8;
/// Keys that are asked for again and again, spread over the whole table.
const REMEMBERED: i64 = 1000;

#[derive(Clone, Copy, Debug)]
enum Kind {
    First,
    /// Of a key that this process has not met.
    Replay,
    /// The same, of the last hour.
    ReplaySoon,
    /// Of one that it has answered lately.
    ReplayAgain,
}

/// A key that is not past its retention.
fn used(table: &Table, number: i64) -> String {
    let live = table.rows * 8 / 10;
    table.key(table.rows - number % live)
}

async fn rate(table: &Arc<Table>, app: &Router, kind: Kind, next: &Arc<AtomicI64>) -> f64 {
    let started = Instant::now();
    let done = Arc::new(AtomicI64::new(0));
    let tasks: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (table, app, next, done) = (table.clone(), app.clone(), next.clone(), done.clone());
            tokio::spawn(async move {
                while started.elapsed() < ROUND {
                    let key = match kind {
                        Kind::First => table.fresh(),
                        // A prime's multiples are spread over the table, and come again only after all.
                        Kind::Replay => used(&table, next.fetch_add(1, Ordering::Relaxed) * 7919),
                        Kind::ReplaySoon => {
                            let number = next.fetch_add(1, Ordering::Relaxed) * 7919;
                            // Of a small table all: few keys would come again.
                            let soon = (table.rows / 48).max(table.rows.min(10_000) * 8 / 10);
                            table.key(table.rows - number % soon)
                        }
                        Kind::ReplayAgain => used(
                            &table,
                            fastrand::i64(0..REMEMBERED) * (table.rows / REMEMBERED).max(1),
                        ),
                    };
                    let replayed = send(&app, &key).await;
                    assert_eq!(replayed, !matches!(kind, Kind::First), "{key}");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no client fails");
    }
    done.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64()
}

pub(crate) async fn measure(small: &Arc<Table>, large: &Arc<Table>) {
    let next = Arc::new(AtomicI64::new(0));
    for kind in [
        Kind::First,
        Kind::Replay,
        Kind::ReplaySoon,
        Kind::ReplayAgain,
    ] {
        let (mut rates, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
        let mut apps = [service(&small.pool), service(&large.pool)];
        for round in 0..=ROUNDS {
            if matches!(kind, Kind::Replay | Kind::ReplaySoon) {
                // Who has met the keys of a small table would not be asking for the first time.
                apps = [service(&small.pool), service(&large.pool)];
            }
            let one = rate(small, &apps[0], kind, &next).await;
            let other = rate(large, &apps[1], kind, &next).await;
            // The first makes connections, plans and caches.
            if round > 0 {
                rates[0].push(one);
                rates[1].push(other);
                ratios.push(other / one);
            }
        }
        let [one, other] = rates.map(median);
        println!(
            "{kind:?}: {one:.0} a second at {} records, {other:.0} at {}: × {:.2}",
            small.rows,
            large.rows,
            median(ratios)
        );
    }
}

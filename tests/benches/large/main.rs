//! PostgreSQL with ten million records against ten thousand: first uses and replays, a sweep of a million expired records while
//! requests run, and what a first use writes to the write-ahead log.
//!
//! `IDEM_POSTGRES_URL=postgres://… cargo bench -p idem-tests --no-default-features --bench large`
//!
//! `--rows 10000000`, of which a tenth is past its retention; `--timed`: their keys are UUIDv7s, which lead their records' ids. Filling
//! takes minutes, and some 5 GB for ten million: `--fill` makes the two databases and leaves them; a run takes those that it finds, and
//! drops them at its end unless it is told to `--keep` them. `rates`, `log` and `sweep` run a part alone; the sweep is what it says, and
//! comes last. `--batch RECORDS` and `--pause MILLISECONDS` are the sweeper's. The sizes take turns, in rounds of one run; what counts is
//! the median of the rounds' ratios.

mod filling;
mod log;
mod rates;
mod requests;
mod sweep;

use std::sync::Arc;

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use self::filling::{Keys, Table};

const SMALL: i64 = 10_000;

fn says(name: &str) -> bool {
    std::env::args().any(|argument| argument == name)
}

/// The number that follows an argument.
fn given<T: std::str::FromStr>(name: &str) -> Option<T> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1)?.parse().ok()
}

fn rows() -> i64 {
    given("--rows").unwrap_or(10_000_000)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn number(connection: &mut PgConnection, sql: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned()))
        .fetch_one(connection)
        .await
        .expect("the server answers")
}

#[tokio::main]
async fn main() {
    let server = std::env::var("IDEM_POSTGRES_URL").expect("IDEM_POSTGRES_URL is set");
    let mut admin = PgConnection::connect(&server)
        .await
        .expect("the server is there");
    let keys = if says("--timed") {
        Keys::Timed
    } else {
        Keys::Random
    };
    let small = Arc::new(Table::open(&mut admin, &server, SMALL, keys).await);
    let large = Arc::new(Table::open(&mut admin, &server, rows(), keys).await);
    for table in [&small, &large] {
        table.describe().await;
    }
    if says("--fill") {
        return;
    }
    let all = !["rates", "log", "sweep"].iter().any(|part| says(part));
    if all || says("rates") {
        rates::measure(&small, &large).await;
    }
    if all || says("log") {
        log::measure(&small, &large).await;
    }
    if all || says("sweep") {
        sweep::measure(&large).await;
    }
    if !says("--keep") {
        small.remove(&mut admin).await;
        large.remove(&mut admin).await;
    }
}

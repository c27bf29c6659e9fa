//! What a first use writes to the write-ahead log, from one checkpoint on; and what it would write if the digest of a key that begins
//! with its time began with it too.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use sqlx::Executor;
use uuid::Uuid;

use super::filling::Table;
use super::requests::{send, service};

const TIME: Duration = Duration::from_secs(6);
const CLIENTS: usize = 8;

#[derive(Clone, Copy)]
enum Keys {
    Random,
    Version7,
    /// No request, but its statements: a digest without order, and one that the time leads.
    Digest,
    TimeAndDigest,
}

/// What the library's statements are without it.
const STORE: &str = "\
    INSERT INTO idem_keys (id, scope, operation, state, owner, fingerprint_version, fingerprint, status, headers, body, \
        created_at, completed_at, expires_at, retain_until) \
    SELECT $1, t.scope, t.operation, 1, t.owner, t.fingerprint_version, t.fingerprint, t.status, t.headers, t.body, \
        now(), now(), now() + interval '48 hours', now() + interval '48 hours' \
      FROM template t";

async fn store(table: &Table, time_leads: bool) -> sqlx::Result<()> {
    let mut id = [0; 32];
    fastrand::fill(&mut id);
    if time_leads {
        id[..6].copy_from_slice(&Uuid::now_v7().as_bytes()[..6]);
    }
    let mut transaction = table.pool.begin().await?;
    transaction
        .execute("INSERT INTO orders (account, item) VALUES ('alice', 'The Rust Programming Language') RETURNING id")
        .await?;
    sqlx::query(STORE)
        .bind(id.as_slice())
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await
}

/// Requests a second, and bytes a request.
async fn write(table: &Arc<Table>, app: &Router, keys: Keys) -> (f64, f64) {
    let mut connection = table.connect().await;
    connection.execute("CHECKPOINT").await.expect("it is done");
    let position = "SELECT (pg_current_wal_lsn() - '0/0')::bigint";
    let before = table.number(position).await;
    let (started, done) = (Instant::now(), Arc::new(AtomicI64::new(0)));
    let tasks: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (table, app, done) = (table.clone(), app.clone(), done.clone());
            tokio::spawn(async move {
                while started.elapsed() < TIME {
                    match keys {
                        Keys::Random => assert!(!send(&app, &Uuid::new_v4().to_string()).await),
                        Keys::Version7 => assert!(!send(&app, &Uuid::now_v7().to_string()).await),
                        Keys::Digest | Keys::TimeAndDigest => {
                            let leads = matches!(keys, Keys::TimeAndDigest);
                            store(&table, leads).await.expect("it is stored");
                        }
                    }
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
        let mut connection = table.connect().await;
        connection
            .execute("CREATE TABLE IF NOT EXISTS template AS SELECT * FROM idem_keys LIMIT 1")
            .await
            .expect("it is made");
        let app = service(&table.pool);
        for (name, keys) in [
            ("random keys", Keys::Random),
            ("UUIDv7 keys", Keys::Version7),
            ("by hand, digest", Keys::Digest),
            ("by hand, time and digest", Keys::TimeAndDigest),
        ] {
            let mut compressed = String::new();
            for compression in ["off", "on"] {
                let set = format!("ALTER SYSTEM SET wal_compression = {compression}");
                connection
                    .execute(sqlx::AssertSqlSafe(set))
                    .await
                    .expect("it is set");
                connection
                    .execute("SELECT pg_reload_conf()")
                    .await
                    .expect("it is read");
                let (rate, bytes) = write(table, &app, keys).await;
                compressed.push_str(&format!(
                    "; compression {compression}: {bytes:.0} bytes of log a request, {rate:.0} requests a second"
                ));
            }
            println!("{} records, {name}{compressed}", table.rows);
        }
        connection
            .execute("ALTER SYSTEM RESET wal_compression")
            .await
            .expect("it is reset");
        connection
            .execute("SELECT pg_reload_conf()")
            .await
            .expect("it is read");
    }
}

//! Tables of a size.

use std::time::Instant;

use idem_runtime::Idempotency;
use reqwest::Url;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, PgPool, Postgres};

use super::number;
use super::requests::{send, service};

/// A database with so many records.
pub(crate) struct Table {
    name: String,
    pub(crate) rows: i64,
    pub(crate) pool: PgPool,
}

/// The records of the keys `used-1` to `used-N`, in the order of time, as copies of a first use; the first tenth is past its retention. The
/// ids are what the library makes of account and key. The index is built at the end, as full as one that random keys have filled.
fn fill(rows: i64) -> String {
    format!(
        "ALTER TABLE idem_keys DROP CONSTRAINT idem_keys_pkey;
         INSERT INTO idem_keys (id, scope, operation, state, attempt, owner, fingerprint_version, fingerprint, status, headers, body,
                created_at, completed_at, expires_at, retain_until)
         SELECT sha256(int8send(13) || 'idem/record/1'::bytea || int8send(length(t.scope)) || t.scope::bytea
                       || int8send(length(k.key)) || k.key::bytea),
                t.scope, t.operation, 1, 1, uuid_send(gen_random_uuid()), t.fingerprint_version, t.fingerprint, t.status, t.headers, t.body,
                k.at, k.at, k.at + interval '48 hours', k.at + interval '48 hours'
           FROM (SELECT * FROM idem_keys LIMIT 1) t,
                LATERAL (SELECT 'used-' || n AS key,
                                now() - interval '52.8 hours' + n * (interval '48 hours' / {rows}) AS at
                           FROM generate_series(1, {rows}) n) k;
         ALTER TABLE idem_keys ADD CONSTRAINT idem_keys_pkey PRIMARY KEY (id) WITH (fillfactor = 70);
         ALTER INDEX idem_keys_pkey RESET (fillfactor);"
    )
}

impl Table {
    /// Takes the one that is there, or makes it.
    pub(crate) async fn open(admin: &mut PgConnection, server: &str, rows: i64) -> Table {
        let name = format!("idem_large_{rows}");
        let there = format!("SELECT count(*) FROM pg_database WHERE datname = '{name}'");
        let is_new = number(&mut *admin, &there).await == 0;
        if is_new {
            admin
                .execute(AssertSqlSafe(format!("CREATE DATABASE {name}")))
                .await
                .expect("it is created");
        }
        let mut url = Url::parse(server).expect("a URL");
        url.set_path(&name);
        let pool = PgPoolOptions::new()
            .min_connections(10)
            .max_connections(10)
            .connect(url.as_str())
            .await
            .expect("it is there");
        let table = Table { name, rows, pool };
        if is_new {
            table.make().await;
        }
        table
    }

    async fn make(&self) {
        let started = Instant::now();
        let idempotency = Idempotency::<Postgres>::new(self.pool.clone());
        idempotency.migrate().await.expect("the schema is made");
        let mut connection = self.connect().await;
        connection
            .execute("CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account text NOT NULL, item text NOT NULL)")
            .await
            .expect("the table is made");
        let app = service(&self.pool);
        assert!(!send(&app, "used-0").await);
        connection
            .execute(sqlx::raw_sql(AssertSqlSafe(fill(self.rows))))
            .await
            .expect("it is filled");
        connection
            .execute("VACUUM ANALYZE idem_keys")
            .await
            .expect("it is analyzed");
        connection
            .execute("CHECKPOINT")
            .await
            .expect("it is written");
        let last = format!("used-{}", self.rows);
        assert!(send(&app, &last).await, "the records are the library's own");
        println!("{} was filled in {:?}", self.name, started.elapsed());
    }

    /// A connection of its own.
    pub(crate) async fn connect(&self) -> PgConnection {
        let options = self.pool.connect_options();
        PgConnection::connect_with(&options)
            .await
            .expect("a connection")
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let mut connection = self.pool.acquire().await.expect("a connection");
        number(&mut connection, sql).await
    }

    pub(crate) async fn describe(&self) {
        let megabytes = async |relation: &str| {
            let size = self
                .number(&format!("SELECT pg_relation_size('{relation}')"))
                .await;
            size / 1_000_000
        };
        println!(
            "{}: {} records, {} MB, the primary key {} MB",
            self.name,
            self.number("SELECT count(*) FROM idem_keys").await,
            megabytes("idem_keys").await,
            megabytes("idem_keys_pkey").await,
        );
    }

    pub(crate) async fn remove(&self, admin: &mut PgConnection) {
        self.pool.close().await;
        admin
            .execute(AssertSqlSafe(format!("DROP DATABASE {}", self.name)))
            .await
            .expect("it is dropped");
    }
}

//! Tables of a size.

use std::time::Instant;

use idem_runtime::Idempotency;
use reqwest::Url;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, PgPool, Postgres};

use uuid::Uuid;

use super::number;
use super::requests::{send, service};

/// What the table's keys look like.
#[derive(Clone, Copy)]
pub(crate) enum Keys {
    Random,
    /// UUIDv7, in the order of their records.
    Timed,
}

/// When the first of the timed keys was made, in milliseconds since 1970.
const BEGINNING: i64 = 1_700_000_000_000;
const HOURS_48: i64 = 48 * 3_600_000;

/// A database with so many records.
pub(crate) struct Table {
    name: String,
    keys: Keys,
    pub(crate) rows: i64,
    pub(crate) pool: PgPool,
}

/// The records of [`Table::key`] 1 to N, in the order of time, as copies of a first use; the first tenth is past its retention. The
/// ids are what the library makes of account and key. The index is built at the end, as full as one that random keys have filled.
fn fill(rows: i64, keys: Keys) -> String {
    let (key, leading) = match keys {
        Keys::Random => ("'used-' || n", "''"),
        Keys::Timed => (
            "left(time, 8) || '-' || right(time, 4) || '-7000-8000-' || lpad(to_hex(n), 12, '0')",
            "time",
        ),
    };
    format!(
        "ALTER TABLE idem_keys DROP CONSTRAINT idem_keys_pkey;
         INSERT INTO idem_keys (id, scope, operation, state, attempt, owner, fingerprint_version, fingerprint, status, headers, body,
                created_at, completed_at, expires_at, retain_until)
         SELECT decode(k.leading, 'hex') || substring(
                   sha256(int8send(13) || 'idem/record/1'::bytea || int8send(length(t.scope)) || t.scope::bytea
                          || int8send(length(k.key)) || k.key::bytea) FROM 1 + length(k.leading) / 2),
                t.scope, t.operation, 1, 1, uuid_send(gen_random_uuid()), t.fingerprint_version, t.fingerprint, t.status, t.headers, t.body,
                k.at, k.at, k.at + interval '48 hours', k.at + interval '48 hours'
           FROM (SELECT * FROM idem_keys LIMIT 1) t,
                LATERAL (SELECT {key} AS key, {leading} AS leading,
                                now() - interval '52.8 hours' + n * (interval '48 hours' / {rows}) AS at
                           FROM generate_series(1, {rows}::bigint) n,
                                LATERAL (SELECT lpad(to_hex({BEGINNING} + n * {HOURS_48} / {rows}), 12, '0') AS time) t) k;
         ALTER TABLE idem_keys ADD CONSTRAINT idem_keys_pkey PRIMARY KEY (id) WITH (fillfactor = 70);
         ALTER INDEX idem_keys_pkey RESET (fillfactor);"
    )
}

impl Table {
    /// Takes the one that is there, or makes it.
    pub(crate) async fn open(
        admin: &mut PgConnection,
        server: &str,
        rows: i64,
        keys: Keys,
    ) -> Table {
        let name = match keys {
            Keys::Random => format!("idem_large_{rows}"),
            Keys::Timed => format!("idem_large_{rows}_timed"),
        };
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
        let table = Table {
            name,
            keys,
            rows,
            pool,
        };
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
        assert!(!send(&app, &self.key(0)).await);
        connection
            .execute(sqlx::raw_sql(AssertSqlSafe(fill(self.rows, self.keys))))
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
        assert!(
            send(&app, &self.key(self.rows)).await,
            "the records are the library's own"
        );
        println!("{} was filled in {:?}", self.name, started.elapsed());
    }

    /// The key of a record, by its number.
    pub(crate) fn key(&self, number: i64) -> String {
        match self.keys {
            Keys::Random => format!("used-{number}"),
            Keys::Timed => {
                let time = BEGINNING + number * HOURS_48 / self.rows;
                let bits = u128::from(time.unsigned_abs()) << 80
                    | 0x7 << 76
                    | 0x8 << 60
                    | u128::from(number.unsigned_abs());
                Uuid::from_u128(bits).to_string()
            }
        }
    }

    /// A key that nobody has used, of the table's kind.
    pub(crate) fn fresh(&self) -> String {
        match self.keys {
            Keys::Random => Uuid::new_v4(),
            Keys::Timed => Uuid::now_v7(),
        }
        .to_string()
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

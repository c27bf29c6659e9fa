//! What these tests share: a handler on each backend, and records of any age.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use idem_runtime::{Backend, Idempotency};
use idem_tests::servers::{self, TestDatabase};
use idem_tests::wait::{PATIENCE, until};
use sqlx::Pool;
use sqlx::pool::PoolOptions;
use tokio::sync::watch;
use tower::ServiceExt;

/// Makes each named case, an `async fn case<DB: Tested>()`, a test on every backend.
#[macro_export]
macro_rules! on_each_backend {
    ($($case:ident),* $(,)?) => {
        mod postgres { $crate::on_each_backend!(@ sqlx::Postgres; $($case),*); }
        mod sqlite { $crate::on_each_backend!(@ sqlx::Sqlite; $($case),*); }
        mod mysql { $crate::on_each_backend!(@ sqlx::MySql; $($case),*); }
    };
    (@ $db:ty; $($case:ident),*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case::<$db>().await;
            }
        )*
    };
}

/// Where handlers stand until a test lets them pass.
pub(crate) struct Gate {
    reached: AtomicUsize,
    open: watch::Sender<bool>,
}

impl Gate {
    async fn pass(&self) {
        self.reached.fetch_add(1, Ordering::SeqCst);
        let mut open = self.open.subscribe();
        let _ = open.wait_for(|open| *open).await;
    }

    /// Waits until so many handlers have come to it in all.
    pub(crate) async fn reached(&self, handlers: usize) {
        until("the gate is reached", PATIENCE, async || {
            self.reached.load(Ordering::SeqCst) >= handlers
        })
        .await;
    }

    pub(crate) fn set_open(&self, open: bool) {
        self.open.send_replace(open);
    }
}

/// Gates by their names; each is closed at first.
static GATES: LazyLock<Mutex<HashMap<String, Arc<Gate>>>> = LazyLock::new(Mutex::default);

pub(crate) fn gate(name: &str) -> Arc<Gate> {
    let mut gates = GATES.lock().unwrap();
    let closed = || Gate {
        reached: AtomicUsize::new(0),
        open: watch::Sender::new(false),
    };
    let gate = gates.entry(name.to_owned());
    gate.or_insert_with(|| Arc::new(closed())).clone()
}

/// What differs between the backends.
pub(crate) trait Tested: Backend {
    const BACKEND: servers::Backend;
    /// The database's time, `offset` milliseconds from now.
    fn time(offset: i64) -> String;
    /// Bytes from hexadecimal.
    fn bytes(hex: &str) -> String;
    /// A service whose handlers make one effect for each key: `/effects/{account}`,
    /// `/hasty/{account}`, which waits for no other request, and `/held/{account}/{gate}`, which stands at a [`gate`] first.
    fn service(idempotency: Idempotency<Self>) -> Router;
}

/// Routes and handlers are the same text for each backend; only the type differs.
macro_rules! tested {
    ($module:ident, $db:ty, $backend:ident, $time:expr, $bytes:expr) => {
        mod $module {
            use axum::Router;
            use axum::extract::Path;
            use axum::http::StatusCode;
            use axum::routing::post;
            use idem_runtime::{Idempotency, Tx, idempotent};
            use idem_tests::servers;
            use sqlx::Connection;

            type Store = $db;
            type Connected = <Store as sqlx::Database>::Connection;

            async fn effect(db: &mut Connected) -> sqlx::Result<()> {
                let mut savepoint = db.begin().await?;
                sqlx::query("INSERT INTO effects (n) VALUES (1)")
                    .execute(&mut *savepoint)
                    .await?;
                savepoint.commit().await
            }

            #[idempotent(scope = "account")]
            async fn quick(
                tx: &mut Tx<Store>,
                Path(account): Path<String>,
                _body: String,
            ) -> (StatusCode, String) {
                effect(tx).await.unwrap();
                (StatusCode::CREATED, format!("an effect for {account}"))
            }

            /// What is told 409 here was put off by something else than a request with its key.
            #[idempotent(scope = "account", in_flight = "reject")]
            async fn hasty(
                tx: &mut Tx<Store>,
                Path(account): Path<String>,
                _body: String,
            ) -> (StatusCode, String) {
                effect(tx).await.unwrap();
                (StatusCode::CREATED, format!("a hasty effect for {account}"))
            }

            #[idempotent(scope = "account", timeout = "60s")]
            async fn held(
                tx: &mut Tx<Store>,
                Path((account, name)): Path<(String, String)>,
                _body: String,
            ) -> (StatusCode, String) {
                effect(tx).await.unwrap();
                super::gate(&name).pass().await;
                (StatusCode::CREATED, format!("a held effect for {account}"))
            }

            impl super::Tested for Store {
                const BACKEND: servers::Backend = servers::Backend::$backend;

                fn time(offset: i64) -> String {
                    $time(offset)
                }

                fn bytes(hex: &str) -> String {
                    $bytes(hex)
                }

                fn service(idempotency: Idempotency<Self>) -> Router {
                    Router::new()
                        .route("/effects/{account}", post(quick))
                        .route("/hasty/{account}", post(hasty))
                        .route("/held/{account}/{gate}", post(held))
                        .with_state(idempotency)
                }
            }
        }
    };
}

tested!(
    on_postgres,
    sqlx::Postgres,
    Postgres,
    |offset| format!("now() + {offset} * interval '1 millisecond'"),
    |hex| format!("'\\x{hex}'::bytea")
);
tested!(
    on_sqlite,
    sqlx::Sqlite,
    Sqlite,
    |offset| format!("CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER) + {offset}"),
    |hex| format!("x'{hex}'")
);
tested!(
    on_mysql,
    sqlx::MySql,
    MySql,
    |offset| format!(
        "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000 + {offset}"
    ),
    |hex| format!("x'{hex}'")
);

/// A database with the framework's tables and one for effects.
pub(crate) struct Store<DB: Tested> {
    pub(crate) database: TestDatabase,
    pub(crate) idempotency: Idempotency<DB>,
}

impl<DB: Tested> Store<DB> {
    pub(crate) async fn new() -> Self {
        let database = TestDatabase::create(DB::BACKEND).await;
        let idempotency = Idempotency::new(pool::<DB>(&database).await);
        idempotency.migrate().await.unwrap();
        database
            .execute("CREATE TABLE effects (n INTEGER NOT NULL)")
            .await
            .unwrap();
        Self {
            database,
            idempotency,
        }
    }

    /// Another process on the same database.
    pub(crate) async fn another(&self) -> Idempotency<DB> {
        Idempotency::new(pool::<DB>(&self.database).await)
    }

    pub(crate) async fn count(&self, condition: &str) -> i64 {
        self.database
            .number(&format!("SELECT count(*) FROM idem_keys WHERE {condition}"))
            .await
    }

    pub(crate) async fn effects(&self) -> i64 {
        self.database.number("SELECT count(*) FROM effects").await
    }

    /// Puts records there, numbered from `first`.
    pub(crate) async fn put(&self, first: u64, count: u64, record: &Record) {
        let now = DB::time(0);
        let expires = record.expires_in.map_or("NULL".to_owned(), DB::time);
        let retain = record.expires_in.map_or("NULL".to_owned(), |offset| {
            DB::time(offset + record.tombstone)
        });
        let (owner, digest) = (DB::bytes(&"00".repeat(16)), DB::bytes(&"00".repeat(32)));
        let answer = if record.answered {
            DB::bytes("01")
        } else {
            "NULL".to_owned()
        };
        let Record { scope, state, .. } = record;
        for chunk in (first..first + count).collect::<Vec<_>>().chunks(500) {
            let rows: Vec<String> = chunk
                .iter()
                .map(|number| {
                    let id = DB::bytes(&format!("{number:064x}"));
                    format!(
                        "({id}, 's{length}:{scope}', 'put', {state}, {owner}, 1, {digest}, 201, {answer}, {answer}, \
                         {now}, {now}, {expires}, {retain})",
                        length = scope.len(),
                    )
                })
                .collect();
            self.database
                .execute(&format!(
                    "INSERT INTO idem_keys (id, scope, operation, state, owner, fingerprint_version, fingerprint, \
                     status, headers, body, created_at, completed_at, expires_at, retain_until) VALUES {}",
                    rows.join(", ")
                ))
                .await
                .unwrap();
        }
    }

    /// Ends the lifetime of every completed record, a second ago.
    pub(crate) async fn let_all_expire(&self) {
        let past = DB::time(-1000);
        self.database
            .execute(&format!(
                "UPDATE idem_keys SET expires_at = {past}, retain_until = {past} WHERE state = 1"
            ))
            .await
            .unwrap();
    }
}

async fn pool<DB: Tested>(database: &TestDatabase) -> Pool<DB> {
    PoolOptions::new()
        .max_connections(8)
        .connect(database.url())
        .await
        .unwrap()
}

/// A record; every test names what matters to it.
pub(crate) struct Record {
    pub(crate) scope: &'static str,
    pub(crate) state: u8,
    /// Milliseconds from now; `None` for never.
    pub(crate) expires_in: Option<i64>,
    /// Milliseconds after that.
    pub(crate) tombstone: i64,
    pub(crate) answered: bool,
}

pub(crate) const LIVE: Record = Record {
    scope: "alice",
    state: 1,
    expires_in: Some(3_600_000),
    tombstone: 0,
    answered: true,
};
pub(crate) const EXPIRED: Record = Record {
    expires_in: Some(-1000),
    ..LIVE
};
pub(crate) const TOMBSTONE: Record = Record {
    tombstone: 3_600_000,
    ..EXPIRED
};
pub(crate) const STARTED: Record = Record {
    state: 0,
    expires_in: None,
    answered: false,
    ..LIVE
};
pub(crate) const UNKNOWN: Record = Record {
    state: 2,
    ..STARTED
};

/// A request for an effect.
pub(crate) fn request(path: &str, key: &str) -> Request<Body> {
    Request::post(path)
        .header("idempotency-key", format!("\"{key}\""))
        .body(Body::from("a body"))
        .unwrap()
}

pub(crate) async fn send(service: &Router, path: &str, key: &str) -> Response {
    service.clone().oneshot(request(path, key)).await.unwrap()
}

pub(crate) fn is_replay(response: &Response) -> bool {
    response.headers().contains_key("idempotent-replayed")
}

//! What these tests share: a database with a table of effects, and consumers that leave one for each message.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::FromRef;
use idem_runtime::inbox::Consumers;
use idem_runtime::{Backend, EffectFree, Idempotency, IdempotencyBuilder};
use idem_tests::servers::{self, TestDatabase};
use sqlx::Pool;
use sqlx::pool::PoolOptions;
use tokio::sync::Semaphore;

pub(crate) use super::order::{Behaviour, Order};

/// Makes each named case, an `async fn case<DB: Tested>()`, a test on every backend, or on those that are named.
#[macro_export]
macro_rules! on_databases {
    (servers; $($case:ident),* $(,)?) => {
        mod postgres_server { $crate::on_databases!(@ sqlx::Postgres; $($case),*); }
        mod mysql_server { $crate::on_databases!(@ sqlx::MySql; $($case),*); }
    };
    (@ $db:ty; $($case:ident),*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case::<$db>().await;
            }
        )*
    };
    ($($case:ident),* $(,)?) => {
        mod postgres { $crate::on_databases!(@ sqlx::Postgres; $($case),*); }
        mod sqlite { $crate::on_databases!(@ sqlx::Sqlite; $($case),*); }
        mod mysql { $crate::on_databases!(@ sqlx::MySql; $($case),*); }
    };
}

/// What consumers tell a test, and what it tells them.
#[derive(Clone, Debug, EffectFree)]
pub(crate) struct Probe {
    #[effect_free(trust = "counts what a test looks at")]
    entered: Arc<AtomicUsize>,
    #[effect_free(trust = "what a test lets go on")]
    gate: Arc<Semaphore>,
    #[effect_free(trust = "what a test switches")]
    retries: Arc<AtomicUsize>,
    #[effect_free(trust = "counts what a test looks at")]
    together: Arc<Together>,
}

/// How many runs there are at once.
#[derive(Debug, Default)]
struct Together {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// A run, until it is dropped.
pub(crate) struct Running(Arc<Together>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Probe {
    pub(crate) fn new() -> Self {
        Self {
            entered: Arc::default(),
            gate: Arc::new(Semaphore::new(0)),
            retries: Arc::default(),
            together: Arc::default(),
        }
    }

    /// How many runs there were.
    pub(crate) fn entered(&self) -> usize {
        self.entered.load(Ordering::SeqCst)
    }

    pub(crate) fn enter(&self) -> Running {
        self.entered.fetch_add(1, Ordering::SeqCst);
        let now = self.together.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.together.most.fetch_max(now, Ordering::SeqCst);
        Running(self.together.clone())
    }

    /// How many runs there were at once, at most.
    pub(crate) fn most_together(&self) -> usize {
        self.together.most.load(Ordering::SeqCst)
    }

    /// What `Wait` waits for.
    pub(crate) fn gate(&self) -> &Semaphore {
        &self.gate
    }

    /// From now on `Retry` works.
    pub(crate) fn allow_retries(&self) {
        self.retries.store(1, Ordering::SeqCst);
    }

    pub(crate) fn are_retries_allowed(&self) -> bool {
        self.retries.load(Ordering::SeqCst) == 1
    }
}

#[derive(Clone)]
pub(crate) struct AppState {
    pub(crate) probe: Probe,
}

impl FromRef<AppState> for Probe {
    fn from_ref(state: &AppState) -> Self {
        state.probe.clone()
    }
}

#[derive(Debug, thiserror::Error, idem_runtime::Disposition)]
pub(crate) enum OrderError {
    #[error("unknown account")]
    #[disposition(rejection)]
    UnknownAccount,
    #[error("the account is busy")]
    #[disposition(transient)]
    Busy,
    #[error("the database failed: {0}")]
    #[disposition(source)]
    Database(#[from] sqlx::Error),
}

/// What differs between the backends.
pub(crate) trait Tested: Backend {
    const BACKEND: servers::Backend;

    /// Leaves an effect of a consumer.
    fn effect(
        connection: &mut Self::Connection,
        consumer: &'static str,
        message: &str,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Executes a statement by itself.
    fn raw(
        connection: &mut Self::Connection,
        statement: &'static str,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// A statement that fails as if the database asked for another run; `None` where none does.
    const ASKS_FOR_ANOTHER_RUN: Option<&'static str>;

    /// The consumer `ledger` of the source `orders`.
    fn ledger(consumers: Consumers<Self, AppState>) -> Consumers<Self, AppState>;

    /// The consumer `mail` of the same source.
    fn mail(consumers: Consumers<Self, AppState>) -> Consumers<Self, AppState>;

    /// The consumer `by_broker`, which takes the broker's id.
    fn by_broker(consumers: Consumers<Self, AppState>) -> Consumers<Self, AppState>;

    /// The consumer `by_field`, which takes its id from the payload.
    fn by_field(consumers: Consumers<Self, AppState>) -> Consumers<Self, AppState>;
}

/// Consumers are the same text for each backend; only the type differs.
macro_rules! tested {
    ($module:ident, $db:ty, $backend:ident, $insert:literal, $again:expr) => {
        mod $module {
            use std::time::Duration;

            use axum::extract::State;
            use idem_runtime::inbox::{Consumers, Message};
            use idem_runtime::{Tx, consumer};
            use idem_tests::servers;
            use sqlx::Executor;

            use super::{AppState, Behaviour, Order, OrderError, Probe, Tested};

            type Store = $db;

            async fn follow(
                tx: &mut Tx<Store>,
                consumer: &'static str,
                order: &Order,
                probe: &Probe,
            ) -> Result<(), OrderError> {
                let _running = probe.enter();
                <Store as Tested>::effect(tx, consumer, &order.event_id).await?;
                match order.behaviour {
                    Behaviour::Work => {}
                    Behaviour::Reject => return Err(OrderError::UnknownAccount),
                    Behaviour::Retry if probe.are_retries_allowed() => {}
                    Behaviour::Retry => return Err(OrderError::Busy),
                    Behaviour::Panic => panic!("on purpose"),
                    Behaviour::Disconnect => return Err(sqlx::Error::WorkerCrashed.into()),
                    Behaviour::Slow(milliseconds) => {
                        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
                    }
                    Behaviour::Wait => probe.gate().acquire().await.unwrap().forget(),
                }
                Ok(())
            }

            #[consumer(source = "orders", ttl = "1d")]
            async fn ledger(
                tx: &mut Tx<Store>,
                order: Message<Order>,
                State(probe): State<Probe>,
            ) -> Result<(), OrderError> {
                follow(tx, "ledger", &order, &probe).await
            }

            /// Does what it is told only where that is `Work`: the other consumer fails.
            #[consumer(source = "orders", name = "mail", ttl = "1d", state = AppState)]
            async fn mail(
                tx: &mut Tx<Store>,
                order: Message<Order>,
                State(probe): State<Probe>,
            ) -> Result<(), OrderError> {
                let order = Order::new(&order.event_id, Behaviour::Work);
                follow(tx, "mail", &order, &probe).await
            }

            #[consumer(source = "orders", ttl = "1d", id = "event_id")]
            async fn by_field(
                tx: &mut Tx<Store>,
                Message { payload, .. }: Message<Order>,
                State(probe): State<Probe>,
            ) -> Result<(), OrderError> {
                follow(tx, "by_field", &payload, &probe).await
            }

            #[consumer(source = "orders", ttl = "1d", id = "broker")]
            async fn by_broker(
                tx: &mut Tx<Store>,
                order: Message<Order>,
                State(probe): State<Probe>,
            ) -> Result<(), OrderError> {
                follow(tx, "by_broker", &order, &probe).await
            }

            impl Tested for Store {
                const BACKEND: servers::Backend = servers::Backend::$backend;
                const ASKS_FOR_ANOTHER_RUN: Option<&'static str> = $again;

                async fn effect(
                    connection: &mut Self::Connection,
                    consumer: &'static str,
                    message: &str,
                ) -> sqlx::Result<()> {
                    sqlx::query($insert)
                        .bind(consumer)
                        .bind(message)
                        .execute(connection)
                        .await?;
                    Ok(())
                }

                async fn raw(
                    connection: &mut Self::Connection,
                    statement: &'static str,
                ) -> sqlx::Result<()> {
                    connection.execute(sqlx::raw_sql(statement)).await?;
                    Ok(())
                }

                fn ledger(consumers: Consumers<Self, AppState>) -> Consumers<Self, AppState> {
                    consumers.register(ledger)
                }

                fn mail(consumers: Consumers<Self, AppState>) -> Consumers<Self, AppState> {
                    consumers.register(mail)
                }

                fn by_broker(consumers: Consumers<Self, AppState>) -> Consumers<Self, AppState> {
                    consumers.register(by_broker)
                }

                fn by_field(consumers: Consumers<Self, AppState>) -> Consumers<Self, AppState> {
                    consumers.register(by_field)
                }
            }
        }
    };
}

tested!(
    on_postgres,
    sqlx::Postgres,
    Postgres,
    "INSERT INTO effects (consumer, message) VALUES ($1, $2)",
    Some("DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$")
);
tested!(
    on_sqlite,
    sqlx::Sqlite,
    Sqlite,
    "INSERT INTO effects (consumer, message) VALUES (?, ?)",
    None
);
tested!(
    on_mysql,
    sqlx::MySql,
    MySql,
    "INSERT INTO effects (consumer, message) VALUES (?, ?)",
    Some("SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213")
);

/// A database, and the inbox on it.
pub(crate) struct Desk<DB: Tested> {
    pub(crate) idempotency: Idempotency<DB>,
    pub(crate) probe: Probe,
    database: Arc<TestDatabase>,
}

impl<DB: Tested> Desk<DB> {
    pub(crate) async fn new() -> Self {
        Self::with(|builder| builder).await
    }

    pub(crate) async fn with(
        set: impl FnOnce(IdempotencyBuilder<DB>) -> IdempotencyBuilder<DB>,
    ) -> Self {
        let database = TestDatabase::create(DB::BACKEND).await;
        let url = database.url().to_owned();
        Self::on(database, &url, set).await
    }

    /// On a database that is reached by another URL than its own.
    pub(crate) async fn on(
        database: TestDatabase,
        url: &str,
        set: impl FnOnce(IdempotencyBuilder<DB>) -> IdempotencyBuilder<DB>,
    ) -> Self {
        database
            .execute("CREATE TABLE effects (consumer VARCHAR(40), message VARCHAR(200))")
            .await
            .unwrap();
        let idempotency = idempotency(url, set).await;
        idempotency.migrate().await.unwrap();
        Self {
            idempotency,
            probe: Probe::new(),
            database: Arc::new(database),
        }
    }

    pub(crate) fn url(&self) -> &str {
        self.database.url()
    }

    pub(crate) fn database(&self) -> Arc<TestDatabase> {
        self.database.clone()
    }

    pub(crate) fn consumers(&self) -> Consumers<DB, AppState> {
        let state = AppState {
            probe: self.probe.clone(),
        };
        self.idempotency
            .consumers(state)
            .retry_pause(Duration::from_millis(20), Duration::from_secs(2))
    }

    /// Counted by a connection of its own.
    pub(crate) async fn effects(&self, condition: &str) -> i64 {
        self.database
            .number(&format!("SELECT COUNT(*) FROM effects WHERE {condition}"))
            .await
    }

    pub(crate) async fn rows(&self, condition: &str) -> i64 {
        self.database
            .number(&format!(
                "SELECT COUNT(*) FROM idem_inbox WHERE {condition}"
            ))
            .await
    }
}

pub(crate) async fn idempotency<DB: Tested>(
    url: &str,
    set: impl FnOnce(IdempotencyBuilder<DB>) -> IdempotencyBuilder<DB>,
) -> Idempotency<DB> {
    let options = idem_runtime::guard(PoolOptions::<DB>::new());
    let pool: Pool<DB> = options.max_connections(8).connect(url).await.unwrap();
    set(Idempotency::builder(pool)).build().unwrap()
}

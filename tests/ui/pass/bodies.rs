//! Bodies that look like a leak, and are none.
#![allow(unused)]

#[path = "../support.rs"]
mod support;
use sqlx::{Connection, Executor, QueryBuilder, SqlitePool};
use std::sync::{Arc, OnceLock};
use support::*;

static REPLICA: OnceLock<SqlitePool> = OnceLock::new();

struct Repo;

impl Repo {
    async fn insert(&self, db: &mut SqliteConnection, new: &NewOrder) -> sqlx::Result<()> {
        insert_order(db, new).await
    }

    fn execute(&self, new: &NewOrder) -> usize {
        new.item.len()
    }
}

#[derive(Clone)]
struct Machine;

impl Machine {
    fn execute(&self, word: &str) {}
    fn commit(&self) {}
    fn spawn(&self) {}
}

struct UnitOfWork<'t> {
    db: Option<&'t mut SqliteConnection>,
}

impl<'t> UnitOfWork<'t> {
    fn new() -> Self {
        Self { db: None }
    }
    fn enlist(&mut self, db: &'t mut SqliteConnection) {
        self.db = Some(db);
    }
    fn db(&mut self) -> &mut SqliteConnection {
        self.db.as_mut().unwrap()
    }
}

fn hash() -> u64 {
    7
}

fn query(words: &str) -> Repo {
    Repo
}

#[idempotent(scope = "account")]
async fn queries(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<StatusCode, ApiError> {
    sqlx::query("INSERT INTO orders (item) VALUES (?)").bind(&new.item).execute(&mut *tx).await?;
    sqlx::query("INSERT INTO orders (item) VALUES ('; COMMIT')").execute(&mut **tx).await?;
    tx.execute("SAVEPOINT part; ROLLBACK TO part; RELEASE part").await?;
    let db = &mut **tx;
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&mut *db).await?;
    let mut insert = QueryBuilder::new("INSERT INTO orders (item) ");
    insert.push_values(["a", "b"], |mut row, item| {
        row.push_bind(item);
    });
    insert.build().execute(&mut *tx).await?;
    tx.savepoint(async |part| insert_order(part, &new).await.map_err(ApiError::from)).await?;
    // A transaction of sqlx on the transaction's own connection is a savepoint.
    let mut part = (&mut **tx).begin().await?;
    insert_order(&mut part, &new).await?;
    part.commit().await?;
    let mut unit = UnitOfWork::new();
    unit.enlist(tx);
    sqlx::query("DELETE FROM orders").execute(unit.db()).await?;
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = "account")]
async fn look_alikes(
    tx: &mut Tx<Sqlite>,
    account: Account,
    State(pricing): State<Pricing>,
    Json(new): Json<NewOrder>,
) -> Result<StatusCode, ApiError> {
    let (repo, machine) = (Arc::new(Repo), Machine);
    repo.insert(tx, &new).await?;
    repo.execute(&new);
    query("begin").execute(&new);
    machine.execute("COMMIT");
    machine.commit();
    machine.spawn();
    let text = "tokio::spawn(async {}); COMMIT";
    std::thread::scope(|threads| {
        threads.spawn(hash);
    });
    let (inserted, ()) = tokio::join!(insert_order(tx, &new), async {});
    inserted?;
    let read = std::fs::read_to_string("prices.txt").unwrap_or_default();
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = "account")]
async fn with_a_reason(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<StatusCode, ApiError> {
    #[allow(clippy::disallowed_methods, reason = "pure, and too long for a worker")]
    let hash = tokio::task::spawn_blocking(hash).await;
    #[allow(clippy::disallowed_methods, reason = "reads what no handler writes")]
    let rate: i64 = sqlx::query_scalar("SELECT rate FROM rates").fetch_one(REPLICA.get().unwrap()).await?;
    insert_order(tx, &new).await?;
    Ok(StatusCode::CREATED)
}

fn main() {
    let _: Router<AppState> = Router::new()
        .route("/queries", post(queries))
        .route("/look-alikes", post(look_alikes))
        .route("/with-a-reason", post(with_a_reason));
}

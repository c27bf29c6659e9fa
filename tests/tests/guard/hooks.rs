//! SQLite's own hooks, by which the end of a transaction is seen, replaced by a handler.

use axum::extract::FromRef;
use axum::routing::post as route;
use idem_runtime::{Idempotency, Tx, guard, idempotent};
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{AssertSqlSafe, Executor, Sqlite, SqliteConnection};

use super::*;

#[derive(Clone)]
struct App(Idempotency<Sqlite>);

impl FromRef<App> for Idempotency<Sqlite> {
    fn from_ref(app: &App) -> Self {
        app.0.clone()
    }
}

async fn commit_without_hooks(db: &mut SqliteConnection) -> sqlx::Result<()> {
    let mut handle = db.lock_handle().await?;
    handle.set_commit_hook(|| true);
    handle.remove_rollback_hook();
    drop(handle);
    let end = String::from("COMMIT");
    db.execute(AssertSqlSafe(end)).await?;
    Ok(())
}

async fn write_and_commit(db: &mut SqliteConnection) -> Result<&'static str, Failed> {
    db.execute("INSERT INTO things (n) VALUES (1)").await?;
    commit_without_hooks(db).await?;
    Ok("done")
}

#[idempotent(scope = "account")]
async fn keyed(tx: &mut Tx<Sqlite>, account: Account) -> Result<&'static str, Failed> {
    let _ = account;
    write_and_commit(tx).await
}

#[idempotent(scope = "account", key = "optional")]
async fn unkeyed(tx: &mut Tx<Sqlite>, account: Account) -> Result<&'static str, Failed> {
    let _ = account;
    write_and_commit(tx).await
}

#[tokio::test]
async fn a_commit_after_the_hooks_were_replaced_is_found() {
    let database = TestDatabase::create(Backend::Sqlite).await;
    let pool = guard(SqlitePoolOptions::new())
        .connect(database.url())
        .await
        .expect("the database is there");
    let idempotency = Idempotency::<Sqlite>::new(pool);
    idempotency.migrate().await.expect("the schema is made");
    database
        .execute("CREATE TABLE things (n INTEGER NOT NULL)")
        .await
        .expect("the table is made");
    let app = Router::new()
        .route("/keyed", route(keyed))
        .route("/unkeyed", route(unkeyed))
        .with_state(App(idempotency));

    let log = Log::default();
    let listening = log.listen();
    for (path, key, ended) in [
        ("/keyed", Some("k"), "idempotency-transaction-ended"),
        ("/keyed", Some("k"), "idempotency-outcome-unknown"),
        ("/unkeyed", None, "idempotency-transaction-ended"),
    ] {
        let (_, body) = post(&app, path, "alice", key).await;
        assert!(body.contains(ended), "{path}: {body}");
    }
    drop(listening);
    let text = log.text();
    let told = text.matches("fault=\"hooks_replaced\"").count();
    assert_eq!(told, 2, "{text}");
    let things = database.number("SELECT count(*) FROM things").await;
    assert_eq!(things, 2, "each handler ran once");
}

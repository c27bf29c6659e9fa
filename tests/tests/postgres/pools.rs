//! Pools that others use as well, or that forget.

use idem_runtime::Idempotency;
use idem_tests::servers::{Backend, TestDatabase};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, Executor};

use crate::{Set, both};

both! {
    a_pool_that_discards_everything_between_uses_works,
    a_pool_without_a_cache_of_statements_works,
    connections_that_others_used_first_work,
    statements_that_another_prepared_are_found,
}

/// More uses than it takes to find out that messages are better not fused.
const USES: usize = 80;

async fn works_all_the_time(set: &Set) {
    for number in 0..USES {
        set.assert_works(&format!("k{number}")).await;
    }
    assert_eq!(set.things().await, i64::try_from(USES).expect("few"));
}

async fn a_pool_that_discards_everything_between_uses_works(backend: Backend) {
    let database = TestDatabase::create(backend).await;
    let url = database.url().to_owned();
    let options = PgPoolOptions::new()
        .max_connections(2)
        .after_release(|connection, _| {
            Box::pin(async move {
                connection.clear_cached_statements().await?;
                connection.execute(sqlx::raw_sql("DISCARD ALL")).await?;
                Ok(true)
            })
        });
    let set = Set::over(
        database,
        &url,
        options,
        |options| options,
        |builder| builder,
    )
    .await;
    works_all_the_time(&set).await;
}

async fn a_pool_without_a_cache_of_statements_works(backend: Backend) {
    let database = TestDatabase::create(backend).await;
    let url = database.url().to_owned();
    let set = Set::over(
        database,
        &url,
        PgPoolOptions::new().max_connections(2),
        |options| options.statement_cache_capacity(0),
        |builder| builder,
    )
    .await;
    works_all_the_time(&set).await;
}

async fn connections_that_others_used_first_work(backend: Backend) {
    let database = TestDatabase::create(backend).await;
    let url = database.url().to_owned();
    let options = PgPoolOptions::new()
        .max_connections(2)
        .after_connect(|connection, _| {
            Box::pin(async move {
                // In the cache of statements.
                sqlx::query("SELECT $1::integer")
                    .bind(1)
                    .execute(connection)
                    .await?;
                Ok(())
            })
        })
        .max_lifetime(std::time::Duration::from_millis(20));
    let set = Set::over(
        database,
        &url,
        options,
        |options| options,
        |builder| builder,
    )
    .await;
    works_all_the_time(&set).await;
}

async fn statements_that_another_prepared_are_found(backend: Backend) {
    let set = Set::new(backend).await;
    set.assert_works("k").await;
    let another = Idempotency::builder(set.pool.clone())
        .round_trips(backend.round_trips())
        .build()
        .expect("the settings make sense");
    another.check().await.expect("all is well");
    let app = axum::Router::new()
        .route(
            "/things/{account}/{length}",
            axum::routing::post(crate::things),
        )
        .with_state(crate::App {
            idempotency: another,
        });
    let another = Set { app, ..set };
    another.assert_works("l").await;
    // What sqlx forgets, the server still has.
    let mut connection = another.pool.acquire().await.expect("a connection");
    connection
        .clear_cached_statements()
        .await
        .expect("they are closed");
    drop(connection);
    another.assert_works("m").await;
}

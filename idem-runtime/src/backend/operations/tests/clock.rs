//! Whose clock it is: MariaDB's sessions can be told another time than everybody else's.

use std::time::Duration;

use sqlx::{MySql, MySqlConnection};
use sqlx_core::transaction::TransactionManager;

use super::super::super::Backend;
use super::super::{Fence, OperationStore, Started, Written};
use super::setup::{Engine, LEASE, answer, sample};

const WORKER: [u8; 16] = [9; 16];

async fn set(connection: &mut MySqlConnection, seconds: i64) {
    MySql::execute(connection, format!("SET timestamp = {seconds}"))
        .await
        .unwrap();
}

#[tokio::test]
async fn all_times_are_the_databases_own() {
    let Some(place) = <MySql as Engine>::create().await else {
        return;
    };
    let connection = &mut *place.connection().await;
    set(connection, 1_000_000_000).await;
    let lease = Duration::from_secs(400);
    let begun = sample(1).start::<MySql>(connection, lease).await;
    assert!(
        matches!(begun, Started::Won { now, .. } if now == 1_000_000_000_000),
        "{begun:?}"
    );
    let names = ["charges.create"];
    let early = MySql::take_over(connection, &names, WORKER, LEASE, 1).await;
    assert!(early.unwrap().is_empty());

    set(connection, 1_000_000_500).await;
    let taken = MySql::take_over(connection, &names, WORKER, LEASE, 1).await;
    let row = &taken.unwrap()[0];
    assert_eq!(row.created_at, 1_000_000_000_000);
    assert_eq!(row.now, 1_000_000_500_000);
    assert_eq!(row.due_at, Some(1_000_004_100_000));

    let fence = Fence {
        attempt: 2,
        owner: WORKER,
        ..sample(1).fence()
    };
    let written = Written {
        journal: b"journal",
        sealed: false,
        lease: LEASE,
    };
    set(connection, 1_000_000_600).await;
    assert!(
        MySql::record(connection, None, &fence, &written)
            .await
            .unwrap()
    );
    let row = MySql::inspect(connection, &fence.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(row.recorded_at, 1_000_000_600_000);
    assert_eq!(row.due_at, Some(1_000_004_200_000));

    set(connection, 1_000_000_700).await;
    <MySql as sqlx::Database>::TransactionManager::begin(connection, None)
        .await
        .unwrap();
    let stored = MySql::complete_operation(connection, None, &fence, &answer(Some(LEASE)))
        .await
        .unwrap();
    <MySql as sqlx::Database>::TransactionManager::commit(connection)
        .await
        .unwrap();
    let expires_at = stored.unwrap().expires_at;
    assert_eq!(expires_at, Some(1_000_004_300_000));
    let record = MySql::look(connection, &fence.id).await.unwrap().unwrap();
    assert_eq!(record.expires_at, expires_at);
}

//! Who comes after an attempt that did not end.

use std::collections::HashSet;
use std::time::Duration;

use tokio::task::JoinSet;

use super::super::{Fence, OperationRow};
use super::setup::{Engine, LEASE, Place, Sample, bytes, sample};

on_each_database! {
    only_due_operations_are_taken_over_the_longest_due_first,
    what_is_taken_over_is_its_new_owners,
    two_workers_never_take_over_one_operation,
    what_is_handed_over_in_order_does_not_count,
    what_is_handed_over_waits_for_its_delay,
    due_operations_that_nobody_knows_are_counted,
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod locked {
    use sqlx_core::transaction::TransactionManager;

    use super::super::super::Written;
    use super::*;

    on_each_server! { what_another_transaction_has_locked_is_skipped, }

    async fn what_another_transaction_has_locked_is_skipped<DB: Engine>(place: &Place<DB>) {
        let locked = due(place, 1, 20).await;
        due(place, 2, 10).await;
        let mut connection = place.connection().await;
        DB::TransactionManager::begin(&mut *connection, None)
            .await
            .unwrap();
        let written = Written {
            journal: b"journal",
            sealed: false,
            lease: Duration::ZERO,
        };
        assert!(
            DB::record(&mut *connection, None, &locked.fence(), &written)
                .await
                .unwrap()
        );
        let free = tokio::time::timeout(Duration::from_secs(20), take(place, 9)).await;
        assert_eq!(ids(&free.expect("nobody waits for a locked row")), [2]);
        DB::TransactionManager::rollback(&mut *connection)
            .await
            .unwrap();
        assert_eq!(ids(&take(place, 9).await), [1]);
    }
}

const WORKER: [u8; 16] = [9; 16];

async fn take<DB: Engine>(place: &Place<DB>, batch: u32) -> Vec<OperationRow> {
    let mut connection = place.connection().await;
    DB::take_over(
        &mut *connection,
        &["none", "charges.create"],
        WORKER,
        LEASE,
        batch,
    )
    .await
    .unwrap()
}

/// An operation that has been due for so many seconds.
async fn due<DB: Engine>(place: &Place<DB>, number: u8, seconds: u64) -> Sample {
    let begun = sample(number);
    place.begin(&begun, Duration::ZERO).await;
    let earlier = DB::earlier("due_at", seconds);
    place
        .execute(format!(
            "UPDATE idem_operations SET due_at = {earlier} WHERE owner = {}",
            bytes::<DB>(number)
        ))
        .await;
    begun
}

fn ids(rows: &[OperationRow]) -> Vec<u8> {
    rows.iter().map(|row| row.id.as_bytes()[0]).collect()
}

async fn only_due_operations_are_taken_over_the_longest_due_first<DB: Engine>(place: &Place<DB>) {
    for (number, seconds) in [(1, 20), (2, 40), (3, 10), (4, 30)] {
        due(place, number, seconds).await;
    }
    place.begin(&sample(5), LEASE).await;
    let mut foreign = sample(6);
    foreign.operation = "refunds.create";
    place.begin(&foreign, Duration::ZERO).await;
    let mut connection = place.connection().await;
    let none = DB::take_over(&mut *connection, &[], WORKER, LEASE, 9)
        .await
        .unwrap();
    assert!(none.is_empty(), "{none:?}");
    assert_eq!(ids(&take(place, 2).await), [2, 4]);
    assert_eq!(ids(&take(place, 9).await), [1, 3]);
    assert_eq!(ids(&take(place, 9).await), [0u8; 0]);
}

async fn what_is_taken_over_is_its_new_owners<DB: Engine>(place: &Place<DB>) {
    let begun = due(place, 1, 5).await;
    let taken = take(place, 1).await;
    let row = place.row(&begun).await;
    assert_eq!(taken.len(), 1);
    for row in [&taken[0], &row] {
        assert_eq!((row.attempt, row.tries, row.owner), (2, 2, WORKER));
        assert!(row.due_at.is_some_and(|due| due > row.now + 3_000_000));
        assert_eq!(row.inputs, b"inputs");
    }
    assert_eq!(taken[0].due_at, row.due_at);
    assert!(
        !DB::renew(&mut *place.connection().await, &begun.fence(), LEASE)
            .await
            .unwrap()
    );
}

async fn two_workers_never_take_over_one_operation<DB: Engine>(place: &Place<DB>) {
    for number in 1..=24 {
        due(place, number, u64::from(number)).await;
    }
    let mut workers = JoinSet::new();
    for worker in 0..4 {
        let pool = place.pool.clone();
        workers.spawn(async move {
            let mut connection = pool.acquire().await.expect("a connection");
            let mut taken = Vec::new();
            // A round may find nothing free while others hold what is left.
            for _ in 0..24 {
                let rows = DB::take_over(
                    &mut *connection,
                    &["charges.create"],
                    [worker; 16],
                    LEASE,
                    3,
                )
                .await
                .unwrap();
                taken.extend(ids(&rows));
            }
            taken
        });
    }
    let taken: Vec<u8> = workers.join_all().await.concat();
    let once: HashSet<u8> = taken.iter().copied().collect();
    assert_eq!((taken.len(), once.len()), (24, 24), "{taken:?}");
}

async fn what_is_handed_over_in_order_does_not_count<DB: Engine>(place: &Place<DB>) {
    let begun = sample(1);
    let fence = place.begin(&begun, LEASE).await;
    let mut connection = place.connection().await;
    assert!(
        DB::hand_over(&mut *connection, &fence, Duration::ZERO, true)
            .await
            .unwrap()
    );
    assert_eq!(place.row(&begun).await.tries, 0);
    let taken = take(place, 1).await;
    assert_eq!((taken[0].attempt, taken[0].tries), (2, 1));
    let fence = Fence {
        attempt: 2,
        owner: WORKER,
        ..fence
    };
    assert!(
        DB::hand_over(&mut *connection, &fence, Duration::ZERO, false)
            .await
            .unwrap()
    );
    let taken = take(place, 1).await;
    assert_eq!((taken[0].attempt, taken[0].tries), (3, 2));
}

async fn what_is_handed_over_waits_for_its_delay<DB: Engine>(place: &Place<DB>) {
    let begun = sample(1);
    let fence = place.begin(&begun, Duration::ZERO).await;
    let mut connection = place.connection().await;
    assert!(
        DB::hand_over(&mut *connection, &fence, LEASE, false)
            .await
            .unwrap()
    );
    let row = place.row(&begun).await;
    assert!(row.due_at.is_some_and(|due| due > row.now + 3_000_000));
    assert_eq!(ids(&take(place, 1).await), [0u8; 0]);
}

async fn due_operations_that_nobody_knows_are_counted<DB: Engine>(place: &Place<DB>) {
    for number in 1..=3 {
        due(place, number, 1).await;
    }
    let mut foreign = sample(4);
    foreign.operation = "refunds.create";
    place.begin(&foreign, Duration::ZERO).await;
    foreign = sample(5);
    foreign.operation = "refunds.create";
    place.begin(&foreign, LEASE).await;
    let mut connection = place.connection().await;
    let (charges, refunds) = (
        ("charges.create".to_owned(), 3),
        ("refunds.create".to_owned(), 1),
    );
    let orphans = DB::orphans(&mut *connection, &["charges.create"])
        .await
        .unwrap();
    assert_eq!(orphans, std::slice::from_ref(&refunds));
    let orphans = DB::orphans(&mut *connection, &[]).await.unwrap();
    assert_eq!(orphans, [charges, refunds]);
}

//! One message, processed by hand.

use std::time::Duration;

use futures_util::future::join;
use idem_runtime::inbox::{IdentityError, InboxError, Processed};
use idem_tests::wait::{PATIENCE, until};

use super::setup::{Desk, Tested};
use crate::on_databases;

on_databases![
    a_message_has_its_effect_once,
    a_failure_leaves_no_row,
    two_deliveries_at_once_have_one_effect,
    each_consumer_and_each_source_has_its_own,
    an_id_that_is_missing_or_empty_is_an_error_of_its_own,
    a_message_runs_again_when_it_is_forgotten,
    forgotten_messages_are_swept,
    a_panic_and_a_body_that_takes_too_long_leave_nothing,
    a_body_that_is_dropped_half_way_leaves_nothing,
    what_takes_too_long_elsewhere_is_told,
];

/// Processes with the effect that all of these have.
async fn process<DB: Tested>(
    desk: &Desk<DB>,
    consumer: &str,
    source: &str,
    id: &str,
) -> Processed<()> {
    let inbox = desk.idempotency.inbox();
    let body = async |tx: &mut idem_runtime::Tx<DB>| DB::effect(tx, "by hand", id).await;
    inbox.process(consumer, source, id, body).await.unwrap()
}

async fn a_message_has_its_effect_once<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    assert_eq!(
        process(&desk, "ledger", "orders", "m1").await,
        Processed::Done(())
    );
    for _ in 0..3 {
        let again = process(&desk, "ledger", "orders", "m1").await;
        assert_eq!(again, Processed::Duplicate);
    }
    assert_eq!(
        process(&desk, "ledger", "orders", "m2").await,
        Processed::Done(())
    );
    assert_eq!(desk.effects("message = 'm1'").await, 1);
    assert_eq!(desk.effects("1 = 1").await, 2);
    assert_eq!(
        desk.rows("consumer = 'ledger' AND source = 'orders' AND state = 1")
            .await,
        2
    );
}

async fn a_failure_leaves_no_row<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let inbox = desk.idempotency.inbox();
    let failed: Result<Processed<()>, sqlx::Error> = inbox
        .process("ledger", "orders", "m1", async |tx| {
            DB::effect(tx, "by hand", "m1").await?;
            Err(sqlx::Error::RowNotFound)
        })
        .await;
    assert!(
        matches!(failed, Err(sqlx::Error::RowNotFound)),
        "{failed:?}"
    );
    assert_eq!(desk.rows("1 = 1").await, 0);
    assert_eq!(desk.effects("1 = 1").await, 0);
    assert_eq!(
        process(&desk, "ledger", "orders", "m1").await,
        Processed::Done(())
    );
    assert_eq!(desk.effects("1 = 1").await, 1);
}

async fn two_deliveries_at_once_have_one_effect<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let inbox = desk.idempotency.inbox();
    let one = async || {
        let done: Result<Processed<()>, sqlx::Error> = inbox
            .process("ledger", "orders", "m1", async |tx| {
                desk.probe.enter();
                DB::effect(tx, "by hand", "m1").await?;
                tokio::time::sleep(Duration::from_millis(200)).await;
                Ok(())
            })
            .await;
        done.unwrap()
    };
    let (first, second) = join(one(), one()).await;
    let done = [first, second]
        .iter()
        .filter(|one| **one == Processed::Done(()))
        .count();
    assert_eq!(done, 1, "{first:?} {second:?}");
    assert_eq!(desk.probe.entered(), 1);
    assert_eq!(desk.effects("1 = 1").await, 1);
}

async fn each_consumer_and_each_source_has_its_own<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    for (consumer, source) in [
        ("ledger", "orders"),
        ("mail", "orders"),
        ("ledger", "refunds"),
    ] {
        let first = process(&desk, consumer, source, "m1").await;
        assert_eq!(first, Processed::Done(()), "{consumer} {source}");
        let again = process(&desk, consumer, source, "m1").await;
        assert_eq!(again, Processed::Duplicate, "{consumer} {source}");
    }
    assert_eq!(desk.effects("1 = 1").await, 3);
}

async fn an_id_that_is_missing_or_empty_is_an_error_of_its_own<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let inbox = desk.idempotency.inbox();
    for (consumer, id, expected) in [
        ("ledger", "", IdentityError::EmptyId),
        ("ledger", "  ", IdentityError::EmptyId),
        ("", "m1", IdentityError::Consumer),
    ] {
        let refused: Result<Processed<()>, InboxError> = inbox
            .process(consumer, "orders", id, async |_| {
                desk.probe.enter();
                Ok(())
            })
            .await;
        match refused {
            Err(InboxError::Identity(error)) => assert_eq!(error, expected),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((desk.probe.entered(), desk.rows("1 = 1").await), (0, 0));
}

async fn a_message_runs_again_when_it_is_forgotten<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let inbox = desk.idempotency.inbox().ttl(Duration::from_millis(300));
    let body = async |tx: &mut idem_runtime::Tx<DB>| DB::effect(tx, "by hand", "m1").await;
    let first = inbox.process("ledger", "orders", "m1", body).await.unwrap();
    assert_eq!(first, Processed::Done(()));
    until("the row is past its retention", PATIENCE, async || {
        let again = inbox.process("ledger", "orders", "m1", body).await.unwrap();
        again == Processed::Done(())
    })
    .await;
    assert_eq!(desk.effects("1 = 1").await, 2);
    assert_eq!(desk.rows("1 = 1").await, 1, "it is replaced");
}

async fn forgotten_messages_are_swept<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let short = desk.idempotency.inbox().ttl(Duration::from_millis(1));
    for message in 0..25 {
        let id = format!("m{message}");
        let done: Result<_, sqlx::Error> = short
            .process("ledger", "orders", &id, async |_| Ok(()))
            .await;
        done.unwrap();
    }
    process(&desk, "ledger", "orders", "kept").await;
    let sweeper = desk.idempotency.sweeper().batch(10).pause(Duration::ZERO);
    let mut swept = 0;
    until("all are past their retention", PATIENCE, async || {
        swept += sweeper.sweep_once().await.unwrap().messages;
        swept == 25
    })
    .await;
    assert_eq!(desk.rows("1 = 1").await, 1);
    assert_eq!(
        process(&desk, "ledger", "orders", "kept").await,
        Processed::Duplicate
    );
}

async fn a_panic_and_a_body_that_takes_too_long_leave_nothing<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let inbox = desk.idempotency.inbox();
    let panicked: Result<Processed<()>, InboxError> = inbox
        .process("ledger", "orders", "m1", async |tx| {
            DB::effect(tx, "by hand", "m1").await.unwrap();
            panic!("on purpose")
        })
        .await;
    assert!(
        matches!(panicked, Err(InboxError::Panicked)),
        "{panicked:?}"
    );
    let short = inbox.timeout(Duration::from_millis(100));
    let slow: Result<Processed<()>, InboxError> = short
        .process("ledger", "orders", "m1", async |tx| {
            DB::effect(tx, "by hand", "m1").await.unwrap();
            std::future::pending().await
        })
        .await;
    assert!(matches!(slow, Err(InboxError::TimedOut(_))), "{slow:?}");
    assert_eq!(
        (desk.effects("1 = 1").await, desk.rows("1 = 1").await),
        (0, 0)
    );
    assert_eq!(
        process(&desk, "ledger", "orders", "m1").await,
        Processed::Done(())
    );
}

async fn a_body_that_is_dropped_half_way_leaves_nothing<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let inbox = desk.idempotency.inbox();
    let dropped = inbox.process("ledger", "orders", "m1", async |tx| {
        DB::effect(tx, "by hand", "m1").await?;
        desk.probe.enter();
        std::future::pending::<Result<(), sqlx::Error>>().await
    });
    tokio::select! {
        ended = dropped => panic!("{ended:?}"),
        () = until("the body is entered", PATIENCE, async || desk.probe.entered() == 1) => {}
    }
    assert_eq!(
        process(&desk, "ledger", "orders", "m1").await,
        Processed::Done(())
    );
    assert_eq!(desk.effects("1 = 1").await, 1);
}

async fn what_takes_too_long_elsewhere_is_told<DB: Tested>() {
    let desk = Desk::<DB>::with(|builder| {
        builder
            .wait(Duration::from_millis(200))
            .store_timeout(Duration::from_millis(400))
    })
    .await;
    let inbox = desk.idempotency.inbox();
    let first = inbox.process("ledger", "orders", "m1", async |tx| {
        DB::effect(tx, "by hand", "m1").await?;
        desk.probe.enter();
        desk.probe.gate().acquire().await.unwrap().forget();
        Ok::<_, sqlx::Error>(())
    });
    let second = async {
        until("the first runs", PATIENCE, async || {
            desk.probe.entered() == 1
        })
        .await;
        let told: Result<Processed<()>, InboxError> = inbox
            .process("ledger", "orders", "m1", async |_| Ok(()))
            .await;
        desk.probe.gate().add_permits(1);
        told
    };
    let (first, second) = join(first, second).await;
    assert_eq!(first.unwrap(), Processed::Done(()));
    // SQLite has one writer: the second does not even come to look.
    let told = matches!(
        second,
        Err(InboxError::InFlight | InboxError::StoreTimedOut(_))
    );
    assert!(told, "{second:?}");
    assert_eq!(desk.effects("1 = 1").await, 1);
}

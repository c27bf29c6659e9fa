//! The transaction of a consumer: what ends it, and what the database says of it.

use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::join_all;
use idem_runtime::Tx;
use idem_runtime::inbox::{InboxError, Processed};
use idem_tests::proxy::Proxy;
use idem_tests::servers::{Backend, TestDatabase};

use super::setup::{Desk, Tested};
use crate::on_databases;

on_databases![
    a_commit_of_the_bodys_own_is_found_out,
    another_connection_is_found_out,
    an_operation_id_is_the_same_at_every_delivery,
];

on_databases![
    servers;
    the_database_may_ask_for_another_run,
    it_does_not_ask_for_ever,
    duplicates_have_one_effect_at_every_isolation,
    a_lost_acknowledgement_of_the_commit_is_resolved_by_the_row,
    a_lost_commit_runs_again,
];

async fn a_commit_of_the_bodys_own_is_found_out<DB: Tested>() {
    for fails in [false, true] {
        let desk = Desk::<DB>::new().await;
        let inbox = desk.idempotency.inbox();
        let body = async |tx: &mut Tx<DB>| {
            desk.probe.enter();
            DB::effect(tx, "by hand", "m1").await?;
            // SQLite refuses it.
            let _ = DB::raw(tx, "COMMIT").await;
            if fails {
                Err(InboxError::InFlight)
            } else {
                Ok(())
            }
        };
        let body = async |tx: &mut Tx<DB>| -> Result<(), InboxError> { body(tx).await };
        let ended: Result<Processed<()>, InboxError> =
            inbox.process("ledger", "orders", "m1", body).await;
        let durable = desk.effects("1 = 1").await;
        if DB::BACKEND == Backend::Sqlite {
            assert!(ended.is_err(), "{ended:?}");
            assert_eq!(durable, 0, "nothing is durable, and it may run again");
            continue;
        }
        assert!(
            matches!(ended, Err(InboxError::TransactionEnded)),
            "{ended:?}"
        );
        assert_eq!(durable, 1);
        assert_eq!(desk.rows("state = 2").await, 1);
        let again: Result<Processed<()>, InboxError> =
            inbox.process("ledger", "orders", "m1", body).await;
        assert!(
            matches!(again, Err(InboxError::OutcomeUnknown)),
            "{again:?}"
        );
        assert_eq!(desk.probe.entered(), 1, "it does not run again");
    }
}

async fn another_connection_is_found_out<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let inbox = desk.idempotency.inbox();
    let pool = desk.idempotency.pool().clone();
    let body = async |_: &mut Tx<DB>| -> Result<(), InboxError> {
        desk.probe.enter();
        drop(pool.acquire().await);
        Ok(())
    };
    let ended = inbox.process("ledger", "orders", "m1", body).await;
    assert!(
        matches!(ended, Err(InboxError::EffectOutsideTransaction)),
        "{ended:?}"
    );
    let again = inbox.process("ledger", "orders", "m1", body).await;
    assert!(
        matches!(again, Err(InboxError::OutcomeUnknown)),
        "{again:?}"
    );
    assert_eq!(desk.probe.entered(), 1);
}

async fn an_operation_id_is_the_same_at_every_delivery<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let inbox = desk.idempotency.inbox();
    let seen = Mutex::new(Vec::new());
    for (message, fails) in [("m1", true), ("m1", false), ("m2", false)] {
        let ended: Result<Processed<()>, sqlx::Error> = inbox
            .process("ledger", "orders", message, async |tx| {
                seen.lock().unwrap().push(tx.operation_id());
                if fails {
                    return Err(sqlx::Error::RowNotFound);
                }
                Ok(())
            })
            .await;
        assert_eq!(ended.is_err(), fails);
    }
    let seen = seen.into_inner().unwrap();
    assert_eq!(seen[0], seen[1]);
    assert_ne!(seen[1], seen[2]);
}

#[tokio::test]
async fn an_error_that_is_ignored_aborts_on_postgres() {
    let desk = Desk::<sqlx::Postgres>::new().await;
    let ended: Result<Processed<()>, InboxError> = desk
        .idempotency
        .inbox()
        .process("ledger", "orders", "m1", async |tx| {
            <sqlx::Postgres as Tested>::effect(tx, "by hand", "m1")
                .await
                .unwrap();
            let _ = <sqlx::Postgres as Tested>::raw(tx, "SELECT 1 / 0").await;
            Ok(())
        })
        .await;
    assert!(
        matches!(ended, Err(InboxError::TransactionAborted(_))),
        "{ended:?}"
    );
    assert_eq!(desk.effects("1 = 1").await, 0);
    assert_eq!(desk.rows("1 = 1").await, 0);
}

async fn the_database_may_ask_for_another_run<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let statement = DB::ASKS_FOR_ANOTHER_RUN.unwrap();
    let done: Result<Processed<usize>, sqlx::Error> = desk
        .idempotency
        .inbox()
        .process("ledger", "orders", "m1", async |tx| {
            desk.probe.enter();
            DB::effect(tx, "by hand", "m1").await?;
            if desk.probe.entered() < 3 {
                DB::raw(tx, statement).await?;
            }
            Ok(desk.probe.entered())
        })
        .await;
    assert_eq!(done.unwrap(), Processed::Done(3));
    assert_eq!(desk.effects("1 = 1").await, 1);
}

async fn duplicates_have_one_effect_at_every_isolation<DB: Tested>() {
    use idem_runtime::Isolation::{ReadCommitted, RepeatableRead, Serializable};
    for isolation in [ReadCommitted, RepeatableRead, Serializable] {
        let desk = Desk::<DB>::with(|builder| builder.isolation(isolation)).await;
        for round in 0..10 {
            let inbox = desk.idempotency.inbox();
            let each = (0..4).map(|_| {
                let (inbox, probe) = (inbox.clone(), desk.probe.clone());
                tokio::spawn(async move {
                    let id = format!("m{round}");
                    let body = async |tx: &mut Tx<DB>| {
                        probe.enter();
                        DB::effect(tx, "by hand", &id).await?;
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        Ok::<_, InboxError>(())
                    };
                    inbox.process("ledger", "orders", &id, body).await
                })
            });
            for processed in join_all(each).await {
                processed.unwrap().unwrap();
            }
        }
        assert_eq!(desk.effects("1 = 1").await, 10, "{isolation:?}");
    }
}

async fn it_does_not_ask_for_ever<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let statement = DB::ASKS_FOR_ANOTHER_RUN.unwrap();
    let ended: Result<Processed<()>, InboxError> = desk
        .idempotency
        .inbox()
        .process("ledger", "orders", "m1", async |tx| {
            desk.probe.enter();
            DB::raw(tx, statement).await.map_err(InboxError::Database)
        })
        .await;
    assert!(
        matches!(ended, Err(InboxError::SerializationFailure(5))),
        "{ended:?}"
    );
    assert_eq!(desk.probe.entered(), 5);
}

async fn through_proxy<DB: Tested>() -> (Desk<DB>, Proxy) {
    let database = TestDatabase::create(DB::BACKEND).await;
    let proxy = Proxy::start(DB::BACKEND, database.server_address()).await;
    let url = database.url_through(proxy.address());
    let desk = Desk::on(database, &url, |builder| {
        builder.wait(Duration::from_secs(4))
    })
    .await;
    (desk, proxy)
}

async fn a_lost_acknowledgement_of_the_commit_is_resolved_by_the_row<DB: Tested>() {
    let (desk, proxy) = through_proxy::<DB>().await;
    let inbox = desk.idempotency.inbox();
    for round in 0..5 {
        let id = format!("m{round}");
        proxy.swallow_acknowledgements(1);
        let done: Result<Processed<usize>, InboxError> = inbox
            .process("ledger", "orders", &id, async |tx| {
                desk.probe.enter();
                DB::effect(tx, "by hand", &id).await.unwrap();
                Ok(desk.probe.entered())
            })
            .await;
        assert_eq!(proxy.armed(), 0, "round {round}: a COMMIT was met");
        assert_eq!(done.unwrap(), Processed::Done(round + 1), "round {round}");
        assert_eq!(desk.effects(&format!("message = '{id}'")).await, 1);
    }
    assert_eq!(desk.probe.entered(), 5, "each ran once");
}

async fn a_lost_commit_runs_again<DB: Tested>() {
    let (desk, proxy) = through_proxy::<DB>().await;
    let inbox = desk.idempotency.inbox();
    for round in 0..5 {
        let id = format!("m{round}");
        proxy.lose_commits(1);
        let done: Result<Processed<()>, InboxError> = inbox
            .process("ledger", "orders", &id, async |tx| {
                desk.probe.enter();
                DB::effect(tx, "by hand", &id).await.unwrap();
                Ok(())
            })
            .await;
        assert_eq!(proxy.armed(), 0, "round {round}: a COMMIT was met");
        assert_eq!(done.unwrap(), Processed::Done(()), "round {round}");
        assert_eq!(desk.effects(&format!("message = '{id}'")).await, 1);
    }
    assert_eq!(desk.probe.entered(), 10, "each ran twice");
}

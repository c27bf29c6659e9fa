//! What a client is told, while nothing goes wrong that it can't see.

use std::time::Duration;

use idem_tests::http::fresh_key;
use idem_tests::servers::Backend;
use idem_tests::wait::{PATIENCE, until};
use serde_json::json;

use crate::setup::{Ledger, Provider, Shop, charge, on_every_database, settled, status};

const ONCE: Ledger = Ledger {
    charges: 1,
    attempts: 1,
};

async fn a_charge_is_made_once_and_its_answer_is_replayed(backend: Backend) {
    for kind in [
        Provider::HonoursKeys,
        Provider::CanBeAsked,
        Provider::Neither,
    ] {
        let shop = Shop::open(backend, kind).await;
        let app = shop.probe().await;
        let key = fresh_key();
        let call = charge(&app, &key);
        let first = app.accepted(&call, 201).await;
        assert_eq!(first.json()["charge"], "ch_1");
        for _ in 0..2 {
            call.send().await.assert_replays(&first);
        }
        assert_eq!(shop.rows(&key).await, (1, 1));
        assert_eq!(shop.ledger(&key).await, ONCE);
    }
}

async fn a_key_means_one_request_and_one_account(backend: Backend) {
    let shop = Shop::open(backend, Provider::HonoursKeys).await;
    let app = shop.probe().await;
    let key = fresh_key();
    let call = charge(&app, &key);
    assert_eq!(call.send().await.status, 201);
    let other = call.clone().json(&json!({ "amount": 3 })).send().await;
    other.assert_problem(422, "idempotency-key-reused");
    // Another account's key is another key, at the provider too.
    let bob = call.token("bob-token").send().await;
    assert_eq!((bob.status, bob.is_replay()), (201, false), "{bob:?}");
    let all = shop.at_provider.get("/charges").send().await.json();
    let charges = all["charges"].as_array().expect("a list");
    assert_eq!(charges.len(), 2, "{all}");
    assert_ne!(charges[0]["key"], charges[1]["key"], "{all}");
}

async fn a_duplicate_of_a_running_charge_is_told_so_and_where_to_look(backend: Backend) {
    let shop = Shop::open(backend, Provider::HonoursKeys).await;
    let app = shop.probe().await;
    let impatient = shop.without_recovery(&[("WAIT", "300ms")]).await;
    let key = fresh_key();
    let slow = charge(&app, &key).asking("sleep-ms", 2500);
    let duplicate = async {
        until("the charge", PATIENCE, async || {
            shop.ledger(&key).await.charges == 1
        })
        .await;
        let duplicate = charge(&impatient, &key).send().await;
        duplicate.assert_problem(409, "idempotency-key-in-progress");
        assert!(duplicate.header("retry-after").is_some(), "{duplicate:?}");
        let seen = status(&impatient, &duplicate, "alice-token-2").await;
        assert_eq!(seen.json(), json!({ "state": "in_progress" }), "{seen:?}");
        assert_eq!(
            status(&impatient, &duplicate, "bob-token").await.status,
            404
        );
        assert_eq!(status(&impatient, &duplicate, "").await.status, 401);
        duplicate
    };
    let (first, duplicate) = tokio::join!(slow.send(), duplicate);
    assert_eq!(first.status, 201, "{first:?}");
    let seen = status(&impatient, &duplicate, "alice-token").await;
    let completed = json!({ "state": "completed", "status": 201 });
    assert_eq!(seen.json(), completed, "{seen:?}");
    charge(&impatient, &key).send().await.assert_replays(&first);
    assert_eq!(
        (shop.rows(&key).await, shop.ledger(&key).await),
        ((1, 1), ONCE)
    );
}

async fn a_provider_that_refuses_is_not_called_again(backend: Backend) {
    for kind in [
        Provider::HonoursKeys,
        Provider::CanBeAsked,
        Provider::Neither,
    ] {
        let shop = Shop::open(backend, kind).await;
        let app = shop.probe().await;
        let key = fresh_key();
        let call = charge(&app, &key);
        let refused = call.clone().asking("provider-fault", "refuse");
        let first = app.accepted(&refused, 402).await;
        call.send().await.assert_replays(&first);
        let refused = Ledger {
            charges: 0,
            attempts: 1,
        };
        assert_eq!(shop.rows(&key).await, (1, 0), "{kind:?}");
        assert_eq!(shop.ledger(&key).await, refused, "{kind:?}");
    }
}

async fn an_error_after_a_recorded_step_is_the_answer(backend: Backend) {
    let shop = Shop::open(backend, Provider::HonoursKeys).await;
    let app = shop.probe().await;
    let key = fresh_key();
    let call = charge(&app, &key);
    let first = app.accepted(&call.clone().asking("err", 500), 500).await;
    call.send().await.assert_replays(&first);
    assert_eq!(
        (shop.rows(&key).await, shop.ledger(&key).await),
        ((1, 0), ONCE)
    );
}

async fn a_provider_that_is_away_charges_nothing_and_is_the_answer(backend: Backend) {
    let mut shop = Shop::open(backend, Provider::Neither).await;
    let app = shop.probe().await;
    let key = fresh_key();
    shop.provider.kill().await;
    let call = charge(&app, &key);
    let first = app.accepted(&call, 503).await;
    assert_eq!(first.code(), None, "the handler's own answer: {first:?}");
    call.send().await.assert_replays(&first);
    assert_eq!(shop.rows(&key).await, (1, 0));
}

/// The answer is lost after the charge; what follows is what the provider is declared to do.
async fn a_lost_answer_is_followed_by_what_is_declared(backend: Backend) {
    for fault in ["drop-after", "500-after", "drop-before"] {
        let charged = usize::from(fault != "drop-before");
        for kind in [
            Provider::HonoursKeys,
            Provider::CanBeAsked,
            Provider::Neither,
        ] {
            let what = format!("{fault}, {kind:?}");
            let shop = Shop::open(backend, kind).await;
            let app = shop.probe().await;
            let key = fresh_key();
            let call = charge(&app, &key);
            let _ = call.clone().asking("provider-fault", fault).send().await;
            let answer = settled(&call).await;
            let ledger = shop.ledger(&key).await;
            if kind == Provider::Neither {
                answer.assert_problem(409, "idempotency-outcome-unknown");
                let seen = status(&app, &answer, "alice-token").await;
                assert_eq!(
                    seen.json(),
                    json!({ "state": "unknown" }),
                    "{what}: {seen:?}"
                );
                assert_eq!((ledger.charges, ledger.attempts), (charged, 1), "{what}");
                assert_eq!(shop.rows(&key).await, (1, 0), "{what}");
                continue;
            }
            assert_eq!(answer.status, 201, "{what}: {answer:?}");
            assert_eq!(ledger.charges, 1, "{what}");
            // Who can be asked is not called again for what it has done.
            let attempts = match kind {
                Provider::HonoursKeys => 2,
                _ => 2 - charged,
            };
            assert_eq!(ledger.attempts, attempts, "{what}");
            assert_eq!(shop.rows(&key).await, (1, 1), "{what}");
        }
    }
}

/// The client hangs up, and the charge goes on.
async fn a_client_that_hangs_up_finds_its_answer_later(backend: Backend) {
    let shop = Shop::open(backend, Provider::HonoursKeys).await;
    let app = shop.probe().await;
    let key = fresh_key();
    let call = charge(&app, &key);
    let gave_up = call
        .clone()
        .asking("provider-fault", "slow:900")
        .giving_up_after(Duration::from_millis(300));
    assert!(gave_up.try_send().await.is_err());
    let answer = settled(&call).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(
        (shop.rows(&key).await, shop.ledger(&key).await),
        ((1, 1), ONCE)
    );
}

on_every_database! {
    a_charge_is_made_once_and_its_answer_is_replayed,
    a_key_means_one_request_and_one_account,
    a_duplicate_of_a_running_charge_is_told_so_and_where_to_look,
    a_provider_that_refuses_is_not_called_again,
    an_error_after_a_recorded_step_is_the_answer,
    a_provider_that_is_away_charges_nothing_and_is_the_answer,
    a_lost_answer_is_followed_by_what_is_declared,
    a_client_that_hangs_up_finds_its_answer_later,
}

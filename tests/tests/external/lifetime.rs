//! How long the provider honours a key: past that, an attempt does not call again.

use idem_tests::application::key_digest;
use idem_tests::http::{Answer, fresh_key};
use idem_tests::servers::Backend;
use serde_json::json;

use crate::setup::{Ledger, Provider, Shop, charge, on_every_database, settled, status};

/// A key's lifetime that is over when the crashed attempt's lease is.
const SHORT: &[(&str, &str)] = &[
    ("KEY_LIFETIME", "3s"),
    ("CALL_TIMEOUT", "500ms"),
    ("IN_FLIGHT_LIMIT", "1s"),
];

/// What a client is told of an operation that is recovered past the lifetime of its key.
async fn recovered_late(shop: &Shop, point: &str, key: &str) -> Answer {
    shop.crash_at(point, key).await;
    let app = shop.probe().await;
    let answer = settled(&charge(&app, key)).await;
    if answer.status == 409 {
        let seen = status(&app, &answer, "alice-token").await;
        assert_eq!(seen.json(), json!({ "state": "unknown" }), "{seen:?}");
    }
    answer
}

fn ledger(charges: usize, attempts: usize) -> Ledger {
    Ledger { charges, attempts }
}

async fn past_its_keys_lifetime_a_charge_is_not_called_again(backend: Backend) {
    for (point, sent) in [("call.before#1", 0), ("call.after#1", 1)] {
        let shop = Shop::open(backend, Provider::HonoursKeys).await.with(SHORT);
        let key = fresh_key();
        let answer = recovered_late(&shop, point, &key).await;
        answer.assert_problem(409, "idempotency-outcome-unknown");
        assert_eq!(shop.ledger(&key).await, ledger(sent, sent), "{point}");
        assert_eq!(shop.rows(&key).await, (1, 0), "{point}");
        let reason =
            "SELECT COUNT(*) FROM idem_operations WHERE reason LIKE '%key may be forgotten%'";
        assert_eq!(shop.database.number(reason).await, 1, "{point}");
    }
}

async fn past_its_keys_lifetime_a_charge_is_asked_for(backend: Backend) {
    let asked = [&[("RECONCILE", "on")], SHORT].concat();
    for (point, attempts) in [("call.before#1", 1), ("call.after#1", 1)] {
        let shop = Shop::open(backend, Provider::HonoursKeys)
            .await
            .with(&asked);
        let key = fresh_key();
        let answer = recovered_late(&shop, point, &key).await;
        assert_eq!(answer.status, 201, "{point}: {answer:?}");
        assert_eq!(shop.ledger(&key).await, ledger(1, attempts), "{point}");
        assert_eq!(shop.rows(&key).await, (1, 1), "{point}");
    }
}

/// Of an operation that is ended nothing is left but its answer.
async fn what_a_handler_was_given_is_erased_with_its_answer(backend: Backend) {
    let shop = Shop::open(backend, Provider::HonoursKeys).await;
    let app = shop.probe().await;
    let key = fresh_key();
    assert_eq!(charge(&app, &key).send().await.status, 201);
    let left = "SELECT COUNT(*) FROM idem_operations";
    assert_eq!(shop.database.number(left).await, 0);
    let digest = key_digest(&key);
    let rows = format!("SELECT COUNT(*) FROM effects WHERE key_digest = '{digest}'");
    assert_eq!(shop.database.number(&rows).await, 2);
}

on_every_database! {
    past_its_keys_lifetime_a_charge_is_not_called_again,
    past_its_keys_lifetime_a_charge_is_asked_for,
    what_a_handler_was_given_is_erased_with_its_answer,
}

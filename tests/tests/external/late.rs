//! A request that is slow to arrive, at a provider that can be asked and honours no key.

use idem_tests::http::fresh_key;
use idem_tests::servers::Backend;

use crate::setup::{Ledger, Provider, Shop, charge, on_every_database, settled};

/// The answer is late, and the provider says that there is no charge: not yet.
pub(crate) async fn a_charge_that_is_still_under_way_is_not_made_again(backend: Backend) {
    let shop = Shop::open(backend, Provider::CanBeAsked).await;
    let app = shop.probe().await;
    let key = fresh_key();
    let call = charge(&app, &key);
    // Later than the call waits, and sooner than a request may arrive; the handler ends when both have.
    let slow = call
        .clone()
        .asking("provider-fault", "slow:1500")
        .asking("sleep-ms", 1500);
    let _ = slow.send().await;
    let answer = settled(&call).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let once = Ledger {
        charges: 1,
        attempts: 1,
    };
    assert_eq!(shop.ledger(&key).await, once);
    assert_eq!(shop.rows(&key).await, (1, 1));
}

on_every_database! {
    a_charge_that_is_still_under_way_is_not_made_again,
}

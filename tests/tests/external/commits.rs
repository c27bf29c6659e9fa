//! What a charge costs its database in commits.

use std::time::Duration;

use idem_tests::http::fresh_key;
use idem_tests::servers::Backend;

use crate::setup::{Provider, Shop, charge, on_databases};

/// What a process commits that makes so many charges.
async fn commits_of(shop: &Shop, charges: usize) -> i64 {
    shop.database
        .commits_of(async || {
            let mut app = shop.without_recovery(&[("POOL_SIZE", "1")]).await;
            for _ in 0..charges {
                assert_eq!(charge(&app, &fresh_key()).send().await.status, 201);
            }
            app.server.ask_to_stop().await;
            app.server.ended(Duration::from_secs(40)).await;
        })
        .await
}

/// The claim; the intent, with the first step; and the answer, with the last step. A provider that does not honour keys
/// costs one more: what it said must be durable before anything else happens.
async fn a_charge_is_as_few_commits_as_are_right(backend: Backend) {
    for (kind, expected) in [
        (Provider::HonoursKeys, 3),
        (Provider::CanBeAsked, 4),
        (Provider::Neither, 4),
    ] {
        let shop = Shop::open(backend, kind).await;
        commits_of(&shop, 1).await;
        let one = commits_of(&shop, 1).await;
        let eleven = commits_of(&shop, 11).await;
        assert_eq!(eleven - one, 10 * expected, "{kind:?}");
    }
}

on_databases! { postgres: Postgres; [a_charge_is_as_few_commits_as_are_right] }
on_databases! { postgres_fewest: PostgresFewest; [a_charge_is_as_few_commits_as_are_right] }

//! An account that moves from one region to another.

use idem_runtime::scope::ScopeKey;
use idem_runtime::steps::Recovered;
use idem_tests::http::fresh_key;

use super::setup::{Site, Word, World};
use super::site::Tested;
use crate::on_each_database;

on_each_database![
    a_retry_in_the_new_region_gets_the_answer_of_the_old_one,
    an_operation_goes_on_in_the_new_region_only,
    an_operation_is_left_alone_while_its_home_is_not_known,
];

/// Copies what the library keeps of an account.
async fn copy<DB: Tested>(from: &Site<DB>, to: &Site<DB>, account: &str) {
    let scope = ScopeKey::of(account);
    for table in ["idem_keys", "idem_operations"] {
        DB::copy(&from.database, &to.database, table, scope.as_str())
            .await
            .expect("rows are copied");
    }
}

async fn a_retry_in_the_new_region_gets_the_answer_of_the_old_one<DB: Tested>() {
    let world = World::<DB>::new().await;
    let (east, west) = (&world.east, &world.west);
    let key = fresh_key();
    let first = east.post("/orders/alice", &key, 0).await;
    assert_eq!(first.status, 201, "{first:?}");
    // Somebody else's stay.
    world.homes.say("carol", Word::At("east"));
    east.post("/orders/carol", &key, 0).await;

    world.homes.say("alice", Word::Moving);
    for site in [east, west] {
        let moving = site.post("/orders/alice", &key, 0).await;
        moving.assert_problem(503, "idempotency-region-unavailable");
    }
    copy(east, west, "alice").await;
    world.homes.say("alice", Word::At("west"));

    assert_eq!(west.records().await, 1);
    let again = west.post("/orders/alice", &key, 0).await;
    again.assert_replays(&first);
    let other = west.post("/orders/alice", &key, 1).await;
    other.assert_problem(422, "idempotency-key-reused");
    assert_eq!(west.orders().await, 0);
    let away = east.post("/orders/alice", &key, 0).await;
    away.assert_problem(421, "idempotency-wrong-region");
    assert_eq!(east.orders().await, 2);
}

async fn an_operation_goes_on_in_the_new_region_only<DB: Tested>() {
    let world = World::<DB>::new().await;
    let (east, west) = (&world.east, &world.west);
    let key = fresh_key();
    east.stage.set_stuck(true);
    let begun = east.post("/charges/alice", &key, 0).await;
    begun.assert_problem(409, "idempotency-key-in-progress");
    assert_eq!(east.orders().await, 1);
    east.stage.set_stuck(false);

    copy(east, west, "alice").await;
    world.homes.say("alice", Word::At("west"));
    let entered = east.stage.entered();
    let here = DB::recovery(&east.idempotency, &east.stage);
    assert_eq!(due(here).await, [Recovered::Later]);
    assert_eq!(east.stage.entered(), entered);
    assert_eq!(east.orders().await, 1);
    let tried_once = "SELECT count(*) FROM idem_operations WHERE tries = 1";
    let uncounted = east.database.number(tried_once).await;
    assert_eq!(uncounted, 1, "no try is counted");

    let there = DB::recovery(&west.idempotency, &west.stage);
    assert_eq!(due(there).await, [Recovered::Completed]);
    assert_eq!(west.orders().await, 1, "the step that was left");
    let answer = west.post("/charges/alice", &key, 0).await;
    assert!(answer.is_replay(), "{answer:?}");
    assert_eq!((answer.status, &*answer.body), (200, &b"alice"[..]));
}

async fn an_operation_is_left_alone_while_its_home_is_not_known<DB: Tested>() {
    let world = World::<DB>::new().await;
    let east = &world.east;
    east.stage.set_stuck(true);
    east.post("/charges/alice", &fresh_key(), 0).await;
    east.stage.set_stuck(false);
    for word in [Word::Fails, Word::Moving] {
        world.homes.say("alice", word);
        let recovery = DB::recovery(&east.idempotency, &east.stage);
        assert_eq!(due(recovery).await, [Recovered::Later], "{word:?}");
        assert_eq!(east.stage.entered(), 1);
        east.make_due().await;
    }
    world.homes.say("alice", Word::At("east"));
    let recovery = DB::recovery(&east.idempotency, &east.stage);
    assert_eq!(due(recovery).await, [Recovered::Completed]);
    assert_eq!(east.orders().await, 2);
}

/// What became of the one operation that is due, or soon will be.
async fn due<DB: Tested>(
    recovery: idem_runtime::steps::Recovery<DB, super::site::App<DB>>,
) -> Vec<Recovered> {
    let mut all = Vec::new();
    idem_tests::wait::until(
        "an operation is due",
        idem_tests::wait::PATIENCE,
        async || {
            all = recovery.run_once().await.expect("the store is there");
            !all.is_empty()
        },
    )
    .await;
    all
}

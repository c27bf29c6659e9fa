//! What requests are answered at home and away.

use std::time::{Duration, Instant};

use idem_runtime::Idempotency;
use idem_tests::http::fresh_key;
use idem_tests::wait::{PATIENCE, until};
use sqlx::Pool;
use sqlx::pool::PoolOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::setup::{LIMIT, Word, World, signals};
use super::site::Tested;
use crate::on_each_database;

on_each_database![
    an_account_is_written_at_home_and_told_so_elsewhere,
    one_key_of_two_accounts_is_two_in_two_regions,
    a_request_away_from_home_is_refused_before_its_body_is_read,
    an_account_that_moves_while_a_body_arrives_is_not_written,
    a_request_without_a_key_is_refused_away_from_home,
    a_handler_with_steps_is_not_entered_away_from_home,
    a_stored_answer_is_not_replayed_away_from_home,
    a_lookup_that_does_not_answer_lets_nothing_through,
    an_owner_that_no_database_can_store_is_not_looked_up,
    a_region_without_a_name_is_refused_at_start,
];

async fn an_account_is_written_at_home_and_told_so_elsewhere<DB: Tested>() {
    let world = World::<DB>::new().await;
    let key = fresh_key();
    let away = world.west.post("/orders/alice", &key, 0).await;
    away.assert_problem(421, "idempotency-wrong-region");
    let problem = away.json();
    assert_eq!(problem["region"], "east");
    assert_eq!(problem["region_url"], "https://east.example");
    assert_eq!(problem["retryable"], false);
    assert!(away.header("retry-after").is_none(), "{away:?}");
    assert_eq!(away.header("cache-control"), Some("no-store"));
    world.west.assert_untouched().await;

    let home = world.east.post("/orders/alice", &key, 0).await;
    assert_eq!(home.status, 201, "{home:?}");
    let again = world.east.post("/orders/alice", &key, 0).await;
    again.assert_replays(&home);
    assert_eq!(world.east.orders().await, 1);
    assert_eq!(signals(&key), ["wrong_region", "accepted", "replayed"]);
}

async fn one_key_of_two_accounts_is_two_in_two_regions<DB: Tested>() {
    let world = World::<DB>::new().await;
    let key = fresh_key();
    let alice = world.east.post("/orders/alice", &key, 0).await;
    let bob = world.west.post("/orders/bob", &key, 0).await;
    assert_eq!((alice.status, bob.status), (201, 201));
    assert!(!bob.is_replay(), "{bob:?}");
    assert_eq!(bob.body, "an order of bob");
    let bob = world.east.post("/orders/bob", &key, 0).await;
    bob.assert_problem(421, "idempotency-wrong-region");
    assert_eq!(bob.json()["region"], "west");
    assert_eq!(world.east.orders().await, 1);
    assert_eq!(world.west.orders().await, 1);
}

async fn a_request_away_from_home_is_refused_before_its_body_is_read<DB: Tested>() {
    let world = World::<DB>::new().await;
    // What is read whole is 413.
    let home = world.east.post("/orders/alice", &fresh_key(), 2048).await;
    home.assert_problem(413, "request-too-large");
    let away = world.west.post("/orders/alice", &fresh_key(), 2048).await;
    away.assert_problem(421, "idempotency-wrong-region");
    // The key is not the region's: it is wrong anywhere.
    let wrong = world.west.post("/orders/alice", "a,b", 0).await;
    wrong.assert_problem(400, "idempotency-key-invalid");
}

/// The client has sent a part of its body when the account moves.
async fn an_account_that_moves_while_a_body_arrives_is_not_written<DB: Tested>() {
    let world = World::<DB>::new().await;
    let key = fresh_key();
    let mut client = TcpStream::connect(world.east.address)
        .await
        .expect("it listens");
    let head = format!(
        "POST /orders/alice HTTP/1.1\r\nHost: east\r\nConnection: close\r\nIdempotency-Key: {key}\r\nContent-Length: 2\r\n\r\nx"
    );
    client.write_all(head.as_bytes()).await.expect("it reads");
    until("she is looked up", PATIENCE, async || {
        world.homes.asked() == 1
    })
    .await;
    world.homes.say("alice", Word::At("west"));
    // The first word holds for a second.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    client.write_all(b"x").await.expect("it reads");
    let mut answer = String::new();
    client
        .read_to_string(&mut answer)
        .await
        .expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
    assert_eq!(signals(&key), ["wrong_region"]);
    world.east.assert_untouched().await;
}

async fn a_request_without_a_key_is_refused_away_from_home<DB: Tested>() {
    let world = World::<DB>::new().await;
    let away = world.west.client.post("/keyless/alice").send().await;
    away.assert_problem(421, "idempotency-wrong-region");
    world.west.assert_untouched().await;
    let home = world.east.client.post("/keyless/alice").send().await;
    assert_eq!(home.status, 200, "{home:?}");
    assert_eq!(world.east.orders().await, 1);
}

async fn a_handler_with_steps_is_not_entered_away_from_home<DB: Tested>() {
    let world = World::<DB>::new().await;
    let key = fresh_key();
    let away = world.west.post("/charges/alice", &key, 0).await;
    away.assert_problem(421, "idempotency-wrong-region");
    world.west.assert_untouched().await;
    let home = world.east.post("/charges/alice", &key, 0).await;
    assert_eq!(home.status, 200, "{home:?}");
    assert_eq!(world.east.orders().await, 2);
}

/// The home moved, and the records have not been copied, or not been deleted: what is here may be old.
async fn a_stored_answer_is_not_replayed_away_from_home<DB: Tested>() {
    let world = World::<DB>::new().await;
    let key = fresh_key();
    assert_eq!(world.east.post("/orders/alice", &key, 0).await.status, 201);
    world.homes.say("alice", Word::At("west"));
    let away = world.east.post("/orders/alice", &key, 0).await;
    away.assert_problem(421, "idempotency-wrong-region");
    assert_eq!(away.json()["region"], "west");
}

async fn a_lookup_that_does_not_answer_lets_nothing_through<DB: Tested>() {
    let world = World::<DB>::new().await;
    for word in [Word::Fails, Word::Panics, Word::Hangs, Word::Moving] {
        world.homes.say("alice", word);
        for path in ["/orders/alice", "/charges/alice", "/keyless/alice"] {
            let key = fresh_key();
            let started = Instant::now();
            let refused = world.east.post(path, &key, 0).await;
            refused.assert_problem(503, "idempotency-region-unavailable");
            assert!(refused.header("retry-after").is_some(), "{refused:?}");
            assert_eq!(refused.json()["retryable"], true);
            assert!(refused.json().get("region").is_none(), "{refused:?}");
            assert!(started.elapsed() < LIMIT * 10, "{word:?}");
            let signal = match word {
                Word::Moving => "wrong_region",
                _ => "store_failure",
            };
            assert_eq!(signals(&key), [signal], "{word:?}");
        }
    }
    // Nobody said anything of carol.
    let unknown = world.east.post("/orders/carol", &fresh_key(), 0).await;
    unknown.assert_problem(503, "idempotency-region-unavailable");
    world.east.assert_untouched().await;

    world.homes.say("alice", Word::At("east"));
    let answered = world.east.post("/orders/alice", &fresh_key(), 0).await;
    assert_eq!(answered.status, 201, "{answered:?}");
}

async fn an_owner_that_no_database_can_store_is_not_looked_up<DB: Tested>() {
    let world = World::<DB>::new().await;
    for path in ["/orders/a%00b", "/keyless/a%00b"] {
        let refused = world.east.post(path, &fresh_key(), 0).await;
        refused.assert_problem(400, "idempotency-scope-invalid");
    }
    world.east.assert_untouched().await;
}

async fn a_region_without_a_name_is_refused_at_start<DB: Tested>() {
    let world = World::<DB>::new().await;
    let pool: Pool<DB> = PoolOptions::new()
        .connect_lazy(world.east.database.url())
        .expect("a URL");
    let built = Idempotency::builder(pool)
        .home_region("", async |_| {
            Ok::<_, std::io::Error>(idem_runtime::region::Home::Moving)
        })
        .build();
    let error = built.expect_err("no account could be at home").to_string();
    assert!(error.contains("home_region"), "{error}");
}

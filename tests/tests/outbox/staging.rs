//! What is staged, and when.

use std::time::{Duration, Instant};

use idem_tests::http::fresh_key;
use idem_tests::wait::{PATIENCE, until};
use serde_json::json;

use crate::office::{Letter, Order, Tested};
use crate::on_each_database;
use crate::publisher::Broker;
use crate::setup::{World, letter, postcard};

on_each_database!(
    a_message_is_published_after_its_commit_and_is_gone,
    a_replayed_request_stages_nothing,
    what_is_rolled_back_is_never_published,
    a_step_stages_with_its_record,
    a_delayed_message_waits_and_holds_nobody_up,
    a_message_that_is_too_large_is_refused_and_the_transaction_goes_on,
    what_cannot_be_carried_is_refused,
    a_message_belongs_to_the_trace_of_its_request,
    delivered_messages_are_kept_for_as_long_as_it_is_said,
);

fn order(letters: Vec<Letter>) -> Order {
    Order {
        letters,
        ..Order::default()
    }
}

async fn a_message_is_published_after_its_commit_and_is_gone<DB: Tested>() {
    let world = World::<DB>::new().await;
    let broker = Broker::that_confirms();
    let ids = world
        .stage(vec![letter("a", 0), letter("a", 1), postcard("users")])
        .await;
    assert_eq!(world.stored().await, 3);
    let relayed = world.relay(&broker).run_once().await.unwrap();
    assert_eq!((relayed.delivered, relayed.failed, relayed.dead), (3, 0, 0));
    let mut published = broker.ids();
    published.sort();
    let mut staged = ids;
    staged.sort();
    assert_eq!(published, staged);
    let first = &broker.has()[0];
    assert_eq!(
        (first.topic.as_str(), first.key.as_deref()),
        ("orders.placed", Some("a"))
    );
    assert_eq!((&first.payload, first.attempt), (&json!({ "n": 0 }), 1));
    assert_eq!(world.stored().await, 0);
}

async fn a_replayed_request_stages_nothing<DB: Tested>() {
    let world = World::<DB>::new().await;
    let (key, order) = (fresh_key(), order(vec![letter("a", 0)]));
    let first = world.request("/letters", &key, &order, &[]).await;
    assert_eq!(first.0, 200, "{first:?}");
    let again = world.request("/letters", &key, &order, &[]).await;
    assert_eq!(again, first);
    assert_eq!(world.stored().await, 1);
}

async fn what_is_rolled_back_is_never_published<DB: Tested>() {
    let world = World::<DB>::new().await;
    let refused = Order {
        refuse: true,
        ..order(vec![letter("a", 0)])
    };
    for path in ["/letters", "/stepped"] {
        let (status, body) = world.request(path, &fresh_key(), &refused, &[]).await;
        assert_eq!(status, 409, "{body}");
    }
    assert_eq!(world.stored().await, 0);
}

async fn a_step_stages_with_its_record<DB: Tested>() {
    let world = World::<DB>::new().await;
    let broker = Broker::that_confirms();
    let order = order(vec![letter("a", 0)]);
    let (status, ids) = world.request("/stepped", "step", &order, &[]).await;
    assert_eq!(status, 200, "{ids}");
    world.relay(&broker).run_once().await.unwrap();
    assert_eq!(json!(broker.ids()), ids);
}

async fn a_delayed_message_waits_and_holds_nobody_up<DB: Tested>() {
    let world = World::<DB>::new().await;
    let broker = Broker::that_confirms();
    let relay = world.relay(&broker).spawn();
    let delay = Duration::from_millis(700);
    let after = |milliseconds, n| Letter {
        delay_ms: Some(milliseconds),
        ..letter("a", n)
    };
    let begun = Instant::now();
    let letters = vec![after(3_600_000, 0), after(700, 1), letter("a", 2)];
    world.stage(letters).await;
    until("two are published", PATIENCE, async || {
        broker.has().len() == 2
    })
    .await;
    relay.stop().await;
    let has = broker.has();
    let of = |n| {
        let found = has.iter().find(|has| has.payload == json!({ "n": n }));
        found.unwrap_or_else(|| panic!("{n} waits for nobody: {has:?}"))
    };
    of(2);
    // The database's clock has whole milliseconds.
    let waited = of(1).at - begun;
    assert!(waited >= delay - Duration::from_millis(2), "{waited:?}");
    // An hour later, as it were.
    assert_eq!(world.stored().await, 1);
    world.database.execute(DB::all_due()).await.unwrap();
    world.relay(&broker).run_once().await.unwrap();
    assert_eq!(broker.has()[2].payload, json!({ "n": 0 }));
}

async fn a_message_that_is_too_large_is_refused_and_the_transaction_goes_on<DB: Tested>() {
    let world = World::<DB>::with(|builder| builder.max_message(1000)).await;
    let of = |length: usize| Letter {
        payload: json!("x".repeat(length - 2)),
        ..letter("a", 0)
    };
    let (status, text) = world.order(&order(vec![of(1001)])).await;
    assert_eq!(status, 422);
    let text = text.as_str().unwrap().to_owned();
    for part in ["1001 bytes", "1000", "max_message", "orders.placed"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(world.order(&order(vec![of(1000)])).await.0, 200);
    assert_eq!(world.stored().await, 1);
}

async fn what_cannot_be_carried_is_refused<DB: Tested>() {
    let world = World::<DB>::new().await;
    let header = |name: &str, value: &str| Letter {
        headers: vec![(name.to_owned(), value.to_owned())],
        ..letter("a", 0)
    };
    for (letter, what) in [
        (postcard(""), "topic is empty"),
        (postcard("a\u{0}b"), "topic has a control character"),
        (postcard(&"t".repeat(256)), "topic is longer"),
        (letter(&"k".repeat(256), 0), "ordering key is longer"),
        (header("two words", "x"), "header has a name"),
        (header("x", "a\r\nb"), "header has a control character"),
    ] {
        let (status, text) = world.order(&order(vec![letter])).await;
        assert_eq!(status, 422, "{what}");
        assert!(text.as_str().unwrap().contains(what), "{what}: {text}");
    }
    assert_eq!(world.stored().await, 0);
}

async fn a_message_belongs_to_the_trace_of_its_request<DB: Tested>() {
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let world = World::<DB>::new().await;
    let broker = Broker::that_confirms();
    let traced = [("traceparent", PARENT), ("tracestate", "a=1")];
    let own = Letter {
        headers: vec![("X-Tenant".to_owned(), "7".to_owned())],
        ..letter("a", 0)
    };
    for (path, headers) in [
        ("/letters", &traced[..]),
        ("/stepped", &traced[..]),
        ("/letters", &[("traceparent", "00-nonsense")][..]),
    ] {
        let order = order(vec![own.clone()]);
        let (status, body) = world.request(path, &fresh_key(), &order, headers).await;
        assert_eq!(status, 200, "{body}");
    }
    world.relay(&broker).run_once().await.unwrap();
    let headers: Vec<_> = broker.has().into_iter().map(|has| has.headers).collect();
    let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let tenant = pair(("X-Tenant", "7"));
    let with = vec![tenant.clone(), pair(traced[0]), pair(traced[1])];
    assert_eq!(headers, [with.clone(), with, vec![tenant]]);
}

async fn delivered_messages_are_kept_for_as_long_as_it_is_said<DB: Tested>() {
    let world = World::<DB>::new().await;
    let broker = Broker::that_confirms();
    world.stage(vec![letter("a", 0), letter("b", 0)]).await;
    let keeping = world
        .relay(&broker)
        .keep_delivered(Duration::from_secs(3600));
    keeping.run_once().await.unwrap();
    let counts = world.idempotency.outbox().counts().await.unwrap();
    assert_eq!((counts.delivered, counts.pending), (2, 0));
    assert_eq!(broker.has().len(), 2);
    // They are not published again, and go when their time is over.
    world.stage(vec![letter("a", 1)]).await;
    world.relay(&broker).run_once().await.unwrap();
    assert_eq!(broker.has().len(), 3);
    assert_eq!(world.stored().await, 0);
}

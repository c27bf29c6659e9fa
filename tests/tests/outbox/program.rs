//! The program `idem` on messages.

use std::process::Stdio;

use idem_runtime::outbox::{MessageState, Messages};
use idem_tests::process::executable;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::office::Tested;
use crate::on_each_database;
use crate::publisher::{Broker, Say};
use crate::setup::{World, letter, postcard};

on_each_database!(
    a_dead_letter_is_found_shown_and_requeued,
    a_message_is_dropped_and_its_decision_is_kept,
    what_is_not_there_is_said,
);

const SIGNED: [&str; 4] = ["--by", "alice", "--why", "ticket 1"];

struct Said {
    code: Option<i32>,
    data: String,
    messages: String,
}

impl Said {
    #[track_caller]
    fn done(&self) -> &str {
        assert_eq!(self.code, Some(0), "{}", self.messages);
        &self.data
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(self.done()).unwrap()
    }
}

async fn idem<DB: Tested>(world: &World<DB>, command: &[&str]) -> Said {
    let output = Command::new(executable("idem"))
        .arg("outbox")
        .args(command)
        .env("DATABASE_URL", world.database.url())
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    Said {
        code: output.status.code(),
        data: String::from_utf8(output.stdout).unwrap(),
        messages: String::from_utf8(output.stderr).unwrap(),
    }
}

/// With a dead letter, and a pending message of its key.
async fn with_dead_letter<DB: Tested>() -> (World<DB>, String) {
    let world = World::<DB>::new().await;
    let ids = world.stage(vec![letter("a", 0)]).await;
    let broker = Broker::new(|_| Say::Reject);
    world.relay(&broker).run_once().await.unwrap();
    world.stage(vec![letter("a", 1), postcard("users")]).await;
    (world, ids[0].clone())
}

async fn a_dead_letter_is_found_shown_and_requeued<DB: Tested>() {
    let (world, id) = with_dead_letter::<DB>().await;
    let listed = idem(&world, &["list", "--state", "dead"]).await;
    let lines: Vec<_> = listed.done().lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[0].starts_with("ID ") && lines[1].starts_with(&id),
        "{lines:?}"
    );
    for part in ["orders.placed", " a ", "dead", "s ago)", "no such exchange"] {
        assert!(lines[1].contains(part), "{part}: {lines:?}");
    }
    let all = idem(&world, &["list", "--json"]).await.json();
    assert_eq!(all.as_array().unwrap().len(), 3);
    let of_a = idem(&world, &["list", "--json", "--key", "a"]).await.json();
    assert_eq!(of_a.as_array().unwrap().len(), 2);
    let of_users = idem(&world, &["list", "--json", "--topic", "users"]).await;
    assert_eq!(of_users.json()[0]["ordering_key"], Value::Null);
    let short = idem(&world, &["list", "--json", "--limit", "1"]).await;
    assert_eq!(short.json().as_array().unwrap().len(), 1);
    assert!(short.messages.contains("more than 1"), "{}", short.messages);
    let shown = idem(&world, &["show", &id]).await;
    for part in [
        "dead",
        "refused: no such exchange",
        "{\"n\":0}",
        "application/json",
    ] {
        assert!(shown.done().contains(part), "{part}: {}", shown.data);
    }
    let detail = idem(&world, &["show", &id, "--json"]).await.json();
    for (name, value) in [
        ("id", json!(id)),
        ("state", json!("dead")),
        ("attempts", json!(1)),
        ("payload", json!("{\"n\":0}")),
        ("size", json!(7)),
        ("headers", json!([])),
        ("audit", json!([])),
    ] {
        assert_eq!(detail[name], value, "{name}: {detail}");
    }
    // To look has changed nothing.
    let counts = world.idempotency.outbox().counts().await.unwrap();
    assert_eq!((counts.dead, counts.pending), (1, 2));
    let requeue = [&["requeue", &id, "--json"][..], &SIGNED].concat();
    let requeued = idem(&world, &requeue).await.json();
    let said = json!({ "id": id, "action": "requeue", "actor": "alice", "reason": "ticket 1" });
    assert_eq!(requeued, said);
    let broker = Broker::that_confirms();
    world.relay(&broker).run_once().await.unwrap();
    assert!(broker.ids().contains(&id));
}

async fn a_message_is_dropped_and_its_decision_is_kept<DB: Tested>() {
    let (world, id) = with_dead_letter::<DB>().await;
    let dropped = idem(&world, &[&["drop", &id][..], &SIGNED].concat()).await;
    dropped.done();
    let dead = Messages::all().state(MessageState::Dead);
    let left = world.idempotency.outbox().list(&dead).await.unwrap();
    assert!(left.is_empty());
    let shown = idem(&world, &["show", &id]).await;
    for part in ["gone", "drop", "alice", "ticket 1", "orders.placed"] {
        assert!(shown.done().contains(part), "{part}: {}", shown.data);
    }
}

async fn what_is_not_there_is_said<DB: Tested>() {
    let world = World::<DB>::new().await;
    let nobody = "018f0000-0000-7000-8000-000000000000";
    for command in [
        vec!["show", nobody],
        [&["requeue", nobody][..], &SIGNED].concat(),
        [&["drop", nobody][..], &SIGNED].concat(),
    ] {
        let said = idem(&world, &command).await;
        assert_eq!(
            (said.code, said.data.as_str()),
            (Some(1), ""),
            "{command:?}"
        );
        assert!(
            said.messages.contains("idem outbox list"),
            "{}",
            said.messages
        );
    }
    let unsigned = idem(&world, &["drop", nobody]).await;
    assert_eq!(unsigned.code, Some(2), "{}", unsigned.messages);
    let malformed = idem(&world, &["show", "17"]).await;
    assert_eq!(malformed.code, Some(2), "{}", malformed.messages);
    let empty = idem(&world, &["list", "--json"]).await;
    assert_eq!(empty.json(), json!([]));
}

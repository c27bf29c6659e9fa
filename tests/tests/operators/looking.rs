//! What operators see, and that seeing changes nothing.

use std::time::Duration;

use idem_runtime::operations::{OperationId, OperationState};
use idem_runtime::steps::Recovered;

use crate::handler::{Tested, Version};
use crate::on_each_database;
use crate::plan::{Answer, End, Plan, Policy};
use crate::setup::World;

on_each_database! {
    looking_leaves_every_row_as_it_was,
    an_operation_is_shown_with_its_steps_and_their_keys,
    steps_that_cannot_be_read_are_unknown_and_shown_as_unreadable,
    an_operation_whose_attempts_die_is_unknown_after_too_many,
}

async fn looking_leaves_every_row_as_it_was<DB: Tested>() {
    let (world, operation) = World::<DB>::with_lost_answer(Duration::from_secs(30)).await;
    world.plan(|plan| plan.end = End::Panics);
    world.charge("bob").await;
    let operations = world.app.idempotency.operations();
    operations
        .resume(operation.seen, "alice", "so that there is an audit")
        .await
        .unwrap();
    let before = world.dump().await;
    assert_eq!(
        before.len(),
        5,
        "two keys, two operations, one decision: {before:?}"
    );

    assert_eq!(world.listed().await.len(), 2);
    operations.inspect(operation.id).await.unwrap().unwrap();
    operations.audit(operation.id).await.unwrap();
    operations.unresolved().await.unwrap();
    let id = operation.id.to_string();
    for arguments in [
        &["list"][..],
        &["list", "--json", "--state", "unknown", "--older-than", "1h"],
        &["show", &id],
        &["show", &id, "--json"],
        &["schema"],
    ] {
        world.idem(arguments).await.done();
    }
    assert_eq!(world.dump().await, before);
}

async fn an_operation_is_shown_with_its_steps_and_their_keys<DB: Tested>() {
    let (world, operation) = World::<DB>::with_lost_answer(Duration::from_secs(30)).await;
    let operations = world.app.idempotency.operations();
    let shown = operations.inspect(operation.id).await.unwrap().unwrap();
    assert_eq!(shown.summary.seen, operation.seen);
    assert_eq!(shown.resources, [("order".to_owned(), "7".to_owned())]);
    let steps: Vec<_> = shown
        .steps
        .iter()
        .map(|step| (step.name.as_str(), step.kind, step.state))
        .collect();
    assert_eq!(
        steps,
        [
            ("reserve", "atomic", "done"),
            ("charge", "external", "begun")
        ]
    );
    let charge = &shown.steps[1];
    assert!(charge.key.is_some() && shown.steps[0].key.is_none());
    assert_eq!(charge.input, Some(serde_json::json!({ "cents": 1250 })));
    let limit = charge.in_flight_until.unwrap() - charge.last_at.unwrap();
    assert_eq!(limit, 60_000, "twice the time-out");
    let none: OperationId = "00".repeat(32).parse().unwrap();
    assert!(operations.inspect(none).await.unwrap().is_none());
}

async fn steps_that_cannot_be_read_are_unknown_and_shown_as_unreadable<DB: Tested>() {
    let world = World::<DB>::new(Plan {
        end: End::Panics,
        ..Plan::default()
    })
    .await;
    world.charge("alice").await;
    let broken = format!("UPDATE idem_operations SET journal = {}", DB::bytes("7b"));
    world.database.execute(&broken).await.unwrap();
    assert_eq!(world.recover(Version::First).await, Recovered::Unknown);
    let operation = world.only().await;
    let reason = operation.reason.unwrap();
    assert!(
        reason.starts_with("the stored steps can't be read: "),
        "{reason}"
    );
    let operations = world.app.idempotency.operations();
    let shown = operations.inspect(operation.id).await.unwrap().unwrap();
    assert!(shown.steps.is_empty());
    assert!(shown.unreadable.is_some());
}

/// As of a handler that takes its process down each time.
async fn an_operation_whose_attempts_die_is_unknown_after_too_many<DB: Tested>() {
    let world = World::<DB>::new(Plan {
        policy: Policy::Honoured(Duration::from_secs(3600)),
        answer: Answer::Charged,
        end: End::Panics,
        ..Plan::default()
    })
    .await;
    world.charge("alice").await;
    assert_eq!(world.only().await.state, OperationState::Started);
    let died = "UPDATE idem_operations SET tries = 2";
    world.database.execute(died).await.unwrap();
    assert_eq!(world.recover(Version::First).await, Recovered::Unknown);
    assert_eq!(
        world.only().await.reason.as_deref(),
        Some("2 attempts did not end it; the last did not say why: its process may have died")
    );
}

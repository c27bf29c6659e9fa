//! What a decision does, and when there is none.

use std::sync::atomic::Ordering;
use std::time::Duration;

use idem_runtime::operations::{Decision, OperationState, OperationsError};
use idem_runtime::steps::Recovered;
use idem_tests::wait::{PATIENCE, until};
use serde_json::json;

use crate::handler::{Tested, Version};
use crate::on_each_database;
use crate::plan::{Answer, End, Plan, Policy};
use crate::setup::World;

on_each_database! {
    a_step_that_took_place_is_said_to_be_done_and_the_handler_goes_on,
    a_step_that_did_not_take_place_is_refused_and_the_handler_is_told,
    an_operation_that_is_resumed_goes_on_from_what_is_recorded,
    a_step_at_most_once_is_not_called_again_for_a_resumption,
    a_decision_about_what_was_seen_before_another_decides_nothing,
    a_request_that_may_still_arrive_is_not_said_to_be_refused,
    an_operation_that_is_started_is_not_decided,
    a_step_that_ended_is_not_said_to_be_done,
    a_result_that_the_handler_cannot_read_is_unknown_again_and_can_be_corrected,
    of_many_decisions_at_once_one_wins,
    a_decision_needs_who_and_why,
}

/// Short enough to wait for, twice.
const SHORT: Duration = Duration::from_millis(100);

fn charged() -> Decision {
    Decision::Done(json!({ "id": "ch_42" }))
}

async fn a_step_that_took_place_is_said_to_be_done_and_the_handler_goes_on<DB: Tested>() {
    let (world, seen) = World::<DB>::with_lost_answer(Duration::from_secs(30)).await;
    assert_eq!(seen.state, OperationState::Unknown);
    assert_eq!(world.number("SELECT count(*) FROM effects").await, 1);
    let operations = world.app.idempotency.operations();
    operations
        .resolve(seen.seen, charged(), "alice", "ticket 1")
        .await
        .unwrap();
    let decided = world.only().await;
    assert_eq!(
        (decided.state, decided.reason),
        (OperationState::Started, None)
    );
    assert_eq!(world.recover(Version::First).await, Recovered::Completed);
    assert_eq!(world.charge("alice").await, 201, "the answer is replayed");
    assert_eq!(world.number("SELECT count(*) FROM effects").await, 2);
    assert_eq!(
        world.provider_calls().load(Ordering::SeqCst),
        1,
        "nothing is called again"
    );
    let audit = operations.audit(seen.id).await.unwrap();
    assert_eq!(audit.len(), 1, "it outlives the operation");
    let entry = &audit[0];
    assert_eq!(
        (
            entry.actor.as_str(),
            entry.action.as_str(),
            entry.reason.as_str()
        ),
        ("alice", "done", "ticket 1")
    );
    let detail = json!({ "step": "charge", "value": { "id": "ch_42" } });
    assert_eq!(entry.detail.as_ref(), Some(&detail));
}

async fn a_step_that_did_not_take_place_is_refused_and_the_handler_is_told<DB: Tested>() {
    let (world, operation) = World::<DB>::with_lost_answer(SHORT).await;
    let operations = world.app.idempotency.operations();
    let refused = || Decision::Refused(json!({ "code": "never arrived" }));
    until("the request can't arrive any more", PATIENCE, async || {
        let decided = operations.resolve(operation.seen, refused(), "alice", "ticket 2");
        match decided.await {
            Ok(()) => true,
            Err(OperationsError::StillInFlight { .. }) => false,
            Err(other) => panic!("{other}"),
        }
    })
    .await;
    assert_eq!(world.recover(Version::First).await, Recovered::Completed);
    assert_eq!(
        world.charge("alice").await,
        402,
        "the handler's own answer to a refusal"
    );
    assert_eq!(
        operations.audit(operation.id).await.unwrap()[0].action,
        "refused"
    );
}

async fn an_operation_that_is_resumed_goes_on_from_what_is_recorded<DB: Tested>() {
    let world = World::<DB>::new(Plan {
        policy: Policy::Asked,
        answer: Answer::Lost,
        ..Plan::default()
    })
    .await;
    assert_eq!(world.charge("alice").await, 409);
    let operation = world.only().await;
    world.plan(|plan| {
        plan.policy = Policy::Honoured(Duration::from_secs(3600));
        plan.answer = Answer::Charged;
    });
    let operations = world.app.idempotency.operations();
    operations
        .resume(
            operation.seen,
            "alice",
            "the provider is asked otherwise now",
        )
        .await
        .unwrap();
    assert_eq!(world.recover(Version::First).await, Recovered::Completed);
    assert_eq!(world.charge("alice").await, 201);
    // The first step was not taken again.
    assert_eq!(
        world
            .number("SELECT count(*) FROM effects WHERE n = 1")
            .await,
        1
    );
}

async fn a_step_at_most_once_is_not_called_again_for_a_resumption<DB: Tested>() {
    let (world, operation) = World::<DB>::with_lost_answer(SHORT).await;
    world.plan(|plan| plan.answer = Answer::Charged);
    let operations = world.app.idempotency.operations();
    operations
        .resume(operation.seen, "alice", "by mistake")
        .await
        .unwrap();
    assert_eq!(world.recover(Version::First).await, Recovered::Unknown);
    assert_eq!(world.only().await.reason, operation.reason);
    assert_eq!(world.provider_calls().load(Ordering::SeqCst), 1);
}

async fn a_decision_about_what_was_seen_before_another_decides_nothing<DB: Tested>() {
    let (world, operation) = World::<DB>::with_lost_answer(SHORT).await;
    let operations = world.app.idempotency.operations();
    operations
        .resume(operation.seen, "alice", "first")
        .await
        .unwrap();
    assert_eq!(world.recover(Version::First).await, Recovered::Unknown);
    let before = world.dump().await;
    let stale = operations
        .resolve(operation.seen, charged(), "bob", "second")
        .await;
    assert!(
        matches!(stale, Err(OperationsError::Changed(id)) if id == operation.id),
        "{stale:?}"
    );
    let stale = operations.resume(operation.seen, "bob", "second").await;
    assert!(
        matches!(stale, Err(OperationsError::Changed(_))),
        "{stale:?}"
    );
    assert_eq!(world.dump().await, before);
}

async fn a_request_that_may_still_arrive_is_not_said_to_be_refused<DB: Tested>() {
    let (world, operation) = World::<DB>::with_lost_answer(Duration::from_secs(30)).await;
    let before = world.dump().await;
    let operations = world.app.idempotency.operations();
    let refused = Decision::Refused(json!({ "code": "too early" }));
    let early = operations.resolve(operation.seen, refused, "alice", "too early");
    let Err(OperationsError::StillInFlight { wait, .. }) = early.await else {
        panic!("its last request may arrive for a minute");
    };
    assert!(
        wait > Duration::from_secs(20) && wait <= Duration::from_secs(60),
        "{wait:?}"
    );
    assert_eq!(world.dump().await, before);
}

async fn an_operation_that_is_started_is_not_decided<DB: Tested>() {
    let world = World::<DB>::new(Plan {
        end: End::Panics,
        ..Plan::default()
    })
    .await;
    world.charge("alice").await;
    let operation = world.only().await;
    assert_eq!(operation.state, OperationState::Started);
    let before = world.dump().await;
    let operations = world.app.idempotency.operations();
    let decided = operations.resolve(operation.seen, charged(), "alice", "why");
    assert!(matches!(decided.await, Err(OperationsError::NotUnknown(_))));
    let decided = operations.resume(operation.seen, "alice", "why").await;
    assert!(matches!(decided, Err(OperationsError::NotUnknown(_))));
    assert_eq!(world.dump().await, before);
}

async fn a_step_that_ended_is_not_said_to_be_done<DB: Tested>() {
    let world = World::<DB>::new(Plan {
        end: End::Panics,
        ..Plan::default()
    })
    .await;
    world.charge("alice").await;
    world.plan(|plan| plan.first = "book");
    assert_eq!(world.recover(Version::First).await, Recovered::Unknown);
    let operation = world.only().await;
    let before = world.dump().await;
    let operations = world.app.idempotency.operations();
    let decided = operations.resolve(operation.seen, charged(), "alice", "why");
    assert!(matches!(
        decided.await,
        Err(OperationsError::NothingBegun(_))
    ));
    assert_eq!(world.dump().await, before);
}

async fn a_result_that_the_handler_cannot_read_is_unknown_again_and_can_be_corrected<DB: Tested>() {
    let (world, operation) = World::<DB>::with_lost_answer(Duration::from_secs(30)).await;
    let operations = world.app.idempotency.operations();
    let wrong = Decision::Done(json!("ch_42"));
    operations
        .resolve(operation.seen, wrong, "alice", "a slip")
        .await
        .unwrap();
    assert_eq!(world.recover(Version::First).await, Recovered::Unknown);
    let again = world.only().await;
    let reason = again.reason.unwrap();
    assert!(
        reason.starts_with(
            "what step `charge` recorded can't be read now: invalid type: string \"ch_42\""
        ),
        "{reason}"
    );
    operations
        .resolve(again.seen, charged(), "alice", "corrected")
        .await
        .unwrap();
    assert_eq!(world.recover(Version::First).await, Recovered::Completed);
    assert_eq!(operations.audit(operation.id).await.unwrap().len(), 2);
}

async fn of_many_decisions_at_once_one_wins<DB: Tested>() {
    let (world, operation) = World::<DB>::with_lost_answer(Duration::from_secs(30)).await;
    let operations = world.app.idempotency.operations();
    let deciding: Vec<_> = (0..6)
        .map(|number| {
            let operations = operations.clone();
            tokio::spawn(async move {
                let value = Decision::Done(json!({ "id": format!("ch_{number}") }));
                let actor = format!("operator {number}");
                operations
                    .resolve(operation.seen, value, &actor, "all at once")
                    .await
            })
        })
        .collect();
    let mut won = 0;
    for decided in deciding {
        match decided.await.unwrap() {
            Ok(()) => won += 1,
            Err(OperationsError::Changed(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(won, 1);
    let audit = operations.audit(operation.id).await.unwrap();
    assert_eq!(audit.len(), 1);
    // What is noted is what was done.
    let shown = operations.inspect(operation.id).await.unwrap().unwrap();
    let value = shown.steps.last().unwrap().value.clone();
    assert_eq!(
        audit[0]
            .detail
            .as_ref()
            .map(|detail| detail["value"].clone()),
        value
    );
}

async fn a_decision_needs_who_and_why<DB: Tested>() {
    let (world, operation) = World::<DB>::with_lost_answer(Duration::from_secs(30)).await;
    let operations = world.app.idempotency.operations();
    for (actor, reason) in [("", "why"), ("alice", " ")] {
        let decided = operations.resolve(operation.seen, charged(), actor, reason);
        assert!(matches!(decided.await, Err(OperationsError::Unsigned)));
        let decided = operations.resume(operation.seen, actor, reason).await;
        assert!(matches!(decided, Err(OperationsError::Unsigned)));
    }
}

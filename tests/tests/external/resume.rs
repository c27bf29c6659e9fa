//! What goes on in another process is checked against what is recorded, and never guessed. In process: two handlers, one
//! before a deploy and one after it, over one database.

mod deployed;
mod passing;
mod shop;

use std::time::Duration;

use idem_runtime::operations::{List, OperationState};
use idem_runtime::steps::Recovered;

use idem_tests::wait::{PATIENCE, until};

use self::deployed::*;
use self::shop::{Answering, Shop};

/// What became of an operation that the first handler left behind, with the reason.
async fn parked(shop: &Shop, recovered: Vec<Recovered>, reason: &str) {
    assert_eq!(recovered, [Recovered::Unknown], "{reason}");
    let listed = shop.idempotency.operations().list(&List::all()).await;
    let listed = listed.expect("the operations are listed");
    let [operation] = listed.as_slice() else {
        panic!("one operation: {listed:?}");
    };
    assert_eq!(operation.state, OperationState::Unknown);
    let said = operation.reason.as_deref().unwrap_or_default();
    assert!(said.contains(reason), "{reason}: {said}");
    // Nobody takes it up again by himself.
    let again = shop.recovery().register(charge).run_once().await;
    assert_eq!(again.expect("the store is there"), []);
    let answer = shop.send(shop.router(charge)).await;
    assert_eq!(answer.0, 409, "{answer:?}");
    assert!(
        answer.1.contains("idempotency-outcome-unknown"),
        "{answer:?}"
    );
}

macro_rules! a_changed_handler {
    ($($case:ident: $handler:ident parks with $reason:literal;)*) => {$(
        #[tokio::test]
        async fn $case() {
            let shop = Shop::open().await;
            shop.left_behind().await;
            let calls = shop.gateway.calls();
            let recovered = shop.recovered(|recovery| recovery.register($handler)).await;
            parked(&shop, recovered, $reason).await;
            assert_eq!(shop.gateway.calls(), calls, "nothing is called on a guess");
        }
    )*};
}

a_changed_handler! {
    a_step_of_another_name_parks: renamed parks with "step 1 was atomic `reserve`, and is atomic `book` now";
    steps_in_another_order_park: reordered parks with "step 1 was atomic `reserve`, and is external `charge` now";
    a_step_that_is_no_longer_taken_parks: shortened parks with "the handler ended before step `charge`";
    another_input_parks: dearer parks with "step `charge` has another input than when it was begun";
    another_definition_parks: redefined parks with "it was begun by definition 1 of its handler, and this is definition 2";
    a_result_that_can_not_be_read_parks: reread parks with "what step `reserve` recorded can't be read now";
    an_argument_that_can_not_be_read_parks: readdressed parks with "the stored arguments can't be used";
    a_step_that_failed_and_goes_through_now_parks: forgiving parks with "step `check` failed before, other steps followed, and it went through now";
}

#[tokio::test]
async fn the_same_handler_goes_on_where_it_was() {
    let shop = Shop::open().await;
    shop.left_behind().await;
    let recovered = shop.recovered(|recovery| recovery.register(charge)).await;
    assert_eq!(recovered, [Recovered::Completed]);
    let answer = shop.send(shop.router(charge)).await;
    assert_eq!(answer, (200, "ch_1".to_owned()));
    assert_eq!(shop.things("reserve").await, 1);
    assert_eq!(shop.things("settle").await, 1);
}

#[tokio::test]
async fn an_operation_without_a_handler_is_reported_and_not_lost() {
    let shop = Shop::open().await;
    shop.left_behind().await;
    until("its next attempt is due", PATIENCE, async || {
        let unresolved = shop.idempotency.operations().unresolved().await;
        unresolved.expect("they are counted").due == 1
    })
    .await;
    let (said, events) = shop::listen();
    let handle = shop
        .recovery()
        .register(unrelated)
        .every(Duration::from_millis(10))
        .spawn();
    until("it is reported", PATIENCE, async || {
        said.contains("no handler is registered for") && said.contains("charges.create")
    })
    .await;
    handle.stop().await;
    drop(events);
    let unresolved = shop.idempotency.operations().unresolved().await;
    assert_eq!(unresolved.expect("they are counted").started, 1);
    let recovered = shop.recovered(|recovery| recovery.register(charge)).await;
    assert_eq!(recovered, [Recovered::Completed]);
}

#[tokio::test]
async fn a_result_that_is_not_read_as_it_was_written_leaves_nothing() {
    let shop = Shop::open().await;
    let answer = shop.send(shop.router(lossy)).await;
    assert_eq!(answer.0, 500, "{answer:?}");
    assert!(
        answer.1.contains("idempotency-step-not-storable"),
        "{answer:?}"
    );
    assert_eq!(shop.things("reserve").await, 0);
    let listed = shop.idempotency.operations().list(&List::all()).await;
    assert!(listed.expect("the operations are listed").is_empty());
}

#[tokio::test]
async fn a_panic_is_tried_again_and_then_kept_as_unknown() {
    let shop = Shop::open().await;
    let answer = shop.send(shop.router(panics)).await;
    assert_eq!(answer.0, 409, "it goes on later: {answer:?}");
    for _ in 1..shop::MAX_ATTEMPTS - 1 {
        let recovered = shop.recovered(|recovery| recovery.register(panics)).await;
        assert_eq!(recovered, [Recovered::Later]);
    }
    let recovered = shop.recovered(|recovery| recovery.register(panics)).await;
    parked(&shop, recovered, "the handler panicked").await;
    assert_eq!(shop.things("reserve").await, 1);
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_tried_again() {
    let shop = Shop::open().await;
    shop.gateway.answers(Answering::Never);
    let answer = shop.send(shop.router(hurried)).await;
    assert_eq!(answer.0, 409, "it goes on later: {answer:?}");
    shop.gateway.answers(Answering::Charged);
    let recovered = shop.recovered(|recovery| recovery.register(hurried)).await;
    assert_eq!(recovered, [Recovered::Completed]);
    assert_eq!(shop.things("reserve").await, 1);
}

#[tokio::test]
async fn a_shutdown_hands_over_and_burns_no_attempt() {
    let shop = Shop::open().await;
    shop.left_behind().await;
    let tries = shop.tries().await;
    shop.gateway.answers(Answering::Never);
    let calls = shop.gateway.calls();
    let handle = shop
        .recovery()
        .register(charge)
        .every(Duration::from_millis(10))
        .spawn();
    until("it is called", PATIENCE, async || {
        shop.gateway.calls() > calls
    })
    .await;
    handle.stop().await;
    assert_eq!(
        shop.tries().await,
        tries,
        "an attempt in order does not count"
    );
    shop.gateway.answers(Answering::Charged);
    let at_once = shop.recovery().register(charge).run_once().await;
    assert_eq!(at_once.expect("the store is there"), [Recovered::Completed]);
}

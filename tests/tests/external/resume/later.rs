//! A service that says *not yet*, and goes on saying so: when it is called again, and what the client is told.

use std::time::Duration;

use idem_runtime::operations::List;
use idem_runtime::steps::Recovered;
use idem_tests::servers::Backend;

use super::deployed::{Tested, Version};
use super::on_each_database;
use super::shop::{Answering, MAX_ATTEMPTS, Shop};

const HOUR: Duration = Duration::from_secs(3600);

/// In how long the one operation is due, in seconds.
async fn due_in<DB: Tested>(shop: &Shop<DB>) -> i64 {
    let listed = shop.idempotency.operations().list(&List::all()).await;
    let listed = listed.expect("the operations are listed");
    let [operation] = listed.as_slice() else {
        panic!("one operation: {listed:?}");
    };
    (operation.due_at.expect("it goes on") - operation.now) / 1000
}

async fn told_to_come_back<DB: Tested>(shop: &Shop<DB>) {
    let (answer, body) = shop.answer(Version::First).await;
    assert_eq!(answer.status, 409, "{body}");
    assert!(body.contains("idempotency-key-in-progress"), "{body}");
    let after = answer.headers.get("retry-after");
    let after = after.and_then(|after| after.to_str().ok()?.parse::<u64>().ok());
    assert!(after.is_some_and(|seconds| seconds > 0), "{answer:?}");
}

/// Of a call of which nothing was heard, the service's *not yet* says nothing: it is called again later, when it wants to be.
async fn called_when_the_service_wants<DB: Tested>(backend: Backend) {
    let shop = Shop::<DB>::open(backend).await;
    shop.left_behind().await;
    shop.gateway.answers(Answering::Busy(Some(HOUR)));
    let calls = shop.gateway.calls();
    assert_eq!(shop.recovered(Version::First).await, [Recovered::Later]);
    assert_eq!(shop.gateway.calls(), calls + 1, "it is asked once");
    let due = due_in(&shop).await;
    assert!((3000..=3600).contains(&due), "due in {due} s");
    told_to_come_back(&shop).await;
    assert_eq!(
        shop.gateway.calls(),
        calls + 1,
        "a client's retry calls nobody"
    );

    shop.gateway.answers(Answering::Charged);
    shop.make_due().await;
    assert_eq!(shop.recovered(Version::First).await, [Recovered::Completed]);
    let answer = shop.send(Version::First).await;
    assert_eq!(answer, (200, "ch_1".to_owned()));
    assert_eq!(shop.things("settle").await, 1);
}

/// One that does not say when is called again after pauses that double, and after too many attempts somebody must look.
async fn called_after_pauses_that_double<DB: Tested>(backend: Backend) {
    let pause = 100;
    let shop = Shop::<DB>::open_with(backend, Duration::from_secs(pause)).await;
    shop.left_behind().await;
    shop.gateway.answers(Answering::Busy(None));
    let mut longest = i64::try_from(pause).expect("a small number");
    for attempt in 1..MAX_ATTEMPTS {
        // From a half of the pause to the whole of it, less what this machine took.
        let due = due_in(&shop).await;
        assert!(
            due <= longest && due > longest / 2 - 40,
            "{attempt}: due in {due} s"
        );
        told_to_come_back(&shop).await;
        shop.make_due().await;
        longest *= 2;
        let expected = if attempt == MAX_ATTEMPTS - 1 {
            Recovered::Unknown
        } else {
            Recovered::Later
        };
        assert_eq!(shop.recovered(Version::First).await, [expected]);
    }
    let reason = "could not be called again";
    shop.assert_parked(&[Recovered::Unknown], reason).await;
}

/// A first call that was refused for the moment, as often as the step says, ends as a refusal. It is recorded, and another run
/// would be told it again: the answer is kept, though the handler's error says that it may pass.
async fn a_refusal_is_the_answer<DB: Tested>(backend: Backend) {
    let shop = Shop::<DB>::open(backend).await;
    shop.gateway.answers(Answering::Busy(None));
    let (answer, body) = shop.answer(Version::Hopeful).await;
    assert_eq!(answer.status, 503, "{body}");
    assert_eq!(answer.headers["retry-after"], "7", "the handler's own");
    assert_eq!(
        shop.gateway.calls(),
        2,
        "once, and once more as it asked for"
    );
    shop.gateway.answers(Answering::Charged);
    let listed = shop.idempotency.operations().list(&List::all()).await;
    assert!(listed.expect("the operations are listed").is_empty());
    let (again, _) = shop.answer(Version::Hopeful).await;
    assert_eq!(again.status, 503);
    assert!(
        again.headers.contains_key("idempotent-replayed"),
        "{again:?}"
    );
    assert_eq!(shop.gateway.calls(), 2);
}

on_each_database! {
    a_service_that_says_not_yet_is_called_when_it_wants: called_when_the_service_wants();
    a_service_that_says_not_yet_is_called_after_pauses_that_double: called_after_pauses_that_double();
    a_service_that_says_not_yet_at_first_refuses_in_the_end: a_refusal_is_the_answer();
}

//! What goes on in another process is checked against what is recorded, and never guessed. In process: two handlers, one
//! before a deploy and one after it, over one database.

mod deployed;
mod later;
mod passing;
mod shop;

use std::time::Duration;

use idem_runtime::operations::List;
use idem_runtime::steps::Recovered;
use idem_tests::servers::Backend;
use idem_tests::wait::{PATIENCE, until};

use self::deployed::{Tested, Version};
use self::shop::{Answering, MAX_ATTEMPTS, Shop};

/// Makes each named case a test on every database, of an `async fn` with the database's type that is given the backend and
/// what follows in parentheses.
macro_rules! on_each_database {
    ($($case:ident: $function:ident($($argument:expr),*);)*) => {
        $crate::resume::on_each_database! { @ postgres sqlx::Postgres, Postgres; $($case: $function($($argument),*);)* }
        $crate::resume::on_each_database! { @ postgres_fewest sqlx::Postgres, PostgresFewest; $($case: $function($($argument),*);)* }
        $crate::resume::on_each_database! { @ sqlite sqlx::Sqlite, Sqlite; $($case: $function($($argument),*);)* }
        $crate::resume::on_each_database! { @ mysql sqlx::MySql, MySql; $($case: $function($($argument),*);)* }
    };
    (@ $module:ident $db:ty, $backend:ident; $($case:ident: $function:ident($($argument:expr),*);)*) => {
        mod $module {
            #[allow(unused_imports, reason = "arguments name what is in scope at the list")]
            use super::*;

            $(
                #[tokio::test]
                async fn $case() {
                    super::$function::<$db>(idem_tests::servers::Backend::$backend $(, $argument)*).await;
                }
            )*
        }
    };
}

pub(crate) use on_each_database;

async fn parks<DB: Tested>(backend: Backend, version: Version, reason: &str) {
    let shop = Shop::<DB>::open(backend).await;
    shop.left_behind().await;
    let calls = shop.gateway.calls();
    let recovered = shop.recovered(version).await;
    shop.assert_parked(&recovered, reason).await;
    assert_eq!(shop.gateway.calls(), calls, "nothing is called on a guess");
}

async fn goes_on<DB: Tested>(backend: Backend) {
    let shop = Shop::<DB>::open(backend).await;
    shop.left_behind().await;
    let recovered = shop.recovered(Version::First).await;
    assert_eq!(recovered, [Recovered::Completed]);
    let answer = shop.send(Version::First).await;
    assert_eq!(answer, (200, "ch_1".to_owned()));
    assert_eq!(shop.things("reserve").await, 1);
    assert_eq!(shop.things("settle").await, 1);
}

async fn is_reported<DB: Tested>(backend: Backend) {
    let shop = Shop::<DB>::open(backend).await;
    shop.left_behind().await;
    until("its next attempt is due", PATIENCE, async || {
        let unresolved = shop.idempotency.operations().unresolved().await;
        unresolved.expect("they are counted").due == 1
    })
    .await;
    let (said, events) = shop::listen();
    let handle = shop
        .recovery(Version::Unrelated)
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
    let recovered = shop.recovered(Version::First).await;
    assert_eq!(recovered, [Recovered::Completed]);
}

async fn leaves_nothing<DB: Tested>(backend: Backend) {
    let shop = Shop::<DB>::open(backend).await;
    let answer = shop.send(Version::Lossy).await;
    assert_eq!(answer.0, 500, "{answer:?}");
    assert!(
        answer.1.contains("idempotency-step-not-storable"),
        "{answer:?}"
    );
    assert_eq!(shop.things("reserve").await, 0);
    let listed = shop.idempotency.operations().list(&List::all()).await;
    assert!(listed.expect("the operations are listed").is_empty());
}

async fn is_tried_again_and_then_parks<DB: Tested>(backend: Backend) {
    let shop = Shop::<DB>::open(backend).await;
    let answer = shop.send(Version::Panics).await;
    assert_eq!(answer.0, 409, "it goes on later: {answer:?}");
    // The pause is short: a worker may come to the next attempt while it looks whether there is one.
    let mut recovered = Vec::new();
    while !recovered.contains(&Recovered::Unknown) {
        recovered.extend(shop.recovered(Version::Panics).await);
    }
    let (later, unknown) = recovered.split_at(MAX_ATTEMPTS as usize - 2);
    assert_eq!(later, [Recovered::Later; MAX_ATTEMPTS as usize - 2]);
    shop.assert_parked(unknown, "the handler panicked").await;
    assert_eq!(shop.things("reserve").await, 1);
}

async fn is_tried_again<DB: Tested>(backend: Backend) {
    let shop = Shop::<DB>::open(backend).await;
    shop.gateway.answers(Answering::Never);
    let answer = shop.send(Version::Hurried).await;
    assert_eq!(answer.0, 409, "it goes on later: {answer:?}");
    shop.gateway.answers(Answering::Charged);
    let recovered = shop.recovered(Version::Hurried).await;
    assert_eq!(recovered, [Recovered::Completed]);
    assert_eq!(shop.things("reserve").await, 1);
}

async fn burns_no_attempt<DB: Tested>(backend: Backend) {
    let shop = Shop::<DB>::open(backend).await;
    shop.left_behind().await;
    let tries = shop.tries().await;
    shop.gateway.answers(Answering::Never);
    let calls = shop.gateway.calls();
    let handle = shop
        .recovery(Version::First)
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
    let at_once = shop.recovery(Version::First).run_once().await;
    assert_eq!(at_once.expect("the store is there"), [Recovered::Completed]);
}

on_each_database! {
    a_step_of_another_name_parks:
        parks(Version::Renamed, "step 1 was atomic `reserve`, and is atomic `book` now");
    steps_in_another_order_park:
        parks(Version::Reordered, "step 1 was atomic `reserve`, and is external `charge` now");
    a_step_that_is_no_longer_taken_parks:
        parks(Version::Shortened, "the handler ended before step `charge`");
    another_input_parks:
        parks(Version::Dearer, "step `charge` has another input than when it was begun");
    another_definition_parks:
        parks(Version::Redefined, "it was begun by definition 1 of its handler, and this is definition 2");
    a_result_that_can_not_be_read_parks:
        parks(Version::Reread, "what step `reserve` recorded can't be read now");
    an_argument_that_can_not_be_read_parks:
        parks(Version::Readdressed, "the stored arguments can't be used");
    a_step_that_failed_and_goes_through_now_parks:
        parks(Version::Forgiving, "step `check` failed before, other steps followed, and it went through now");
    the_same_handler_goes_on_where_it_was: goes_on();
    an_operation_without_a_handler_is_reported_and_not_lost: is_reported();
    a_result_that_is_not_read_as_it_was_written_leaves_nothing: leaves_nothing();
    a_panic_is_tried_again_and_then_kept_as_unknown: is_tried_again_and_then_parks();
    a_handler_that_takes_too_long_is_tried_again: is_tried_again();
    a_shutdown_hands_over_and_burns_no_attempt: burns_no_attempt();
}

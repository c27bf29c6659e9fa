//! Faults that are planted in the runtime, and the cases that they turn red.

use idem_tests::planted::assert_turns_red;
use idem_tests::servers::Backend;

use crate::crash::{Extent, every_crash_point_charges_once};
use crate::late::a_charge_that_is_still_under_way_is_not_made_again;
use crate::setup::Provider;

async fn turns_the_matrix_red(plant: &'static str, backend: Backend, kind: Provider) {
    let case = async || every_crash_point_charges_once(backend, kind, Extent::Whole).await;
    assert_turns_red(plant, "every_crash_point_charges_once", case).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_intent_that_is_committed_later() {
    turns_the_matrix_red("IntentLater", Backend::Postgres, Provider::Neither).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_each_attempt() {
    turns_the_matrix_red("KeyOfAttempt", Backend::MySql, Provider::HonoursKeys).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_that_is_taken_for_none() {
    turns_the_matrix_red("LostIsNothing", Backend::Sqlite, Provider::CanBeAsked).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_absence_that_is_believed_at_once() {
    let case = async || {
        a_charge_that_is_still_under_way_is_not_made_again(Backend::Postgres).await;
    };
    let name = "a_charge_that_is_still_under_way_is_not_made_again";
    assert_turns_red("AbsentBelieved", name, case).await;
}

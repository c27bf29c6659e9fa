//! What one attempt does to its operation.

use std::time::Duration;

use sqlx_core::transaction::TransactionManager;
use tokio::task::JoinSet;

use super::super::super::{Standing, State};
use super::super::{Fence, Filter, OperationRow, Started, Written};
use super::setup::{Engine, LEASE, Place, answer, sample};

on_each_database! {
    of_racing_starts_one_wins,
    a_held_key_shows_its_record,
    a_start_that_is_repeated_does_not_begin_again,
    a_key_past_its_retention_starts_anew,
    a_written_row_is_read_as_it_was_written,
    another_attempts_or_owners_fence_writes_nothing,
    a_parked_operation_lets_no_attempt_write,
    completion_stores_the_answer_and_ends_the_operation,
    an_answer_without_a_lifetime_never_expires,
    a_completion_that_is_rolled_back_leaves_the_operation,
    only_an_operation_without_a_journal_is_released,
    what_is_begun_by_another_connection_is_held_at_once,
}

type Manager<DB> = <DB as sqlx::Database>::TransactionManager;

const WRITTEN: Written<'static> = Written {
    journal: b"journal",
    sealed: true,
    lease: LEASE,
};

async fn of_racing_starts_one_wins<DB: Engine>(place: &Place<DB>) {
    for round in 0..5 {
        let mut racing = JoinSet::new();
        for racer in 0..8 {
            let pool = place.pool.clone();
            racing.spawn(async move {
                let mut wanted = sample(round);
                wanted.owner = [racer; 16];
                let mut connection = pool.acquire().await.expect("a connection");
                wanted.start::<DB>(&mut *connection, LEASE).await
            });
        }
        let found = racing.join_all().await;
        let won = found
            .iter()
            .filter(|found| matches!(found, Started::Won { .. }));
        assert_eq!(won.count(), 1, "{found:?}");
    }
    assert_eq!(
        place.number("SELECT COUNT(*) FROM idem_operations").await,
        5
    );
}

async fn a_held_key_shows_its_record<DB: Engine>(place: &Place<DB>) {
    let first = sample(1);
    place.begin(&first, LEASE).await;
    let mut second = first.clone();
    second.owner = [2; 16];
    let found = second
        .start::<DB>(&mut *place.connection().await, LEASE)
        .await;
    let Started::Held(record) = found else {
        panic!("{found:?}");
    };
    assert_eq!(record.state, State::Started);
    assert_eq!(record.standing, Standing::Live);
    assert_eq!(record.owner, first.owner);
    assert_eq!((record.status, record.expires_at), (0, None));
    assert_eq!(place.row(&first).await.owner, first.owner);
}

async fn a_start_that_is_repeated_does_not_begin_again<DB: Engine>(place: &Place<DB>) {
    let wanted = sample(1);
    place.begin(&wanted, LEASE).await;
    let again = wanted
        .start::<DB>(&mut *place.connection().await, LEASE)
        .await;
    assert!(
        matches!(&again, Started::Held(record) if record.owner == wanted.owner),
        "{again:?}"
    );
    assert_eq!(
        place.number("SELECT COUNT(*) FROM idem_operations").await,
        1
    );
}

async fn a_key_past_its_retention_starts_anew<DB: Engine>(place: &Place<DB>) {
    let first = sample(1);
    let fence = place.begin(&first, LEASE).await;
    complete(place, &fence, Some(Duration::from_secs(60))).await;
    let mut second = first.clone();
    second.owner = [2; 16];
    let mut connection = place.connection().await;
    let found = second.start::<DB>(&mut *connection, LEASE).await;
    assert!(matches!(found, Started::Held(_)), "{found:?}");
    // Past its lifetime and not past its tombstone's.
    age(place, 90).await;
    let found = second.start::<DB>(&mut *connection, LEASE).await;
    assert!(
        matches!(&found, Started::Held(record) if record.standing == Standing::Tombstone),
        "{found:?}"
    );
    age(place, 90).await;
    let found = second.start::<DB>(&mut *connection, LEASE).await;
    assert!(
        matches!(
            found,
            Started::Won {
                took_over: true,
                ..
            }
        ),
        "{found:?}"
    );
    let record = DB::look(&mut *connection, &second.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((record.state, record.status), (State::Started, 0));
    assert_eq!(
        (record.headers, record.body, record.resources),
        (None, None, None)
    );
    assert_eq!((record.expires_at, record.sealed), (None, false));
    assert_eq!(place.row(&second).await.attempt, 1);
}

async fn a_written_row_is_read_as_it_was_written<DB: Engine>(place: &Place<DB>) {
    let wanted = sample(9);
    let mut connection = place.connection().await;
    let started = wanted.start::<DB>(&mut *connection, LEASE).await;
    let Started::Won { now, .. } = started else {
        panic!("{started:?}");
    };
    let row = place.row(&wanted).await;
    assert_eq!((row.id, row.scope.as_str()), (wanted.id, "s5:alice"));
    assert_eq!(row.operation, "charges.create");
    assert_eq!(row.operation_id.into_bytes(), wanted.owner);
    assert_eq!((row.definition, row.attempt, row.tries), (3, 1, 1));
    assert_eq!(
        (row.owner, &row.inputs[..], row.inputs_sealed),
        (wanted.owner, &b"inputs"[..], true)
    );
    assert_eq!((row.journal, row.journal_sealed), (None, false));
    assert_eq!((row.created_at, row.recorded_at), (now, now));
    assert!(
        row.due_at
            .is_some_and(|due| (0..1000).contains(&(due - now - 3_600_000)))
    );
    assert_eq!((row.parked_at, row.reason), (None, None));
    assert!(row.now >= now && row.now - now < 60_000);

    place
        .execute(format!(
            "UPDATE idem_operations SET recorded_at = {}, due_at = {}",
            DB::earlier("recorded_at", 50),
            DB::earlier("due_at", 50)
        ))
        .await;
    assert!(
        DB::record(&mut *connection, None, &wanted.fence(), &WRITTEN)
            .await
            .unwrap()
    );
    let row = place.row(&wanted).await;
    assert_eq!(
        (row.journal.as_deref(), row.journal_sealed),
        (Some(&b"journal"[..]), true)
    );
    assert!(row.recorded_at >= now);
    assert!(row.due_at >= Some(row.recorded_at + 3_600_000));

    assert!(
        DB::renew(&mut *connection, &wanted.fence(), LEASE * 2)
            .await
            .unwrap()
    );
    let renewed = place.row(&wanted).await;
    assert_eq!(renewed.recorded_at, row.recorded_at);
    assert!(renewed.due_at >= Some(now + 7_200_000));
}

async fn another_attempts_or_owners_fence_writes_nothing<DB: Engine>(place: &Place<DB>) {
    let wanted = sample(1);
    let fence = place.begin(&wanted, LEASE).await;
    let other = place.begin(&sample(2), LEASE).await;
    let before = everything(place).await;
    for stale in [
        Fence {
            attempt: 0,
            ..fence
        },
        Fence {
            attempt: 2,
            ..fence
        },
        Fence {
            owner: other.owner,
            ..fence
        },
        Fence {
            id: other.id,
            ..fence
        },
    ] {
        refuses(place, &stale).await;
        assert_eq!(everything(place).await, before, "{stale:?}");
    }
}

async fn a_parked_operation_lets_no_attempt_write<DB: Engine>(place: &Place<DB>) {
    let fence = place.begin(&sample(1), LEASE).await;
    assert!(
        DB::park(&mut *place.connection().await, &fence, "why")
            .await
            .unwrap()
    );
    let before = everything(place).await;
    refuses(place, &fence).await;
    assert_eq!(everything(place).await, before);
}

async fn completion_stores_the_answer_and_ends_the_operation<DB: Engine>(place: &Place<DB>) {
    let wanted = sample(1);
    place.begin(&wanted, Duration::ZERO).await;
    let mut connection = place.connection().await;
    let taken = DB::take_over(&mut *connection, &[wanted.operation], [8; 16], LEASE, 1)
        .await
        .unwrap();
    let fence = Fence {
        id: wanted.id,
        attempt: taken[0].attempt,
        owner: [8; 16],
    };
    assert!(
        DB::record(&mut *connection, None, &fence, &WRITTEN)
            .await
            .unwrap()
    );
    let stored = complete(place, &fence, Some(Duration::from_secs(60))).await;
    assert!(
        DB::inspect(&mut *connection, &wanted.id)
            .await
            .unwrap()
            .is_none()
    );
    let record = DB::look(&mut *connection, &wanted.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((record.state, record.status), (State::Completed, 201));
    assert_eq!(record.owner, [8; 16], "the record is its last attempt's");
    assert_eq!(record.headers.as_deref(), Some(&b"headers"[..]));
    assert_eq!(record.body.as_deref(), Some(&b"body"[..]));
    assert_eq!(
        (record.sealed, record.resources.as_deref()),
        (true, Some("[]"))
    );
    assert_eq!(record.expires_at, stored);
    let lives = stored.unwrap() - taken[0].now;
    assert!((60_000..90_000).contains(&lives), "{lives}");
}

async fn an_answer_without_a_lifetime_never_expires<DB: Engine>(place: &Place<DB>) {
    let fence = place.begin(&sample(1), LEASE).await;
    assert_eq!(complete(place, &fence, None).await, None);
    let left = "SELECT COUNT(*) FROM idem_keys WHERE state = 1 AND retain_until IS NULL";
    assert_eq!(place.number(left).await, 1);
}

async fn a_completion_that_is_rolled_back_leaves_the_operation<DB: Engine>(place: &Place<DB>) {
    let fence = place.begin(&sample(1), LEASE).await;
    let before = everything(place).await;
    let mut connection = place.connection().await;
    Manager::<DB>::begin(&mut *connection, None).await.unwrap();
    let stored = DB::complete_operation(&mut *connection, None, &fence, &answer(Some(LEASE)))
        .await
        .unwrap();
    assert!(stored.is_some());
    Manager::<DB>::rollback(&mut *connection).await.unwrap();
    assert_eq!(everything(place).await, before);
}

async fn only_an_operation_without_a_journal_is_released<DB: Engine>(place: &Place<DB>) {
    let (kept, freed) = (sample(1), sample(2));
    let fence = place.begin(&kept, LEASE).await;
    let mut connection = place.connection().await;
    assert!(
        DB::record(&mut *connection, None, &fence, &WRITTEN)
            .await
            .unwrap()
    );
    let before = everything(place).await;
    assert!(!DB::release(&mut *connection, &fence).await.unwrap());
    assert_eq!(everything(place).await, before);

    let fence = place.begin(&freed, LEASE).await;
    assert!(DB::release(&mut *connection, &fence).await.unwrap());
    assert_eq!(everything(place).await, before);
    place.begin(&freed, LEASE).await;
}

async fn what_is_begun_by_another_connection_is_held_at_once<DB: Engine>(place: &Place<DB>) {
    let wanted = sample(1);
    place.begin(&wanted, LEASE).await;
    let state = "SELECT COUNT(*) FROM idem_keys WHERE state = 0 AND expires_at IS NULL \
                 AND retain_until IS NULL AND status = 0";
    assert_eq!(place.number(state).await, 1);
    let mut connection = place.connection().await;
    let owned = DB::owned(&mut *connection, &wanted.id, &wanted.scope)
        .await
        .unwrap();
    assert_eq!(owned.unwrap().state, State::Started);
    let stranger = crate::scope::ScopeKey::of("bob");
    let hidden = DB::owned(&mut *connection, &wanted.id, &stranger)
        .await
        .unwrap();
    assert!(hidden.is_none(), "{hidden:?}");
}

/// Each of the writes that a fence guards.
async fn refuses<DB: Engine>(place: &Place<DB>, fence: &Fence) {
    let mut connection = place.connection().await;
    assert!(
        !DB::record(&mut *connection, None, fence, &WRITTEN)
            .await
            .unwrap()
    );
    assert!(!DB::renew(&mut *connection, fence, LEASE * 2).await.unwrap());
    assert!(
        !DB::park(&mut *connection, fence, "another why")
            .await
            .unwrap()
    );
    assert!(!DB::release(&mut *connection, fence).await.unwrap());
    assert!(
        !DB::hand_over(&mut *connection, fence, LEASE * 3, true)
            .await
            .unwrap()
    );
    Manager::<DB>::begin(&mut *connection, None).await.unwrap();
    let stored = DB::complete_operation(&mut *connection, None, fence, &answer(None))
        .await
        .unwrap();
    assert!(stored.is_none(), "{stored:?}");
    Manager::<DB>::commit(&mut *connection).await.unwrap();
}

pub(super) async fn complete<DB: Engine>(
    place: &Place<DB>,
    fence: &Fence,
    ttl: Option<Duration>,
) -> Option<i64> {
    let mut connection = place.connection().await;
    Manager::<DB>::begin(&mut *connection, None).await.unwrap();
    let stored = DB::complete_operation(&mut *connection, None, fence, &answer(ttl))
        .await
        .unwrap()
        .expect("the fence holds");
    Manager::<DB>::commit(&mut *connection).await.unwrap();
    stored.expires_at
}

/// Makes every record so many seconds older.
pub(super) async fn age<DB: Engine>(place: &Place<DB>, seconds: u64) {
    place
        .execute(format!(
            "UPDATE idem_keys SET expires_at = {}, retain_until = {}",
            DB::earlier("expires_at", seconds),
            DB::earlier("retain_until", seconds)
        ))
        .await;
}

/// All operations, and the keys' states, without the moment of the look.
pub(super) async fn everything<DB: Engine>(place: &Place<DB>) -> String {
    let mut connection = place.connection().await;
    let all = Filter {
        limit: 100,
        ..Filter::default()
    };
    let mut text = String::new();
    for row in DB::list(&mut *connection, &all).await.unwrap() {
        let key = DB::look(&mut *connection, &row.id).await.unwrap();
        let row = OperationRow { now: 0, ..row };
        text.push_str(&format!(
            "{row:?} {:?}\n",
            key.map(|key| (key.state, key.owner, key.status))
        ));
    }
    text
}

//! What operators see and do, and what outlives whom.

use std::time::Duration;

use super::super::super::State;
use super::super::{Audit, Fence, Filter, Unresolved, Written};
use super::attempts::{age, complete, everything};
use super::setup::{Engine, LEASE, Place, bytes, sample};

on_each_database! {
    a_parked_operation_is_listed_and_not_taken_over,
    what_is_not_resolved_is_counted,
    a_reason_and_a_note_are_stored_whatever_they_say,
    an_alarm_stops_whoever_has_the_operation,
    a_decision_makes_the_operation_due_at_once_and_is_noted,
    a_decision_without_a_journal_leaves_it,
    a_decision_on_an_attempt_that_is_over_changes_nothing,
    lists_are_read_page_by_page,
    lists_are_filtered,
    sweeping_and_erasing_leave_what_is_not_resolved,
    what_operators_did_outlives_the_operation,
}

const AUDIT: Audit<'static> = Audit {
    actor: "carol",
    action: "done",
    reason: "the provider shows it",
    detail: Some("{\"step\":\"charge\"}"),
};

async fn a_parked_operation_is_listed_and_not_taken_over<DB: Engine>(place: &Place<DB>) {
    let wanted = sample(1);
    let fence = place.begin(&wanted, Duration::ZERO).await;
    let mut connection = place.connection().await;
    assert!(
        DB::park(&mut *connection, &fence, "nobody knows")
            .await
            .unwrap()
    );
    let taken = DB::take_over(&mut *connection, &[wanted.operation], [9; 16], LEASE, 9)
        .await
        .unwrap();
    assert!(taken.is_empty(), "{taken:?}");
    let unknown = Filter {
        state: Some(State::Unknown),
        limit: 9,
        ..Filter::default()
    };
    let listed = DB::list(&mut *connection, &unknown).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].id, listed[0].due_at), (wanted.id, None));
    assert_eq!(listed[0].reason.as_deref(), Some("nobody knows"));
    assert!(
        listed[0]
            .parked_at
            .is_some_and(|since| since >= listed[0].created_at && since <= listed[0].now)
    );
    let record = DB::look(&mut *connection, &wanted.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(record.state, State::Unknown);
}

async fn what_is_not_resolved_is_counted<DB: Engine>(place: &Place<DB>) {
    let mut connection = place.connection().await;
    let none = DB::unresolved(&mut *connection).await.unwrap();
    assert_eq!(none, Unresolved::default());
    place.begin(&sample(1), LEASE).await;
    place.begin(&sample(2), Duration::ZERO).await;
    let fence = place.begin(&sample(3), LEASE).await;
    assert!(DB::park(&mut *connection, &fence, "why").await.unwrap());
    let older = DB::earlier("created_at", 500);
    place
        .execute(format!(
            "UPDATE idem_operations SET created_at = {older} WHERE due_at IS NULL"
        ))
        .await;
    let counted = DB::unresolved(&mut *connection).await.unwrap();
    assert_eq!((counted.due, counted.started, counted.unknown), (1, 2, 1));
    assert!((500_000..560_000).contains(&counted.oldest), "{counted:?}");
}

async fn a_reason_and_a_note_are_stored_whatever_they_say<DB: Engine>(place: &Place<DB>) {
    let text = format!("a\0b {}", "ü".repeat(100_000));
    let stored = |text: &str| {
        text.starts_with("a\u{fffd}b ü") && text.ends_with("ü…") && text.chars().count() == 4000
    };
    let wanted = sample(1);
    let fence = place.begin(&wanted, LEASE).await;
    let mut connection = place.connection().await;
    assert!(DB::park(&mut *connection, &fence, &text).await.unwrap());
    let parked = place.row(&wanted).await;
    assert!(parked.reason.as_deref().is_some_and(stored), "{parked:?}");
    assert!(
        DB::alarm(&mut *connection, &wanted.id, &text)
            .await
            .unwrap()
    );
    let row = place.row(&wanted).await;
    assert!(row.reason.as_deref().is_some_and(stored), "{row:?}");
    let audit = Audit {
        actor: &text,
        reason: &text,
        ..AUDIT
    };
    let decided = DB::decide(&mut *connection, &wanted.id, row.attempt, None, &audit).await;
    assert!(decided.unwrap());
    let noted = DB::audit(&mut *connection, &wanted.id).await.unwrap();
    assert!(
        stored(&noted[0].actor) && stored(&noted[0].reason),
        "{noted:?}"
    );
}

async fn an_alarm_stops_whoever_has_the_operation<DB: Engine>(place: &Place<DB>) {
    let wanted = sample(1);
    let fence = place.begin(&wanted, LEASE).await;
    let mut connection = place.connection().await;
    assert!(
        DB::alarm(&mut *connection, &wanted.id, "an effect without a record")
            .await
            .unwrap()
    );
    let row = place.row(&wanted).await;
    assert_eq!((row.attempt, row.due_at), (2, None));
    assert_eq!(row.reason.as_deref(), Some("an effect without a record"));
    assert!(!DB::renew(&mut *connection, &fence, LEASE).await.unwrap());
    // Again, of one that is unknown already: it stays so, since the same moment.
    assert!(
        DB::alarm(&mut *connection, &wanted.id, "another")
            .await
            .unwrap()
    );
    let again = place.row(&wanted).await;
    assert_eq!((again.attempt, again.parked_at), (3, row.parked_at));
    let record = DB::look(&mut *connection, &wanted.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(record.state, State::Unknown);

    let fence = place.begin(&sample(2), LEASE).await;
    complete(place, &fence, None).await;
    assert!(
        !DB::alarm(&mut *connection, &fence.id, "too late")
            .await
            .unwrap()
    );
    let record = DB::look(&mut *connection, &fence.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(record.state, State::Completed);
}

async fn a_decision_makes_the_operation_due_at_once_and_is_noted<DB: Engine>(place: &Place<DB>) {
    let wanted = sample(1);
    let fence = place.begin(&wanted, LEASE).await;
    let mut connection = place.connection().await;
    assert!(DB::park(&mut *connection, &fence, "why").await.unwrap());
    let decided = DB::decide(
        &mut *connection,
        &wanted.id,
        1,
        Some((b"decided", true)),
        &AUDIT,
    )
    .await;
    assert!(decided.unwrap());
    let row = place.row(&wanted).await;
    assert_eq!((row.attempt, row.tries), (2, 0));
    assert_eq!(
        (row.journal.as_deref(), row.journal_sealed),
        (Some(&b"decided"[..]), true)
    );
    assert_eq!((row.parked_at, row.reason), (None, None));
    assert!(row.due_at <= Some(row.now));
    let record = DB::look(&mut *connection, &wanted.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(record.state, State::Started);
    assert!(!DB::renew(&mut *connection, &fence, LEASE).await.unwrap());
    let noted = DB::audit(&mut *connection, &wanted.id).await.unwrap();
    assert_eq!(noted.len(), 1);
    assert_eq!(
        (noted[0].actor.as_str(), noted[0].action.as_str()),
        ("carol", "done")
    );
    assert_eq!(noted[0].reason, "the provider shows it");
    assert_eq!(noted[0].detail.as_deref(), AUDIT.detail);
    assert!(noted[0].at >= row.created_at && noted[0].at <= row.now);
    let taken = DB::take_over(&mut *connection, &[wanted.operation], [9; 16], LEASE, 9)
        .await
        .unwrap();
    assert_eq!((taken.len(), taken[0].attempt, taken[0].tries), (1, 3, 1));
}

async fn a_decision_without_a_journal_leaves_it<DB: Engine>(place: &Place<DB>) {
    let wanted = sample(1);
    let fence = place.begin(&wanted, LEASE).await;
    let mut connection = place.connection().await;
    let written = Written {
        journal: b"journal",
        sealed: true,
        lease: LEASE,
    };
    assert!(
        DB::record(&mut *connection, None, &fence, &written)
            .await
            .unwrap()
    );
    let before = place.row(&wanted).await;
    assert!(
        DB::decide(&mut *connection, &wanted.id, 1, None, &AUDIT)
            .await
            .unwrap()
    );
    let row = place.row(&wanted).await;
    assert_eq!(
        (row.journal, row.journal_sealed),
        (Some(b"journal".to_vec()), true)
    );
    assert_eq!((row.attempt, row.recorded_at), (2, before.recorded_at));
}

async fn a_decision_on_an_attempt_that_is_over_changes_nothing<DB: Engine>(place: &Place<DB>) {
    let wanted = sample(1);
    let fence = place.begin(&wanted, LEASE).await;
    let mut connection = place.connection().await;
    assert!(DB::park(&mut *connection, &fence, "why").await.unwrap());
    let before = everything(place).await;
    for attempt in [0, 2] {
        let decided = DB::decide(
            &mut *connection,
            &wanted.id,
            attempt,
            Some((b"x", false)),
            &AUDIT,
        )
        .await;
        assert!(!decided.unwrap());
    }
    assert_eq!(everything(place).await, before);
    assert!(
        DB::audit(&mut *connection, &wanted.id)
            .await
            .unwrap()
            .is_empty()
    );
}

async fn lists_are_read_page_by_page<DB: Engine>(place: &Place<DB>) {
    for number in [4, 2, 5, 1, 3] {
        place.begin(&sample(number), LEASE).await;
    }
    // One moment for all, so that the id decides; and one that is older.
    place.execute("UPDATE idem_operations SET created_at = (SELECT t.at FROM (SELECT MIN(created_at) AS at FROM idem_operations) t)".to_owned()).await;
    let older = DB::earlier("created_at", 500);
    let last = bytes::<DB>(5);
    place
        .execute(format!(
            "UPDATE idem_operations SET created_at = {older} WHERE owner = {last}"
        ))
        .await;
    let mut connection = place.connection().await;
    let mut filter = Filter {
        limit: 2,
        ..Filter::default()
    };
    let mut read = Vec::new();
    loop {
        let page = DB::list(&mut *connection, &filter).await.unwrap();
        read.extend(page.iter().map(|row| row.id.as_bytes()[0]));
        let Some(last) = page.last() else { break };
        filter.after = Some((last.created_at, last.id));
        assert!(read.len() < 9, "{read:?}");
    }
    assert_eq!(read, [5, 1, 2, 3, 4]);
}

async fn lists_are_filtered<DB: Engine>(place: &Place<DB>) {
    place.begin(&sample(1), LEASE).await;
    let mut other = sample(2);
    other.operation = "refunds.create";
    place.begin(&other, LEASE).await;
    let mut other = sample(3);
    other.scope = crate::scope::ScopeKey::of("bob");
    place.begin(&other, LEASE).await;
    let fence = place.begin(&sample(4), LEASE).await;
    let mut connection = place.connection().await;
    assert!(DB::park(&mut *connection, &fence, "why").await.unwrap());
    let older = DB::earlier("created_at", 500);
    place
        .execute(format!(
            "UPDATE idem_operations SET created_at = {older} WHERE due_at IS NULL"
        ))
        .await;
    let all = Filter {
        limit: 9,
        ..Filter::default()
    };
    for (filter, expected) in [
        (all.clone(), &[4, 1, 2, 3][..]),
        (
            Filter {
                operation: Some("charges.create"),
                ..all.clone()
            },
            &[4, 1, 3],
        ),
        (
            Filter {
                scope: Some("s3:bob"),
                ..all.clone()
            },
            &[3],
        ),
        (
            Filter {
                state: Some(State::Started),
                ..all.clone()
            },
            &[1, 2, 3],
        ),
        (
            Filter {
                state: Some(State::Unknown),
                ..all.clone()
            },
            &[4],
        ),
        (
            Filter {
                state: Some(State::Completed),
                ..all.clone()
            },
            &[],
        ),
        (
            Filter {
                older_than: Duration::from_secs(400),
                ..all.clone()
            },
            &[4],
        ),
        (
            Filter {
                older_than: Duration::from_secs(600),
                ..all.clone()
            },
            &[],
        ),
    ] {
        let found = DB::list(&mut *connection, &filter).await.unwrap();
        let found: Vec<u8> = found.iter().map(|row| row.id.as_bytes()[0]).collect();
        assert_eq!(found, expected, "{filter:?}");
    }
}

async fn sweeping_and_erasing_leave_what_is_not_resolved<DB: Engine>(place: &Place<DB>) {
    place.begin(&sample(1), Duration::ZERO).await;
    let parked = place.begin(&sample(2), LEASE).await;
    let completed = place.begin(&sample(3), LEASE).await;
    let erased = place.begin(&sample(4), LEASE).await;
    let mut connection = place.connection().await;
    assert!(DB::park(&mut *connection, &parked, "why").await.unwrap());
    complete(place, &completed, Some(Duration::from_secs(60))).await;
    age(place, 3600).await;
    complete(place, &erased, Some(LEASE)).await;
    let before = everything(place).await;
    assert_eq!(DB::erase_answers(&mut *connection, 100).await.unwrap(), 0);
    assert_eq!(
        DB::delete_expired(&mut *connection, 100, true)
            .await
            .unwrap(),
        1
    );
    let batch = DB::erase_scope(&mut *connection, &sample(1).scope, None, 100)
        .await
        .unwrap();
    assert_eq!((batch.erased, batch.kept), (1, 2));
    assert_eq!(everything(place).await, before);
    assert_eq!(place.number("SELECT COUNT(*) FROM idem_keys").await, 2);
    assert_eq!(
        place.number("SELECT COUNT(*) FROM idem_operations").await,
        2
    );
}

async fn what_operators_did_outlives_the_operation<DB: Engine>(place: &Place<DB>) {
    let wanted = sample(1);
    place.begin(&wanted, LEASE).await;
    let mut connection = place.connection().await;
    for (attempt, action) in [(1, "resume"), (2, "refused")] {
        let audit = Audit {
            action,
            detail: None,
            ..AUDIT
        };
        assert!(
            DB::decide(&mut *connection, &wanted.id, attempt, None, &audit)
                .await
                .unwrap()
        );
    }
    let fence = Fence {
        attempt: 3,
        ..wanted.fence()
    };
    complete(place, &fence, Some(LEASE)).await;
    DB::erase_scope(&mut *connection, &wanted.scope, None, 100)
        .await
        .unwrap();
    assert_eq!(place.number("SELECT COUNT(*) FROM idem_keys").await, 0);
    let noted = DB::audit(&mut *connection, &wanted.id).await.unwrap();
    let actions: Vec<&str> = noted.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions, ["resume", "refused"]);
    assert!(noted.iter().all(|entry| entry.detail.is_none()));
}

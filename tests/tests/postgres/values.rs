//! What is written as text in the fewest messages must be read as it was.

use idem_tests::servers::{Backend, TestDatabase};
use sqlx::postgres::PgPoolOptions;

use crate::{Set, both};

both! {
    values_of_any_form_are_stored_as_they_are,
    values_are_the_same_where_backslashes_escape,
    a_scope_that_postgres_cannot_hold_is_refused_once_and_for_all,
    answers_of_any_size_are_replayed,
}

/// Percent-encoded, for a path.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

async fn stores_values(set: &Set) {
    let owners = [
        "plain",
        "o'hara",
        "back\\slash",
        "\\'; DROP TABLE things; --",
        "''",
        "\\",
        "E'\\x41'",
        "$1 $$ $q$",
        "a\"b\n\t\r",
        "søren ☃ 𝄞 e\u{301}",
        "\u{1}\u{7f}\u{85}",
    ];
    for (number, owner) in (1..).zip(owners) {
        let path = format!("/things/{}/40", encoded(owner));
        let first = set.post(&path, "k", "").await;
        assert_eq!(
            (first.status, first.replayed),
            (200, false),
            "{owner:?}: {first:?}"
        );
        let replay = set.post(&path, "k", "").await;
        assert_eq!(
            (replay.status, replay.replayed),
            (200, true),
            "{owner:?}: {replay:?}"
        );
        assert_eq!(replay.body, first.body, "{owner:?}");
        assert_eq!(set.things().await, number, "{owner:?}");
        let kept: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM idem_keys WHERE scope LIKE 's%:' || replace($1, '\\', '\\\\') \
                AND resources::jsonb::text LIKE '%' || replace(to_json($1::text)::text, '\\', '\\\\') || '%'",
        )
        .bind(owner)
        .fetch_one(&set.pool)
        .await
        .expect("the database answers");
        assert_eq!(kept, 1, "{owner:?} is kept as it is");
    }
}

async fn values_of_any_form_are_stored_as_they_are(backend: Backend) {
    stores_values(&Set::new(backend).await).await;
}

async fn values_are_the_same_where_backslashes_escape(backend: Backend) {
    let database = TestDatabase::create(backend).await;
    let url = database.url().to_owned();
    let settings = [
        ("standard_conforming_strings", "off"),
        ("bytea_output", "escape"),
    ];
    let set = Set::over(
        database,
        &url,
        PgPoolOptions::new(),
        |options| options.options(settings),
        |builder| builder,
    )
    .await;
    let first = set.post("/things/back%5Cslash/40", "k", "").await;
    assert_eq!(first.status, 200, "{first:?}");
    let replay = set.post("/things/back%5Cslash/40", "k", "").await;
    assert_eq!((replay.replayed, &replay.body), (true, &first.body));
    let kept = "SELECT count(*) FROM idem_keys WHERE scope = 's10:back' || chr(92) || 'slash'";
    assert_eq!(set.database.number(kept).await, 1);
}

async fn a_scope_that_postgres_cannot_hold_is_refused_once_and_for_all(backend: Backend) {
    let set = Set::new(backend).await;
    // Counted past the rollback.
    set.prepare("CREATE SEQUENCE runs").await;
    for _ in 0..2 {
        let refused = set
            .post("/things/nul%00/10", "k", "SELECT nextval('runs')")
            .await;
        refused.assert_problem(400, "idempotency-scope-invalid");
        let ran = "SELECT is_called::int::bigint FROM runs";
        assert_eq!(set.database.number(ran).await, 0, "the handler never runs");
        assert_eq!(set.things().await, 0);
    }
    set.assert_works("another").await;
}

/// About the length up to which headers and body are written as text, and past the wire protocol's usual sizes.
async fn answers_of_any_size_are_replayed(backend: Backend) {
    let set = Set::new(backend).await;
    let near = (16_300..=16_400).step_by(7);
    for length in [0, 1].into_iter().chain(near).chain([65_536, 900_000]) {
        let (path, key) = (format!("/things/alice/{length}"), format!("k{length}"));
        let first = set.post(&path, &key, "").await;
        assert_eq!((first.status, first.body.len()), (200, length));
        let replay = set.post(&path, &key, "").await;
        assert!(replay.replayed && replay.body == first.body, "{length}");
    }
}

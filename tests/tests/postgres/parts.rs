//! A table of keys in parts, as the documentation makes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRef, Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use futures_util::future::join_all;
use idem_runtime::steps::Recovered;
use idem_runtime::{EffectFree, Idempotency, Steps, Tx, idempotent};
use idem_tests::servers::{Backend, TestDatabase};
use idem_tests::wait::{PATIENCE, until};
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgConnection, PgPool, Postgres};

use crate::{App, Set, act, both, things};

both! {
    keys_are_used_once_whatever_part_they_are_in,
    duplicates_at_once_have_one_effect,
    an_expired_key_is_taken_over,
    a_sweep_takes_what_is_over_and_nothing_at_its_place_in_another_part,
    an_erased_answer_is_not_another_parts,
    a_sweep_summarizes_the_parts_indexes_again,
    an_owner_is_erased_from_all_parts,
    an_operation_goes_on_after_its_attempt_has_died,
    a_handler_that_ends_its_transaction_is_found_out,
}

/// The first SQL of the documentation's section.
fn partitioning() -> &'static str {
    let page = include_str!("../../../docs/scaling.md");
    let (_, section) = page
        .split_once("## One table in parts")
        .expect("the page has the section");
    let (_, sql) = section.split_once("```sql\n").expect("it has the SQL");
    sql.split_once("```").expect("the SQL ends").0
}

async fn set(backend: Backend) -> Set {
    let database = TestDatabase::create(backend).await;
    let url = database.url().to_owned();
    let options = PgPoolOptions::new();
    let set = Set::over(
        database,
        &url,
        options,
        |options| options,
        |builder| builder.retry_pause(Duration::from_millis(1)),
    )
    .await;
    // A record that is there already.
    set.assert_works("before").await;
    set.prepare(partitioning()).await;
    // What a later start finds.
    set.idempotency
        .migrate()
        .await
        .expect("there is nothing to do");
    set.idempotency.check().await.expect("all is well");
    let replay = set.post("/things/alice/10", "before", "").await;
    assert!(replay.replayed, "{replay:?}");
    let parts = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'idem_keys'::regclass";
    assert_eq!(set.database.number(parts).await, 8);
    set.prepare("DELETE FROM idem_keys; DELETE FROM things")
        .await;
    set
}

impl Set {
    async fn keys(&self, condition: &str) -> i64 {
        let count = format!("SELECT count(*) FROM idem_keys WHERE {condition}");
        self.database.number(&count).await
    }

    /// First uses of so many keys.
    async fn fill(&self, account: &str, keys: usize) {
        let path = format!("/things/{account}/10");
        for key in 0..keys {
            let answer = self.post(&path, &format!("{account}-{key}"), "").await;
            assert_eq!((answer.status, answer.replayed), (200, false), "{answer:?}");
        }
    }
}

async fn keys_are_used_once_whatever_part_they_are_in(backend: Backend) {
    let set = set(backend).await;
    for key in 0..40 {
        set.assert_works(&format!("k{key}")).await;
    }
    set.post("/things/alice/11", "k1", "")
        .await
        .assert_problem(422, "idempotency-key-reused");
    let used = "SELECT count(DISTINCT tableoid) FROM idem_keys";
    assert!(set.database.number(used).await > 4, "the parts are used");
    assert_eq!((set.things().await, set.keys("true").await), (40, 40));
}

/// In two processes that do not know of each other, too.
async fn duplicates_at_once_have_one_effect(backend: Backend) {
    let set = set(backend).await;
    let mut apps = vec![set.app.clone()];
    // The second takes no locks, so that the unique index alone decides.
    for hints in [true, false] {
        let pool = PgPool::connect(set.database.url())
            .await
            .expect("the database is there");
        let idempotency = Idempotency::builder(pool)
            .round_trips(backend.round_trips())
            .hints(hints)
            .build()
            .expect("the settings make sense");
        let app = Router::new()
            .route("/things/{account}/{length}", post(things))
            .with_state(App { idempotency });
        apps.push(app);
    }
    for round in 1..=40 {
        let key = format!("k{round}");
        let answers = join_all(apps.iter().flat_map(|app| {
            [(); 4].map(|()| Set::post_to(app, "/things/alice/10", &key, "SELECT pg_sleep(0.002)"))
        }))
        .await;
        let first = answers.iter().filter(|answer| !answer.replayed).count();
        assert!(
            answers.iter().all(|answer| answer.status == 200),
            "{answers:?}"
        );
        assert_eq!((first, set.things().await), (1, round), "{answers:?}");
    }
}

async fn an_expired_key_is_taken_over(backend: Backend) {
    let set = set(backend).await;
    for uses in 1..=3 {
        let first = set.post("/things/alice/10", "k", "").await;
        assert_eq!((first.status, first.replayed), (200, false), "{first:?}");
        assert_eq!((set.things().await, set.keys("true").await), (uses, 1));
        set.database.age_keys(Duration::from_secs(100 * 3600)).await;
    }
}

/// Every part has rows at the same places: a sweep that went by the place alone would take those of other parts.
async fn a_sweep_takes_what_is_over_and_nothing_at_its_place_in_another_part(backend: Backend) {
    let set = set(backend).await;
    set.fill("alice", 200).await;
    let over = "hashtext(encode(id, 'hex')) % 3 = 0";
    set.prepare(&format!(
        "UPDATE idem_keys SET expires_at = now() - interval '1 s', retain_until = now() - interval '1 s' WHERE {over}"
    ))
    .await;
    let (all, gone) = (set.keys("true").await, set.keys(over).await);
    assert!(gone > 20, "some are over: {gone}");
    let sweeper = set.idempotency.sweeper().batch(10).pause(Duration::ZERO);
    let swept = sweeper.sweep_once().await.expect("it sweeps");
    assert_eq!(i64::try_from(swept.records), Ok(gone));
    assert_eq!(
        (set.keys(over).await, set.keys("true").await),
        (0, all - gone)
    );
}

async fn an_erased_answer_is_not_another_parts(backend: Backend) {
    let set = set(backend).await;
    set.fill("alice", 200).await;
    let over = "hashtext(encode(id, 'hex')) % 3 = 0";
    set.prepare(&format!(
        "UPDATE idem_keys SET expires_at = now() - interval '1 s' WHERE {over}"
    ))
    .await;
    let gone = set.keys(over).await;
    let sweeper = set.idempotency.sweeper().batch(10).pause(Duration::ZERO);
    let swept = sweeper.sweep_once().await.expect("it sweeps");
    assert_eq!(i64::try_from(swept.answers), Ok(gone));
    assert_eq!(set.keys("body IS NULL").await, gone);
    assert_eq!(set.keys(&format!("body IS NULL AND NOT {over}")).await, 0);
}

/// Else each range of a part would hold the oldest expiry that it ever had, and sweeps would read the whole table.
async fn a_sweep_summarizes_the_parts_indexes_again(backend: Backend) {
    let set = set(backend).await;
    // A vacuum beside it keeps a sweep from summarizing.
    for part in 0..8 {
        set.prepare(&format!(
            "ALTER TABLE idem_keys_{part} SET (autovacuum_enabled = off)"
        ))
        .await;
    }
    let mut connection = set.pool.acquire().await.expect("a connection");
    sqlx::query("SET enable_seqscan = off")
        .execute(&mut *connection)
        .await
        .expect("it is set");
    let mut fills = 0;
    // A snapshot that is as old as the sweep, such as that of a session which begins elsewhere, keeps what it deleted in the index.
    until("no block is read after a sweep", PATIENCE, async || {
        fills += 1;
        set.fill(&format!("alice{fills}"), 100).await;
        set.prepare(
            "UPDATE idem_keys SET expires_at = now() - interval '1 s', retain_until = now() - interval '1 s'; \
             SELECT brin_summarize_new_values(inhrelid) FROM pg_inherits WHERE inhparent = 'idem_keys_expires_at'::regclass",
        )
        .await;
        let before = parts_read(&mut connection).await;
        assert_eq!(before, 8, "parts with blocks that are read");
        let swept = set.idempotency.sweeper().sweep_once().await;
        swept.expect("it sweeps");
        parts_read(&mut connection).await == 0
    })
    .await;
}

/// How many parts have blocks in which expired records may be, as their indexes say.
async fn parts_read(connection: &mut PgConnection) -> usize {
    let plan: Vec<String> = sqlx::query_scalar(
        "EXPLAIN (ANALYZE, COSTS OFF) SELECT ctid FROM idem_keys WHERE expires_at <= now()",
    )
    .fetch_all(connection)
    .await
    .expect("there is a plan");
    let plan = plan.join("\n");
    assert!(plan.contains("Bitmap Index Scan on idem_keys_"), "{plan}");
    plan.matches("lossy=").count()
}

async fn an_owner_is_erased_from_all_parts(backend: Backend) {
    let set = set(backend).await;
    set.fill("alice", 50).await;
    set.fill("bob", 50).await;
    let erased = set.idempotency.erase("alice").await.expect("it is erased");
    assert_eq!((erased.erased, erased.kept), (50, 0));
    assert_eq!(
        (
            set.keys("true").await,
            set.keys("scope LIKE '%alice'").await
        ),
        (50, 0)
    );
}

#[derive(Clone, EffectFree)]
struct Died(#[effect_free(trust = "the first attempt dies")] Arc<AtomicBool>);

#[derive(Clone, FromRef)]
struct Shop {
    idempotency: Idempotency<Postgres>,
    died: Died,
}

#[idempotent(scope = "account", operation = "parts.pay")]
async fn pay(
    steps: &mut Steps<Postgres, StatusCode>,
    Path((account, _)): Path<(String, usize)>,
    State(died): State<Died>,
) -> Result<String, StatusCode> {
    for name in ["one", "two"] {
        steps
            .atomic(name, async |tx: &mut Tx<Postgres>| {
                act(tx, "", 1)
                    .await
                    .map(drop)
                    .map_err(|_| StatusCode::IM_A_TEAPOT)
            })
            .await?;
        assert!(
            died.0.swap(true, Ordering::SeqCst),
            "the first attempt dies"
        );
    }
    Ok(account)
}

async fn an_operation_goes_on_after_its_attempt_has_died(backend: Backend) {
    let mut set = set(backend).await;
    let shop = Shop {
        idempotency: set.idempotency.clone(),
        died: Died(Arc::default()),
    };
    set.app = Router::new()
        .route("/things/{account}/{length}", post(pay))
        .with_state(shop.clone());
    let first = set.post("/things/alice/1", "k", "").await;
    assert_ne!(first.status, 200, "its attempt has died: {first:?}");
    let recovery = set.idempotency.recovery(shop).register(pay);
    until("it is completed", PATIENCE, async || {
        let recovered = recovery.run_once().await.expect("it looks");
        recovered.contains(&Recovered::Completed)
    })
    .await;
    let replay = set.post("/things/alice/1", "k", "").await;
    assert_eq!((replay.status, replay.replayed), (200, true), "{replay:?}");
    assert_eq!((set.things().await, set.keys("state = 1").await), (2, 1));
}

async fn a_handler_that_ends_its_transaction_is_found_out(backend: Backend) {
    let set = set(backend).await;
    let ended = set.post("/things/alice/1", "k", "COMMIT").await;
    ended.assert_problem(500, "idempotency-transaction-ended");
    assert_eq!(set.keys("state = 2").await, 1);
}

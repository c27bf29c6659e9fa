//! The commit fails, or what precedes it does.

use idem_tests::servers::{Backend, TestDatabase};
use idem_tests::wait::{PATIENCE, until};
use sqlx::postgres::PgPoolOptions;

use crate::{Set, both};

both! {
    a_conflict_at_the_commit_runs_the_handler_again_at_each_isolation,
    an_error_of_the_servers_at_the_commit_undoes_everything,
    a_handler_that_drops_prepared_statements_leaves_nothing_behind,
    a_server_that_ends_the_connection_at_the_commit_is_asked_again,
    no_transaction_is_left_open_on_a_connection,
}

/// A trigger that raises an error at the commit, the first time; a sequence counts past rollbacks.
async fn failing_at_commit(set: &Set, raise: &str) {
    let sql = format!(
        "CREATE SEQUENCE commits;
         CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('commits') = 1 THEN {raise}; END IF;
            RETURN NULL;
         END $$;
         CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON things
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail()"
    );
    set.prepare(&sql).await;
}

async fn commits(set: &Set) -> i64 {
    set.database.number("SELECT last_value FROM commits").await
}

async fn a_conflict_at_the_commit_runs_the_handler_again_at_each_isolation(backend: Backend) {
    for isolation in ["read committed", "repeatable read", "serializable"] {
        let database = TestDatabase::create(backend).await;
        let url = database.url().to_owned();
        let set = Set::over(
            database,
            &url,
            PgPoolOptions::new(),
            |options| options.options([("default_transaction_isolation", isolation)]),
            |builder| builder,
        )
        .await;
        for code in ["40001", "40P01"] {
            set.prepare("DROP TABLE things; CREATE TABLE things (n INTEGER); DROP SEQUENCE IF EXISTS commits; DROP FUNCTION IF EXISTS fail").await;
            failing_at_commit(&set, &format!("RAISE EXCEPTION USING ERRCODE = '{code}'")).await;
            let answer = set.post("/things/alice/10", code, "").await;
            assert_eq!(
                (answer.status, answer.replayed),
                (200, false),
                "{isolation}: {answer:?}"
            );
            assert_eq!(
                (set.things().await, commits(&set).await),
                (1, 2),
                "{isolation}"
            );
            assert!(set.post("/things/alice/10", code, "").await.replayed);
        }
    }
}

/// Of class 53, as a full disk is: nobody's fault, and over when the answer comes.
async fn an_error_of_the_servers_at_the_commit_undoes_everything(backend: Backend) {
    let set = Set::new(backend).await;
    failing_at_commit(&set, "RAISE EXCEPTION USING ERRCODE = '53100'").await;
    let answer = set.post("/things/alice/10", "k", "").await;
    if answer.status != 200 {
        answer.assert_problem(503, "idempotency-store-unavailable");
        assert_eq!(set.things().await, 0);
    }
    let again = set.post("/things/alice/10", "k", "").await;
    assert_eq!(again.status, 200);
    assert_eq!((set.things().await, commits(&set).await), (1, 2));
}

/// sqlx's own are gone as well, so that the handler may fail; it must not run five times for it, and the next request must
/// not meet what is left of the connection.
async fn a_handler_that_drops_prepared_statements_leaves_nothing_behind(backend: Backend) {
    let set = Set::with_one_connection(backend).await;
    set.prepare("CREATE SEQUENCE runs").await;
    set.assert_works("warm").await;
    let refused = set
        .post(
            "/things/alice/10",
            "k",
            "SELECT nextval('runs'); DEALLOCATE ALL",
        )
        .await;
    refused.assert_problem(503, "idempotency-store-unavailable");
    assert_eq!(set.things().await, 1, "the first use's alone");
    assert_eq!(set.database.number("SELECT last_value FROM runs").await, 1);
    // The key is free.
    set.assert_works("k").await;
    // An aborted transaction says no more of the connection.
    let released = set
        .post(
            "/things/alice/10",
            "released",
            "DEALLOCATE ALL; SELECT nothing",
        )
        .await;
    assert_eq!(released.status, 418, "{released:?}");
    set.assert_works("after").await;
}

/// A commit that is cut off by the server's own end of the connection: its outcome is read, and not guessed.
async fn a_server_that_ends_the_connection_at_the_commit_is_asked_again(backend: Backend) {
    let set = Set::new(backend).await;
    failing_at_commit(&set, "PERFORM pg_terminate_backend(pg_backend_pid())").await;
    let answer = set.post("/things/alice/10", "k", "").await;
    assert_eq!((answer.status, answer.replayed), (200, false), "{answer:?}");
    assert_eq!((set.things().await, commits(&set).await), (1, 2));
}

async fn no_transaction_is_left_open_on_a_connection(backend: Backend) {
    let set = Set::with_one_connection(backend).await;
    set.prepare("CREATE TABLE own (n INTEGER)").await;
    let statements = [
        "",
        "SELECT 1",
        "SELECT nothing",
        "SAVEPOINT a",
        "COMMIT",
        "ROLLBACK",
    ];
    for (number, statement) in (1..).zip(statements) {
        let key = format!("k{number}");
        let answer = set.post("/things/alice/10", &key, statement).await;
        // Whoever is next commits by himself.
        sqlx::query("INSERT INTO own VALUES (1)")
            .execute(&set.pool)
            .await
            .expect("the connection works");
        let own = set.database.number("SELECT count(*) FROM own").await;
        assert_eq!(own, number, "after {statement:?}: {answer:?}");
        until("the connection is idle", PATIENCE, async || {
            let busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                AND pid <> pg_backend_pid() AND state <> 'idle' AND backend_type = 'client backend'";
            set.database.number(busy).await == 0
        })
        .await;
        set.post("/things/alice/10", &key, statement).await;
    }
}

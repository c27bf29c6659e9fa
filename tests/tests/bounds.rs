//! What is refused, before anything runs or at its end, because no database would keep it or no time is left: the same on every
//! backend.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Router, extract::Path};
use idem_tests::servers::{Backend, TestDatabase};
use serde_json::Value;
use tower::ServiceExt;

/// Status, whether it is a replay, and body.
async fn post(app: &Router, path: &str) -> (u16, bool, String) {
    let request = Request::post(path)
        .header("idempotency-key", "k")
        .body(Body::empty())
        .expect("a valid request");
    let response = app.clone().oneshot(request).await.expect("infallible");
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX)
        .await
        .expect("a whole body");
    let replayed = parts.headers.contains_key("idempotent-replayed");
    let body = String::from_utf8_lossy(&body).into_owned();
    (parts.status.as_u16(), replayed, body)
}

fn assert_problem((status, _, body): &(u16, bool, String), expected: (u16, &str, bool)) {
    let problem: Value = serde_json::from_str(body).expect("a problem");
    let code = problem["code"].as_str().expect("a code");
    let retryable = problem["retryable"].as_bool().expect("it says so");
    assert_eq!((*status, code, retryable), expected, "{body}");
}

#[derive(Debug)]
struct Failed;

impl From<sqlx::Error> for Failed {
    fn from(_: sqlx::Error) -> Self {
        Self
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

macro_rules! backend {
    ($name:ident, $db:ty, $backend:expr) => {
        mod $name {
            use std::time::Duration;

            use axum::routing::post as route;
            use idem_runtime::{Idempotency, IdempotencyBuilder, Replay, Tx, idempotent};
            use sqlx::{Database, Pool};

            use super::*;

            type Connection = <$db as Database>::Connection;

            async fn insert(db: &mut Connection) -> Result<(), Failed> {
                sqlx::query("INSERT INTO things (n) VALUES (1)")
                    .execute(db)
                    .await?;
                Ok(())
            }

            #[idempotent(scope = "account")]
            async fn owned(
                tx: &mut Tx<$db>,
                Path(account): Path<String>,
            ) -> Result<String, Failed> {
                insert(tx).await?;
                Ok(account)
            }

            /// Leaves a reference of so many bytes.
            #[idempotent(scope = "account")]
            async fn referring(
                tx: &mut Tx<$db>,
                Path((account, length)): Path<(String, usize)>,
            ) -> Result<String, Failed> {
                insert(tx).await?;
                tx.resource("thing", "x".repeat(length));
                Ok(account)
            }

            #[idempotent(scope = "account", replay_with = for_ever, timeout = "200ms")]
            async fn slow_to_replay(
                tx: &mut Tx<$db>,
                Path(account): Path<String>,
            ) -> Result<String, Failed> {
                insert(tx).await?;
                Ok(account)
            }

            async fn for_ever(_: &mut Connection, _: &Replay) -> Result<String, Failed> {
                std::future::pending().await
            }

            async fn set(
                configure: impl FnOnce(IdempotencyBuilder<$db>) -> IdempotencyBuilder<$db>,
            ) -> (Router, TestDatabase) {
                let database = TestDatabase::create($backend).await;
                let pool = Pool::<$db>::connect(database.url())
                    .await
                    .expect("the database is there");
                let idempotency =
                    configure(Idempotency::builder(pool).round_trips($backend.round_trips()))
                        .build()
                        .expect("the settings make sense");
                idempotency.migrate().await.expect("the schema is made");
                database
                    .execute("CREATE TABLE things (n INTEGER NOT NULL)")
                    .await
                    .expect("the table is made");
                let app = Router::new()
                    .route("/owned/{account}", route(owned))
                    .route("/referring/{account}/{length}", route(referring))
                    .route("/slow-to-replay/{account}", route(slow_to_replay))
                    .with_state(idempotency);
                (app, database)
            }

            async fn things(database: &TestDatabase) -> i64 {
                database.number("SELECT count(*) FROM things").await
            }

            #[tokio::test]
            async fn an_owner_that_no_database_can_store_is_refused_before_the_handler() {
                let (app, database) = set(|builder| builder).await;
                let long = "a".repeat(1024);
                for owner in ["a%00b", "%00", &long] {
                    let refused = post(&app, &format!("/owned/{owner}")).await;
                    assert_problem(&refused, (400, "idempotency-scope-invalid", false));
                }
                assert_eq!(things(&database).await, 0);
                // With `s1018:` before it, the longest that there is.
                let longest = "a".repeat(1018);
                for replayed in [false, true] {
                    let answer = post(&app, &format!("/owned/{longest}")).await;
                    assert_eq!(answer, (200, replayed, longest.clone()));
                }
                assert_eq!(things(&database).await, 1);
            }

            #[tokio::test]
            async fn references_that_are_too_long_undo_their_handler() {
                let (app, database) = set(|builder| builder).await;
                let refused = post(&app, "/referring/alice/65536").await;
                assert_problem(&refused, (500, "response-not-storable", false));
                assert_eq!(things(&database).await, 0);
                // As `[["thing","x.."]]`.
                let answer = post(&app, "/referring/bob/65521").await;
                assert_eq!(answer, (200, false, "bob".to_owned()));
                let replay = post(&app, "/referring/bob/65521").await;
                assert_eq!(replay, (200, true, "bob".to_owned()));
            }

            #[tokio::test]
            async fn an_answer_that_is_never_built_again_has_the_handlers_time() {
                let (app, database) = set(|builder| builder.max_in_flight(1)).await;
                let first = post(&app, "/slow-to-replay/alice").await;
                assert_eq!(first, (200, false, "alice".to_owned()));
                let replay = || post(&app, "/slow-to-replay/alice");
                let limit = Duration::from_secs(20);
                let late = tokio::time::timeout(limit, replay()).await;
                let late = late.expect("it is given up");
                assert_problem(&late, (503, "idempotency-store-unavailable", true));
                // One at a time, as handlers.
                let (one, other) = tokio::join!(replay(), replay());
                let mut codes = [one, other].map(|answer| {
                    let problem: Value = serde_json::from_str(&answer.2).expect("a problem");
                    problem["code"].as_str().expect("a code").to_owned()
                });
                codes.sort();
                assert_eq!(
                    codes,
                    ["idempotency-overloaded", "idempotency-store-unavailable"]
                );
                assert_eq!(things(&database).await, 1);
                assert_eq!(post(&app, "/owned/bob").await.0, 200, "its place is free");
            }
        }
    };
}

backend!(postgres, sqlx::Postgres, Backend::Postgres);
backend!(postgres_fewest, sqlx::Postgres, Backend::PostgresFewest);
backend!(sqlite, sqlx::Sqlite, Backend::Sqlite);
backend!(mysql, sqlx::MySql, Backend::MySql);

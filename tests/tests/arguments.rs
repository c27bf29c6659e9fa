//! Arguments and settings that the probe's routes do not have, in process, on every backend.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Request, StatusCode};
use axum::{Json, Router};
use idem_runtime::{CipherError, EffectFree, PayloadCipher};
use idem_tests::servers::{Backend, TestDatabase};
use serde_json::Value;
use tower::ServiceExt;

/// Whose key it is: the `authorization` field's text.
#[derive(EffectFree)]
struct Account(String);

impl<S: Send + Sync> FromRequestParts<S> for Account {
    type Rejection = StatusCode;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        let token = parts.headers.get("authorization");
        token
            .and_then(|token| token.to_str().ok())
            .map(|token| Self(token.to_owned()))
            .ok_or(StatusCode::UNAUTHORIZED)
    }
}

/// An answer as a test looks at it.
#[derive(Debug, PartialEq)]
struct Seen {
    status: u16,
    replayed: bool,
    body: String,
}

async fn post(app: &Router, path: &str, key: &str, body: &str) -> Seen {
    let request = Request::post(path)
        .header("authorization", "alice")
        .header("idempotency-key", key)
        .header("content-type", "application/json")
        .body(Body::from(body.to_owned()))
        .expect("a valid request");
    let response = app
        .clone()
        .oneshot(request)
        .await
        .unwrap_or_else(|never| match never {});
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX)
        .await
        .expect("a whole body");
    Seen {
        status: parts.status.as_u16(),
        replayed: parts.headers.contains_key("idempotent-replayed"),
        body: String::from_utf8_lossy(&body).into_owned(),
    }
}

/// Turns each byte over, and puts the context in front, so that a moved answer is found.
#[derive(Debug)]
struct Mirror;

impl PayloadCipher for Mirror {
    fn seal(&self, context: &[u8], plaintext: &[u8]) -> Result<Vec<u8>, CipherError> {
        let sealed = plaintext.iter().map(|byte| !byte);
        Ok(context.iter().copied().chain(sealed).collect())
    }

    fn open(&self, context: &[u8], ciphertext: &[u8]) -> Result<Vec<u8>, CipherError> {
        let sealed = ciphertext
            .strip_prefix(context)
            .ok_or("sealed for another record")?;
        Ok(sealed.iter().map(|byte| !byte).collect())
    }
}

macro_rules! backend {
    ($name:ident, $db:ty, $backend:expr) => {
        mod $name {
            use axum::extract::FromRef;
            use axum::routing::post as route;
            use idem_runtime::{Idempotency, IdempotencyBuilder, Replay, Tx, idempotent};
            use sqlx::{Database, Pool};

            use super::*;

            type Connection = <$db as Database>::Connection;

            #[derive(Clone)]
            struct App(Idempotency<$db>);

            impl FromRef<App> for Idempotency<$db> {
                fn from_ref(app: &App) -> Self {
                    app.0.clone()
                }
            }

            async fn insert(db: &mut Connection) -> Result<(), Failed> {
                sqlx::query("INSERT INTO things (n) VALUES (1)")
                    .execute(db)
                    .await?;
                Ok(())
            }

            #[derive(Debug)]
            struct Failed;

            impl From<sqlx::Error> for Failed {
                fn from(_: sqlx::Error) -> Self {
                    Self
                }
            }

            impl axum::response::IntoResponse for Failed {
                fn into_response(self) -> axum::response::Response {
                    StatusCode::INTERNAL_SERVER_ERROR.into_response()
                }
            }

            static SECRETS: AtomicUsize = AtomicUsize::new(0);

            #[idempotent(scope = "account", replay_with = again)]
            async fn secret(
                tx: &mut Tx<$db>,
                Account(account): Account,
            ) -> Result<(StatusCode, String), Failed> {
                insert(tx).await?;
                tx.resource("thing", 7);
                let number = SECRETS.fetch_add(1, Ordering::SeqCst);
                Ok((StatusCode::CREATED, format!("secret {number} of {account}")))
            }

            async fn again(db: &mut Connection, replay: &Replay) -> Result<String, Failed> {
                let things: i64 = sqlx::query_scalar("SELECT count(*) FROM things")
                    .fetch_one(db)
                    .await?;
                let thing = replay.resource("thing").unwrap_or("none");
                Ok(format!("thing {thing} of {things}"))
            }

            static BARRED: AtomicBool = AtomicBool::new(false);

            #[idempotent(scope = "account", authorize = may)]
            async fn checked(
                tx: &mut Tx<$db>,
                Account(account): Account,
                _: Json<Value>,
            ) -> Result<String, Failed> {
                insert(tx).await?;
                Ok(account)
            }

            async fn may(_: &Account) -> Result<(), StatusCode> {
                if BARRED.load(Ordering::SeqCst) {
                    return Err(StatusCode::FORBIDDEN);
                }
                Ok(())
            }

            #[idempotent(scope = "account", operation = "spaced.one", key_space = "operation")]
            async fn spaced_one(
                tx: &mut Tx<$db>,
                Account(account): Account,
            ) -> Result<String, Failed> {
                insert(tx).await?;
                Ok(account)
            }

            #[idempotent(scope = "account", operation = "spaced.two", key_space = "operation")]
            async fn spaced_two(
                tx: &mut Tx<$db>,
                Account(account): Account,
            ) -> Result<String, Failed> {
                insert(tx).await?;
                Ok(account)
            }

            #[idempotent(scope = "account")]
            async fn plain(
                tx: &mut Tx<$db>,
                Account(account): Account,
                _: Json<Value>,
            ) -> Result<String, Failed> {
                insert(tx).await?;
                Ok(format!("plain answer for {account}"))
            }

            #[idempotent(scope = "account", operation = "plain", fingerprint_ignore = ["/sent_at"])]
            async fn ignoring(
                tx: &mut Tx<$db>,
                Account(account): Account,
                _: Json<Value>,
            ) -> Result<String, Failed> {
                insert(tx).await?;
                Ok(account)
            }

            #[idempotent(scope = "account")]
            async fn in_parts(
                tx: &mut Tx<$db>,
                Account(account): Account,
            ) -> Result<String, Failed> {
                insert(tx).await?;
                let failed = tx
                    .savepoint(async |tx| {
                        insert(tx).await?;
                        Err::<(), Failed>(Failed)
                    })
                    .await;
                assert!(failed.is_err());
                tx.savepoint(async |tx| insert(tx).await).await?;
                Ok(account)
            }

            #[idempotent(scope = "account")]
            async fn cut_off(
                tx: &mut Tx<$db>,
                Account(account): Account,
            ) -> Result<String, Failed> {
                insert(tx).await?;
                let part = tx.savepoint(async |tx| {
                    insert(tx).await?;
                    std::future::pending::<Result<(), Failed>>().await
                });
                let limit = std::time::Duration::from_millis(50);
                let _ = tokio::time::timeout(limit, part).await;
                Ok(account)
            }

            struct Set {
                database: TestDatabase,
                app: Router,
            }

            fn router(idempotency: Idempotency<$db>) -> Router {
                Router::new()
                    .route("/secret", route(secret))
                    .route("/checked", route(checked))
                    .route("/one", route(spaced_one))
                    .route("/two", route(spaced_two))
                    .route("/plain", route(plain))
                    .route("/in-parts", route(in_parts))
                    .route("/cut-off", route(cut_off))
                    .with_state(App(idempotency))
            }

            async fn set(
                configure: impl FnOnce(IdempotencyBuilder<$db>) -> IdempotencyBuilder<$db>,
            ) -> (Set, Pool<$db>) {
                let database = TestDatabase::create($backend).await;
                let pool = Pool::<$db>::connect(database.url())
                    .await
                    .expect("the database is there");
                let idempotency = configure(
                    Idempotency::builder(pool.clone()).round_trips($backend.round_trips()),
                )
                .build()
                .expect("the settings make sense");
                idempotency.migrate().await.expect("the schema is made");
                idempotency.check().await.expect("all is well");
                database
                    .execute("CREATE TABLE things (n INTEGER NOT NULL)")
                    .await
                    .expect("the table is made");
                let app = router(idempotency);
                (Set { database, app }, pool)
            }

            impl Set {
                async fn things(&self) -> i64 {
                    self.database.number("SELECT count(*) FROM things").await
                }
            }

            #[tokio::test]
            async fn replay_with_keeps_no_answer_and_builds_it_again() {
                let (set, _) = set(|builder| builder).await;
                let first = post(&set.app, "/secret", "k", "").await;
                assert_eq!((first.status, first.replayed), (201, false));
                assert!(first.body.starts_with("secret"));
                for _ in 0..2 {
                    let replay = post(&set.app, "/secret", "k", "").await;
                    assert_eq!((replay.status, replay.replayed), (201, true));
                    assert_eq!(replay.body, "thing 7 of 1");
                }
                let kept =
                    "SELECT count(*) FROM idem_keys WHERE body IS NOT NULL OR headers IS NOT NULL";
                assert_eq!(set.database.number(kept).await, 0);
            }

            #[tokio::test]
            async fn authorize_is_asked_on_replays_too() {
                let (set, _) = set(|builder| builder).await;
                assert_eq!(post(&set.app, "/checked", "k", "1").await.status, 200);
                BARRED.store(true, Ordering::SeqCst);
                let barred = post(&set.app, "/checked", "k", "1").await;
                BARRED.store(false, Ordering::SeqCst);
                assert_eq!((barred.status, barred.replayed), (403, false));
                assert!(post(&set.app, "/checked", "k", "1").await.replayed);
                assert_eq!(set.things().await, 1);
            }

            #[tokio::test]
            async fn one_key_serves_several_operations_where_a_team_wants_it() {
                let (set, _) = set(|builder| builder).await;
                assert_eq!(post(&set.app, "/one", "k", "").await.status, 200);
                assert!(!post(&set.app, "/two", "k", "").await.replayed);
                assert!(post(&set.app, "/two", "k", "").await.replayed);
                assert_eq!(set.things().await, 2);
                // Else a key is its owner's, whatever the operation.
                assert_eq!(post(&set.app, "/plain", "l", "1").await.status, 200);
                assert_eq!(post(&set.app, "/checked", "l", "1").await.status, 422);
            }

            #[tokio::test]
            async fn a_cipher_leaves_no_answer_in_clear_text() {
                let (set, pool) = set(|builder| builder.cipher(Mirror)).await;
                let first = post(&set.app, "/plain", "k", "1").await;
                assert_eq!(first.body, "plain answer for alice");
                let replay = post(&set.app, "/plain", "k", "1").await;
                assert!(replay.replayed);
                assert_eq!(replay.body, first.body);
                let sealed: Vec<u8> = sqlx::query_scalar("SELECT body FROM idem_keys")
                    .fetch_one(&pool)
                    .await
                    .expect("one record");
                assert!(!sealed.windows(5).any(|text| text == b"plain"));
                // Another process, that has forgotten the cipher, refuses and runs nothing.
                let without = router(Idempotency::new(pool));
                assert_eq!(post(&without, "/plain", "k", "1").await.status, 503);
                assert_eq!(set.things().await, 1);
            }

            #[tokio::test]
            async fn a_deploy_that_changes_the_ignored_members_turns_no_retry_into_a_mismatch() {
                let (set, pool) = set(|builder| builder).await;
                let before = Router::new()
                    .route("/plain", route(ignoring))
                    .with_state(App(Idempotency::new(pool)));
                let first = post(&before, "/plain", "k", r#"{"a":1,"sent_at":1}"#).await;
                assert_eq!(first.status, 200);
                let retry = post(&set.app, "/plain", "k", r#"{"a":1,"sent_at":2}"#).await;
                assert_eq!((retry.status, retry.replayed), (200, true));
                let other = post(&set.app, "/plain", "k", r#"{"a":2,"sent_at":1}"#).await;
                assert_eq!(other.status, 422);
                assert_eq!(set.things().await, 1);
            }

            #[tokio::test]
            async fn a_savepoint_undoes_its_part_only() {
                let (set, _) = set(|builder| builder).await;
                assert_eq!(post(&set.app, "/in-parts", "k", "").await.status, 200);
                assert_eq!(set.things().await, 2);
            }

            #[tokio::test]
            async fn a_savepoint_that_is_cut_off_undoes_everything() {
                let (set, _) = set(|builder| builder).await;
                let cut = post(&set.app, "/cut-off", "k", "").await;
                assert_eq!(cut.status, 500);
                assert!(
                    cut.body.contains("idempotency-transaction-aborted"),
                    "{cut:?}"
                );
                assert_eq!(set.things().await, 0);
                assert!(!post(&set.app, "/cut-off", "k", "").await.replayed);
            }
        }
    };
}

backend!(postgres, sqlx::Postgres, Backend::Postgres);
backend!(postgres_fewest, sqlx::Postgres, Backend::PostgresFewest);
backend!(sqlite, sqlx::Sqlite, Backend::Sqlite);
backend!(mysql, sqlx::MySql, Backend::MySql);

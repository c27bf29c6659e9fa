//! `tx` derefs to its connection, so that a handler can put another in its place with `mem::swap` and
//! `mem::replace`. No type can forbid it; that the transaction is gone is found before anything is answered.

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRef, Path, State};
use axum::http::{Request, StatusCode};
use axum::routing::post;
use idem_runtime::EffectFree;
use idem_tests::servers::{Backend, TestDatabase};
use tower::ServiceExt;

/// Status and body.
async fn send(app: &Router, path: &str) -> (u16, String) {
    let request = Request::post(path)
        .header("idempotency-key", "\"k\"")
        .body(Body::empty())
        .expect("a request");
    let answer = app.clone().oneshot(request).await.expect("infallible");
    let status = answer.status().as_u16();
    let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
    let body = String::from_utf8_lossy(&body.expect("a body")).into_owned();
    (status, body)
}

/// Where the database is: text, from which a handler can make a connection that no check knows.
#[derive(Clone, EffectFree)]
struct Url(String);

macro_rules! backend {
    ($name:ident, $db:ty, $backend:expr) => {
        mod $name {
            use std::mem;

            use idem_runtime::{Idempotency, Tx, idempotent};
            use sqlx::pool::PoolOptions;
            use sqlx::{Connection as _, Database, Pool};

            use super::*;

            type Connection = <$db as Database>::Connection;

            #[derive(Clone, FromRef)]
            struct App {
                idempotency: Idempotency<$db>,
                pool: Smuggled,
                url: Url,
            }

            #[derive(Clone, EffectFree)]
            struct Smuggled {
                #[effect_free(trust = "the fault that is planted here")]
                pool: Pool<$db>,
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
                    StatusCode::UNPROCESSABLE_ENTITY.into_response()
                }
            }

            async fn insert(db: &mut Connection) -> Result<(), Failed> {
                sqlx::query("INSERT INTO things (n) VALUES (1)")
                    .execute(db)
                    .await?;
                Ok(())
            }

            #[idempotent(scope = "account")]
            #[allow(
                clippy::disallowed_methods,
                reason = "what these handlers do wrong is tested"
            )]
            async fn replaced(
                tx: &mut Tx<$db>,
                Path(account): Path<u64>,
                State(Url(url)): State<Url>,
            ) -> Result<String, Failed> {
                let other = Connection::connect(&url).await?;
                drop(mem::replace(&mut **tx, other));
                insert(tx).await?;
                Ok(format!("a thing of {account}"))
            }

            #[idempotent(scope = "account")]
            #[allow(
                clippy::disallowed_methods,
                reason = "what these handlers do wrong is tested"
            )]
            async fn replaced_and_failed(
                tx: &mut Tx<$db>,
                Path(account): Path<u64>,
                State(Url(url)): State<Url>,
            ) -> Result<String, Failed> {
                let _ = account;
                let other = Connection::connect(&url).await?;
                drop(mem::replace(&mut **tx, other));
                insert(tx).await?;
                Err(Failed)
            }

            #[idempotent(scope = "account")]
            #[allow(
                clippy::disallowed_methods,
                reason = "what these handlers do wrong is tested"
            )]
            async fn swapped(
                tx: &mut Tx<$db>,
                Path(account): Path<u64>,
                State(Url(url)): State<Url>,
            ) -> Result<String, Failed> {
                insert(tx).await?;
                let mut other = Connection::connect(&url).await?;
                mem::swap(&mut **tx, &mut other);
                Ok(format!("nothing of {account}"))
            }

            #[idempotent(scope = "account")]
            #[allow(
                clippy::disallowed_methods,
                reason = "what these handlers do wrong is tested"
            )]
            async fn swapped_with_the_pool(
                tx: &mut Tx<$db>,
                Path(account): Path<u64>,
                State(Smuggled { pool }): State<Smuggled>,
            ) -> Result<String, Failed> {
                insert(tx).await?;
                let mut other = pool.acquire().await?;
                mem::swap(&mut **tx, &mut *other);
                mem::swap(&mut **tx, &mut *other);
                Ok(format!("a thing of {account}"))
            }

            async fn set() -> (TestDatabase, Router) {
                let database = TestDatabase::create($backend).await;
                let pool = idem_runtime::guard(PoolOptions::<$db>::new())
                    .connect(database.url())
                    .await
                    .expect("the database is there");
                let idempotency = Idempotency::builder(pool.clone())
                    .round_trips($backend.round_trips())
                    .build()
                    .expect("the settings make sense");
                idempotency.migrate().await.expect("the schema is made");
                idempotency.check().await.expect("all is well");
                database
                    .execute("CREATE TABLE things (n INTEGER NOT NULL)")
                    .await
                    .expect("the table is made");
                let app = Router::new()
                    .route("/replaced/{account}", post(replaced))
                    .route("/failed/{account}", post(replaced_and_failed))
                    .route("/swapped/{account}", post(swapped))
                    .route("/pool/{account}", post(swapped_with_the_pool))
                    .with_state(App {
                        idempotency,
                        pool: Smuggled { pool },
                        url: Url(database.url().to_owned()),
                    });
                (database, app)
            }

            async fn things(database: &TestDatabase) -> i64 {
                database.number("SELECT count(*) FROM things").await
            }

            async fn runs_once_and_parks(path: &str, code: &str, effects: i64) {
                let (database, app) = set().await;
                let (status, body) = send(&app, path).await;
                assert_eq!(status, 500, "{body}");
                assert!(body.contains(code), "{body}");
                assert_eq!(things(&database).await, effects);
                // what is durable is not known, so that the key never runs again
                let (status, body) = send(&app, path).await;
                assert_eq!(status, 409, "{body}");
                assert!(body.contains("idempotency-outcome-unknown"), "{body}");
                assert_eq!(things(&database).await, effects);
            }

            #[tokio::test]
            async fn a_connection_in_place_of_the_transactions_is_found() {
                runs_once_and_parks("/replaced/7", "idempotency-transaction-ended", 1).await;
            }

            #[tokio::test]
            async fn a_connection_in_place_of_the_transactions_is_found_after_an_error() {
                runs_once_and_parks("/failed/7", "idempotency-transaction-ended", 1).await;
            }

            #[tokio::test]
            async fn a_swapped_connection_is_found_and_nothing_is_durable() {
                let (database, app) = set().await;
                let (status, body) = send(&app, "/swapped/7").await;
                assert_eq!(status, 500, "{body}");
                assert_eq!(things(&database).await, 0);
            }

            #[tokio::test]
            async fn a_connection_of_the_guarded_pool_is_found_though_it_was_put_back() {
                let code = "idempotency-effect-outside-transaction";
                runs_once_and_parks("/pool/7", code, 0).await;
            }
        }
    };
}

backend!(postgres, sqlx::Postgres, Backend::Postgres);
backend!(postgres_fewest, sqlx::Postgres, Backend::PostgresFewest);
backend!(sqlite, sqlx::Sqlite, Backend::Sqlite);
backend!(mysql, sqlx::MySql, Backend::MySql);

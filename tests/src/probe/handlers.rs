//! The annotated handlers, written once and made for each database: a handler names its own.

/// Makes a module `$name` with every handler over the database `$db`, and its `run`.
macro_rules! over {
    ($name:ident, $db:ty) => {
        pub(crate) mod $name {
            use axum::Json;
            use axum::Router;
            use axum::body::Bytes;
            use axum::extract::Path;
            use axum::http::StatusCode;
            use axum::response::Response;
            use axum::routing::post;
            use idem_runtime::{Tx, idempotent};
            use serde_json::Value;

            use crate::probe::account::Account;
            use crate::probe::ask::Ask;
            use crate::probe::business::act;
            use crate::probe::config::Config;
            use crate::probe::failure::{Declared, Failure};
            use crate::probe::state::App;
            use crate::probe::typed::Validated;

            async fn write(
                tx: &mut Tx<$db>,
                account: &Account,
                ask: &Ask,
                body: &[u8],
            ) -> Result<Response, Failure> {
                let id = act::<$db>(&mut *tx, &account.0, ask, body).await?;
                Ok(ask.shape.answer(id, ask.status))
            }

            #[idempotent(scope = "account", ttl = "48h")]
            async fn effects(
                tx: &mut Tx<$db>,
                account: Account,
                ask: Ask,
                Json(body): Json<Value>,
            ) -> Result<Response, Failure> {
                write(tx, &account, &ask, body.to_string().as_bytes()).await
            }

            #[idempotent(scope = "account", ttl = "48h")]
            async fn effects_by_id(
                tx: &mut Tx<$db>,
                account: Account,
                ask: Ask,
                Path(id): Path<String>,
                Json(body): Json<Value>,
            ) -> Result<Response, Failure> {
                let body = format!("{id}:{body}");
                write(tx, &account, &ask, body.as_bytes()).await
            }

            #[idempotent(scope = "account", ttl = "2s")]
            async fn short(
                tx: &mut Tx<$db>,
                account: Account,
                ask: Ask,
                Json(body): Json<Value>,
            ) -> Result<Response, Failure> {
                write(tx, &account, &ask, body.to_string().as_bytes()).await
            }

            #[idempotent(scope = "account", ttl = "2s", expired = "reject")]
            async fn tombstone(
                tx: &mut Tx<$db>,
                account: Account,
                ask: Ask,
                Json(body): Json<Value>,
            ) -> Result<Response, Failure> {
                write(tx, &account, &ask, body.to_string().as_bytes()).await
            }

            #[idempotent(scope = "account", in_flight = "reject")]
            async fn strict(
                tx: &mut Tx<$db>,
                account: Account,
                ask: Ask,
                Json(body): Json<Value>,
            ) -> Result<Response, Failure> {
                write(tx, &account, &ask, body.to_string().as_bytes()).await
            }

            #[idempotent(scope = "account", errors = "store")]
            async fn stored_errors(
                tx: &mut Tx<$db>,
                account: Account,
                ask: Ask,
                Json(body): Json<Value>,
            ) -> Result<Response, Failure> {
                write(tx, &account, &ask, body.to_string().as_bytes()).await
            }

            #[idempotent(scope = "account", max_body = "1MiB")]
            async fn upload(
                tx: &mut Tx<$db>,
                account: Account,
                ask: Ask,
                body: Bytes,
            ) -> Result<Response, Failure> {
                let length = format!("{} bytes", body.len());
                write(tx, &account, &ask, length.as_bytes()).await
            }

            #[idempotent(scope = "account")]
            async fn typed(
                tx: &mut Tx<$db>,
                account: Account,
                ask: Ask,
                Validated(body): Validated,
            ) -> Result<Response, Failure> {
                write(tx, &account, &ask, body.n.to_string().as_bytes()).await
            }

            #[idempotent(scope = "account", key = "optional")]
            async fn optional(
                tx: &mut Tx<$db>,
                account: Account,
                ask: Ask,
                Json(body): Json<Value>,
            ) -> Result<Response, Failure> {
                write(tx, &account, &ask, body.to_string().as_bytes()).await
            }

            #[idempotent(scope = "account", timeout = "1s")]
            async fn timeout(
                tx: &mut Tx<$db>,
                account: Account,
                ask: Ask,
                Json(body): Json<Value>,
            ) -> Result<Response, Failure> {
                write(tx, &account, &ask, body.to_string().as_bytes()).await
            }

            #[idempotent(scope = "account")]
            async fn disposition(
                tx: &mut Tx<$db>,
                account: Account,
                ask: Ask,
                Json(body): Json<Value>,
            ) -> Result<Response, Declared> {
                Ok(write(tx, &account, &ask, body.to_string().as_bytes()).await?)
            }

            #[idempotent(scope = "account", fingerprint_headers = ["x-api-version"])]
            async fn fingerprint_header(
                tx: &mut Tx<$db>,
                account: Account,
                ask: Ask,
                Json(body): Json<Value>,
            ) -> Result<Response, Failure> {
                write(tx, &account, &ask, body.to_string().as_bytes()).await
            }

            #[idempotent(scope = "account", fingerprint_ignore = ["/sent_at", "?utm_source"])]
            async fn ignore(
                tx: &mut Tx<$db>,
                account: Account,
                ask: Ask,
                Json(body): Json<Value>,
            ) -> Result<Response, Failure> {
                write(tx, &account, &ask, body.to_string().as_bytes()).await
            }

            pub(crate) async fn run(config: Config) -> Result<(), Box<dyn std::error::Error>> {
                let handlers = Router::<App<$db>>::new()
                    .route("/effects", post(effects))
                    .route("/effects/{id}", post(effects_by_id))
                    .route("/short", post(short))
                    .route("/tombstone", post(tombstone))
                    .route("/strict", post(strict))
                    .route("/stored-errors", post(stored_errors))
                    .route("/upload", post(upload))
                    .route("/typed", post(typed))
                    .route("/optional", post(optional))
                    .route("/timeout", post(timeout))
                    .route("/disposition", post(disposition))
                    .route("/fingerprint-header", post(fingerprint_header))
                    .route("/ignore", post(ignore))
                    // The operation of several steps is not there yet.
                    .route("/charges", post(async || StatusCode::NOT_IMPLEMENTED));
                let app = App::<$db>::new(&config).await?;
                app.serve(handlers, &config.address).await
            }
        }
    };
}

pub(crate) use over;

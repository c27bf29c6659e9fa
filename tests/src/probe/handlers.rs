//! The annotated handlers, written once and made for each database: a handler names its own.

/// Makes a module `$name` with every handler over the database `$db`, and its `run`.
macro_rules! over {
    ($name:ident, $db:ty) => {
        pub(crate) mod $name {
            use axum::Json;
            use axum::Router;
            use axum::body::Bytes;
            use axum::extract::{Path, State};
            use axum::response::{IntoResponse, Response};
            use axum::routing::post;
            use idem_runtime::{External, Steps, Tx, idempotent};
            use serde_json::{Value, json};

            use crate::probe::account::Account;
            use crate::probe::ask::Ask;
            use crate::probe::business::act;
            use crate::probe::charge::{ChargeAsk, ChargePolicy, charge};
            use crate::probe::config::Config;
            use crate::probe::failure::{Declared, Failure};
            use crate::probe::gateway::Gateway;
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

            #[idempotent(scope = "account", ttl = "1h")]
            async fn short(
                tx: &mut Tx<$db>,
                account: Account,
                ask: Ask,
                Json(body): Json<Value>,
            ) -> Result<Response, Failure> {
                write(tx, &account, &ask, body.to_string().as_bytes()).await
            }

            #[idempotent(scope = "account", ttl = "1h", expired = "reject")]
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

            #[idempotent(scope = "account", operation = "charges.create")]
            async fn charges(
                steps: &mut Steps<$db, Failure>,
                account: Account,
                ask: ChargeAsk,
                State(gateway): State<External<Gateway>>,
                State(policy): State<ChargePolicy>,
                Json(body): Json<Value>,
            ) -> Result<Response, Failure> {
                let sent = body.to_string();
                let reserved = steps
                    .atomic("reserve", async |tx| {
                        ask.write::<$db>(&mut *tx, &account.0, "/charges", &sent).await
                    })
                    .await?;
                let charge = charge(steps, &gateway, &policy, ask.order(&body)).await?;
                let settled = steps
                    .atomic("settle", async |tx| {
                        ask.act().await?;
                        let path = "/charges/settled";
                        ask.write::<$db>(&mut *tx, &account.0, path, &charge.id).await
                    })
                    .await?;
                let answer = json!({ "reserved": reserved, "charge": charge.id, "settled": settled });
                Ok((ask.status(), Json(answer)).into_response())
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
                    .route("/charges", post(charges));
                let app = App::<$db>::new(&config).await?;
                let recovery = config
                    .recovery
                    .map(|every| app.recovery().register(charges).every(every).spawn());
                app.serve(handlers, recovery, &config.address).await
            }
        }
    };
}

pub(crate) use over;

//! The handler that every contender has: it inserts an order.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use idem_runtime::EffectFree;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

/// The business table.
pub(crate) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account text NOT NULL,
        item text NOT NULL, quantity int NOT NULL);
    CREATE INDEX IF NOT EXISTS orders_item ON orders (item)";

/// Who calls.
#[derive(Clone, EffectFree)]
pub(crate) struct Account(pub(crate) String);

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

#[derive(Deserialize)]
pub(crate) struct NewOrder {
    pub(crate) item: String,
    pub(crate) quantity: i32,
}

#[derive(Serialize)]
pub(crate) struct Order {
    id: i64,
    item: String,
    quantity: i32,
}

/// What went wrong, answered 500.
#[derive(Debug)]
pub(crate) struct Failed(String);

impl<E: std::error::Error> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, self.0).into_response()
    }
}

/// The effect.
pub(crate) async fn insert_order(
    db: &mut PgConnection,
    account: &str,
    new: NewOrder,
) -> sqlx::Result<Order> {
    let id = sqlx::query_scalar(
        "INSERT INTO orders (account, item, quantity) VALUES ($1, $2, $3) RETURNING id",
    )
    .bind(account)
    .bind(&new.item)
    .bind(new.quantity)
    .fetch_one(db)
    .await?;
    Ok(Order {
        id,
        item: new.item,
        quantity: new.quantity,
    })
}

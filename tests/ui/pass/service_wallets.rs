//! Handlers as payment services write them: decimal amounts, dates, currencies, webhooks of a provider, and files.
#![deny(warnings)]
#![allow(dead_code)]

#[path = "../support.rs"]
mod support;
use support::{Account, EffectFree, FromRef, Idempotency, IntoResponse, Response, Router, Sqlite, SqliteConnection, StatusCode, Tx, idempotent, post};

use axum::{Form, Json};
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use chrono::{DateTime, NaiveDate, Utc};
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Clone, FromRef)]
struct AppState {
    idempotency: Idempotency<Sqlite>,
    limits: Limits,
    keys: SigningKeys,
}

/// What a day allows.
#[derive(Clone, EffectFree)]
struct Limits {
    daily: Decimal,
    holidays: Vec<NaiveDate>,
    since: DateTime<Utc>,
}

mod wallets {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
    #[serde(rename_all = "UPPERCASE")]
    pub enum Currency {
        Eur,
        Usd,
    }

    #[derive(Clone, Copy, Debug, Deserialize, Serialize)]
    pub struct Money {
        pub amount: Decimal,
        pub currency: Currency,
    }

    #[derive(Deserialize)]
    pub struct Transfer {
        pub from: Uuid,
        pub to: Uuid,
        #[serde(flatten)]
        pub money: Money,
        pub booked: Option<NaiveDate>,
    }

    #[derive(Serialize)]
    pub struct Receipt {
        id: Uuid,
        money: Money,
        booked: NaiveDate,
        at: DateTime<Utc>,
    }

    #[derive(Debug, thiserror::Error)]
    pub enum TransferError {
        #[error("an amount is more than zero")]
        Amount,
        #[error("over the daily limit of {0}")]
        Limit(Decimal),
        #[error("{0} is a holiday")]
        Holiday(NaiveDate),
        #[error("insufficient funds")]
        Funds,
        #[error("database")]
        Database(#[from] sqlx::Error),
    }

    impl IntoResponse for TransferError {
        fn into_response(self) -> Response {
            let status = match &self {
                Self::Amount | Self::Holiday(_) => StatusCode::UNPROCESSABLE_ENTITY,
                Self::Limit(_) | Self::Funds => StatusCode::CONFLICT,
                Self::Database(_) => StatusCode::INTERNAL_SERVER_ERROR,
            };
            (status, Json(serde_json::json!({ "error": self.to_string() }))).into_response()
        }
    }

    impl Limits {
        fn check(&self, amount: Decimal, booked: NaiveDate) -> Result<(), TransferError> {
            if amount <= Decimal::ZERO {
                return Err(TransferError::Amount);
            }
            if amount > self.daily {
                return Err(TransferError::Limit(self.daily));
            }
            match self.holidays.contains(&booked) {
                true => Err(TransferError::Holiday(booked)),
                false => Ok(()),
            }
        }
    }

    async fn balance(db: &mut SqliteConnection, wallet: Uuid) -> sqlx::Result<Decimal> {
        let cents: i64 = sqlx::query_scalar("SELECT cents FROM wallets WHERE id = ?").bind(wallet.to_string()).fetch_one(db).await?;
        Ok(Decimal::new(cents, 2))
    }

    #[idempotent(scope = "account", operation = "wallets.transfer", ttl = "7d")]
    pub async fn transfer(
        tx: &mut Tx<Sqlite>,
        account: Account,
        State(limits): State<Limits>,
        Json(Transfer { from, to, money, booked }): Json<Transfer>,
    ) -> Result<(StatusCode, Json<Receipt>), TransferError> {
        let booked = booked.unwrap_or_else(|| limits.since.date_naive());
        limits.check(money.amount, booked)?;
        if balance(tx, from).await? < money.amount {
            return Err(TransferError::Funds);
        }
        for (wallet, amount) in [(from, -money.amount), (to, money.amount)] {
            sqlx::query("INSERT INTO entries (wallet, amount, booked) VALUES (?, ?, ?)")
                .bind(wallet.to_string())
                .bind(amount.to_string())
                .bind(booked.to_string())
                .execute(&mut *tx)
                .await?;
        }
        let receipt = Receipt { id: Uuid::nil(), money, booked, at: limits.since };
        Ok((StatusCode::CREATED, Json(receipt)))
    }

    #[derive(Deserialize)]
    pub struct TopUp {
        amount: Decimal,
        at: DateTime<Utc>,
    }

    #[idempotent(scope = "account", operation = "wallets.top_up")]
    pub async fn top_up(tx: &mut Tx<Sqlite>, account: Account, Path(wallet): Path<Uuid>, Form(TopUp { amount, at }): Form<TopUp>) -> Result<String, TransferError> {
        sqlx::query("INSERT INTO entries (wallet, amount, booked) VALUES (?, ?, ?)")
            .bind(wallet.to_string())
            .bind(amount.to_string())
            .bind(at.timestamp())
            .execute(&mut *tx)
            .await?;
        Ok(amount.round_dp(2).to_string())
    }
}

/// Keys that check a provider's signatures.
#[derive(Clone, EffectFree)]
struct SigningKeys {
    current: [u8; 32],
    former: Option<[u8; 32]>,
}

mod webhooks {
    use super::*;
    use axum::extract::FromRequestParts;
    use axum::http::request::Parts;

    impl SigningKeys {
        fn accept(&self, signature: &[u8], body: &[u8]) -> bool {
            let keys = std::iter::once(&self.current).chain(&self.former);
            keys.into_iter().any(|key| signature.starts_with(&key[..4]) && !body.is_empty())
        }
    }

    /// The provider, and how it signed.
    #[derive(EffectFree)]
    pub struct Delivery {
        provider: String,
        signature: Bytes,
    }

    impl<S: Send + Sync> FromRequestParts<S> for Delivery {
        type Rejection = (StatusCode, &'static str);

        async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
            let signature = parts.headers.get("x-signature").ok_or((StatusCode::UNAUTHORIZED, "not signed"))?;
            Ok(Self { provider: "acme".to_owned(), signature: Bytes::copy_from_slice(signature.as_bytes()) })
        }
    }

    #[derive(Deserialize)]
    #[serde(tag = "type", content = "data", rename_all = "snake_case")]
    enum Event {
        Paid { order: Uuid, at: DateTime<Utc> },
        Refunded { order: Uuid, amount: Decimal },
        #[serde(other)]
        Other,
    }

    #[derive(Debug, thiserror::Error)]
    pub enum WebhookError {
        #[error("the signature does not fit the body")]
        Signature,
        #[error("the body is no event: {0}")]
        Body(#[from] serde_json::Error),
        #[error(transparent)]
        Database(#[from] sqlx::Error),
    }

    impl IntoResponse for WebhookError {
        fn into_response(self) -> Response {
            let status = match self {
                Self::Signature => StatusCode::UNAUTHORIZED,
                Self::Body(_) => StatusCode::BAD_REQUEST,
                Self::Database(_) => StatusCode::INTERNAL_SERVER_ERROR,
            };
            status.into_response()
        }
    }

    #[idempotent(scope = "delivery.provider", operation = "webhooks.receive", max_body = "256KiB")]
    pub async fn receive(
        tx: &mut Tx<Sqlite>,
        State(keys): State<SigningKeys>,
        delivery: Delivery,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<StatusCode, WebhookError> {
        if !keys.accept(&delivery.signature, &body) {
            return Err(WebhookError::Signature);
        }
        let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        tracing::debug!(kind, "an event");
        match serde_json::from_slice(&body)? {
            Event::Paid { order, at } => {
                sqlx::query("UPDATE orders SET paid = ? WHERE id = ?").bind(at.timestamp()).bind(order.to_string()).execute(&mut *tx).await?;
            }
            Event::Refunded { order, amount } => {
                tx.savepoint(async |part| {
                    sqlx::query("INSERT INTO refunds (order_id, amount) VALUES (?, ?)")
                        .bind(order.to_string())
                        .bind(amount.to_string())
                        .execute(&mut **part)
                        .await
                })
                .await?;
            }
            Event::Other => return Ok(StatusCode::ACCEPTED),
        }
        Ok(StatusCode::OK)
    }
}

mod files {
    use super::*;
    use std::collections::BTreeMap;

    /// A layer put it into the request: where the bytes went before this handler.
    #[derive(Clone, EffectFree)]
    pub struct Stored {
        digest: [u8; 32],
        length: u64,
    }

    #[derive(Deserialize)]
    pub struct Metadata {
        name: std::path::PathBuf,
        #[serde(default)]
        labels: BTreeMap<String, String>,
        expires: Option<NaiveDate>,
        replaces: Option<Box<Metadata>>,
    }

    #[derive(Serialize)]
    pub struct File {
        id: i64,
        length: u64,
    }

    #[idempotent(scope = "account.0", operation = "files.describe")]
    pub async fn describe(
        tx: &mut Tx<Sqlite>,
        account: Account,
        Path((folder, file)): Path<(Uuid, i64)>,
        Extension(stored): Extension<Stored>,
        Json(metadata): Json<Metadata>,
    ) -> Result<impl IntoResponse, StatusCode> {
        let replaced = metadata.replaces.as_ref().map(|old| old.name.display().to_string());
        let id = sqlx::query_scalar("INSERT INTO files (folder, number, name, digest, expires, replaces) VALUES (?, ?, ?, ?, ?, ?) RETURNING id")
            .bind(folder.to_string())
            .bind(file)
            .bind(metadata.name.display().to_string())
            .bind(&stored.digest[..])
            .bind(metadata.expires.map(|day| day.to_string()))
            .bind(replaced)
            .fetch_one(&mut *tx)
            .await
            .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
        for (label, value) in &metadata.labels {
            sqlx::query("INSERT INTO labels (file, label, value) VALUES (?, ?, ?)")
                .bind(id)
                .bind(label)
                .bind(value)
                .execute(&mut *tx)
                .await
                .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
        }
        let location = format!("/folders/{folder}/files/{id}");
        Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(File { id, length: stored.length })))
    }
}

fn main() {
    let _: Router<AppState> = Router::new()
        .route("/transfers", post(wallets::transfer))
        .route("/wallets/{wallet}/top-ups", post(wallets::top_up))
        .route("/webhooks", post(webhooks::receive))
        .route("/folders/{folder}/files/{file}", post(files::describe));
}

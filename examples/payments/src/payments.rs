//! Payments: an order is reserved, money moves at the provider, a receipt is written.
//!
//! The first and the last are atomic steps in our database. What is between them is not ours to roll back, and when its
//! answer is lost nobody knows whether it happened. What follows then depends on the provider:
//!
//! * [`charge`]: it honours idempotency keys, so it is called again with the same key.
//! * [`debit`]: it does not, and can be asked whether there was a debit with our reference.
//! * [`redeem`]: neither. It is called once at most, and a person looks at its books.
//!
//! A handler runs again from its beginning when an attempt did not end, and is given what its steps left. So nothing
//! between the steps has an effect, or depends on anything but arguments and results: prices are read inside a step.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use idem_runtime::steps::{DownstreamKey, Retry};
use idem_runtime::{External, Steps, idempotent};
use serde::{Deserialize, Serialize};
use sqlx::{FromRow, Pool};
use uuid::Uuid;

use crate::auth::Account;
use crate::database::{self, Db};
use crate::errors::ApiError;
use crate::gateway::{Bill, Declined, Gateway, Payment};

/// How long the provider promises to know a key. Its documentation says 24 hours.
const KEY_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// How long one call may take. The provider answers within a second, if it answers.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long after it was sent a request may still arrive there.
const IN_FLIGHT_LIMIT: Duration = Duration::from_secs(15);

/// A payment as a client sends it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewPayment {
    pub item: String,
    /// What the provider's form gave the client for a card, an account or a gift card. Never a card's number: arguments
    /// are stored until the payment has ended.
    pub source: String,
}

/// An order, as its first step leaves it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reserved {
    pub id: Uuid,
    /// In cents.
    pub total: i64,
}

/// What the client gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Receipt {
    pub order: Uuid,
    /// In cents.
    pub total: i64,
    /// The provider's name for it.
    pub payment: String,
}

/// An order as it is listed.
#[derive(Clone, Debug, Serialize, FromRow)]
pub struct Order {
    pub id: Uuid,
    pub item: String,
    /// In cents.
    pub total: i64,
    /// `reserved`, `paid` or `cancelled`.
    pub status: String,
}

/// `POST /charges` charges a card. The provider honours keys for `KEY_LIFETIME`: until then a call whose answer was lost
/// is made again, by this request or by the recovery worker, with the same key and the same bytes.
#[idempotent(
    scope = "account",
    ttl = "7d",
    operation = "charges.create",
    definition = 1
)]
pub async fn charge(
    steps: &mut Steps<Db, ApiError>,
    account: Account,
    State(gateway): State<External<Gateway>>,
    Json(new): Json<NewPayment>,
) -> Result<(StatusCode, Json<Receipt>), ApiError> {
    let order = reserve(steps, &account, &new).await?;
    let paid = steps
        .external("charge", &gateway, order.bill(&new))
        .key_lifetime(KEY_LIFETIME)
        .timeout(TIMEOUT)
        .in_flight_limit(IN_FLIGHT_LIMIT)
        .retry(Retry::times(3))
        .call(async |gateway: &Gateway, key, bill| gateway.charge(key, bill).await)
        .await;
    conclude(steps, &new, order, paid).await
}

/// `POST /debits` debits a bank account. The bank knows no keys: two equal requests are two debits. But each carries our
/// reference, and the bank can be asked for it.
#[idempotent(
    scope = "account",
    ttl = "7d",
    operation = "debits.create",
    definition = 1
)]
pub async fn debit(
    steps: &mut Steps<Db, ApiError>,
    account: Account,
    State(gateway): State<External<Gateway>>,
    Json(new): Json<NewPayment>,
) -> Result<(StatusCode, Json<Receipt>), ApiError> {
    let order = reserve(steps, &account, &new).await?;
    let paid = steps
        .external("debit", &gateway, order.bill(&new))
        .reconcile(async |gateway: &Gateway, key: &DownstreamKey| gateway.find_debit(key).await)
        .timeout(TIMEOUT)
        .in_flight_limit(IN_FLIGHT_LIMIT)
        .retry(Retry::times(3))
        .call(async |gateway: &Gateway, key, bill| gateway.debit(key, bill).await)
        .await;
    conclude(steps, &new, order, paid).await
}

/// `POST /redemptions` takes the total from a gift card. Its issuer knows no keys and can't be asked: after a lost answer
/// the client is told 409 until an operator has looked at the issuer's books.
#[idempotent(
    scope = "account",
    ttl = "7d",
    operation = "redemptions.create",
    definition = 1
)]
pub async fn redeem(
    steps: &mut Steps<Db, ApiError>,
    account: Account,
    State(gateway): State<External<Gateway>>,
    Json(new): Json<NewPayment>,
) -> Result<(StatusCode, Json<Receipt>), ApiError> {
    let order = reserve(steps, &account, &new).await?;
    let paid = steps
        .external("redeem", &gateway, order.bill(&new))
        .at_most_once()
        .timeout(TIMEOUT)
        .in_flight_limit(IN_FLIGHT_LIMIT)
        .retry(Retry::times(3))
        .call(async |gateway: &Gateway, _: &DownstreamKey, bill| gateway.redeem(bill).await)
        .await;
    conclude(steps, &new, order, paid).await
}

impl Reserved {
    fn bill(&self, new: &NewPayment) -> Bill {
        Bill {
            source: new.source.clone(),
            cents: self.total,
        }
    }
}

/// The first step: takes the item from the stock, at today's price. An `Err` here leaves nothing behind, and the key is free
/// again.
async fn reserve(
    steps: &mut Steps<Db, ApiError>,
    account: &Account,
    new: &NewPayment,
) -> Result<Reserved, ApiError> {
    // The same on every attempt of this key. So a retry after the key's record is gone meets the order of the first.
    let id = steps.operation_id();
    steps
        .atomic("reserve", async |tx| {
            if !database::take_from_stock(&mut *tx, &new.item).await? {
                return Err(ApiError::NotInStock);
            }
            let total = database::price(&mut *tx, &new.item).await?;
            database::insert_order(&mut *tx, id, account, &new.item, total).await?;
            tx.resource("order", id);
            Ok(Reserved { id, total })
        })
        .await
}

/// The last step: the receipt, or what was reserved goes back. It commits with the answer.
async fn conclude(
    steps: &mut Steps<Db, ApiError>,
    new: &NewPayment,
    order: Reserved,
    paid: Result<Payment, Declined>,
) -> Result<(StatusCode, Json<Receipt>), ApiError> {
    match paid {
        Ok(payment) => {
            steps
                .atomic("receipt", async |tx| {
                    database::set_status(&mut *tx, order.id, "paid").await?;
                    database::insert_receipt(&mut *tx, order.id, &payment.id).await?;
                    Ok(())
                })
                .await?;
            let receipt = Receipt {
                order: order.id,
                total: order.total,
                payment: payment.id,
            };
            Ok((StatusCode::CREATED, Json(receipt)))
        }
        Err(declined) => {
            // Nothing undoes a committed step but another one.
            steps
                .atomic("cancel", async |tx| {
                    database::set_status(&mut *tx, order.id, "cancelled").await?;
                    database::return_to_stock(&mut *tx, &new.item).await?;
                    Ok(())
                })
                .await?;
            Err(ApiError::NotPaid(declined))
        }
    }
}

/// `GET /orders`: the account's orders, at most 100.
pub async fn list(
    account: Account,
    State(pool): State<Pool<Db>>,
) -> Result<Json<Vec<Order>>, ApiError> {
    Ok(Json(database::list_orders(&pool, &account).await?))
}

//! What a careful engineer writes: claim, work and answer in one transaction. The same as in `tests/benches/postgres.rs`.

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use sqlx::{PgPool, Row};

use super::{BoxError, Setup};
use crate::orders::{Account, Failed, insert_order};

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS by_hand (account text NOT NULL, key text NOT NULL, fingerprint bytea NOT NULL, status int, body bytea,
        created_at timestamptz NOT NULL, completed_at timestamptz, expires_at timestamptz, PRIMARY KEY (account, key)) WITH (fillfactor = 80);
    CREATE INDEX IF NOT EXISTS by_hand_expires_at ON by_hand USING brin (expires_at)";

pub(super) async fn router(setup: Setup) -> Result<Router, BoxError> {
    if setup.migrates {
        sqlx::raw_sql(SCHEMA).execute(&setup.pool).await?;
    }
    Ok(Router::new()
        .route("/orders", post(order))
        .with_state(setup.pool))
}

async fn order(
    State(pool): State<PgPool>,
    Account(account): Account,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failed> {
    let key = headers.get("idempotency-key");
    let Some(key) = key.and_then(|key| key.to_str().ok()) else {
        return Ok(StatusCode::BAD_REQUEST.into_response());
    };
    let fingerprint = Sha256::digest(&body).to_vec();
    let mut tx = pool.begin().await?;
    let claimed = sqlx::query(
        "INSERT INTO by_hand (account, key, fingerprint, created_at) VALUES ($1, $2, $3, now()) \
         ON CONFLICT (account, key) DO NOTHING",
    )
    .bind(&account)
    .bind(key)
    .bind(&fingerprint)
    .execute(&mut *tx)
    .await?;
    if claimed.rows_affected() == 0 {
        let row = sqlx::query(
            "SELECT fingerprint, status, body FROM by_hand WHERE account = $1 AND key = $2 FOR UPDATE",
        )
        .bind(&account)
        .bind(key)
        .fetch_one(&mut *tx)
        .await?;
        tx.commit().await?;
        if row.try_get::<Vec<u8>, _>(0)? != fingerprint {
            return Ok(StatusCode::UNPROCESSABLE_ENTITY.into_response());
        }
        let status = u16::try_from(row.try_get::<i32, _>(1)?)?;
        let body: Vec<u8> = row.try_get(2)?;
        return Ok(answer(StatusCode::from_u16(status)?, body));
    }
    let Ok(new) = serde_json::from_slice(&body) else {
        return Ok(StatusCode::UNPROCESSABLE_ENTITY.into_response());
    };
    let order = insert_order(&mut tx, &account, new).await?;
    let body = serde_json::to_vec(&order)?;
    sqlx::query(
        "UPDATE by_hand SET status = 201, body = $3, completed_at = now(), \
           expires_at = now() + interval '48 hours' WHERE account = $1 AND key = $2",
    )
    .bind(&account)
    .bind(key)
    .bind(&body)
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(answer(StatusCode::CREATED, body))
}

fn answer(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [("content-type", "application/json")], body).into_response()
}

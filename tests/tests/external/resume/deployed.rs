//! One operation, as its first handler does it, and as later deploys changed it.

use axum::extract::{Path, State};
use idem_runtime::{External, Steps, Tx, idempotent};
use serde::{Deserialize, Serialize};
use sqlx::Sqlite;

use super::shop::{Failed, Gateway};

const DAY: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

async fn insert(tx: &mut Tx<Sqlite>, step: &str) -> Result<i64, Failed> {
    let sql = "INSERT INTO things (step) VALUES (?) RETURNING rowid";
    let id = sqlx::query_scalar(sql).bind(step);
    Ok(id.fetch_one(&mut *tx).await?)
}

async fn pay(
    steps: &mut Steps<Sqlite, Failed>,
    gateway: &External<Gateway>,
    cents: u64,
) -> Result<String, Failed> {
    let step = steps.external("charge", gateway, cents).key_lifetime(DAY);
    Ok(step.call(Gateway::charge).await?)
}

/// A handler with these steps.
macro_rules! handler {
    ($name:ident, [$($option:tt)*], $account:ty, |$steps:ident, $of:ident, $gateway:ident| $body:block) => {
        #[idempotent(scope = "account", operation = "charges.create", $($option)*)]
        pub(crate) async fn $name(
            $steps: &mut Steps<Sqlite, Failed>,
            Path(account): Path<$account>,
            State($gateway): State<External<Gateway>>,
        ) -> Result<String, Failed> {
            let $of = account;
            $body
        }
    };
}

handler!(charge, [], u64, |steps, account, gateway| {
    steps
        .atomic("reserve", async |tx| insert(tx, "reserve").await)
        .await?;
    // Fails, and is recorded as failed once another step is.
    let refused: Result<(), Failed> = steps.atomic("check", async |_| Err(Failed)).await;
    let charged = pay(steps, &gateway, account).await;
    assert!(refused.is_err());
    steps
        .atomic("settle", async |tx| insert(tx, "settle").await)
        .await?;
    charged
});

handler!(renamed, [], u64, |steps, account, gateway| {
    steps
        .atomic("book", async |tx| insert(tx, "reserve").await)
        .await?;
    pay(steps, &gateway, account).await
});

handler!(reordered, [], u64, |steps, account, gateway| {
    let charged = pay(steps, &gateway, account).await;
    steps
        .atomic("reserve", async |tx| insert(tx, "reserve").await)
        .await?;
    charged
});

handler!(shortened, [], u64, |steps, _account, _gateway| {
    steps
        .atomic("reserve", async |tx| insert(tx, "reserve").await)
        .await?;
    let _: Result<(), Failed> = steps.atomic("check", async |_| Err(Failed)).await;
    Ok("later".to_owned())
});

handler!(dearer, [], u64, |steps, account, gateway| {
    steps
        .atomic("reserve", async |tx| insert(tx, "reserve").await)
        .await?;
    let _: Result<(), Failed> = steps.atomic("check", async |_| Err(Failed)).await;
    pay(steps, &gateway, account + 1).await
});

handler!(
    redefined,
    [definition = 2],
    u64,
    |steps, account, gateway| {
        steps
            .atomic("reserve", async |tx| insert(tx, "reserve").await)
            .await?;
        pay(steps, &gateway, account).await
    }
);

handler!(reread, [], u64, |steps, account, gateway| {
    let _: String = steps
        .atomic("reserve", async |tx| {
            Ok(insert(tx, "reserve").await?.to_string())
        })
        .await?;
    pay(steps, &gateway, account).await
});

handler!(readdressed, [], (u64, u64), |steps, account, gateway| {
    pay(steps, &gateway, account.0).await
});

handler!(forgiving, [], u64, |steps, account, gateway| {
    steps
        .atomic("reserve", async |tx| insert(tx, "reserve").await)
        .await?;
    steps.atomic("check", async |_| Ok(())).await?;
    pay(steps, &gateway, account).await
});

handler!(panics, [], u64, |steps, account, gateway| {
    steps
        .atomic("reserve", async |tx| insert(tx, "reserve").await)
        .await?;
    let charged = pay(steps, &gateway, account).await?;
    assert_eq!(charged, "", "the fault that is planted here");
    Ok(charged)
});

handler!(
    hurried,
    [timeout = "300ms"],
    u64,
    |steps, account, gateway| {
        steps
            .atomic("reserve", async |tx| insert(tx, "reserve").await)
            .await?;
        pay(steps, &gateway, account).await
    }
);

/// What is not written can't be read.
#[derive(Serialize, Deserialize)]
struct Unwritten {
    #[serde(skip_serializing)]
    id: i64,
}

handler!(lossy, [], u64, |steps, account, gateway| {
    let id = steps
        .atomic("reserve", async |tx| {
            let id = insert(tx, "reserve").await?;
            Ok(Unwritten { id })
        })
        .await?;
    pay(steps, &gateway, account + id.id.unsigned_abs()).await
});

#[idempotent(scope = "account", operation = "refunds.create")]
pub(crate) async fn unrelated(
    steps: &mut Steps<Sqlite, Failed>,
    Path(account): Path<u64>,
) -> Result<String, Failed> {
    steps
        .atomic("refund", async |tx| insert(tx, "refund").await)
        .await?;
    Ok(account.to_string())
}

#[path = "../steps.rs"]
mod support;
use support::*;

#[idempotent(scope = "account", ttl = "48h", operation = "charges.create", definition = 2)]
async fn create_charge(
    steps: &mut Steps<Sqlite, ApiError>,
    account: Account,
    State(gateway): State<External<Gateway>>,
    Json(new): Json<NewCharge>,
) -> Result<Json<Charge>, ApiError> {
    let order: i64 = steps
        .atomic("reserve", async |tx| {
            let id = sqlx::query_scalar("INSERT INTO orders (account) VALUES (?) RETURNING id")
                .bind(account.0.cast_signed())
                .fetch_one(&mut *tx)
                .await?;
            tx.resource("order", id);
            Ok(id)
        })
        .await?;
    let charge = steps
        .external("charge", &gateway, new)
        .key_lifetime(Duration::from_secs(24 * 3600))
        .reconcile(async |gateway, key| gateway.find(key).await)
        .timeout(Duration::from_secs(10))
        .in_flight_limit(Duration::from_secs(60))
        .retry(Retry::times(3))
        .call(async |gateway, key, input| gateway.charge(key, input).await)
        .await?;
    steps
        .atomic("settle", async |tx| settle(tx, order, &charge).await)
        .await?;
    Ok(Json(charge))
}

async fn settle(db: &mut sqlx::SqliteConnection, order: i64, charge: &Charge) -> Result<(), ApiError> {
    sqlx::query("UPDATE orders SET charge = ? WHERE id = ?")
        .bind(&charge.id)
        .bind(order)
        .execute(db)
        .await?;
    Ok(())
}

/// A step in a loop, an error that never tells, every kind of argument, and the scope in the last one.
#[idempotent(scope = "account", operation = "notices.send", expired = "reject", tombstone = "90d")]
async fn send_notices(
    steps: &mut Steps<Sqlite, ApiError>,
    Path(list): Path<u64>,
    Query(options): Query<std::collections::BTreeMap<String, String>>,
    State(gateway): State<External<Gateway>>,
    account: Account,
) -> Result<StatusCode, ApiError> {
    for turn in 0..list + account.0 + options.len() as u64 {
        steps
            .external("notify", &gateway, turn)
            .at_most_once()
            .call(async |gateway, key, _| -> Result<(), Unclassified> { Ok(gateway.notify(key).await?) })
            .await?;
    }
    steps.resource("list", list);
    let _ = steps.operation_id();
    Ok(StatusCode::NO_CONTENT)
}

fn main() {
    let _ = |state: AppState| {
        let recovery = state
            .idempotency
            .recovery(state.clone())
            .register(create_charge)
            .register(send_notices);
        let worker = tokio::spawn(recovery.run());
        let router: Router = Router::new()
            .route("/charges", post(create_charge))
            .route("/lists/{list}", post(send_notices))
            .with_state(state);
        (worker, router)
    };
    // The same in the routes that refuse undeclared writes.
    let _: idem_runtime::routing::Router<AppState> =
        idem_runtime::routing::Router::new().route("/charges", idem_runtime::routing::post(create_charge));
}

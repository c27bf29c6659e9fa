//! What a handler may return.

#[path = "../support.rs"]
mod support;
use support::*;

#[idempotent(scope = "account")]
async fn nothing(_tx: &mut Tx<Sqlite>, account: Account) {
    let _ = account;
}

#[idempotent(scope = "account")]
async fn opaque(_tx: &mut Tx<Sqlite>, account: Account, body: String) -> impl IntoResponse {
    (StatusCode::CREATED, format!("{account:?} {body}"))
}

#[idempotent(scope = "account")]
async fn opaque_result(
    tx: &mut Tx<Sqlite>,
    account: Account,
    Json(new): Json<NewOrder>,
) -> Result<impl IntoResponse, ApiError> {
    insert_order(tx, &new).await?;
    Ok(format!("{account:?}"))
}

#[idempotent(scope = "account")]
async fn axum_result(
    tx: &mut Tx<Sqlite>,
    account: Account,
    Json(new): Json<NewOrder>,
) -> axum::response::Result<&'static str> {
    let _ = account;
    insert_order(tx, &new).await.map_err(ApiError::from)?;
    Ok("created")
}

#[derive(Debug, Disposition)]
enum OrderError {
    #[disposition(validation)]
    Empty,
    #[disposition(rejection)]
    Sold { left: u32 },
    #[disposition(transient)]
    Busy(u8),
    #[disposition(source)]
    Database(sqlx::Error),
    #[disposition(source)]
    Other(Box<dyn std::error::Error + Send + Sync>),
    #[disposition(transparent)]
    Inner(Declined),
}

#[derive(Debug, Disposition)]
#[disposition(rejection)]
struct Declined;

impl From<sqlx::Error> for OrderError {
    fn from(error: sqlx::Error) -> Self {
        OrderError::Database(error)
    }
}

impl IntoResponse for OrderError {
    fn into_response(self) -> Response {
        (StatusCode::CONFLICT, format!("{self:?}")).into_response()
    }
}

#[idempotent(scope = "account", errors = "store")]
async fn declared(
    tx: &mut Tx<Sqlite>,
    account: Account,
    Json(new): Json<NewOrder>,
) -> Result<StatusCode, OrderError> {
    insert_order(tx, &new).await?;
    match account.0.0 {
        0 => Err(OrderError::Empty),
        1 => Err(OrderError::Sold { left: 0 }),
        2 => Err(OrderError::Busy(1)),
        3 => Err(OrderError::Other("fire".into())),
        4 => Err(OrderError::Inner(Declined)),
        _ => Ok(StatusCode::CREATED),
    }
}

fn main() {
    use idem_runtime::ErrorKind;
    let _: Router<AppState> = Router::new()
        .route("/1", post(nothing))
        .route("/2", post(opaque))
        .route("/3", post(opaque_result))
        .route("/4", post(axum_result))
        .route("/5", post(declared));
    assert_eq!(OrderError::Empty.disposition(), ErrorKind::Validation);
    assert_eq!(OrderError::Inner(Declined).disposition(), ErrorKind::Rejection);
    assert!(OrderError::Database(sqlx::Error::RowNotFound).cause().is_some());
    assert!(OrderError::Other("fire".into()).cause().is_some());
    assert!(OrderError::Sold { left: 1 }.cause().is_none());
}

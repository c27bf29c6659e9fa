//! What users of axum expect of a router, with every write declared.

#[path = "../support.rs"]
mod support;
use axum::http::{Method, Uri};
use axum::middleware::{self, Next};
use axum::extract::Request;
use idem_runtime::repeat_safe;
use idem_runtime::routing::{self, IfMatch, MethodFilter, Router as Routes, delete, get, on, put};
use support::*;

#[idempotent(scope = "account", ttl = "48h")]
async fn create(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> StatusCode {
    match insert_order(tx, &new).await {
        Ok(()) => StatusCode::CREATED,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[idempotent(scope = "account")]
async fn touch(tx: &mut Tx<Sqlite>, account: Account) {
    let _ = (tx, account);
}

#[repeat_safe(client_id, why = "the client chooses the id", operation = "orders.put")]
async fn place(
    State(pricing): State<Pricing>,
    Path(item): Path<String>,
) -> Result<Json<Order>, ApiError> {
    let cents = pricing.cents;
    Ok(Json(Order { item, cents }))
}

#[repeat_safe(conditional, why = "what is gone can't be deleted again")]
async fn remove() {}

#[repeat_safe(precondition, why = "a new revision matches no more")]
async fn replace(mut seen: IfMatch, body: String) -> Result<impl IntoResponse, ApiError> {
    if body.is_empty() {
        return Err(ApiError);
    }
    seen = seen.clone();
    drop(seen);
    Ok((StatusCode::OK, body))
}

#[repeat_safe(client_id, why = "the client chooses the id")]
async fn generic<T: Into<String>>(argument0: Account, Json(new): Json<NewOrder>) -> String
where
    T: From<u64>,
{
    let _ = new;
    T::from(argument0.0.0).into()
}

struct Text(u64);
impl From<u64> for Text {
    fn from(number: u64) -> Self {
        Self(number)
    }
}
impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0.to_string()
    }
}

struct Api;
impl Api {
    #[repeat_safe(conditional, why = "it is cancelled once", operation = "api.cancel")]
    #[allow(clippy::unused_async)]
    pub async fn cancel(_: Account) -> StatusCode {
        StatusCode::OK
    }
}

macro_rules! declare {
    ($name:ident, $field:ident) => {
        #[repeat_safe(conditional, why = "made by a macro")]
        async fn $name($field: Account, inner: Json<NewOrder>) -> String {
            format!("{}{}", $field.0.0, inner.0.item)
        }
    };
}
declare!(by_macro, account);

#[repeat_safe(conditional, why = "an argument of its name")]
async fn itself(itself: Account, r#type: Account) -> String {
    format!("{:?} {:?}", itself, r#type)
}

async fn list(State(pricing): State<Pricing>) -> String {
    pricing.cents.to_string()
}

async fn not_found(method: Method, uri: Uri) -> (StatusCode, String) {
    (StatusCode::NOT_FOUND, format!("there is no {method} {uri}"))
}

async fn traced(request: Request, next: Next) -> Response {
    next.run(request).await
}

fn main() {
    let orders = Routes::new()
        .route("/", get(list).post(create).fallback(not_found))
        .route("/{item}", put(place).delete(remove).head(list).options(list).trace(list))
        .route("/{item}/note", put(replace).patch(generic::<Text>))
        .route("/{item}/cancel", routing::post(Api::cancel))
        .route("/{item}/macro", routing::post(by_macro).put(itself))
        .layer(middleware::from_fn(traced));
    let docs: Router<AppState> = Router::new().route("/", axum::routing::get(list));
    let router: Routes<AppState> = Routes::default()
        .nest("/orders", orders)
        .nest_reads("/docs", docs.clone())
        .merge_reads(docs)
        .merge(Routes::new().route("/touch", on(MethodFilter::POST, touch).merge(delete(remove))))
        .route_layer(middleware::from_fn(traced))
        .fallback(not_found)
        .method_not_allowed_fallback(async || StatusCode::METHOD_NOT_ALLOWED);
    let _ = router.clone().report();
    let app: Router<AppState> = router.into_axum();
    // They stay handlers for axum's own routes.
    let _: Router<AppState> = app
        .route("/axum/place", axum::routing::put(place))
        .route("/axum/replace", axum::routing::put(replace))
        .route("/axum/remove", axum::routing::delete(remove));
}

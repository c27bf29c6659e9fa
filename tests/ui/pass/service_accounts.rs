//! Handlers as account and order services write them: authentication, validated bodies, error enums, pages, savepoints.
//! What `#[idempotent]` asks of them are `tx` and the derives of `EffectFree` and `Scope`.
#![deny(warnings)]
#![allow(dead_code)]

#[path = "../support.rs"]
mod support;
use support::{EffectFree, FromRef, Idempotency, IntoResponse, Response, Router, Scope, Sqlite, SqliteConnection, Tx, idempotent, post};

mod auth {
    use super::*;
    use axum::extract::FromRequestParts;
    use axum::http::{StatusCode, header, request::Parts};
    use std::marker::PhantomData;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, EffectFree)]
    pub enum Role {
        Member,
        Admin,
    }

    /// Who the token says it is.
    #[derive(Clone, Debug, EffectFree)]
    pub struct CurrentUser {
        pub id: uuid::Uuid,
        pub roles: Vec<Role>,
    }

    impl Scope for CurrentUser {
        fn write_scope(&self, out: &mut idem_runtime::scope::ScopeBuilder) {
            self.id.write_scope(out);
        }
    }

    impl<S: Send + Sync> FromRequestParts<S> for CurrentUser {
        type Rejection = (StatusCode, &'static str);

        async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
            parts
                .headers
                .get(header::AUTHORIZATION)
                .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer ")?.parse().ok())
                .map(|id| Self { id, roles: vec![Role::Member] })
                .ok_or((StatusCode::UNAUTHORIZED, "no token"))
        }
    }

    pub trait Permission: Send + Sync + 'static {
        const ROLE: Role;
    }

    pub struct Manage;

    impl Permission for Manage {
        const ROLE: Role = Role::Admin;
    }

    /// A user that may do `P`.
    #[derive(EffectFree)]
    pub struct Allowed<P> {
        pub user: CurrentUser,
        permission: PhantomData<P>,
    }

    impl<S: Send + Sync, P: Permission> FromRequestParts<S> for Allowed<P> {
        type Rejection = Response;

        async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
            let user = CurrentUser::from_request_parts(parts, state).await.map_err(IntoResponse::into_response)?;
            match user.roles.contains(&P::ROLE) {
                true => Ok(Self { user, permission: PhantomData }),
                false => Err(StatusCode::FORBIDDEN.into_response()),
            }
        }
    }
}

mod error {
    use super::*;
    use axum::{Json, http::StatusCode};

    #[derive(Debug, thiserror::Error)]
    pub enum AppError {
        #[error("not found")]
        NotFound,
        #[error("invalid: {0}")]
        Validation(String),
        #[error(transparent)]
        Database(#[from] sqlx::Error),
    }

    impl IntoResponse for AppError {
        fn into_response(self) -> Response {
            let status = match &self {
                Self::NotFound => StatusCode::NOT_FOUND,
                Self::Validation(_) => StatusCode::UNPROCESSABLE_ENTITY,
                Self::Database(error) => {
                    tracing::error!(%error, "database");
                    StatusCode::INTERNAL_SERVER_ERROR
                }
            };
            (status, Json(serde_json::json!({ "error": self.to_string() }))).into_response()
        }
    }

    pub type Result<T, E = AppError> = std::result::Result<T, E>;
}

mod extract {
    use super::*;
    use axum::extract::{FromRequest, Request};
    use axum::{Json, extract::rejection::JsonRejection};
    use serde::de::DeserializeOwned;

    pub trait Validate {
        fn validate(&self) -> Result<(), String>;
    }

    /// JSON that is valid.
    #[derive(EffectFree)]
    pub struct ValidJson<T>(pub T);

    impl<S: Send + Sync, T: DeserializeOwned + Validate> FromRequest<S> for ValidJson<T> {
        type Rejection = Response;

        async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
            let read: Result<Json<T>, JsonRejection> = Json::from_request(request, state).await;
            let Json(value) = read.map_err(IntoResponse::into_response)?;
            value.validate().map_err(|why| error::AppError::Validation(why).into_response())?;
            Ok(Self(value))
        }
    }
}

mod users {
    use super::*;
    use super::auth::{Allowed, CurrentUser, Manage};
    use super::error::{AppError, Result};
    use super::extract::{Validate, ValidJson};
    use axum::extract::{Extension, Path, Query, State};
    use axum::http::{HeaderMap, StatusCode, header};
    use axum::response::{AppendHeaders, Redirect};
    use axum::{Form, Json};
    use serde::{Deserialize, Serialize};
    use std::sync::Arc;
    use uuid::Uuid;

    #[derive(Debug, Deserialize, EffectFree)]
    pub struct CreateUser {
        email: String,
        #[serde(default)]
        names: Vec<String>,
    }

    impl Validate for CreateUser {
        fn validate(&self) -> std::result::Result<(), String> {
            self.email.contains('@').then_some(()).ok_or_else(|| "email".to_owned())
        }
    }

    #[derive(Debug, Serialize, sqlx::FromRow)]
    pub struct User {
        id: i64,
        email: String,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub struct Page {
        #[serde(default = "Page::size")]
        per_page: u32,
        after: Option<i64>,
    }

    impl Page {
        fn size() -> u32 {
            20
        }
    }

    #[derive(Clone, Debug, EffectFree)]
    pub struct RequestId(pub String);

    #[derive(Clone, EffectFree)]
    pub struct Config {
        pub base_url: String,
        pub max_members: usize,
    }

    async fn find(db: &mut SqliteConnection, id: i64) -> Result<User> {
        sqlx::query_as("SELECT id, email FROM users WHERE id = ?").bind(id).fetch_optional(db).await?.ok_or(AppError::NotFound)
    }

    #[tracing::instrument(skip_all, fields(email = %new.email), err)]
    #[idempotent(scope = "user", operation = "users.create", ttl = "24h")]
    pub async fn create(
        tx: &mut Tx<Sqlite>,
        user: CurrentUser,
        State(config): State<Arc<Config>>,
        ValidJson(new): ValidJson<CreateUser>,
    ) -> Result<(StatusCode, [(header::HeaderName, String); 1], Json<User>)> {
        let created: User = sqlx::query_as("INSERT INTO users (email, by) VALUES (?, ?) RETURNING id, email")
            .bind(&new.email)
            .bind(user.id.to_string())
            .fetch_one(&mut *tx)
            .await?;
        for name in &new.names {
            sqlx::query("INSERT INTO names (user, name) VALUES (?, ?)").bind(created.id).bind(name).execute(&mut **tx).await?;
        }
        tx.resource("user", created.id);
        let location = format!("{}/users/{}", config.base_url, created.id);
        Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(created)))
    }

    #[idempotent(scope = "user", operation = "users.update")]
    #[tracing::instrument(skip(tx), ret)]
    pub async fn update(
        tx: &mut Tx<Sqlite>,
        user: CurrentUser,
        Path(id): Path<i64>,
        headers: HeaderMap,
        Json(changes): Json<serde_json::Value>,
    ) -> Result<StatusCode> {
        let before = find(tx, id).await?;
        tracing::info!(agent = ?headers.get(header::USER_AGENT), by = %user.id, "update");
        let Some(email) = changes.get("email").and_then(|email| email.as_str()) else {
            return Err(AppError::Validation("nothing to change".into()));
        };
        let done = sqlx::query("UPDATE users SET email = ? WHERE id = ? AND email = ?")
            .bind(email)
            .bind(id)
            .bind(before.email)
            .execute(&mut *tx)
            .await?;
        match done.rows_affected() {
            0 => Err(AppError::NotFound),
            _ => Ok(StatusCode::NO_CONTENT),
        }
    }

    #[idempotent(scope = "allowed.user", operation = "users.delete")]
    pub async fn delete(
        tx: &mut Tx<Sqlite>,
        allowed: Allowed<Manage>,
        Path((org, id)): Path<(Uuid, i64)>,
        request_id: Option<Extension<RequestId>>,
    ) -> Result<impl IntoResponse> {
        let request_id = request_id.map(|Extension(RequestId(id))| id).unwrap_or_default();
        let _ = tx
            .savepoint(async |tx| {
                sqlx::query("DELETE FROM members WHERE org = ? AND user = ?").bind(org.to_string()).bind(id).execute(&mut *tx).await?;
                Ok::<_, sqlx::Error>(())
            })
            .await;
        sqlx::query("DELETE FROM users WHERE id = ?").bind(id).execute(&mut *tx).await?;
        Ok((StatusCode::NO_CONTENT, AppendHeaders([("x-request-id", request_id)])))
    }

    #[idempotent(scope = "user", operation = "users.invite")]
    pub async fn invite(
        tx: &mut Tx<Sqlite>,
        user: CurrentUser,
        Query(page): Query<Page>,
        State(config): State<Arc<Config>>,
        Form(emails): Form<Vec<(String, String)>>,
    ) -> Result<Redirect> {
        if emails.len() > config.max_members.min(page.per_page as usize) {
            return Err(AppError::Validation("too many".to_owned()));
        }
        let mut insert = sqlx::QueryBuilder::new("INSERT INTO outbox (kind, payload, by) ");
        insert.push_values(emails, |mut row, (_, email)| {
            row.push_bind("invite").push_bind(email).push_bind(user.id.to_string());
        });
        insert.push(" RETURNING id");
        let ids: Vec<i64> = insert.build_query_scalar().fetch_all(&mut *tx).await?;
        Ok(Redirect::to(&format!("/invitations/{}", page.after.or(ids.first().copied()).unwrap_or(0))))
    }
}

#[derive(Clone)]
struct App {
    idempotency: Idempotency<Sqlite>,
    config: std::sync::Arc<users::Config>,
    pool: sqlx::SqlitePool,
    http: reqwest::Client,
}

impl FromRef<App> for Idempotency<Sqlite> {
    fn from_ref(app: &App) -> Self {
        app.idempotency.clone()
    }
}

impl FromRef<App> for std::sync::Arc<users::Config> {
    fn from_ref(app: &App) -> Self {
        app.config.clone()
    }
}

fn main() {
    let _: Router<App> = Router::new()
        .route("/users", post(users::create))
        .route("/users/{id}", axum::routing::patch(users::update))
        .route("/orgs/{org}/users/{id}", axum::routing::delete(users::delete))
        .route("/invitations", post(users::invite));
}

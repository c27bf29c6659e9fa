//! Handlers as services of many tenants write them: a bearer token that names the tenant, pages, typed paths, versions.
#![deny(warnings)]
#![allow(dead_code)]

#[path = "../support.rs"]
mod support;
use support::{EffectFree, FromRef, Idempotency, IntoResponse, Response, Router, Scope, Sqlite, StatusCode, Tx, idempotent, post};

use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::routing::{delete, put};
use axum_extra::TypedHeader;
use axum_extra::extract::Query;
use axum_extra::headers::{Authorization, IfMatch, UserAgent, authorization::Bearer};
use axum_extra::typed_header::TypedHeaderRejection;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The tenant that a token belongs to.
#[derive(Clone, Debug, PartialEq, Eq, EffectFree, Scope)]
struct TenantId(Uuid);

#[derive(Clone, Debug, EffectFree)]
struct Tenant {
    id: TenantId,
    plan: Plan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, EffectFree)]
enum Plan {
    Free,
    Paid { seats: u32 },
}

#[derive(Debug, thiserror::Error, EffectFree)]
enum TenantRejection {
    #[error("no bearer token")]
    Missing(#[from] TypedHeaderRejection),
    #[error("the token names no tenant")]
    Unknown,
}

impl IntoResponse for TenantRejection {
    fn into_response(self) -> Response {
        (StatusCode::UNAUTHORIZED, self.to_string()).into_response()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Tenant {
    type Rejection = TenantRejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, TenantRejection> {
        let TypedHeader(Authorization(bearer)) =
            TypedHeader::<Authorization<Bearer>>::from_request_parts(parts, state).await?;
        let id = bearer.token().parse().map_err(|_| TenantRejection::Unknown)?;
        Ok(Self { id: TenantId(id), plan: Plan::Free })
    }
}

#[derive(Clone, EffectFree)]
struct Quotas {
    projects: i64,
}

#[derive(Clone, FromRef)]
struct AppState {
    idempotency: Idempotency<Sqlite>,
    quotas: Quotas,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("there is no such project")]
    NoProject,
    #[error("the plan allows {0} projects")]
    Quota(i64),
    #[error("somebody else changed it")]
    Changed,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self {
            Self::NoProject => StatusCode::NOT_FOUND,
            Self::Quota(_) => StatusCode::PAYMENT_REQUIRED,
            Self::Changed => StatusCode::PRECONDITION_FAILED,
            Self::Database(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, self.to_string()).into_response()
    }
}

#[derive(Deserialize)]
struct NewProject {
    name: String,
    #[serde(default)]
    tags: Vec<String>,
}

#[derive(Serialize)]
struct Project {
    id: i64,
    name: String,
    version: i64,
}

#[derive(Deserialize)]
struct Options {
    #[serde(default)]
    notify: Vec<String>,
    #[serde(default)]
    dry_run: bool,
}

#[derive(Clone, Copy, Deserialize)]
struct ProjectPath {
    project: i64,
}

#[idempotent(scope = "tenant.id", ttl = "24h", operation = "projects.create")]
async fn create_project(
    tx: &mut Tx<Sqlite>,
    tenant: Tenant,
    State(quotas): State<Quotas>,
    Query(options): Query<Options>,
    agent: Option<TypedHeader<UserAgent>>,
    Json(new): Json<NewProject>,
) -> Result<(StatusCode, Json<Project>), Failure> {
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM projects WHERE tenant = ?")
        .bind(tenant.id.0.to_string())
        .fetch_one(&mut *tx)
        .await?;
    let allowed = match tenant.plan {
        Plan::Free => quotas.projects,
        Plan::Paid { seats } => quotas.projects * i64::from(seats),
    };
    if count >= allowed {
        return Err(Failure::Quota(allowed));
    }
    let id = sqlx::query_scalar("INSERT INTO projects (tenant, name, tags, agent) VALUES (?, ?, ?, ?) RETURNING id")
        .bind(tenant.id.0.to_string())
        .bind(&new.name)
        .bind(new.tags.join(","))
        .bind(agent.as_ref().map(|TypedHeader(agent)| agent.as_str().to_owned()))
        .fetch_one(&mut *tx)
        .await?;
    for address in &options.notify {
        sqlx::query("INSERT INTO notices (project, address) VALUES (?, ?)").bind(id).bind(address).execute(&mut *tx).await?;
    }
    Ok((StatusCode::CREATED, Json(Project { id, name: new.name, version: 1 })))
}

#[idempotent(scope = "tenant.id", operation = "projects.rename", fingerprint_headers = ["if-match"])]
async fn rename_project(
    tx: &mut Tx<Sqlite>,
    Path(ProjectPath { project }): Path<ProjectPath>,
    tenant: Tenant,
    TypedHeader(seen): TypedHeader<IfMatch>,
    Json(new): Json<NewProject>,
) -> Result<Json<Project>, Failure> {
    let found: Option<(i64,)> = sqlx::query_as("SELECT version FROM projects WHERE tenant = ? AND id = ?")
        .bind(tenant.id.0.to_string())
        .bind(project)
        .fetch_optional(&mut *tx)
        .await?;
    let (version,) = found.ok_or(Failure::NoProject)?;
    let tag = format!("\"{version}\"").parse().map_err(|_| Failure::Changed)?;
    if !seen.precondition_passes(&tag) {
        return Err(Failure::Changed);
    }
    sqlx::query("UPDATE projects SET name = ?, version = ? WHERE id = ?")
        .bind(&new.name)
        .bind(version + 1)
        .bind(project)
        .execute(&mut *tx)
        .await?;
    Ok(Json(Project { id: project, name: new.name, version: version + 1 }))
}

#[idempotent(scope = "tenant.id", operation = "projects.delete")]
async fn delete_project(tx: &mut Tx<Sqlite>, tenant: Tenant, Path(project): Path<i64>, Query(options): Query<Options>) -> Result<StatusCode, Failure> {
    if options.dry_run {
        return Ok(StatusCode::ACCEPTED);
    }
    let done = sqlx::query("DELETE FROM projects WHERE tenant = ? AND id = ?")
        .bind(tenant.id.0.to_string())
        .bind(project)
        .execute(&mut *tx)
        .await?;
    if done.rows_affected() == 0 {
        return Err(Failure::NoProject);
    }
    Ok(StatusCode::NO_CONTENT)
}

fn main() {
    let _: Router<AppState> = Router::new()
        .route("/projects", post(create_project))
        .route("/projects/{project}", put(rename_project))
        .route("/projects/{project}/", delete(delete_project));
}

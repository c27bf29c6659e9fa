//! An account's profile: which changes are safe to repeat, and which need a key.
//!
//! * [`set_name`] says what the name *is*. A repeat says it again.
//! * [`replace`] says which revision it replaces (`If-Match`). A repeat is refused with 412.
//! * [`publish`] says what to *do*: add one, and tell somebody. A repeat would do it again, so it needs a key.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use idem_runtime::routing::{EntityTag, IfMatch, PreconditionFailed};
use idem_runtime::{Tx, idempotent, repeat_safe};
use serde::{Deserialize, Serialize};
use sqlx::{FromRow, Pool};

use crate::auth::Account;
use crate::database::{self, Db};
use crate::errors::ApiError;

/// What an account shows of itself. Its answer carries the revision as its `ETag`.
#[derive(Clone, Debug, Serialize, FromRow)]
pub struct Profile {
    pub name: String,
    pub revision: i64,
}

impl Profile {
    fn etag(&self) -> EntityTag {
        EntityTag::strong(self.revision)
    }
}

impl IntoResponse for Profile {
    fn into_response(self) -> Response {
        (self.etag(), Json(self)).into_response()
    }
}

/// A name as a client sends it.
#[derive(Clone, Debug, Deserialize)]
pub struct NewName {
    name: String,
}

impl NewName {
    fn checked(&self) -> Result<&str, ApiError> {
        let name = self.name.trim();
        match name.chars().count() {
            1..=100 => Ok(name),
            _ => Err(ApiError::Validation("`name` has 1 to 100 characters")),
        }
    }
}

/// `GET /profile`.
pub async fn get(account: Account, State(pool): State<Pool<Db>>) -> Result<Profile, ApiError> {
    Ok(database::find_profile(&pool, &account).await?)
}

/// `PUT /profile/name` sets the name.
///
/// It needs no key: after one request or ten the name is the same, and a repeat does not count as a new
/// revision. Of two *different* names that cross on the way the last one stays; where that matters, use
/// [`replace`].
#[repeat_safe(
    conditional,
    why = "a name that is there already is no new revision",
    operation = "profile.set_name"
)]
pub async fn set_name(
    account: Account,
    State(pool): State<Pool<Db>>,
    Json(new): Json<NewName>,
) -> Result<Profile, ApiError> {
    database::set_name(&pool, &account, new.checked()?).await?;
    Ok(database::find_profile(&pool, &account).await?)
}

/// `PUT /profile` replaces the revision that the client has read, and no other.
///
/// It needs no key: the first request makes a new revision, so that its repeat, and whoever else read the
/// old one, no longer matches and is refused with 412 (RFC 9110, section 13.1.1). A client that lost the
/// answer reads again, and sees whether the profile is what it sent. Without the field it would overwrite what it
/// has not seen, and is refused with 428 (RFC 6585).
#[repeat_safe(
    precondition,
    why = "the revision it names is gone afterwards",
    operation = "profile.replace"
)]
pub async fn replace(
    account: Account,
    State(pool): State<Pool<Db>>,
    if_match: IfMatch,
    Json(new): Json<NewName>,
) -> Result<Profile, ApiError> {
    let name = new.checked()?;
    let current = database::find_profile(&pool, &account).await?;
    if_match.check(Some(&current.etag()))?;
    // What was just read may be old by the next line: the UPDATE has `revision` in its WHERE.
    if !database::replace_profile(&pool, &account, name, current.revision).await? {
        return Err(PreconditionFailed.into());
    }
    Ok(Profile {
        name: name.to_owned(),
        revision: current.revision + 1,
    })
}

/// `POST /profile/publish` counts a new revision and notifies the followers.
///
/// "Add one" has a new effect each time it is said, and so has a message. The key makes a repeat
/// recognizable; the notification is a row that commits with the rest, for a worker to send. Its
/// `operation_id` is `UNIQUE`, for a retry that comes after `ttl`.
#[idempotent(scope = "account", ttl = "48h", operation = "profile.publish")]
pub async fn publish(tx: &mut Tx<Db>, account: Account) -> Result<Profile, ApiError> {
    let operation_id = tx.operation_id();
    if !database::is_notified(&mut *tx, operation_id).await? {
        database::next_revision(&mut *tx, &account).await?;
        database::insert_notification(&mut *tx, &account, operation_id).await?;
    }
    Ok(database::find_profile(&mut *tx, &account).await?)
}

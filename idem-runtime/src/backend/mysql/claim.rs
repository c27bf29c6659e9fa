//! The insert that takes a key, or finds who has it.

use sqlx::Executor;
use sqlx::mysql::{MySqlConnection, MySqlRow};

use super::super::Claim;
use super::{Flavour, Query, lock_not_won, wait};

macro_rules! takes_over {
    ($column:literal) => {
        concat!(
            $column,
            " = IF(retain_until <= ",
            now!(),
            ", VALUES(",
            $column,
            "), ",
            $column,
            "), "
        )
    };
}

/// Any isolation: an insert reads what is committed, not the snapshot. `retain_until` is assigned last,
/// because the assignments before it read its old value.
macro_rules! claim {
    ($before:literal, $after:expr) => {
        concat!(
            $before,
            "INSERT INTO idem_keys \
               (id, scope, operation, state, owner, fingerprint_version, fingerprint, \
                fingerprint_options, status, created_at, completed_at) \
             VALUES (?, ?, ?, 0, ?, ?, ?, ?, 0, ",
            now!(),
            ", 0) ON DUPLICATE KEY UPDATE ",
            takes_over!("scope"),
            takes_over!("operation"),
            takes_over!("owner"),
            takes_over!("fingerprint_version"),
            takes_over!("fingerprint"),
            takes_over!("fingerprint_options"),
            takes_over!("created_at"),
            "attempt = IF(retain_until <= ",
            now!(),
            ", attempt + 1, attempt), state = IF(retain_until <= ",
            now!(),
            ", 0, state), expires_at = IF(retain_until <= ",
            now!(),
            ", NULL, expires_at), retain_until = IF(retain_until <= ",
            now!(),
            ", NULL, retain_until) ",
            $after
        )
    };
}

const CLAIM_MARIADB: &str = claim!(
    "SET STATEMENT innodb_lock_wait_timeout = 0 FOR ",
    concat!("RETURNING ", columns!())
);
const CLAIM_MYSQL: &str = claim!("", "");
const CLAIM_MYSQL_LOOK: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM idem_keys WHERE id = ? FOR UPDATE"
);

/// Inserts the key, or takes it over if its record's retention is over. Answers the row as it is then.
pub(super) async fn insert(
    connection: &mut MySqlConnection,
    flavour: Flavour,
    claim: &Claim<'_>,
) -> sqlx::Result<MySqlRow> {
    match flavour {
        Flavour::MariaDb => {
            bind_claim(sqlx::query(CLAIM_MARIADB), claim)
                .fetch_one(connection)
                .await
        }
        Flavour::MySql => claim_mysql(connection, claim).await,
    }
}

/// MySQL has no `RETURNING` and no wait of zero: where another transaction has the row this waits a second for it. Mostly
/// [`is_held`] has found that one before.
async fn claim_mysql(
    connection: &mut MySqlConnection,
    claim: &Claim<'_>,
) -> sqlx::Result<MySqlRow> {
    connection.execute(wait::SHORTEN).await?;
    let inserted = bind_claim(sqlx::query(CLAIM_MYSQL), claim)
        .execute(&mut *connection)
        .await;
    connection.execute(wait::RESTORE).await?;
    inserted?;
    sqlx::query(CLAIM_MYSQL_LOOK)
        .bind(claim.id.as_bytes().as_slice())
        .fetch_one(connection)
        .await
}

/// Whether another transaction has the key's row, asked of MySQL without waiting. Not in a transaction above READ COMMITTED:
/// there, a look for a row that does not exist locks the gap until the end, and two claims side by side were a deadlock.
pub(super) async fn is_held(
    connection: &mut MySqlConnection,
    claim: &Claim<'_>,
) -> sqlx::Result<bool> {
    let looked = sqlx::query("SELECT state FROM idem_keys WHERE id = ? FOR UPDATE NOWAIT")
        .bind(claim.id.as_bytes().as_slice())
        .fetch_optional(connection)
        .await;
    match looked {
        Err(error) if lock_not_won(&error) => Ok(true),
        looked => looked.map(|_| false),
    }
}

fn bind_claim<'q>(query: Query<'q>, claim: &'q Claim<'_>) -> Query<'q> {
    query
        .bind(claim.id.as_bytes().as_slice())
        .bind(claim.scope.as_str().as_bytes())
        .bind(claim.operation.as_bytes())
        .bind(claim.owner.as_slice())
        .bind(i16::from(claim.fingerprint.version()))
        .bind(claim.fingerprint.digest().as_slice())
        .bind(claim.fingerprint_options.map(str::as_bytes))
}

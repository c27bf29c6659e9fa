//! The framework's statements in two messages, by the simple query protocol.
//!
//! What a request costs is its round trips, on one machine and over a network. So the claim rides with `BEGIN`, as
//! the text of sqlx's own begin, and the record's insert with `COMMIT`. Each text is one message, whose
//! statements the server runs in order, and none after one that failed. Both statements are prepared once a
//! connection, so that the server does not plan them again.
//!
//! Values are written as numbers, as hexadecimal digits, or as strings without a quote and a backslash, so that nothing of
//! a request is ever read as SQL.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::TryStreamExt;
use sqlx::postgres::{PgConnection, PgDatabaseError, PgRow, PgSeverity};
use sqlx::{AssertSqlSafe, Connection, Executor, Row, SqlSafeStr};
use sqlx_core::transaction::TransactionManager;
use tracing::Dispatch;
use tracing::instrument::WithSubscriber;

use super::{Manager, begin_text};
use crate::backend::{Answer, Claim, Completed, EndFailure, Isolation, Stored, TransactionState};

/// A claim that looks for its key, and one that does not.
macro_rules! claims {
    ($suffix:literal, $lock:literal) => {
        concat!(
            "PREPARE idem_claim",
            $suffix,
            " (integer, integer, bytea, text) AS \
    SELECT CASE WHEN ",
            $lock,
            "NOT EXISTS (SELECT FROM idem_keys WHERE id = $3) \
           THEN set_config('idem.claim', left(set_config('idem.claim', $4 || '-over', false), -5), true) \
           ELSE ('idem: the key is not free, seen by ' || pg_backend_pid())::integer::text END; \
    PREPARE idem_claim_unseen",
            $suffix,
            " (integer, integer, text) AS \
    SELECT CASE WHEN ",
            $lock,
            "true \
           THEN set_config('idem.claim', left(set_config('idem.claim', $3 || '-over', false), -5), true) \
           ELSE ('idem: the key is not free, seen by ' || pg_backend_pid())::integer::text END; "
        )
    };
}

/// Prepared on each connection that is used so, before its first claim.
///
/// READ COMMITTED: the snapshot of the claim is older than its lock, as in the claim that is a message of its own.
/// The mark that it sets lasts as long as the transaction, and tells it from any other; under it lies another, which
/// only a commit leaves behind ([`is_committed`]). A simple query that sqlx's
/// begin sends can't return rows, so a key that is not free is an error; its text is not constant, or else the
/// planner would raise it.
///
/// At SERIALIZABLE the look comes before the transaction: see [`super::serializable`].
///
/// Where the mark is gone, the answer's row has no id, and is refused before the commit.
///
/// All are prepared with and without the lock, so that two settings may share a pool.
const PREPARE: &str = concat!(
    claims!("", "pg_try_advisory_xact_lock($1, $2) AND "),
    claims!("_unlocked", ""),
    "\
    PREPARE idem_look (bytea) AS \
    SELECT CASE WHEN EXISTS (SELECT FROM idem_keys WHERE id = $1) \
           THEN ('idem: the key is not free, seen by ' || pg_backend_pid())::integer END; \
    PREPARE idem_complete (bytea, bytea, text, text, smallint, bytea, text, integer, bytea, \
                           bytea, boolean, text, bigint, bigint) AS \
    INSERT INTO idem_keys \
       (id, scope, operation, owner, fingerprint_version, fingerprint, fingerprint_options, \
        status, headers, body, sealed, resources, state, created_at, completed_at, \
        expires_at, retain_until) \
    VALUES (CASE WHEN current_setting('idem.claim', true) = encode($1, 'hex') THEN $2 END, \
       $3, $4, $1, $5, $6, $7, $8, $9, $10, $11, $12, 1, now(), statement_timestamp(), \
       statement_timestamp() + $13 * interval '1 millisecond', \
       statement_timestamp() + $14 * interval '1 millisecond') \
    RETURNING (date_part('epoch', expires_at) * 1000)::bigint"
);

/// `invalid_text_representation`: the key is not free, or a fence does not hold.
pub(super) const NOT_FREE: &str = "22P02";
/// `invalid_sql_statement_name`: the connection has not prepared its statements.
pub(super) const NOT_PREPARED: &str = "26000";
/// `duplicate_prepared_statement`
const PREPARED: &str = "42P05";
/// `not_null_violation`, of the record's id
const NO_MARK: &str = "23502";

/// The longest headers and body, in bytes, that are written as digits.
pub(super) const MAX_CONTENT: usize = 16 * 1024;

/// How often in a row a connection's statements may be missing though they were just prepared, or be there though it is new: more
/// often, something between here and the server shares or drops them (a pooler, or a pool without a cache of
/// statements), and separate messages are right.
const MAX_MISSES: u32 = 64;

/// Whether messages are fused, as far as experience tells. One a pool.
#[derive(Clone, Debug, Default)]
pub(super) struct Fusing(Arc<AtomicU32>);

impl Fusing {
    pub(super) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed) < MAX_MISSES
    }

    pub(super) fn missed(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn found(&self) {
        if self.0.load(Ordering::Relaxed) != 0 {
            self.0.store(0, Ordering::Relaxed);
        }
    }
}

/// How a claim's transaction begins.
pub(super) struct Begin {
    pub(super) isolation: Option<Isolation>,
    /// The key is looked for in a transaction of its own.
    pub(super) looks_before: bool,
}

impl Begin {
    fn text(&self, claim: &Claim<'_>) -> String {
        let (suffix, (namespace, word)) = match claim.lock() {
            Some(lock) => ("", lock),
            None => ("_unlocked", (0, 0)),
        };
        let (begin, mark) = (begin_text(self.isolation), mark(claim));
        let id = bytes(claim.id.as_bytes());
        if self.looks_before {
            format!(
                "BEGIN ISOLATION LEVEL READ COMMITTED; EXECUTE idem_look({id}); COMMIT; \
                 {begin}; EXECUTE idem_claim_unseen{suffix}({namespace},{word},'{mark}')"
            )
        } else {
            format!("{begin}; EXECUTE idem_claim{suffix}({namespace},{word},{id},'{mark}')")
        }
    }
}

/// Begins and claims. `false`: the key has a record, or somebody else works on it; no transaction is open.
pub(super) async fn begin_claimed(
    connection: &mut PgConnection,
    fusing: &Fusing,
    begin: &Begin,
    claim: &Claim<'_>,
) -> sqlx::Result<bool> {
    // Nothing was run on it yet.
    let mut prepared = connection.cached_statements_size() == 0;
    if prepared {
        prepare_text(connection, fusing, PREPARE).await?;
    }
    let begin = begin.text(claim);
    let mut begun = begin_with(connection, &begin).await;
    if is(&begun, NOT_PREPARED) {
        // The connection's first claim comes after statements of the application's own.
        prepared = true;
        prepare_text(connection, fusing, PREPARE).await?;
        begun = begin_with(connection, &begin).await;
    }
    if is(&begun, NOT_PREPARED) {
        // Separate messages need nothing prepared.
        fusing.missed();
        return Ok(false);
    }
    if !prepared {
        fusing.found();
    }
    if is(&begun, NOT_FREE) {
        return Ok(false);
    }
    begun.map(|()| true)
}

pub(super) async fn begin_with(connection: &mut PgConnection, text: &str) -> sqlx::Result<()> {
    let begun = Manager::begin(
        connection,
        Some(AssertSqlSafe(text.to_owned()).into_sql_str()),
    )
    .await;
    if is(&begun, NOT_FREE) || is(&begun, NOT_PREPARED) {
        // sqlx counts no transaction, yet the server is in one.
        connection.execute(sqlx::raw_sql("ROLLBACK")).await?;
    }
    begun
}

pub(super) async fn prepare_text(
    connection: &mut PgConnection,
    fusing: &Fusing,
    text: &'static str,
) -> sqlx::Result<()> {
    let prepared = connection.execute(sqlx::raw_sql(text)).await.map(drop);
    if is(&prepared, PREPARED) {
        fusing.missed();
        return Ok(());
    }
    prepared
}

pub(super) fn is<T>(result: &sqlx::Result<T>, code: &str) -> bool {
    result.as_ref().err().is_some_and(|error| says(error, code))
}

/// Whether the server gave this code.
pub(super) fn says(error: &sqlx::Error, code: &str) -> bool {
    matches!(error, sqlx::Error::Database(error) if error.code().as_deref() == Some(code))
}

/// What marks the claim's transaction.
pub(super) fn mark(claim: &Claim<'_>) -> String {
    let mut mark = String::with_capacity(32);
    write_hexadecimal(&mut mark, &claim.owner);
    mark
}

/// Whether the transaction that this mark was set in has committed, asked in no transaction.
pub(super) async fn is_committed(connection: &mut PgConnection, mark: &str) -> sqlx::Result<bool> {
    sqlx::query_scalar(
        "SELECT coalesce(current_setting('idem.claim', true) = $1 || '-over', false)",
    )
    .bind(mark)
    .fetch_one(connection)
    .await
}

/// Stores the answer of a key that had no record, and commits.
///
/// A new transaction is open afterwards, so that sqlx's count of them stays right; it is empty, and its rollback
/// rides with whatever the connection sends next.
pub(super) async fn complete_and_commit(
    connection: &mut PgConnection,
    claim: &Claim<'_>,
    answer: &Answer<'_>,
) -> Result<Completed, EndFailure> {
    let content = answer.content.as_ref();
    let mut statement = Arguments::of("EXECUTE idem_complete(");
    statement.bytes(Some(&claim.owner));
    statement.bytes(Some(claim.id.as_bytes()));
    statement.text(Some(claim.scope.as_str()));
    statement.text(Some(claim.operation));
    statement.number(Some(claim.fingerprint.version()));
    statement.bytes(Some(claim.fingerprint.digest()));
    statement.text(claim.fingerprint_options);
    statement.number(Some(answer.status));
    statement.bytes(content.map(|content| content.headers));
    statement.bytes(content.map(|content| content.body));
    statement.number(Some(content.is_some_and(|content| content.sealed)));
    statement.text(answer.resources);
    statement.number(answer.ttl_millis());
    statement.number(answer.retention_millis());
    let text = statement.end("); COMMIT AND CHAIN");
    let (ended, stored) = end(connection, text).await;
    match (ended, &stored) {
        (Ok(()), Some(row)) => {
            Manager::start_rollback(connection);
            Ok(Completed::Stored(Stored {
                expires_at: expires_at(row),
            }))
        }
        (Ok(()), None) => Err(EndFailure::Open(None)),
        (Err(error), _) if !is_final(&error) => Err(EndFailure::Open(Some(error))),
        (Err(error), Some(_)) => Err(EndFailure::RolledBack(error)),
        // No row: it was the insert that failed. In a partitioned table an error names the part, not the table.
        (Err(sqlx::Error::Database(error)), None) if error.is_unique_violation() => {
            Ok(Completed::Lost)
        }
        (Err(error), None) if is_without_id(&error) => {
            Ok(Completed::NotOpen(TransactionState::Ended))
        }
        (Err(error), None) => Err(EndFailure::Storing(error)),
    }
}

/// Whether the record to be stored had no id, since the mark was gone.
fn is_without_id(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(error) = error else {
        return false;
    };
    error.code().as_deref() == Some(NO_MARK)
        && error
            .try_downcast_ref::<PgDatabaseError>()
            .is_some_and(|error| error.column() == Some("id"))
}

/// Runs a text that ends with the commit: what came of it, and the row that its statement answered.
pub(super) async fn end(
    connection: &mut PgConnection,
    text: String,
) -> (sqlx::Result<()>, Option<PgRow>) {
    let mut stored = None;
    let ended = unlogged(async {
        let mut rows = connection.fetch(sqlx::raw_sql(AssertSqlSafe(text)));
        // To its end: the commit's own answer comes after the row.
        while let Some(row) = rows.try_next().await? {
            stored = Some(row);
        }
        Ok(())
    })
    .await;
    (ended, stored)
}

/// In milliseconds since 1970. It is only shown, so that one which can't be read is none.
pub(super) fn expires_at(stored: &PgRow) -> Option<i64> {
    stored.try_get(0).ok().flatten()
}

/// Whether the server refused a statement and goes on: what it was doing is undone then. When it ends the
/// connection instead, it may have committed.
pub(super) fn is_final(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(error) = error else {
        return false;
    };
    error
        .try_downcast_ref::<PgDatabaseError>()
        .is_some_and(|error| error.severity() == PgSeverity::Error)
}

/// sqlx logs the text of each statement, and of slow ones as a warning; an answer is not for logs. Where the
/// application has no subscriber it may log through the `log` crate, for which a scoped one would end every other event.
async fn unlogged<T>(future: impl Future<Output = T>) -> T {
    if tracing::dispatcher::has_been_set() {
        future.with_subscriber(Dispatch::none()).await
    } else {
        future.await
    }
}

/// The arguments of an `EXECUTE`.
pub(super) struct Arguments(String);

impl Arguments {
    pub(super) fn of(statement: &str) -> Self {
        let mut text = String::with_capacity(1024);
        text.push_str(statement);
        Self(text)
    }

    pub(super) fn number(&mut self, value: Option<impl ToString>) {
        match value {
            Some(value) => self.0.push_str(&value.to_string()),
            None => self.0.push_str("NULL"),
        }
        self.0.push(',');
    }

    pub(super) fn bytes(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => write_bytes(&mut self.0, value),
            None => self.0.push_str("NULL"),
        }
        self.0.push(',');
    }

    pub(super) fn text(&mut self, value: Option<&str>) {
        match value {
            Some(value) if value.bytes().all(is_plain) => {
                self.0.push('\'');
                self.0.push_str(value);
                self.0.push('\'');
            }
            Some(value) => {
                self.0.push_str("convert_from(");
                write_bytes(&mut self.0, value.as_bytes());
                self.0.push_str(",'UTF8')");
            }
            None => self.0.push_str("NULL"),
        }
        self.0.push(',');
    }

    pub(super) fn end(mut self, rest: &str) -> String {
        self.0.pop();
        self.0.push_str(rest);
        self.0
    }
}

/// What a string literal holds as it is, whatever the settings.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" _.:-/@{}[]\"(),;=+".contains(&byte)
}

/// A literal.
pub(super) fn bytes(of: &[u8]) -> String {
    let mut text = String::with_capacity(of.len() * 2 + 16);
    write_bytes(&mut text, of);
    text
}

/// The same whatever `standard_conforming_strings` says.
fn write_bytes(text: &mut String, of: &[u8]) {
    text.push_str("E'\\\\x");
    write_hexadecimal(text, of);
    text.push('\'');
}

fn write_hexadecimal(text: &mut String, of: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    text.extend(
        of.iter().flat_map(|byte| {
            [byte >> 4, byte & 15].map(|half| char::from(DIGITS[usize::from(half)]))
        }),
    );
}

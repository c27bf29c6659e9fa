//! The outbox. One statement commits by itself; what takes several runs in `BEGIN IMMEDIATE`.

use std::time::Duration;

use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{QueryBuilder, Row, SqlSafeStr, Sqlite};
use sqlx_core::transaction::TransactionManager;

use super::super::millis;
use super::super::operations::{Audit, several};
use super::super::outbox::{
    Ask, Batch, FailedAttempt, Handling, MessageCounts, MessageFilter, MessageRow, OutboxStore,
    Outcome, Paused, Staged, rows,
};
use super::Manager;
use crate::backend::plain::plain;
use crate::outbox::{Lanes, MessageId, audited};

mod statements;

use statements::*;

type Query<'q> = sqlx::query::Query<'q, Sqlite, SqliteArguments>;

impl OutboxStore for Sqlite {
    async fn stage(
        connection: &mut SqliteConnection,
        message: &Staged<'_>,
        _: bool,
    ) -> sqlx::Result<()> {
        sqlx::query(STAGE)
            .bind(bytes(&message.id))
            .bind(message.topic)
            .bind(message.ordering_key)
            .bind(i16::from(message.lane))
            .bind(message.content_type)
            .bind(message.headers)
            .bind(message.payload)
            .bind(message.state() as i16)
            .bind(message.delay.map_or(0, millis))
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn enlist(
        connection: &mut SqliteConnection,
        relay: &[u8; 16],
        lease: Duration,
    ) -> sqlx::Result<u32> {
        begin(connection).await?;
        let enlisted = enlist(connection, relay, lease).await;
        several::end::<Sqlite, _>(connection, enlisted).await
    }

    async fn renew_lanes(
        connection: &mut SqliteConnection,
        relay: &[u8; 16],
        lease: Duration,
    ) -> sqlx::Result<Lanes> {
        let lanes: Vec<i16> = sqlx::query_scalar(RENEW_LANES)
            .bind(relay.as_slice())
            .bind(millis(lease))
            .fetch_all(connection)
            .await?;
        Ok(Lanes::from_sql(lanes))
    }

    async fn take_lanes(
        connection: &mut SqliteConnection,
        relay: &[u8; 16],
        lease: Duration,
        most: u32,
    ) -> sqlx::Result<Lanes> {
        sqlx::query(TAKE_LANES)
            .bind(relay.as_slice())
            .bind(millis(lease))
            .bind(i64::from(most))
            .execute(&mut *connection)
            .await?;
        Self::renew_lanes(connection, relay, lease).await
    }

    async fn give_lanes(
        connection: &mut SqliteConnection,
        relay: &[u8; 16],
        lanes: Lanes,
    ) -> sqlx::Result<()> {
        sqlx::query(GIVE_LANES)
            .bind(relay.as_slice())
            .bind(lanes.mask())
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn leave(connection: &mut SqliteConnection, relay: &[u8; 16]) -> sqlx::Result<()> {
        sqlx::query(LEAVE)
            .bind(relay.as_slice())
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn fetch(
        connection: &mut SqliteConnection,
        ask: &Ask<'_>,
        outcome: &Outcome,
    ) -> sqlx::Result<Batch> {
        Self::settle(&mut *connection, outcome).await?;
        let mut query = QueryBuilder::<Sqlite>::new(FETCH_DUE);
        push_turn(&mut query, ask);
        query.push(" ORDER BY o.state_at LIMIT ");
        query.push_bind(i64::from(ask.due));
        query.push(FETCH_PENDING);
        query.push_bind(ask.floor);
        query.push(" AND o.position <= ").push_bind(ask.ceiling);
        push_turn(&mut query, ask);
        query.push(" ORDER BY o.position LIMIT ");
        query.push_bind(i64::from(ask.pending));
        query.push(") ORDER BY position");
        let found = query.build().fetch_all(connection).await?;
        let fetched = found.iter().map(|row| {
            rows::fetched(
                row,
                |row, column| row.try_get(column),
                row.try_get("staged_ms")?,
            )
        });
        Ok(Batch {
            rows: fetched.collect::<sqlx::Result<_>>()?,
            // Deleted rows leave nothing behind that a scan would pass again.
            horizon: None,
        })
    }

    async fn settle(connection: &mut SqliteConnection, outcome: &Outcome) -> sqlx::Result<()> {
        if outcome.is_empty() {
            return Ok(());
        }
        begin(connection).await?;
        let settled = settle(connection, outcome).await;
        several::end::<Sqlite, _>(connection, settled).await
    }

    async fn sweep_delivered(
        connection: &mut SqliteConnection,
        keep: Duration,
        batch: u32,
    ) -> sqlx::Result<u64> {
        let done = sqlx::query(SWEEP)
            .bind(millis(keep))
            .bind(i64::from(batch))
            .execute(connection)
            .await?;
        Ok(done.rows_affected())
    }

    async fn messages(
        connection: &mut SqliteConnection,
        filter: &MessageFilter<'_>,
    ) -> sqlx::Result<Vec<MessageRow>> {
        let found = sqlx::query(LIST)
            .bind(filter.state.map(|state| state as i16))
            .bind(filter.topic)
            .bind(filter.ordering_key)
            .bind(filter.after)
            .bind(i64::from(filter.limit))
            .fetch_all(connection)
            .await?;
        found
            .iter()
            .map(|row| rows::message(row, |row, column| row.try_get(column), false))
            .collect()
    }

    async fn message(
        connection: &mut SqliteConnection,
        id: MessageId,
    ) -> sqlx::Result<Option<MessageRow>> {
        let found = sqlx::query(SHOW)
            .bind(bytes(&id))
            .fetch_optional(connection)
            .await?;
        found
            .as_ref()
            .map(|row| rows::message(row, |row, column| row.try_get(column), true))
            .transpose()
    }

    async fn handle(
        connection: &mut SqliteConnection,
        id: MessageId,
        handling: Handling,
        audit: &Audit<'_>,
    ) -> sqlx::Result<bool> {
        let statement = match handling {
            Handling::Requeue => REQUEUE,
            Handling::Drop => DROP,
        };
        let record = audited(id);
        let note = sqlx::query(super::operations::NOTE)
            .bind(record.as_bytes().as_slice())
            .bind(plain(audit.actor))
            .bind(audit.action)
            .bind(plain(audit.reason))
            .bind(audit.detail);
        begin(connection).await?;
        let handled = handle(connection, sqlx::query(statement).bind(bytes(&id)), note).await;
        several::end::<Sqlite, _>(connection, handled).await
    }

    async fn count_messages(connection: &mut SqliteConnection) -> sqlx::Result<MessageCounts> {
        let counted: Vec<(i16, i64, i64)> = sqlx::query_as(COUNT).fetch_all(connection).await?;
        Ok(MessageCounts::of(counted))
    }
}

async fn begin(connection: &mut SqliteConnection) -> sqlx::Result<()> {
    Manager::begin(connection, Some("BEGIN IMMEDIATE".into_sql_str())).await
}

async fn enlist(
    connection: &mut SqliteConnection,
    relay: &[u8; 16],
    lease: Duration,
) -> sqlx::Result<u32> {
    sqlx::query(GONE).execute(&mut *connection).await?;
    sqlx::query(HERE)
        .bind(relay.as_slice())
        .bind(millis(lease))
        .execute(&mut *connection)
        .await?;
    let relays: i64 = sqlx::query_scalar(RELAYS).fetch_one(connection).await?;
    Ok(u32::try_from(relays).unwrap_or(1))
}

async fn settle(connection: &mut SqliteConnection, outcome: &Outcome) -> sqlx::Result<()> {
    if !outcome.delivered.is_empty() {
        let mut query = QueryBuilder::<Sqlite>::new(if outcome.keep {
            KEEP_DELIVERED
        } else {
            DELETE_DELIVERED
        });
        let mut list = query.separated(", ");
        for (position, _) in &outcome.delivered {
            list.push_bind(*position);
        }
        query.push(")");
        query
            .build()
            .persistent(false)
            .execute(&mut *connection)
            .await?;
    }
    for failed in &outcome.failed {
        fail(failed).execute(&mut *connection).await?;
    }
    Ok(())
}

fn fail(failed: &FailedAttempt) -> Query<'_> {
    sqlx::query(FAIL)
        .bind(failed.position)
        .bind(i64::from(failed.attempts))
        .bind(failed.delay.map(millis))
        .bind(plain(&failed.reason))
}

async fn handle(
    connection: &mut SqliteConnection,
    handling: Query<'_>,
    note: Query<'_>,
) -> sqlx::Result<bool> {
    let done = handling.execute(&mut *connection).await?;
    if done.rows_affected() == 0 {
        return Ok(false);
    }
    note.execute(connection).await?;
    Ok(true)
}

fn bytes(id: &MessageId) -> &[u8] {
    id.as_uuid().as_bytes().as_slice()
}

/// The conditions under which it is a message's turn: its lane, its topic, no failed message of its key before it, and nothing
/// of its key that is being published.
fn push_turn(query: &mut QueryBuilder<Sqlite>, ask: &Ask<'_>) {
    query.push(" AND (");
    query.push_bind(ask.lanes.mask());
    query.push(" >> o.lane) & 1 = 1").push(NOT_BLOCKED);
    let begins = |query: &mut QueryBuilder<Sqlite>, prefix: &str| {
        query.push("substr(o.topic, 1, ");
        query.push_bind(i64::try_from(prefix.chars().count()).unwrap_or(i64::MAX));
        query.push(") = ").push_bind(prefix.to_owned());
    };
    if !ask.busy.is_empty() {
        query.push(" AND o.position NOT IN (");
        let mut list = query.separated(", ");
        for position in ask.busy {
            list.push_bind(*position);
        }
        query.push(")");
    }
    if !ask.busy_keys.is_empty() {
        query.push(" AND (o.ordering_key IS NULL OR o.ordering_key NOT IN (");
        let mut list = query.separated(", ");
        for key in ask.busy_keys {
            list.push_bind(key.to_owned());
        }
        query.push("))");
    }
    for Paused { prefix, except } in ask.paused {
        query.push(" AND NOT (");
        begins(query, prefix);
        for longer in except {
            query.push(" AND NOT ");
            begins(query, longer);
        }
        query.push(")");
    }
}

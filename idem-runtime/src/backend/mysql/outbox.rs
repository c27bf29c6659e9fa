//! The outbox. One statement commits by itself; what takes several runs at READ COMMITTED, which locks the rows that it finds
//! and no gap between them.

use std::time::Duration;

use sqlx::mysql::MySqlConnection;
use sqlx::{MySql, QueryBuilder, Row};

use super::super::millis;
use super::super::operations::{Audit, several};
use super::super::outbox::{
    Ask, Batch, FailedAttempt, Handling, MessageCounts, MessageFilter, MessageRow, OutboxStore,
    Outcome, Paused, Staged, rows,
};
use super::{Query, begin_read_committed, plain_bytes, text};
use crate::outbox::{Lanes, MessageId, audited};

mod statements;

use statements::*;

impl OutboxStore for MySql {
    async fn stage(
        connection: &mut MySqlConnection,
        message: &Staged<'_>,
        _: bool,
    ) -> sqlx::Result<()> {
        sqlx::query(STAGE)
            .bind(bytes(&message.id))
            .bind(message.topic.as_bytes())
            .bind(message.ordering_key.map(str::as_bytes))
            .bind(i16::from(message.lane))
            .bind(message.content_type.as_bytes())
            .bind(message.headers.map(str::as_bytes))
            .bind(message.payload)
            .bind(message.state() as i16)
            .bind(message.delay.map_or(0, millis))
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn enlist(
        connection: &mut MySqlConnection,
        relay: &[u8; 16],
        lease: Duration,
    ) -> sqlx::Result<u32> {
        sqlx::query(HERE)
            .bind(relay.as_slice())
            .bind(millis(lease))
            .execute(&mut *connection)
            .await?;
        begin_read_committed(connection).await?;
        let swept = gone(connection).await;
        several::end::<MySql, _>(connection, swept).await?;
        let relays: i64 = sqlx::query_scalar(RELAYS).fetch_one(connection).await?;
        Ok(u32::try_from(relays).unwrap_or(1))
    }

    async fn renew_lanes(
        connection: &mut MySqlConnection,
        relay: &[u8; 16],
        lease: Duration,
    ) -> sqlx::Result<Lanes> {
        sqlx::query(RENEW_LANES)
            .bind(millis(lease))
            .bind(relay.as_slice())
            .execute(&mut *connection)
            .await?;
        let lanes: Vec<i16> = sqlx::query_scalar(OWN_LANES)
            .bind(relay.as_slice())
            .fetch_all(connection)
            .await?;
        Ok(Lanes::from_sql(lanes))
    }

    async fn take_lanes(
        connection: &mut MySqlConnection,
        relay: &[u8; 16],
        lease: Duration,
        most: u32,
    ) -> sqlx::Result<Lanes> {
        begin_read_committed(connection).await?;
        let taken = take_lanes(connection, relay, lease, most).await;
        several::end::<MySql, _>(connection, taken).await?;
        Self::renew_lanes(connection, relay, lease).await
    }

    async fn give_lanes(
        connection: &mut MySqlConnection,
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

    async fn leave(connection: &mut MySqlConnection, relay: &[u8; 16]) -> sqlx::Result<()> {
        sqlx::query(LEAVE)
            .bind(relay.as_slice())
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn fetch(
        connection: &mut MySqlConnection,
        ask: &Ask<'_>,
        outcome: &Outcome,
    ) -> sqlx::Result<Batch> {
        Self::settle(&mut *connection, outcome).await?;
        let mut query = QueryBuilder::<MySql>::new("");
        for waiting in [FETCH_FAILED, FETCH_DELAYED] {
            query.push(waiting);
            push_turn(&mut query, ask);
            query.push(" ORDER BY o.state_at LIMIT ");
            query.push_bind(ask.due.div_ceil(2));
        }
        query.push(FETCH_PENDING);
        query.push_bind(ask.floor);
        query.push(" AND o.position <= ").push_bind(ask.ceiling);
        push_turn(&mut query, ask);
        query.push(" ORDER BY o.position LIMIT ");
        query.push_bind(ask.pending);
        query.push(") pending");
        let found = query.build().fetch_all(connection).await?;
        let fetched = found.iter().map(|row| {
            rows::fetched(
                row,
                |row, column| Ok(text(row.try_get(column)?)),
                row.try_get("staged_ms")?,
            )
        });
        let mut fetched = fetched.collect::<sqlx::Result<Vec<_>>>()?;
        fetched.sort_by_key(|row| row.position);
        Ok(Batch {
            rows: fetched,
            // Which transactions run is not told to everybody.
            horizon: None,
        })
    }

    async fn settle(connection: &mut MySqlConnection, outcome: &Outcome) -> sqlx::Result<()> {
        if !outcome.delivered.is_empty() {
            let positions = outcome.delivered.iter().map(|(position, _)| *position);
            let statement = if outcome.keep {
                KEEP_DELIVERED
            } else {
                DELETE_DELIVERED
            };
            on_positions(connection, statement, positions).await?;
        }
        if !outcome.failed.is_empty() {
            begin_read_committed(connection).await?;
            let failed = fail(connection, &outcome.failed).await;
            several::end::<MySql, _>(connection, failed).await?;
        }
        Ok(())
    }

    async fn sweep_delivered(
        connection: &mut MySqlConnection,
        keep: Duration,
        batch: u32,
    ) -> sqlx::Result<u64> {
        begin_read_committed(connection).await?;
        let swept = sweep(connection, keep, batch).await;
        several::end::<MySql, _>(connection, swept).await
    }

    async fn messages(
        connection: &mut MySqlConnection,
        filter: &MessageFilter<'_>,
    ) -> sqlx::Result<Vec<MessageRow>> {
        let mut query = QueryBuilder::<MySql>::new(LIST);
        if let Some(state) = filter.state {
            query.push(" AND state = ").push_bind(state as i16);
        }
        if let Some(topic) = filter.topic {
            query.push(" AND topic = ").push_bind(topic.as_bytes());
        }
        if let Some(key) = filter.ordering_key {
            query.push(" AND ordering_key = ").push_bind(key.as_bytes());
        }
        if let Some(after) = filter.after {
            query.push(" AND position > ").push_bind(after);
        }
        query
            .push(" ORDER BY position LIMIT ")
            .push_bind(filter.limit);
        let found = query.build().fetch_all(connection).await?;
        found
            .iter()
            .map(|row| rows::message(row, |row, column| Ok(text(row.try_get(column)?)), false))
            .collect()
    }

    async fn message(
        connection: &mut MySqlConnection,
        id: MessageId,
    ) -> sqlx::Result<Option<MessageRow>> {
        let found = sqlx::query(SHOW)
            .bind(bytes(&id))
            .fetch_optional(connection)
            .await?;
        found
            .as_ref()
            .map(|row| rows::message(row, |row, column| Ok(text(row.try_get(column)?)), true))
            .transpose()
    }

    async fn handle(
        connection: &mut MySqlConnection,
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
            .bind(plain_bytes(audit.actor))
            .bind(audit.action.as_bytes())
            .bind(plain_bytes(audit.reason))
            .bind(audit.detail.map(str::as_bytes))
            .bind(record.as_bytes().as_slice());
        begin_read_committed(connection).await?;
        let handled = handle(connection, sqlx::query(statement).bind(bytes(&id)), note).await;
        several::end::<MySql, _>(connection, handled).await
    }

    async fn count_messages(connection: &mut MySqlConnection) -> sqlx::Result<MessageCounts> {
        let counted: Vec<(i16, i64, i64)> = sqlx::query_as(COUNT).fetch_all(connection).await?;
        Ok(MessageCounts::of(counted))
    }
}

/// Those that another relay is about to delete are left to it.
async fn gone(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    let gone: Vec<Vec<u8>> = sqlx::query_scalar(GONE).fetch_all(&mut *connection).await?;
    for relay in gone {
        sqlx::query(LEAVE)
            .bind(relay)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

async fn take_lanes(
    connection: &mut MySqlConnection,
    relay: &[u8; 16],
    lease: Duration,
    most: u32,
) -> sqlx::Result<()> {
    let free: Vec<i16> = sqlx::query_scalar(FREE_LANES)
        .bind(most)
        .fetch_all(&mut *connection)
        .await?;
    sqlx::query(TAKE_LANES)
        .bind(relay.as_slice())
        .bind(millis(lease))
        .bind(Lanes::from_sql(free).mask())
        .execute(connection)
        .await?;
    Ok(())
}

async fn fail(connection: &mut MySqlConnection, failed: &[FailedAttempt]) -> sqlx::Result<()> {
    for failed in failed {
        let state: i16 = if failed.delay.is_some() { 2 } else { 4 };
        sqlx::query(FAIL)
            .bind(state)
            .bind(failed.delay.map_or(0, millis))
            .bind(plain_bytes(&failed.reason))
            .bind(failed.position)
            .bind(failed.attempts)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

async fn sweep(connection: &mut MySqlConnection, keep: Duration, batch: u32) -> sqlx::Result<u64> {
    let old: Vec<i64> = sqlx::query_scalar(OLD)
        .bind(millis(keep))
        .bind(batch)
        .fetch_all(&mut *connection)
        .await?;
    if old.is_empty() {
        return Ok(0);
    }
    on_positions(connection, SWEEP, old).await
}

/// Executes a statement with chosen positions.
async fn on_positions(
    connection: &mut MySqlConnection,
    statement: &'static str,
    positions: impl IntoIterator<Item = i64>,
) -> sqlx::Result<u64> {
    let positions: Vec<String> = positions.into_iter().map(|one| one.to_string()).collect();
    let positions = format!("[{}]", positions.join(","));
    let done = sqlx::query(statement).bind(positions);
    Ok(done.execute(connection).await?.rows_affected())
}

async fn handle(
    connection: &mut MySqlConnection,
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
fn push_turn(query: &mut QueryBuilder<MySql>, ask: &Ask<'_>) {
    query.push(" AND (");
    query.push_bind(ask.lanes.mask());
    query.push(" >> o.lane) & 1 = 1").push(NOT_BLOCKED);
    let begins = |query: &mut QueryBuilder<MySql>, prefix: &str| {
        query.push("LEFT(o.topic, ");
        query.push_bind(i64::try_from(prefix.len()).unwrap_or(i64::MAX));
        query.push(") = ").push_bind(prefix.as_bytes().to_vec());
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
            list.push_bind(key.as_bytes().to_vec());
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

//! The outbox. Each method is one statement, or several that each commit, and needs no isolation but their own snapshots: what
//! it says of a row is checked again once the row is locked.

use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgConnection, PgListener, PgRow};
use sqlx::{Pool, Postgres, QueryBuilder, Row};

use super::super::millis;
use super::super::operations::Audit;
use super::super::outbox::{
    Ask, Batch, FailedAttempt, Handling, Horizon, MessageCounts, MessageFilter, MessageRow,
    OutboxStore, Outcome, Paused, Staged, rows,
};
use crate::backend::plain::plain;
use crate::outbox::{Lanes, MessageId, audited};

mod statements;

use statements::*;

impl OutboxStore for Postgres {
    async fn stage(
        connection: &mut PgConnection,
        message: &Staged<'_>,
        notify: bool,
    ) -> sqlx::Result<()> {
        sqlx::query(if notify { STAGE_AND_NOTIFY } else { STAGE })
            .bind(message.id.as_uuid().as_bytes().as_slice())
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

    async fn listen(pool: &Pool<Postgres>, wake: impl Fn() + Send) -> sqlx::Result<bool> {
        // Not of the application's pool, which it would keep a connection of for ever.
        let own = PoolOptions::<Postgres>::new()
            .max_connections(1)
            .connect_lazy_with(pool.connect_options().as_ref().clone());
        let mut listener = PgListener::connect_with(&own).await?;
        listener.listen(CHANNEL).await?;
        // What was staged before it listened.
        wake();
        // `None`: the connection was lost, and with it what came meanwhile.
        while listener.try_recv().await?.is_some() {
            wake();
        }
        Ok(true)
    }

    async fn enlist(
        connection: &mut PgConnection,
        relay: &[u8; 16],
        lease: Duration,
    ) -> sqlx::Result<u32> {
        let others: i64 = sqlx::query_scalar(ENLIST)
            .bind(relay.as_slice())
            .bind(millis(lease))
            .fetch_one(connection)
            .await?;
        Ok(u32::try_from(others).unwrap_or(0).saturating_add(1))
    }

    async fn renew_lanes(
        connection: &mut PgConnection,
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
        connection: &mut PgConnection,
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
        connection: &mut PgConnection,
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

    async fn leave(connection: &mut PgConnection, relay: &[u8; 16]) -> sqlx::Result<()> {
        sqlx::query(LEAVE)
            .bind(relay.as_slice())
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn fetch(
        connection: &mut PgConnection,
        ask: &Ask<'_>,
        outcome: &Outcome,
    ) -> sqlx::Result<Batch> {
        let nothing = Outcome::default();
        let outcome = if outcome.unblocks || !outcome.failed.is_empty() {
            // The statement would not see which keys wait then.
            Self::settle(&mut *connection, outcome).await?;
            &nothing
        } else {
            outcome
        };
        let mut query = QueryBuilder::<Postgres>::new("WITH ");
        if !outcome.delivered.is_empty() {
            query.push("settled AS (");
            push_delivered(&mut query, outcome);
            query.push("), ");
        }
        query.push(FETCH);
        // The statement does not see what it settles itself.
        let settled = outcome.delivered.iter().map(|(position, _)| *position);
        let busy: Vec<i64> = ask.busy.iter().copied().chain(settled).collect();
        query.push(FETCH_DUE);
        push_turn(&mut query, ask, &busy);
        query.push(" ORDER BY o.state_at LIMIT ").push(ask.due);
        query.push(FETCH_PENDING);
        query.push_bind(ask.floor);
        query.push("::bigint) AND o.position <= (SELECT ");
        query.push_bind(ask.ceiling).push("::bigint)");
        push_turn(&mut query, ask, &busy);
        query.push(" ORDER BY o.position LIMIT ").push(ask.pending);
        query.push(FETCH_END);
        // A plan that was made for an empty table stays until the table is analyzed.
        query.push(format_args!(" /* plan {} */", ask.plan));
        // One plan serves all batches, but for those beside something unusual.
        let usual = ask.busy_keys.is_empty() && ask.paused.is_empty();
        let found = query
            .build()
            .persistent(usual)
            .fetch_all(connection)
            .await?;
        let horizon = found.first().map(|row| {
            Ok::<_, sqlx::Error>(Horizon {
                oldest: row.try_get("oldest_transaction")?,
                next: row.try_get("next_transaction")?,
                blocked: row.try_get("blocked")?,
            })
        });
        let fetched = found
            .iter()
            .map(|row| rows::fetched(row, |row, column| row.try_get(column), staged_at(row)?));
        let mut fetched = fetched.collect::<sqlx::Result<Vec<_>>>()?;
        fetched.sort_by_key(|row| row.position);
        Ok(Batch {
            rows: fetched,
            horizon: horizon.transpose()?,
        })
    }

    async fn settle(connection: &mut PgConnection, outcome: &Outcome) -> sqlx::Result<()> {
        if !outcome.failed.is_empty() {
            fail(&mut *connection, &outcome.failed).await?;
        }
        if !outcome.delivered.is_empty() {
            let mut query = QueryBuilder::new("");
            push_delivered(&mut query, outcome);
            query.build().persistent(false).execute(connection).await?;
        }
        Ok(())
    }

    async fn sweep_delivered(
        connection: &mut PgConnection,
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
        connection: &mut PgConnection,
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
        connection: &mut PgConnection,
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
        connection: &mut PgConnection,
        id: MessageId,
        handling: Handling,
        audit: &Audit<'_>,
    ) -> sqlx::Result<bool> {
        let statement = match handling {
            Handling::Requeue => REQUEUE,
            Handling::Drop => DROP,
        };
        let done = sqlx::query(statement)
            .bind(bytes(&id))
            .bind(audited(id).as_bytes().as_slice())
            .bind(plain(audit.actor))
            .bind(audit.action)
            .bind(plain(audit.reason))
            .bind(audit.detail)
            .execute(connection)
            .await?;
        Ok(done.rows_affected() > 0)
    }

    async fn count_messages(connection: &mut PgConnection) -> sqlx::Result<MessageCounts> {
        let counted: Vec<(i16, i64, i64)> = sqlx::query_as(COUNT).fetch_all(connection).await?;
        Ok(MessageCounts::of(counted))
    }
}

fn bytes(id: &MessageId) -> &[u8] {
    id.as_uuid().as_bytes().as_slice()
}

/// In milliseconds since 1970. A time is sent in microseconds since 2000; to have the server convert it costs it as much as to
/// read the row.
fn staged_at(row: &PgRow) -> sqlx::Result<i64> {
    const BEGIN: i64 = 946_684_800_000;
    let microseconds: i64 = row.try_get_unchecked("staged_at")?;
    Ok(BEGIN + microseconds.div_euclid(1000))
}

/// The statement that settles what is delivered.
fn push_delivered(query: &mut QueryBuilder<Postgres>, outcome: &Outcome) {
    query.push(if outcome.keep {
        KEEP_DELIVERED
    } else {
        DELETE_DELIVERED
    });
    let ids = outcome.delivered.iter().map(|(_, id)| bytes(id));
    query.push_bind(ids.collect::<Vec<_>>()).push(")");
}

async fn fail(connection: &mut PgConnection, failed: &[FailedAttempt]) -> sqlx::Result<()> {
    let attempts = |f: &FailedAttempt| i32::try_from(f.attempts).unwrap_or(i32::MAX);
    sqlx::query(FAIL)
        .bind(failed.iter().map(|f| bytes(&f.id)).collect::<Vec<_>>())
        .bind(failed.iter().map(attempts).collect::<Vec<_>>())
        .bind(
            failed
                .iter()
                .map(|f| f.delay.map(millis))
                .collect::<Vec<_>>(),
        )
        .bind(failed.iter().map(|f| plain(&f.reason)).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

/// The conditions under which it is a message's turn: its lane, its topic, no failed message of its key before it, and nothing
/// of its key that is being published.
fn push_turn(query: &mut QueryBuilder<Postgres>, ask: &Ask<'_>, busy: &[i64]) {
    // Of an inequality the planner expects that most rows pass, and reads them in their order.
    query.push(" AND (");
    query.push_bind(ask.lanes.mask());
    query
        .push("::bigint >> o.lane::int) & 1 <> 0")
        .push(NOT_BLOCKED);
    // A subquery is hashed, where an array would be gone through for each row.
    query.push(" AND o.position NOT IN (SELECT unnest(");
    query.push_bind(busy.to_vec()).push("::bigint[]))");
    if !ask.busy_keys.is_empty() {
        query.push(" AND (o.ordering_key IS NULL OR o.ordering_key <> ALL (");
        query.push_bind(ask.busy_keys.to_vec()).push("))");
    }
    for Paused { prefix, except } in ask.paused {
        query.push(" AND NOT (starts_with(o.topic, ");
        query.push_bind(prefix.clone()).push(")");
        for longer in except {
            query.push(" AND NOT starts_with(o.topic, ");
            query.push_bind(longer.clone()).push(")");
        }
        query.push(")");
    }
}

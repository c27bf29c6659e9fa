//! A key's record: the claim, the answer, and the look at several.

use sqlx::postgres::PgConnection;
use sqlx::{Arguments, Postgres, Row};

use super::super::{
    Answer, Backend, Claim, Claimed, Completed, Record, Standing, State, Stored, TransactionState,
};
use super::rows::{arguments, record};
use super::statements::{
    CLAIM, CLAIM_UNLOCKED, COMPLETE, COMPLETE_MARKED, COMPLETE_OVER, LOOK_TOGETHER,
};
use super::{Session, pooling};
use crate::scope::RecordId;

pub(super) async fn claim(
    connection: &mut PgConnection,
    session: &mut Session,
    claim: &Claim<'_>,
) -> sqlx::Result<Claimed> {
    let lock = claim.lock();
    let statement = lock.map_or(CLAIM_UNLOCKED, |_| CLAIM);
    let mut query = sqlx::query(statement).bind(claim.id.as_bytes().as_slice());
    if let Some((first, second)) = lock {
        query = query.bind(first).bind(second);
    }
    let row = query
        .bind(session.found)
        .fetch_one(&mut *connection)
        .await?;
    session.process = row.try_get(0)?;
    session.transaction = row.try_get(1)?;
    let won = session.transaction.is_some();
    if row.try_get(2)? {
        match Postgres::look(connection, claim.id).await? {
            Some(record) if record.standing != Standing::Expired => {
                return Ok(Claimed::Held(record));
            }
            expired => session.takes_over = expired.is_some(),
        }
    }
    Ok(if won {
        Claimed::Won {
            took_over: session.takes_over,
        }
    } else {
        Claimed::InFlight
    })
}

pub(super) async fn complete(
    connection: &mut PgConnection,
    session: &mut Session,
    claim: &Claim<'_>,
    answer: &Answer<'_>,
) -> sqlx::Result<Completed> {
    if session.pooled {
        // Once its transaction is over, no statement of this connection may be a prepared one.
        if pooling::is_over(&mut *connection, session.transaction.as_deref()).await? {
            return Ok(Completed::NotOpen(TransactionState::Ended));
        }
    }
    let (insert, guard) = match (&session.mark, session.takes_over) {
        (Some(mark), _) => (COMPLETE_MARKED, Some(&mark.text)),
        (None, true) => (COMPLETE_OVER, session.transaction.as_ref()),
        (None, false) => (COMPLETE, session.transaction.as_ref()),
    };
    let mut arguments = arguments(claim, answer, State::Completed).map_err(sqlx::Error::Encode)?;
    arguments.add(guard).map_err(sqlx::Error::Encode)?;
    let stored = sqlx::query_with(insert, arguments)
        .fetch_optional(&mut *connection)
        .await;
    let stored = match stored {
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
            return Ok(Completed::Lost);
        }
        stored => stored?,
    };
    Ok(match stored {
        Some(row) => Completed::Stored(Stored {
            expires_at: row.try_get(0)?,
        }),
        None => match Postgres::state(connection, session, Some(claim)).await? {
            TransactionState::Open => Completed::Lost,
            state => Completed::NotOpen(state),
        },
    })
}

pub(super) async fn look_together(
    connection: &mut PgConnection,
    ids: &[&RecordId],
) -> sqlx::Result<Vec<(RecordId, Record)>> {
    if let [id] = ids {
        let found = Postgres::look(connection, id).await?;
        return Ok(found.map(|record| (**id, record)).into_iter().collect());
    }
    let ids: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes().as_slice()).collect();
    let rows = sqlx::query(LOOK_TOGETHER)
        .bind(ids)
        .fetch_all(connection)
        .await?;
    rows.iter()
        .map(|row| {
            let id = RecordId::from_slice(row.try_get(12)?);
            let id = id
                .ok_or_else(|| sqlx::Error::Decode("a key's digest is not 32 bytes long".into()))?;
            Ok((id, record(row)?))
        })
        .collect()
}

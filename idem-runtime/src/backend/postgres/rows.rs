//! Records as parameters and as rows.

use bytes::Bytes;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::{Arguments, Row};

use super::super::{Answer, Claim, Record, Standing, State, fingerprint};

/// The first fifteen parameters of the inserts.
pub(super) fn arguments(
    claim: &Claim<'_>,
    answer: &Answer<'_>,
    state: State,
) -> Result<PgArguments, BoxDynError> {
    let content = answer.content.as_ref();
    let mut arguments = PgArguments::default();
    arguments.reserve(16, 256 + answer.content_length());
    arguments.add(claim.id.as_bytes().as_slice())?;
    arguments.add(claim.scope.as_str())?;
    arguments.add(claim.operation)?;
    arguments.add(claim.owner.as_slice())?;
    arguments.add(i16::from(claim.fingerprint.version()))?;
    arguments.add(claim.fingerprint.digest().as_slice())?;
    arguments.add(claim.fingerprint_options)?;
    arguments.add(i32::from(answer.status))?;
    arguments.add(content.map(|content| content.headers))?;
    arguments.add(content.map(|content| content.body))?;
    arguments.add(content.is_some_and(|content| content.sealed))?;
    arguments.add(answer.resources)?;
    arguments.add(answer.ttl_millis())?;
    arguments.add(answer.retention_millis())?;
    arguments.add(state as i16)?;
    Ok(arguments)
}

pub(super) fn record(row: &PgRow) -> sqlx::Result<Record> {
    Ok(Record {
        state: State::from_sql(row.try_get(0)?),
        standing: Standing::from_sql(row.try_get(11)?),
        owner: row.try_get(1)?,
        fingerprint: fingerprint(row.try_get(2)?, row.try_get(3)?)?,
        fingerprint_options: row.try_get(4)?,
        status: u16::try_from(row.try_get::<i32, _>(5)?).unwrap_or(500),
        headers: row.try_get::<Option<Vec<u8>>, _>(6)?.map(Bytes::from),
        body: row.try_get::<Option<Vec<u8>>, _>(7)?.map(Bytes::from),
        sealed: row.try_get(8)?,
        resources: row.try_get(9)?,
        expires_at: row.try_get(10)?,
    })
}

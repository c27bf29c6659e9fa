//! What the environment decides.

use std::error::Error;
use std::str::FromStr;
use std::time::Duration;

use idem_runtime::RoundTrips;
use tempfile::TempDir;

use super::charge::ChargePolicy;

/// The isolation of every connection of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Isolation {
    /// For a pool whose connections can't be told: every transaction of the library's.
    pub(crate) fn of_library(self) -> idem_runtime::Isolation {
        match self {
            Isolation::ReadCommitted => idem_runtime::Isolation::ReadCommitted,
            Isolation::RepeatableRead => idem_runtime::Isolation::RepeatableRead,
            Isolation::Serializable => idem_runtime::Isolation::Serializable,
        }
    }

    pub(crate) fn as_sql(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "READ COMMITTED",
            Isolation::RepeatableRead => "REPEATABLE READ",
            Isolation::Serializable => "SERIALIZABLE",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) address: String,
    pub(crate) database_url: String,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) round_trips: RoundTrips,
    /// Whether the database is reached through a pooler of transactions.
    pub(crate) transaction_pooling: bool,
    /// Whether the library sends what only spares work.
    pub(crate) hints: bool,
    pub(crate) pool_size: u32,
    pub(crate) max_in_flight: Option<usize>,
    pub(crate) wait: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    pub(crate) max_attempts: Option<u32>,
    /// How often the recovery worker looks; `None`: there is none.
    pub(crate) recovery: Option<Duration>,
    pub(crate) provider_url: String,
    pub(crate) charges: ChargePolicy,
    /// Keeps the default database until the end.
    _directory: Option<TempDir>,
}

impl Config {
    pub(crate) fn from_environment() -> Result<Config, Box<dyn Error>> {
        let (database_url, directory) = match variable("DATABASE_URL") {
            Some(url) => (url, None),
            None => {
                let directory = TempDir::new()?;
                let file = directory.path().join("probe.db");
                (
                    format!("sqlite:{}?mode=rwc", file.display()),
                    Some(directory),
                )
            }
        };
        Ok(Config {
            address: variable("ADDR").unwrap_or_else(|| "127.0.0.1:0".to_owned()),
            database_url,
            isolation: variable("ISOLATION").map(isolation).transpose()?,
            round_trips: variable("ROUND_TRIPS").map_or(Ok(RoundTrips::default()), round_trips)?,
            transaction_pooling: variable("TRANSACTION_POOLING").map_or(Ok(false), switch)?,
            hints: variable("HINTS").map_or(Ok(true), switch)?,
            pool_size: number("POOL_SIZE")?.unwrap_or(10),
            max_in_flight: number("MAX_IN_FLIGHT")?,
            wait: variable("WAIT").map(duration).transpose()?,
            lease: variable("LEASE").map(duration).transpose()?,
            max_attempts: number("MAX_ATTEMPTS")?,
            recovery: match variable("RECOVERY") {
                Some(off) if off == "off" => None,
                Some(interval) => Some(duration(interval)?),
                None => Some(Duration::from_millis(200)),
            },
            provider_url: variable("PROVIDER_URL")
                .unwrap_or_else(|| "http://127.0.0.1:1".to_owned()),
            charges: ChargePolicy {
                key_lifetime: match variable("KEY_LIFETIME") {
                    Some(none) if none == "none" => None,
                    Some(lifetime) => Some(duration(lifetime)?),
                    None => None,
                },
                reconcile: variable("RECONCILE").map_or(Ok(false), switch)?,
                call_timeout: variable("CALL_TIMEOUT").map(duration).transpose()?,
                in_flight_limit: variable("IN_FLIGHT_LIMIT").map(duration).transpose()?,
            },
            _directory: directory,
        })
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn number<N: FromStr>(name: &str) -> Result<Option<N>, String> {
    variable(name)
        .map(|value| {
            value
                .parse()
                .map_err(|_| format!("{name} is no number: {value}"))
        })
        .transpose()
}

fn switch(value: String) -> Result<bool, String> {
    match value.as_str() {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("neither on nor off: {value}")),
    }
}

fn isolation(value: String) -> Result<Isolation, String> {
    match value.as_str() {
        "read-committed" => Ok(Isolation::ReadCommitted),
        "repeatable-read" => Ok(Isolation::RepeatableRead),
        "serializable" => Ok(Isolation::Serializable),
        _ => Err(format!("ISOLATION is unknown: {value}")),
    }
}

fn round_trips(value: String) -> Result<RoundTrips, String> {
    match value.as_str() {
        "fewest" => Ok(RoundTrips::Fewest),
        "separate" => Ok(RoundTrips::Separate),
        _ => Err(format!("ROUND_TRIPS is unknown: {value}")),
    }
}

/// As in the attribute: `250ms`, `5s`, `2m`, `48h`.
fn duration(value: String) -> Result<Duration, String> {
    let digits = value.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let number: u64 = digits
        .parse()
        .map_err(|_| format!("no duration: {value}"))?;
    match &value[digits.len()..] {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number * 60)),
        "h" => Ok(Duration::from_secs(number * 3600)),
        _ => Err(format!("no duration: {value}")),
    }
}

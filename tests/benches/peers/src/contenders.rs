//! Who is compared. Each is set up as its README says.

mod axum_idempotent;
mod by_hand;
mod hwhkit;
mod idem;
mod idempotent;
mod unprotected;

use std::error::Error;
use std::time::Duration;

use axum::Router;
use sqlx::PgPool;

/// One way to protect the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    Unprotected,
    ByHand,
    Idem,
    AxumIdempotent,
    Idempotent,
    Hwhkit,
}

/// What a contender is built from.
pub(crate) struct Setup {
    pub(crate) pool: PgPool,
    pub(crate) postgres_url: String,
    pub(crate) redis_url: String,
    pub(crate) connections: u32,
    /// Whether this process makes the tables.
    pub(crate) migrates: bool,
    /// How long a claim is its process's, where claims are leased.
    pub(crate) lease: Duration,
}

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

impl Contender {
    pub(crate) const ALL: [Self; 6] = [
        Self::Unprotected,
        Self::ByHand,
        Self::Idem,
        Self::AxumIdempotent,
        Self::Idempotent,
        Self::Hwhkit,
    ];

    /// As it is named in arguments.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unprotected => "unprotected",
            Self::ByHand => "by-hand",
            Self::Idem => "idem",
            Self::AxumIdempotent => "axum-idempotent",
            Self::Idempotent => "idempotent",
            Self::Hwhkit => "hwhkit",
        }
    }

    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|contender| contender.name() == name)
    }

    /// As it is shown in tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Unprotected => "no protection",
            Self::ByHand => "by hand, one transaction",
            Self::Idem => "**idem**",
            Self::AxumIdempotent => "`axum-idempotent` 0.6.0, PostgreSQL sessions",
            Self::Idempotent => "`idempotent` 0.3.0, Redis",
            Self::Hwhkit => "`hwhkit` 0.6.0-alpha.4, Redis",
        }
    }

    /// `POST /orders`, protected.
    pub(crate) async fn router(self, setup: Setup) -> Result<Router, BoxError> {
        match self {
            Self::Unprotected => Ok(unprotected::router(setup.pool)),
            Self::ByHand => by_hand::router(setup).await,
            Self::Idem => idem::router(setup).await,
            Self::AxumIdempotent => axum_idempotent::router(setup).await,
            Self::Idempotent => idempotent::router(setup).await,
            Self::Hwhkit => hwhkit::router(setup).await,
        }
    }

    /// Where a key's answer is found once it is recorded.
    pub(crate) fn record(self) -> Record {
        match self {
            Self::Unprotected => Record::None,
            Self::ByHand => Record::Postgres(
                "SELECT count(*) FROM by_hand WHERE key = $1 AND status IS NOT NULL",
            ),
            // The key is stored as a digest; in this run each request has an owner of its own.
            Self::Idem => Record::Postgres(
                "SELECT count(*) FROM idem_keys WHERE scope = 's' || length($1) || ':' || $1",
            ),
            Self::AxumIdempotent => {
                Record::Postgres("SELECT count(*) FROM t_sessions WHERE field LIKE '%' || $1")
            }
            Self::Idempotent => Record::IdempotentEntry,
            Self::Hwhkit => Record::RedisKey(hwhkit::NAMESPACE),
        }
    }
}

/// Where a contender keeps an answer.
pub(crate) enum Record {
    None,
    /// A query that counts it.
    Postgres(&'static str),
    /// A key of Redis, after this prefix.
    RedisKey(&'static str),
    /// An entry of `idempotent`'s that has no fencing token any more.
    IdempotentEntry,
}

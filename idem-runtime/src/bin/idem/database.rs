//! Which database a URL is of, and a connection to it that changes nothing by itself.

use std::str::FromStr;
use std::time::Duration;

use idem_runtime::{Backend, Idempotency};
use sqlx::mysql::{MySql, MySqlConnectOptions};
use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgConnectOptions, Postgres};
use sqlx::sqlite::{Sqlite, SqliteConnectOptions};
use sqlx::{ConnectOptions, Connection};

use crate::Failure;
use crate::arguments::{Arguments, Command};
use crate::commands;
use crate::output::Output;

/// How long a connection, and each statement, may take.
const LIMIT: Duration = Duration::from_secs(10);
/// At least twice the limit, and no shorter than the wait for a connection.
const LEASE: Duration = Duration::from_secs(30);

enum Kind {
    Postgres,
    MySql,
    Sqlite,
}

impl Kind {
    fn of(url: &str) -> Result<Self, Failure> {
        // What is no URL may be a password, and is not quoted.
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
        match scheme {
            "postgres" | "postgresql" => Ok(Self::Postgres),
            "mysql" | "mariadb" => Ok(Self::MySql),
            "sqlite" => Ok(Self::Sqlite),
            _ => Err(Failure::Usage(
                "the database's URL begins with none of `postgres:`, `mysql:` and `sqlite:`; correct --database-url, or \
                 DATABASE_URL"
                    .to_owned(),
            )),
        }
    }
}

/// Runs a command on the database of the URL.
pub(crate) fn run(arguments: Arguments, output: &mut Output) -> Result<(), Failure> {
    let url = arguments.database_url.ok_or_else(|| {
        Failure::Usage("no database is named; give --database-url, or set DATABASE_URL".to_owned())
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("the runtime could not start: {error}")))?;
    match Kind::of(&url)? {
        Kind::Postgres => runtime.block_on(on::<Postgres>(
            || PgConnectOptions::from_str(&url).map(|options| options.application_name("idem")),
            arguments.command,
            output,
        )),
        Kind::MySql => runtime.block_on(on::<MySql>(
            || MySqlConnectOptions::from_str(&url),
            arguments.command,
            output,
        )),
        Kind::Sqlite => runtime.block_on(on::<Sqlite>(
            // To look at a file that isn't there must not make it.
            || SqliteConnectOptions::from_str(&url).map(|options| options.create_if_missing(false)),
            arguments.command,
            output,
        )),
    }
}

async fn on<DB>(
    options: impl FnOnce() -> sqlx::Result<<DB::Connection as Connection>::Options>,
    command: Command,
    output: &mut Output,
) -> Result<(), Failure>
where
    DB: Backend,
{
    if let Command::Schema = command {
        commands::schema::<DB>(output);
        return Ok(());
    }
    let options = options()
        .map_err(|error| Failure::Usage(format!("the database's URL can't be read: {error}")))?;
    let idempotency = connect::<DB>(options).await?;
    let done = commands::run(&idempotency, command, output).await;
    idempotency.pool().close().await;
    done
}

async fn connect<DB: Backend>(
    options: <DB::Connection as Connection>::Options,
) -> Result<Idempotency<DB>, Failure> {
    // A pool tries again until its time is over, and does not say why it failed.
    let first = tokio::time::timeout(LIMIT, options.connect()).await;
    let failed = match first {
        Ok(Ok(connection)) => {
            let _ = connection.close().await;
            None
        }
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("no answer within {LIMIT:?}")),
    };
    if let Some(error) = failed {
        return Err(Failure::Failed(format!(
            "the database can't be reached: {error}; check its URL, and that it runs"
        )));
    }
    let pool = PoolOptions::<DB>::new()
        .max_connections(2)
        .acquire_timeout(LIMIT)
        .connect_lazy_with(options);
    let idempotency = Idempotency::builder(pool)
        .store_timeout(LIMIT)
        // Whether or not there is a pooler on the way: it costs some round trips, which nobody here minds.
        .transaction_pooling(true)
        .lease(LEASE)
        .build();
    let idempotency = idempotency.map_err(|error| Failure::Failed(error.to_string()))?;
    idempotency
        .check()
        .await
        .map_err(|error| Failure::Failed(error.to_string()))?;
    Ok(idempotency)
}

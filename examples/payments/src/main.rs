//! Start-up and arguments.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use payments::gateway::Gateway;
use payments::process::{self, Process};
use payments::state::AppState;
use payments::{database, demo, provider};
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

const HELP: &str = "\
payments [serve]   serve on 127.0.0.1:3001, or on the ADDR of the environment
payments --demo    kill the server, lose answers, and count the payments at the provider
payments provider  the fake provider alone, on 127.0.0.1:3002 or ADDR

DATABASE_URL names the database; without it, a build for SQLite makes `payments.db` here.
PROVIDER_URL names the provider; without it, the server starts one, with its ledger in LEDGER or `provider.ledger`.";

#[tokio::main]
async fn main() -> ExitCode {
    let level = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(level)
        .with_writer(std::io::stderr)
        .init();

    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        [] | ["serve"] => serve().await,
        ["--demo"] => demo::run().await,
        ["provider"] => provide().await,
        ["--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("payments: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves until it is told to stop, and ends what has begun.
async fn serve() -> Result<(), Box<dyn Error + Send + Sync>> {
    let database_url = database::url()?;
    // Kept to the end: the provider stops with it.
    let (provider, _process) = match env::var("PROVIDER_URL") {
        Ok(url) => (url, None),
        Err(_) => {
            let process = Process::start("provider", &[("ADDR", "127.0.0.1:0")]).await?;
            (process.url.clone(), Some(process))
        }
    };
    let pool = database::connect(&database_url).await?;
    let state = AppState::start(pool.clone(), Gateway::new(provider.as_str())?).await?;
    let idempotency = state.idempotency.clone();
    let recovery = payments::recovery(&state).spawn();
    let sweeper = idempotency.sweeper().spawn();

    let listener = listen("127.0.0.1:3001").await?;
    let url = format!("http://{}", listener.local_addr()?);
    println!("listening on {url}");
    greet(&url, &provider);
    let app = payments::router().with_state(state).into_axum();
    process::serve(listener, app).await?;

    // A client that has hung up leaves its payment running: give it the time to end. What does not end goes on elsewhere, or
    // after the next start.
    if !idempotency.drain(Duration::from_secs(30)).await {
        tracing::warn!("stopped before every payment was done; recovery goes on with them");
    }
    recovery.stop().await;
    sweeper.stop().await;
    pool.close().await;
    Ok(())
}

async fn provide() -> Result<(), Box<dyn Error + Send + Sync>> {
    let ledger = env::var_os("LEDGER").map_or_else(|| "provider.ledger".into(), PathBuf::from);
    let router = provider::router(&ledger)
        .map_err(|error| format!("can't open the ledger {} ({error})", ledger.display()))?;
    let listener = listen("127.0.0.1:3002").await?;
    println!("listening on http://{}", listener.local_addr()?);
    tokio::select! {
        served = axum::serve(listener, router) => served?,
        () = process::stop() => {}
    }
    Ok(())
}

async fn listen(default: &str) -> Result<TcpListener, String> {
    let address = env::var("ADDR").unwrap_or_else(|_| default.to_owned());
    TcpListener::bind(&address).await.map_err(|error| {
        format!("can't listen on {address} ({error}); set ADDR to another address")
    })
}

fn greet(url: &str, provider: &str) {
    println!(
        "
A charge. Send it twice: the second answer is the first, with `Idempotent-Replayed: true`.

  curl -i {url}/charges -H 'Authorization: Bearer alice-token' \\
    -H 'Idempotency-Key: \"charge-1\"' -H 'Content-Type: application/json' \\
    -d '{{\"item\": \"book\", \"source\": \"tok_visa\"}}'

Others, each with a key of its own: `tok_declined` is refused, and stays so. With `tok_lost` the provider charges and drops its
answer: /charges calls it again, /debits asks it, and /redemptions ends as unknown.

  curl -i {url}/redemptions -H 'Authorization: Bearer alice-token' \\
    -H 'Idempotency-Key: \"gift-1\"' -H 'Content-Type: application/json' \\
    -d '{{\"item\": \"book\", \"source\": \"tok_lost\"}}'

What there is, what has not ended, and what the provider did:

  curl {url}/orders -H 'Authorization: Bearer alice-token'
  curl {url}/operations -H 'Authorization: Bearer alice-token'
  curl {provider}/ledger

More in examples/payments/README.md."
    );
}

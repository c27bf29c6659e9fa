//! Start-up and arguments.

use std::env;
use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use idem_runtime::routing::Router;
use orders::state::AppState;
use orders::{database, demo};
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

const HELP: &str = "\
orders          serve on 127.0.0.1:3000, or on the ADDR of the environment
orders --demo   start a server, lose answers, kill it, retry, and count the orders
orders --report print every route, with what a repeat of its request does

DATABASE_URL names the database; without it, a build for SQLite makes `orders.db` here.";

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
        [] => serve(orders::router()).await,
        ["--demo"] => demo::run().await,
        ["--report"] => {
            print!("{}", orders::router().report());
            Ok(())
        }
        [demo::SERVER] => serve(demo::router()).await,
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
            eprintln!("orders: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves until Ctrl-C or SIGTERM, and ends what has begun.
async fn serve(router: Router<AppState>) -> Result<(), Box<dyn Error + Send + Sync>> {
    let pool = database::connect(&database::url()?).await?;
    let state = AppState::start(pool.clone()).await?;
    let idempotency = state.idempotency.clone();

    let address = env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(&address).await.map_err(|error| {
        format!("can't listen on {address} ({error}); set ADDR to another address")
    })?;
    greet(listener.local_addr()?);
    let sweeper = idempotency.sweeper().spawn();

    let serving =
        axum::serve(listener, router.with_state(state).into_axum()).with_graceful_shutdown(stop());
    tokio::select! {
        served = serving.into_future() => served?,
        // A client that never ends its request would keep the server for ever.
        () = late() => tracing::warn!("stopped before every request had arrived"),
    }
    // A client that has hung up leaves its attempt running: give it the time to commit.
    if !idempotency.drain(Duration::from_secs(30)).await {
        tracing::warn!("stopped before every request was done; those are rolled back");
    }
    sweeper.stop().await;
    pool.close().await;
    Ok(())
}

/// How long a request may take to arrive once the server was told to stop.
const REQUESTS_END: Duration = Duration::from_secs(10);

async fn late() {
    stop().await;
    tokio::time::sleep(REQUESTS_END).await;
}

async fn stop() {
    let interrupted = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = interrupted => {}
                _ = terminated.recv() => {}
            }
            return;
        }
    }
    let _ = interrupted.await;
}

fn greet(address: SocketAddr) {
    println!("listening on http://{address}");
    println!(
        "
An order. Send it twice: the second answer is the first, with `Idempotent-Replayed: true`.

  curl -i http://{address}/orders -H 'Authorization: Bearer alice-token' \\
    -H 'Idempotency-Key: \"order-1\"' -H 'Content-Type: application/json' \\
    -d '{{\"item\": \"book\", \"quantity\": 2}}'

One that is declined, and stays so (Bob has 50.00 of credit):

  curl -i http://{address}/orders -H 'Authorization: Bearer bob-token' \\
    -H 'Idempotency-Key: \"order-1\"' -H 'Content-Type: application/json' \\
    -d '{{\"item\": \"desk\", \"quantity\": 1}}'

What there is:

  curl http://{address}/orders -H 'Authorization: Bearer alice-token'

More in examples/orders/README.md."
    );
}

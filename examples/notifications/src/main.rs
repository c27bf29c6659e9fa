//! Start-up and arguments.

use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use idem_runtime::outbox::webhook::{Secret, Verifier};
use notifications::broker::{Broker, BrokerError};
use notifications::database::Tables;
use notifications::process::{self, Process};
use notifications::receiver::Receiver;
use notifications::state::{self, AppState};
use notifications::worst_moment::{Committed, Published};
use notifications::{database, demo, ledger, receiver, relay, stream};
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

const HELP: &str = "\
notifications [serve]   the shop on 127.0.0.1:3003, or on the ADDR of the environment; starts all else as processes of its own
notifications --demo    kills each part in turn, and looks into the ledger

Each part alone; all but the receiver need NATS_URL, the address of a NATS server with JetStream:
notifications shop      on 127.0.0.1:3003 or ADDR; WEBHOOK_URL is its receiver's, http://127.0.0.1:3005/hooks unless said
notifications ledger    on 127.0.0.1:3004 or ADDR
notifications receiver  on 127.0.0.1:3005 or ADDR

Without NATS_URL, `serve` and `--demo` start a `nats-server`, or the program that NATS_SERVER names. WEBHOOK_SECRET is what webhooks are signed with.
DATABASE_URL names the database; without it, a build for SQLite makes `shop.db`, `ledger.db` and `receiver.db` here.";

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

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
        ["shop"] => serve_shop(&nats_url(), &webhook_url(), |_| {}).await,
        ["ledger"] => serve_ledger(&nats_url()).await,
        ["receiver"] => serve_receiver().await,
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
            eprintln!("notifications: {error}");
            match error.downcast_ref() {
                Some(BrokerError::NotInstalled) => ExitCode::from(2),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// The shop, and all that it needs.
async fn serve() -> Result<()> {
    // Asked for before anything is started.
    database::url("shop")?;
    // All are kept to the end: they stop with this process.
    let broker = match env::var("NATS_URL") {
        Ok(_) => None,
        Err(_) => Some(Broker::start().await?),
    };
    let nats = broker.as_ref().map_or_else(nats_url, Broker::url);
    let environment = [("ADDR", "127.0.0.1:0"), ("NATS_URL", &nats)];
    let receiver = Process::start("receiver", &environment).await?;
    let ledger = Process::start("ledger", &environment).await?;
    let webhooks = format!("{}/hooks", receiver.url);
    serve_shop(&nats, &webhooks, |shop| {
        greet(shop, &ledger.url, &receiver.url)
    })
    .await
}

/// Takes orders and publishes messages until it is told to stop, and ends what has begun.
async fn serve_shop(nats: &str, webhooks: &str, greet: impl FnOnce(&str)) -> Result<()> {
    let pool = database::connect(&database::url("shop")?).await?;
    let state = AppState::start(pool.clone()).await?;
    let idempotency = state.idempotency.clone();
    let client = connect(nats).await?;
    stream::open(&client, stream::DUPLICATE_WINDOW).await?;
    let broker = Published(stream::publisher(client));
    let receiver = relay::webhooks(webhooks, &secret())?;
    let relay = relay::relay(&idempotency, broker, receiver).spawn();
    let sweeper = idempotency.sweeper().spawn();

    let router = notifications::router().with_state(state).into_axum();
    listen("127.0.0.1:3003", router, greet).await?;

    if !idempotency.drain(Duration::from_secs(30)).await {
        tracing::warn!("stopped before every order was done");
    }
    // What is not published by now is published after the next start, or by another relay.
    relay.stop().await;
    sweeper.stop().await;
    pool.close().await;
    Ok(())
}

/// Keeps the ledger until it is told to stop.
async fn serve_ledger(nats: &str) -> Result<()> {
    let pool = database::connect(&database::url("ledger")?).await?;
    let idempotency = state::open(&pool, Tables::Ledger).await?;
    let client = connect(nats).await?;
    stream::open(&client, stream::DUPLICATE_WINDOW).await?;
    let orders = Committed(stream::source(client));
    let consumers = ledger::consumers(&idempotency, orders).spawn().await?;
    // It deletes what is older than its `ttl`.
    let sweeper = idempotency.sweeper().spawn();

    listen("127.0.0.1:3004", ledger::router(pool.clone()), |_| {}).await?;

    consumers.stop().await;
    sweeper.stop().await;
    pool.close().await;
    Ok(())
}

/// Receives webhooks until it is told to stop.
async fn serve_receiver() -> Result<()> {
    let pool = database::connect(&database::url("receiver")?).await?;
    let idempotency = state::open(&pool, Tables::Receiver).await?;
    let sweeper = idempotency.sweeper().spawn();
    let receiver = Receiver {
        verifier: Arc::new(Verifier::new(Secret::parse(&secret())?)),
        inbox: idempotency.inbox(),
        pool: pool.clone(),
    };
    listen("127.0.0.1:3005", receiver::router(receiver), |_| {}).await?;
    sweeper.stop().await;
    pool.close().await;
    Ok(())
}

fn nats_url() -> String {
    env::var("NATS_URL").unwrap_or_else(|_| "nats://127.0.0.1:4222".to_owned())
}

fn webhook_url() -> String {
    env::var("WEBHOOK_URL").unwrap_or_else(|_| "http://127.0.0.1:3005/hooks".to_owned())
}

fn secret() -> String {
    env::var("WEBHOOK_SECRET").unwrap_or_else(|_| relay::EXAMPLE_SECRET.to_owned())
}

async fn connect(nats: &str) -> Result<async_nats::Client, String> {
    async_nats::connect(nats)
        .await
        .map_err(|error| format!("can't connect to NATS at {nats} ({error}); set NATS_URL"))
}

/// Serves until the process is told to stop.
async fn listen(default: &str, router: Router, greet: impl FnOnce(&str)) -> Result<()> {
    let address = env::var("ADDR").unwrap_or_else(|_| default.to_owned());
    let listener = TcpListener::bind(&address).await.map_err(|error| {
        format!("can't listen on {address} ({error}); set ADDR to another address")
    })?;
    let url = format!("http://{}", listener.local_addr()?);
    println!("listening on {url}");
    greet(&url);
    process::serve(listener, router).await?;
    Ok(())
}

fn greet(shop: &str, ledger: &str, receiver: &str) {
    println!(
        "
An order. Send it twice: the second answer is the first, with `Idempotent-Replayed: true`, and nobody hears of it again.

  curl -i {shop}/orders -H 'Authorization: Bearer alice-token' \\
    -H 'Idempotency-Key: \"order-1\"' -H 'Content-Type: application/json' \\
    -d '{{\"item\": \"book\"}}'

What the shop has, what the ledger has heard of, and how many webhooks have come:

  curl {shop}/orders -H 'Authorization: Bearer alice-token'
  curl {ledger}/ledger
  curl {receiver}/seen

More in examples/notifications/README.md."
    );
}

//! `orders --demo`: one order, sent again and again to a server that is killed, over a real network.
//!
//! The server is a process of its own, so that it can be killed as the kernel or a power cut would.

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::process::Stdio;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use idem_runtime::routing::{Router, post};
use idem_runtime::{EffectFree, IdempotentHandler, Tx, idempotent};
use sqlx::Pool;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::auth::Account;
use crate::database::{self, Db};
use crate::errors::ApiError;
use crate::orders::{self, NewOrder, Order};
use crate::state::{AppState, Prices};

/// The argument that makes this program the demo's server.
pub const SERVER: &str = "--demo-server";

/// What the server prints when a request rests between its writes and its commit.
const RESTING: &str = "resting before the commit";
const REST_HEADER: &str = "x-demo-rest";
const LIMIT: Duration = Duration::from_secs(20);

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// Tells the story, and fails unless there is exactly one order at its end.
pub async fn run() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let url = if cfg!(feature = "sqlite") {
        format!("sqlite:{}", directory.path().join("orders.db").display())
    } else {
        database::url()?
    };
    tokio::time::timeout(LIMIT, story(&url))
        .await
        .map_err(|_| format!("the demo was not over after {LIMIT:?}"))?
}

async fn story(url: &str) -> Result<()> {
    let mut server = Server::start(url).await?;
    let pool = database::connect(url).await?;
    let before = database::count_orders(&pool).await?;
    let client = Client::new()?;
    println!("One order, with the key {}.\n", client.key);

    println!(
        "1. It is sent once, and the server killed (SIGKILL) after the INSERT, before the commit."
    );
    let once = tokio::spawn(client.clone().send(server.address.clone(), true));
    server.line_with(RESTING).await?;
    server.kill().await?;
    match once.await? {
        Err(error) if error.is_request() || error.is_body() => println!("   No answer: {error}."),
        other => return Err(format!("the killed server has answered: {other:?}").into()),
    }
    server = Server::start(url).await?;
    println!(
        "   The server is back. Orders in the database: {}\n",
        count(&pool, before).await?
    );

    println!("2. It is sent 50 times at once.");
    let mut requests = JoinSet::new();
    for _ in 0..50 {
        requests.spawn(client.clone().send(server.address.clone(), false));
    }
    let mut answers = Vec::new();
    while let Some(answer) = requests.join_next().await {
        answers.push(answer??);
    }
    println!("   50 requests at once: {}", summary(&answers));
    println!(
        "   Orders in the database: {}\n",
        count(&pool, before).await?
    );

    println!(
        "3. It is sent again, and the connection closed before the answer arrives: that is lost."
    );
    client.send_and_hang_up(&server.address).await?;
    println!(
        "   Orders in the database: {}\n",
        count(&pool, before).await?
    );

    println!("4. The server is killed and started again, and the order sent once more.");
    server.kill().await?;
    server = Server::start(url).await?;
    let last = client.clone().send(server.address.clone(), false).await?;
    let replayed = if last.replayed { ", replayed" } else { "" };
    println!("   The answer: {}{replayed}\n", last.status.as_u16());
    server.kill().await?;

    let is_last = |answer: &Answer| (answer.status, &answer.body) == (last.status, &last.body);
    if !answers.iter().all(is_last) {
        return Err("two answers differ".into());
    }
    println!("All answers are the same: {}", last.body);
    let orders = count(&pool, before).await?;
    println!("orders in the database: {orders}");
    match orders {
        1 => Ok(()),
        _ => Err("there should be exactly one order".into()),
    }
}

/// Of this run: a database server may hold orders of earlier ones.
async fn count(pool: &Pool<Db>, before: i64) -> Result<i64> {
    Ok(database::count_orders(pool).await? - before)
}

/// The server, as a process of its own.
struct Server {
    process: Child,
    output: Lines<BufReader<ChildStdout>>,
    address: String,
}

impl Server {
    async fn start(url: &str) -> Result<Self> {
        let mut process = Command::new(env::current_exe()?)
            .arg(SERVER)
            .env("DATABASE_URL", url)
            .env("ADDR", "127.0.0.1:0")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = process.stdout.take().ok_or("the server has no output")?;
        let mut server = Self {
            process,
            output: BufReader::new(output).lines(),
            address: String::new(),
        };
        let line = server.line_with("listening on http://").await?;
        server.address = line.replace("listening on http://", "");
        Ok(server)
    }

    /// Waits until the server prints a line with `text`.
    async fn line_with(&mut self, text: &str) -> Result<String> {
        while let Some(line) = self.output.next_line().await? {
            if line.contains(text) {
                return Ok(line);
            }
        }
        Err(format!("the server ended before it printed `{text}`").into())
    }

    /// SIGKILL: nothing in the process can prepare for it.
    async fn kill(&mut self) -> Result<()> {
        Ok(self.process.kill().await?)
    }
}

/// A client that sends one order under one key, as often as it takes.
#[derive(Clone)]
struct Client {
    http: reqwest::Client,
    key: String,
}

#[derive(Debug)]
struct Answer {
    status: StatusCode,
    replayed: bool,
    body: String,
}

const ORDER: &str = r#"{"item": "book", "quantity": 2}"#;

impl Client {
    fn new() -> Result<Self> {
        Ok(Self {
            http: reqwest::Client::builder().no_proxy().build()?,
            key: Uuid::new_v4().to_string(),
        })
    }

    async fn send(self, address: String, rest: bool) -> Result<Answer, reqwest::Error> {
        let mut request = self
            .http
            .post(format!("http://{address}/orders"))
            .bearer_auth("alice-token")
            .header("idempotency-key", format!("\"{}\"", self.key))
            .header("content-type", "application/json")
            .body(ORDER);
        if rest {
            request = request.header(REST_HEADER, "yes");
        }
        let response = request.send().await?;
        Ok(Answer {
            status: response.status(),
            replayed: response.headers().contains_key("idempotent-replayed"),
            body: response.text().await?,
        })
    }

    async fn send_and_hang_up(&self, address: &str) -> Result<()> {
        let request = format!(
            "POST /orders HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer alice-token\r\n\
             idempotency-key: \"{}\"\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{ORDER}",
            self.key,
            ORDER.len(),
        );
        let mut connection = TcpStream::connect(address).await?;
        connection.write_all(request.as_bytes()).await?;
        Ok(connection.shutdown().await?)
    }
}

/// As `1 × 201, 49 × replayed`.
fn summary(answers: &[Answer]) -> String {
    let mut kinds = BTreeMap::new();
    for answer in answers {
        let kind = match answer.replayed {
            true => "replayed".to_owned(),
            false => answer.status.as_u16().to_string(),
        };
        *kinds.entry(kind).or_insert(0) += 1;
    }
    let kinds: Vec<String> = kinds
        .into_iter()
        .map(|(kind, count)| format!("{count} × {kind}"))
        .collect();
    kinds.join(", ")
}

/// What the demo needs of the service, where a request can ask to rest before its commit.
pub fn router() -> Router<AppState> {
    Router::new().route("/orders", post(create_and_rest))
}

/// [`orders::create`] under the same operation, so that the two know each other's keys and orders.
#[idempotent(scope = "account", ttl = "48h", operation = "orders.create")]
async fn create_and_rest(
    tx: &mut Tx<Db>,
    account: Account,
    rest: Rest,
    State(prices): State<Prices>,
    Json(new): Json<NewOrder>,
) -> Result<(StatusCode, Json<Order>), ApiError> {
    let answer = orders::create
        .invoke(tx, (account, State(prices), Json(new)))
        .await;
    if rest.0 {
        println!("{RESTING}");
        tokio::time::sleep(LIMIT).await;
    }
    answer
}

/// Whether a request asks to rest.
#[derive(EffectFree)]
struct Rest(bool);

impl<S: Send + Sync> FromRequestParts<S> for Rest {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(parts.headers.contains_key(REST_HEADER)))
    }
}

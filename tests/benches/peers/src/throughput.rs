//! How many first executions and replays a second each contender answers, over HTTP.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use sqlx::PgPool;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::client::log_in;
use crate::contenders::{BoxError, Contender};
use crate::server::{Environment, Server};

const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_millis(1500);
/// Keys of each client that are replayed by turns.
const USED: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    Fresh,
    Used,
}

/// One connection, in a session of its own.
struct Client {
    connection: SendRequest<Full<Bytes>>,
    cookie: Option<String>,
    name: String,
}

impl Client {
    async fn connect(server: &Server, name: String) -> Result<Self, BoxError> {
        let stream = TcpStream::connect(server.address).await?;
        stream.set_nodelay(true)?;
        let (connection, driver) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(driver);
        let address = server.address;
        let cookie = tokio::task::spawn_blocking(move || log_in(address)).await??;
        Ok(Self {
            connection,
            cookie,
            name,
        })
    }

    /// The key is this client's: not every contender tells the keys of two accounts apart.
    async fn order(&mut self, key: &str) -> Result<(), BoxError> {
        let key = format!("{}-{key}", self.name);
        let mut request = hyper::Request::post("/orders")
            .header("host", "peers")
            .header("authorization", &self.name)
            .header("idempotency-key", key)
            .header("content-type", "application/json");
        if let Some(cookie) = &self.cookie {
            request = request.header("cookie", cookie);
        }
        let body = Full::new(Bytes::from_static(br#"{"item":"book","quantity":2}"#));
        self.connection.ready().await?;
        let answer = self.connection.send_request(request.body(body)?).await?;
        let status = answer.status();
        answer.into_body().collect().await?;
        match status.as_u16() {
            201 => Ok(()),
            other => Err(format!("answered {other}").into()),
        }
    }
}

/// So many clients of one server: what they did in one round, and how much a second.
async fn rate(server: &Server, clients: usize, keys: Keys) -> Result<(usize, f64), BoxError> {
    let mut running = JoinSet::new();
    let mut ready = Vec::new();
    for number in 0..clients {
        let run = fastrand::u32(..);
        let mut client =
            Client::connect(server, format!("client-{clients}-{number}-{run}")).await?;
        if keys == Keys::Used {
            for used in 0..USED {
                client.order(&format!("used-{used}")).await?;
            }
        }
        ready.push(client);
    }
    let start = Instant::now();
    for mut client in ready {
        running.spawn(async move {
            let mut done = 0_usize;
            while start.elapsed() < ROUND {
                let key = match keys {
                    Keys::Fresh => format!("fresh-{done}"),
                    Keys::Used => format!("used-{}", done % USED),
                };
                client.order(&key).await?;
                done += 1;
            }
            Ok::<_, BoxError>(done)
        });
    }
    let mut done = 0;
    while let Some(client) = running.join_next().await {
        done += client??;
    }
    #[allow(clippy::cast_precision_loss, reason = "a rate")]
    Ok((done, done as f64 / start.elapsed().as_secs_f64()))
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// One line of the table for each contender: the columns are first executions and replays, with each number of clients.
pub(crate) async fn measure(
    contenders: &[Contender],
    environment: &Environment,
    orders: &PgPool,
) -> Result<(), BoxError> {
    let mut servers = Vec::new();
    for contender in contenders {
        servers.push(Server::start(*contender, environment)?);
    }
    let columns = [
        (Keys::Fresh, 8),
        (Keys::Fresh, 32),
        (Keys::Used, 8),
        (Keys::Used, 32),
    ];
    // By contender and column, a rate each round.
    let mut rates = vec![vec![Vec::new(); columns.len()]; contenders.len()];
    for (column, (keys, clients)) in columns.into_iter().enumerate() {
        for round in 0..ROUNDS {
            for turn in 0..contenders.len() {
                let index = (round + turn) % contenders.len();
                if keys == Keys::Used && contenders[index] == Contender::Unprotected {
                    continue;
                }
                let before = count(orders).await?;
                let (done, measured) = rate(&servers[index], clients, keys).await?;
                let made = count(orders).await? - before;
                let expected = match keys {
                    Keys::Fresh => i64::try_from(done)?,
                    Keys::Used => i64::try_from(clients * USED)?,
                };
                if made != expected {
                    let name = contenders[index].name();
                    return Err(format!("{name}: {made} orders, and not {expected}").into());
                }
                rates[index][column].push(measured);
            }
        }
    }
    println!(
        "| requests a second (ratio to by hand) | first, 8 clients | first, 32 | replays, 8 | replays, 32 |"
    );
    println!("|---|---|---|---|---|");
    let hand = contenders
        .iter()
        .position(|contender| *contender == Contender::ByHand);
    for (index, contender) in contenders.iter().enumerate() {
        print!("| {} |", contender.title());
        for (column, mine) in rates[index].iter().enumerate() {
            match hand {
                _ if mine.is_empty() => print!(" – |"),
                Some(hand) => {
                    let ratios = mine.iter().zip(&rates[hand][column]);
                    let ratio = median(ratios.map(|(of, to)| of / to).collect());
                    print!(" {:.0} ({ratio:.2}) |", median(mine.clone()));
                }
                None => print!(" {:.0} |", median(mine.clone())),
            }
        }
        println!();
    }
    Ok(())
}

async fn count(orders: &PgPool) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT count(*) FROM orders")
        .fetch_one(orders)
        .await
}

//! What a kill leaves. The server is killed (SIGKILL) at a random moment of a request, and started again; the client sends the same
//! request with the same key until it is answered. Then its effects are counted.

use std::time::{Duration, Instant};

use sqlx::PgPool;
use tokio::runtime::Handle;

use crate::client::{Request, log_in};
use crate::contenders::{BoxError, Contender, Record};
use crate::server::{APPLICATION, Environment, Server};

/// How long a retry is repeated before it counts as locked out, and is tried again at the end.
const REFUSED_FOR: Duration = Duration::from_millis(100);
/// How much longer than a request takes the latest kill comes.
const LATEST: f64 = 1.3;

/// When a kill came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    BeforeEffect,
    BeforeRecord,
    AfterRecord,
}

/// What became of a contender's requests.
#[derive(Debug, Default)]
struct Tally {
    before_effect: usize,
    before_record: usize,
    after_record: usize,
    once: usize,
    doubled: usize,
    lost: usize,
    locked_out: usize,
    locked_for_good: usize,
    longest: Duration,
}

impl Tally {
    fn came(&mut self, moment: Moment) {
        match moment {
            Moment::BeforeEffect => self.before_effect += 1,
            Moment::BeforeRecord => self.before_record += 1,
            Moment::AfterRecord => self.after_record += 1,
        }
    }

    fn counted(&mut self, effects: i64) {
        match effects {
            0 => self.lost += 1,
            1 => self.once += 1,
            _ => self.doubled += 1,
        }
    }
}

/// What is asked about the stores, from a thread that blocks.
struct Looker {
    orders: PgPool,
    redis: redis::Connection,
    runtime: Handle,
}

impl Looker {
    fn number(&self, sql: &'static str, token: &str) -> Result<i64, BoxError> {
        let query = sqlx::query_scalar(sql).bind(token).fetch_one(&self.orders);
        Ok(self.runtime.block_on(query)?)
    }

    fn effects(&self, token: &str) -> Result<i64, BoxError> {
        self.number("SELECT count(*) FROM orders WHERE item = $1", token)
    }

    /// Waits until PostgreSQL has done what the killed process had sent, and rolled back the rest.
    fn settled(&self) -> Result<(), BoxError> {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
        while self.number(sql, APPLICATION)? > 0 {
            std::thread::sleep(Duration::from_micros(500));
        }
        Ok(())
    }

    fn is_recorded(&mut self, contender: Contender, token: &str) -> Result<bool, BoxError> {
        Ok(match contender.record() {
            Record::None => false,
            Record::Postgres(sql) => self.number(sql, token)? > 0,
            Record::RedisKey(prefix) => redis::cmd("EXISTS")
                .arg(format!("{prefix}{token}"))
                .query(&mut self.redis)?,
            Record::IdempotentEntry => {
                let key = format!("{token}:{token}");
                let mut ask = |command: &str, field: &[&str]| -> redis::RedisResult<bool> {
                    let mut command = redis::cmd(command);
                    command.arg(&key).arg(field).query(&mut self.redis)
                };
                ask("EXISTS", &[])? && !ask("HEXISTS", &["ft"])?
            }
        })
    }
}

/// Kills each contender so often, and prints a table.
pub(crate) async fn measure(
    contenders: &[Contender],
    environment: &Environment,
    orders: &PgPool,
    kills: usize,
) -> Result<(), BoxError> {
    println!(
        "| {kills} kills | before the effect | between effect and record | after the record | one effect | doubled | lost | locked out |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for contender in contenders {
        let mut looker = Looker {
            orders: orders.clone(),
            redis: redis::Client::open(&*environment.redis_url)?.get_connection()?,
            runtime: Handle::current(),
        };
        let (contender, environment) = (*contender, environment.clone());
        let run = move || run(contender, &environment, &mut looker, kills);
        let tally = tokio::task::spawn_blocking(run).await??;
        let locked_out = match (tally.locked_out, tally.locked_for_good) {
            (0, _) => "0".to_owned(),
            (some, 0) => format!("{some}, for up to {:.0?}", tally.longest),
            (some, good) => format!("{some}, of these {good} for good"),
        };
        println!(
            "| {} | {} | {} | {} | {} | {} | {} | {locked_out} |",
            contender.title(),
            tally.before_effect,
            tally.before_record,
            tally.after_record,
            tally.once,
            bold(tally.doubled),
            bold(tally.lost),
        );
    }
    Ok(())
}

fn bold(number: usize) -> String {
    match number {
        0 => "0".to_owned(),
        some => format!("**{some}**"),
    }
}

fn run(
    contender: Contender,
    environment: &Environment,
    looker: &mut Looker,
    kills: usize,
) -> Result<Tally, BoxError> {
    // Makes the tables.
    drop(Server::start(contender, environment)?);
    let environment = Environment {
        connections: 2,
        migrates: false,
        ..environment.clone()
    };
    let mut server = Server::start(contender, &environment)?;
    let cookie = log_in(server.address)?;
    let run = fastrand::u32(..);
    let request = |number: usize| Request {
        token: format!("{}-{run:08x}-{number}", contender.name()),
        cookie: cookie.clone(),
    };
    let span = span(contender, &environment, &mut server, |number| {
        request(kills + number)
    })?;
    let mut tally = Tally::default();
    let mut refused = Vec::new();
    for number in 0..kills {
        let request = request(number);
        let after = span.mul_f64(fastrand::f64() * LATEST);
        let sent = request.send(server.address)?;
        let start = Instant::now();
        while start.elapsed() < after {
            std::hint::spin_loop();
        }
        server.kill()?;
        looker.settled()?;
        let answered = sent.status() == Some(201);
        let effects = looker.effects(&request.token)?;
        let recorded = answered || looker.is_recorded(contender, &request.token)?;
        tally.came(match (effects, recorded) {
            (_, true) => Moment::AfterRecord,
            (0, false) => Moment::BeforeEffect,
            _ => Moment::BeforeRecord,
        });
        let killed = Instant::now();
        server = Server::start(contender, &environment)?;
        if answers(&request, &server, killed) {
            tally.counted(looker.effects(&request.token)?);
        } else {
            refused.push((request, killed));
        }
    }
    tally.locked_out = refused.len();
    for (request, killed) in refused {
        // A second more than it should take.
        let limit = environment.lease + Duration::from_secs(1);
        std::thread::sleep(limit.saturating_sub(killed.elapsed()));
        if answers(&request, &server, Instant::now()) {
            tally.longest = tally.longest.max(environment.lease);
        } else {
            tally.locked_for_good += 1;
        }
        tally.counted(looker.effects(&request.token)?);
    }
    Ok(tally)
}

/// Sends a request again until it is answered, or refused for too long.
fn answers(request: &Request, server: &Server, since: Instant) -> bool {
    loop {
        let status = request
            .send(server.address)
            .ok()
            .and_then(|sent| sent.status());
        if status == Some(201) {
            return true;
        }
        if since.elapsed() > REFUSED_FOR {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How long a request takes that is the second of its process, as those that are killed: the median.
fn span(
    contender: Contender,
    environment: &Environment,
    server: &mut Server,
    request: impl Fn(usize) -> Request,
) -> Result<Duration, BoxError> {
    const TIMES: usize = 21;
    let mut spans = Vec::new();
    for number in 0..TIMES {
        let send = |number: usize| {
            let start = Instant::now();
            let status = request(number).send(server.address)?.status();
            match status {
                Some(201) => Ok(start.elapsed()),
                other => Err::<Duration, BoxError>(
                    format!("{} answered {other:?}", contender.name()).into(),
                ),
            }
        };
        send(2 * number)?;
        spans.push(send(2 * number + 1)?);
        *server = Server::start(contender, environment)?;
    }
    // The last one has answered nothing yet.
    request(2 * TIMES).send(server.address)?.status();
    spans.sort();
    Ok(spans[TIMES / 2])
}

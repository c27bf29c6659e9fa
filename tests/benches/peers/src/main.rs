//! idem beside a handler by hand and other libraries for idempotent requests: `./run` starts PostgreSQL and Redis, and this.
//!
//! `idem-peers [throughput] [kills] [--kills N] [--lease SECONDS] [--only NAME]..`

mod client;
mod contenders;
mod kills;
mod orders;
mod server;
mod throughput;

use std::time::Duration;

use sqlx::PgPool;

use crate::contenders::{BoxError, Contender};
use crate::server::Environment;

/// What is asked for.
struct Plan {
    throughput: bool,
    kills: Option<usize>,
    lease: Duration,
    contenders: Vec<Contender>,
}

impl Plan {
    fn new(arguments: &[String]) -> Result<Self, BoxError> {
        let mut kills = 1000;
        let (mut throughput, mut killing) = (false, false);
        let mut lease = Duration::from_secs(60);
        let mut contenders = Vec::new();
        let mut left = arguments.iter();
        while let Some(argument) = left.next() {
            let mut value = || left.next().ok_or(format!("{argument} wants a value"));
            match &**argument {
                "throughput" => throughput = true,
                "kills" => killing = true,
                "--kills" => kills = value()?.parse()?,
                "--lease" => lease = Duration::from_secs(value()?.parse()?),
                "--only" => {
                    contenders.push(Contender::by_name(value()?).ok_or("no such contender")?);
                }
                other => return Err(format!("unknown argument {other}").into()),
            }
        }
        let both = !throughput && !killing;
        if contenders.is_empty() {
            contenders = Contender::ALL.to_vec();
        }
        Ok(Self {
            throughput: throughput || both,
            kills: (killing || both).then_some(kills),
            lease,
            contenders,
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((first, rest)) = arguments.split_first()
        && first == "serve"
    {
        return server::serve(rest).await;
    }
    let plan = Plan::new(&arguments)?;
    let environment = Environment::new(plan.lease)?;
    let orders = PgPool::connect(&environment.postgres_url).await?;
    sqlx::raw_sql(orders::SCHEMA).execute(&orders).await?;
    if plan.throughput {
        throughput::measure(&plan.contenders, &environment, &orders).await?;
        println!();
    }
    if let Some(kills) = plan.kills {
        kills::measure(&plan.contenders, &environment, &orders, kills).await?;
    }
    Ok(())
}

//! A contender in a process of its own, which a test may kill.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::contenders::{BoxError, Contender, Setup};

/// What the served process is called at PostgreSQL.
pub(crate) const APPLICATION: &str = "idem-peers-served";

/// Where the servers are, and how a contender is started.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    pub(crate) postgres_url: String,
    pub(crate) redis_url: String,
    pub(crate) connections: u32,
    pub(crate) migrates: bool,
    pub(crate) lease: Duration,
}

impl Environment {
    /// From the variables that `run` sets.
    pub(crate) fn new(lease: Duration) -> Result<Self, BoxError> {
        let variable = |name: &str| {
            std::env::var(name).map_err(|_| format!("{name} is not set: start this with ./run"))
        };
        Ok(Self {
            postgres_url: variable("PEERS_POSTGRES_URL")?,
            redis_url: variable("PEERS_REDIS_URL")?,
            connections: 40,
            migrates: true,
            lease,
        })
    }

    fn served_url(&self) -> String {
        format!("{}?application_name={APPLICATION}", self.postgres_url)
    }
}

/// A child that serves a contender. Dropped, it is killed.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts it, and waits until it listens.
    pub(crate) fn start(contender: Contender, environment: &Environment) -> Result<Self, BoxError> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .arg(contender.name())
            .arg(environment.connections.to_string())
            .arg(environment.migrates.to_string())
            .arg(environment.lease.as_millis().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        match line.trim().parse() {
            Ok(address) => Ok(Self { child, address }),
            Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(format!("{} did not start", contender.name()).into())
            }
        }
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) -> std::io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// What the child does: `serve CONTENDER CONNECTIONS MIGRATES LEASE`.
pub(crate) async fn serve(arguments: &[String]) -> Result<(), BoxError> {
    let [contender, connections, migrates, lease] = arguments else {
        return Err("serve CONTENDER CONNECTIONS MIGRATES LEASE".into());
    };
    let contender = Contender::by_name(contender).ok_or("no such contender")?;
    let environment = Environment {
        connections: connections.parse()?,
        migrates: migrates.parse()?,
        ..Environment::new(Duration::from_millis(lease.parse()?))?
    };
    let options: PgConnectOptions = environment.served_url().parse()?;
    let pool = PgPoolOptions::new()
        .max_connections(environment.connections)
        .test_before_acquire(false)
        .connect_with(options)
        .await?;
    let setup = Setup {
        pool,
        postgres_url: environment.served_url(),
        redis_url: environment.redis_url.clone(),
        connections: environment.connections,
        migrates: environment.migrates,
        lease: environment.lease,
    };
    let router = contender.router(setup).await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}

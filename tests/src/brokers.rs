//! Message brokers: the ones that `tests/run` started, and ones of a test's own, which it may kill.

use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::process::{free_port, is_stopped, signal};
use crate::wait::{PATIENCE, until};

/// The shared NATS server with JetStream, at `IDEM_NATS_URL`. Tests use streams and subjects of their own.
pub fn nats_url() -> String {
    variable("IDEM_NATS_URL")
}

/// The shared RabbitMQ, at `IDEM_AMQP_URL`. Tests use exchanges and queues of their own.
pub fn amqp_url() -> String {
    variable("IDEM_AMQP_URL")
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "{name} is not set: run the tests with tests/run, or set it to what tests/run --serve prints"
        )
    })
}

/// A broker of a test's own, gone with this value. What it stored outlives a [`kill`](Self::kill).
#[derive(Debug)]
pub struct Broker {
    kind: Kind,
    directory: TempDir,
    port: u16,
    process: Child,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Nats { jetstream: bool },
    RabbitMq { distribution_port: u16 },
}

impl Broker {
    /// NATS, with JetStream.
    pub async fn nats() -> Broker {
        Self::start(Kind::Nats { jetstream: true }).await
    }

    /// NATS that stores nothing.
    pub async fn nats_without_jetstream() -> Broker {
        Self::start(Kind::Nats { jetstream: false }).await
    }

    /// RabbitMQ; it takes some seconds.
    pub async fn rabbitmq() -> Broker {
        let distribution_port = free_port();
        Self::start(Kind::RabbitMq { distribution_port }).await
    }

    async fn start(kind: Kind) -> Broker {
        let directory = TempDir::new().expect("a temporary directory");
        let port = free_port();
        let process = launch(kind, directory.path(), port).await;
        Broker {
            kind,
            directory,
            port,
            process,
        }
    }

    /// Where clients connect to.
    pub fn url(&self) -> String {
        match self.kind {
            Kind::Nats { .. } => format!("nats://127.0.0.1:{}", self.port),
            Kind::RabbitMq { .. } => format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port),
        }
    }

    /// Ends it at once (SIGKILL), as a crash would.
    pub async fn kill(&mut self) {
        let _ = self.process.kill().await;
    }

    /// Starts it again, at the same address, with what it had stored.
    pub async fn restart(&mut self) {
        self.process = launch(self.kind, self.directory.path(), self.port).await;
    }

    /// Makes it stand still: connections stay open, and nothing is answered.
    pub async fn pause(&self) {
        signal(self.process(), "STOP").await;
        until("the broker stands still", PATIENCE, async || {
            is_stopped(self.process())
        })
        .await;
    }

    /// Lets it go on.
    pub async fn go_on(&self) {
        signal(self.process(), "CONT").await;
    }

    /// Sets how much memory a RabbitMQ may have. With less than it has, it takes nothing from publishers until it is given more.
    ///
    /// # Panics
    ///
    /// When it does not do so, and on NATS.
    pub async fn memory(&self, limit: &str) {
        let output = Command::new("/usr/lib/rabbitmq/bin/rabbitmqctl")
            .args([
                "--quiet",
                "--node",
                &format!("idem-{}@localhost", self.port),
            ])
            .args(["set_vm_memory_high_watermark", "absolute", limit])
            .env("HOME", self.directory.path())
            .env("ERL_EPMD_PORT", variable("IDEM_EPMD_PORT"))
            .stdin(Stdio::null())
            .output()
            .await
            .expect("rabbitmqctl runs");
        assert!(output.status.success(), "{output:?}");
    }

    fn process(&self) -> u32 {
        self.process.id().expect("the broker runs")
    }
}

impl Drop for Broker {
    /// Its folder goes after it, or it would write there again.
    fn drop(&mut self) {
        let _ = self.process.start_kill();
        let start = Instant::now();
        while start.elapsed() < PATIENCE && matches!(self.process.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

async fn launch(kind: Kind, directory: &Path, port: u16) -> Child {
    let mut command = match kind {
        Kind::Nats { jetstream } => {
            let mut command = Command::new("nats-server");
            command.args(["--addr", "127.0.0.1", "--port", &port.to_string()]);
            if jetstream {
                command.arg("--jetstream").arg("--store_dir").arg(directory);
            }
            command
        }
        Kind::RabbitMq { distribution_port } => {
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/rabbitmq");
            let mut command = Command::new(script);
            command
                .arg(directory)
                .args([port, distribution_port].map(|port| port.to_string()))
                .arg(variable("IDEM_EPMD_PORT"));
            command
        }
    };
    let mut process = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("could not start {kind:?}: {error}"));
    until("a broker listens", PATIENCE * 2, async || {
        let ended = process.try_wait().expect("a child can be asked");
        assert!(ended.is_none(), "{kind:?} ended: {ended:?}");
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
    })
    .await;
    process
}

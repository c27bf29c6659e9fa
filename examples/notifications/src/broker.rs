//! A `nats-server` of the program's own, where it is given none.

use std::env;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::process::{Child, Command};

const PROGRAM: &str = "nats-server";
/// How long it may take to start, or to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// A NATS server with JetStream on a free port of this machine. It goes with this value, and its data with it.
#[derive(Debug)]
pub struct Broker {
    child: Child,
    directory: TempDir,
    port: u16,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    #[error(
        "{PROGRAM} is not installed: `apt-get install nats-server`, or have it from https://nats.io/download; or set NATS_URL to \
         a server with JetStream, as in nats://127.0.0.1:4222"
    )]
    NotInstalled,
    #[error("can't start {PROGRAM}: {0}")]
    Io(#[from] io::Error),
    #[error("{PROGRAM} ended at once, or does not listen")]
    Silent,
}

impl Broker {
    /// Starts one.
    pub async fn start() -> Result<Self, BrokerError> {
        let directory = tempfile::tempdir()?;
        let port = free_port();
        Ok(Self {
            child: launch(directory.path(), port).await?,
            directory,
            port,
        })
    }

    /// Where clients connect to.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// SIGKILL. What it had stored stays.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Starts it again, at the same address and with what it had stored.
    pub async fn restart(&mut self) -> Result<(), BrokerError> {
        self.child = launch(self.directory.path(), self.port).await?;
        Ok(())
    }
}

impl Drop for Broker {
    /// Its folder goes after it, or it would write there again.
    fn drop(&mut self) {
        let _ = self.child.start_kill();
        let start = Instant::now();
        while start.elapsed() < PATIENCE && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

async fn launch(directory: &Path, port: u16) -> Result<Child, BrokerError> {
    let mut command = Command::new(find().ok_or(BrokerError::NotInstalled)?);
    // Ctrl-C is its parent's, which still needs it then.
    #[cfg(unix)]
    command.process_group(0);
    let mut child = command
        .args(["--addr", "127.0.0.1", "--port", &port.to_string()])
        .arg("--jetstream")
        .arg("--store_dir")
        .arg(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let start = Instant::now();
    while child.try_wait()?.is_none() && start.elapsed() < PATIENCE {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(child);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(BrokerError::Silent)
}

/// The program that NATS_SERVER names, or the one that is installed. Servers lie in `/usr/sbin`, which is not in everybody's
/// `PATH`.
fn find() -> Option<PathBuf> {
    let program = env::var_os("NATS_SERVER").unwrap_or_else(|| PROGRAM.into());
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&path).collect();
    folders.push("/usr/sbin".into());
    let mut files = folders.into_iter().map(|folder| folder.join(&program));
    files.find(|file| file.is_file())
}

/// Below the kernel's ephemeral ports, so that no outgoing connection takes it meanwhile.
pub fn free_port() -> u16 {
    loop {
        let port = fastrand::u16(20_000..32_000);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

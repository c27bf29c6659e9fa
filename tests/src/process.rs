//! The project's own servers as child processes, ended by their id.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::wait::PATIENCE;

/// A program of this package that is running and listening.
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: SocketAddr,
    _leavings: Leavings,
}

/// What a process may leave behind, by its id.
#[derive(Debug)]
struct Leavings(Option<u32>);

impl Drop for Leavings {
    fn drop(&mut self) {
        if let Some(process) = self.0 {
            crate::clock::tidy_up_after(process);
        }
    }
}

/// A program ended before it listened.
#[derive(Debug)]
pub struct Died {
    /// How it ended; `None` when it neither listened nor ended in time.
    pub status: Option<ExitStatus>,
}

impl Server {
    /// Starts `program` and waits until it listens.
    ///
    /// # Panics
    ///
    /// When it ends first.
    pub async fn start(program: &str, environment: &[(String, String)]) -> Server {
        match Self::try_start(program, environment).await {
            Ok(server) => server,
            Err(died) => panic!("{program} did not start: {died:?}"),
        }
    }

    /// Starts `program` and waits until it listens.
    ///
    /// # Errors
    ///
    /// When it ends first, as a program does that was told to crash.
    pub async fn try_start(
        program: &str,
        environment: &[(String, String)],
    ) -> Result<Server, Died> {
        let mut child = Command::new(executable(program))
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .envs(crate::planted::variable())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("could not run {program}: {error}"));
        // Removed when the process is gone, or is about to be.
        let leavings = Leavings(child.id());
        let output = child.stdout.take().expect("the output is piped");
        let mut lines = BufReader::new(output).lines();
        let listening = async {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(address) = line.strip_prefix("listening on http://") {
                    return address.parse().ok();
                }
            }
            None
        };
        match tokio::time::timeout(PATIENCE, listening).await {
            Ok(Some(address)) => Ok(Server {
                child,
                address,
                _leavings: leavings,
            }),
            Ok(None) => Err(Died {
                status: child.wait().await.ok(),
            }),
            Err(_) => Err(Died { status: None }),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Ends it at once (SIGKILL), as a crash would.
    pub async fn kill(&mut self) {
        let _ = self.child.kill().await;
    }

    /// Asks it to stop (SIGTERM). It may go on until what it runs has ended.
    pub async fn ask_to_stop(&self) {
        self.signal("TERM").await;
    }

    /// Sends it a signal by name, as `STOP` or `CONT`.
    pub async fn signal(&self, name: &str) {
        if let Some(id) = self.child.id() {
            signal(id, name).await;
        }
    }

    /// Whether it stands still, as after a `STOP`.
    pub fn is_stopped(&self) -> bool {
        self.child.id().is_some_and(is_stopped)
    }

    /// How it ended.
    ///
    /// # Panics
    ///
    /// When it still runs after `deadline`.
    pub async fn ended(&mut self, deadline: Duration) -> ExitStatus {
        tokio::time::timeout(deadline, self.child.wait())
            .await
            .unwrap_or_else(|_| panic!("still running after {deadline:?}"))
            .expect("a child can be waited for")
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

/// Sends a signal to one process. The shell's own `kill` does, so that no unsafe code is needed.
pub async fn signal(process: u32, name: &str) {
    let _ = Command::new("sh")
        .arg("-c")
        .arg(format!("kill -{name} {process}"))
        .stderr(Stdio::null())
        .status()
        .await;
}

/// A port where nobody listens, below the kernel's ephemeral ports, so that no outgoing connection takes it meanwhile.
pub fn free_port() -> u16 {
    loop {
        let port = fastrand::u16(20_000..32_000);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// Whether every thread of a process stands still, as some time after a `STOP`.
pub fn is_stopped(process: u32) -> bool {
    let stands_still = |thread: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(thread.path().join("stat"));
        // The program's name, in parentheses, may hold anything.
        stat.is_ok_and(|stat| {
            let state = stat.rsplit(')').next().unwrap_or_default();
            state.trim_start().starts_with('T')
        })
    };
    std::fs::read_dir(format!("/proc/{process}/task"))
        .is_ok_and(|mut threads| threads.all(|thread| thread.is_ok_and(stands_still)))
}

/// Where cargo put a program of this workspace: beside the tests' own folder.
///
/// # Panics
///
/// When it is not there.
pub fn executable(program: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(format!("NEXTEST_BIN_EXE_{program}")) {
        return path.into();
    }
    let test = std::env::current_exe().expect("a test knows its own path");
    let path = test
        .parent()
        .and_then(Path::parent)
        .expect("a test lies in target/PROFILE/deps")
        .join(program);
    assert!(
        path.exists(),
        "{} is not built: cargo build -p idem-tests -p idem-runtime --bins",
        path.display()
    );
    path
}

//! Other processes of this program: its parts, and what ends them.

use std::env;
use std::io::{self, BufRead};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use axum::Router;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;

use crate::worst_moment;

/// Tells a process to stop when its standard input is closed, which it is when its parent ends, however that ends.
const STOP_WITH_PARENT: &str = "NOTIFICATIONS_STOP_WITH_PARENT";
/// What a process is told for the demo, and answers.
const STAND_STILL: &str = "stand still";
const READY: &str = "ready to stand still";

/// A process that listens.
#[derive(Debug)]
pub struct Process {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// As in `http://127.0.0.1:3003`.
    pub url: String,
}

impl Process {
    /// Starts this program with an argument, and waits until it says where it listens.
    pub async fn start(argument: &str, environment: &[(&str, &str)]) -> io::Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        // Ctrl-C is its parent's, which still needs it then.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command
            .arg(argument)
            .envs(environment.iter().copied())
            .env(STOP_WITH_PARENT, "yes")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().expect("its input was asked for");
        let output = child.stdout.take().expect("its output was asked for");
        let mut process = Self {
            child,
            input,
            output: BufReader::new(output).lines(),
            url: String::new(),
        };
        process.url = process.told("listening on ").await?;
        Ok(process)
    }

    /// Has it stand still at the [worst moment](worst_moment), when that comes.
    pub async fn stand_still(&mut self) -> io::Result<()> {
        let line = format!("{STAND_STILL}\n");
        self.input.write_all(line.as_bytes()).await?;
        self.told(READY).await?;
        Ok(())
    }

    /// Waits until it stands still, and ends it with SIGKILL: nothing in the process can prepare for it.
    pub async fn kill_standing_still(&mut self) -> io::Result<()> {
        self.told(worst_moment::STANDS_STILL).await?;
        self.child.kill().await
    }

    /// The rest of the line that begins so.
    async fn told(&mut self, beginning: &str) -> io::Result<String> {
        while let Some(line) = self.output.next_line().await? {
            if let Some(rest) = line.strip_prefix(beginning) {
                return Ok(rest.to_owned());
            }
        }
        let ended = format!("a process ended before it said `{beginning}`");
        Err(io::Error::other(ended))
    }
}

/// Serves until [`stop`] is ready, and what has begun has ended; a request that has not arrived ten seconds later is given up. A
/// client that never ends its request would keep the server for ever.
pub async fn serve(listener: TcpListener, router: Router) -> io::Result<()> {
    let late = async {
        stop().await;
        tokio::time::sleep(Duration::from_secs(10)).await;
    };
    tokio::select! {
        served = axum::serve(listener, router).with_graceful_shutdown(stop()).into_future() => served,
        () = late => {
            tracing::warn!("stopped before every request had arrived");
            Ok(())
        }
    }
}

/// Ready at Ctrl-C and SIGTERM, and when the parent of a [`Process`] has ended.
pub async fn stop() {
    tokio::select! {
        () = signalled() => {}
        () = parent_ended() => {}
    }
}

async fn signalled() {
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

async fn parent_ended() {
    if env::var_os(STOP_WITH_PARENT).is_none() {
        return std::future::pending().await;
    }
    let (ended, told) = oneshot::channel();
    // In a thread of its own: the runtime would wait for a blocked read when it shuts down.
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if line == STAND_STILL {
                worst_moment::stand_still();
                println!("{READY}");
            }
        }
        let _ = ended.send(());
    });
    let _ = told.await;
}

//! Other processes of this program: the provider, and in the demo the server.

use std::env;
use std::io;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use axum::Router;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::oneshot;

/// Tells a process to stop when its standard input is closed, which it is when its parent ends, however that ends.
const STOP_WITH_PARENT: &str = "PAYMENTS_STOP_WITH_PARENT";

/// A process that listens.
pub struct Process {
    child: Child,
    // A process can't print into a closed pipe.
    _output: Lines<BufReader<ChildStdout>>,
    /// As in `http://127.0.0.1:3001`.
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
        let output = child.stdout.take().expect("its output was asked for");
        let mut output = BufReader::new(output).lines();
        while let Some(line) = output.next_line().await? {
            if let Some(url) = line.strip_prefix("listening on ") {
                return Ok(Self {
                    child,
                    url: url.to_owned(),
                    _output: output,
                });
            }
        }
        let told = format!("`payments {argument}` ended before it listened");
        Err(io::Error::other(told))
    }

    /// SIGKILL: nothing in the process can prepare for it.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.child.kill().await
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
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        let _ = ended.send(());
    });
    let _ = told.await;
}

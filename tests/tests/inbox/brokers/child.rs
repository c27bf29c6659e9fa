//! A consumer in a process of its own.

use std::process::Stdio;
use std::time::Duration;

use idem_tests::process::executable;
use idem_tests::wait::PATIENCE;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// The points of a message's way at which a process is killed.
pub(super) const POINTS: [&str; 5] = [
    "take.after",
    "consumer.after",
    "commit.before",
    "commit.after",
    "acknowledge.before",
];

/// Starts it again whenever it is dead, until it lives and all is done. Returns how often it died.
pub(super) async fn restarted(environment: &[(&str, &str)], done: impl AsyncFn() -> bool) -> usize {
    let mut deaths = 0;
    let all = async {
        loop {
            let mut child = command(environment).spawn().expect("the program is built");
            loop {
                if done().await {
                    return;
                }
                let wait = tokio::time::timeout(Duration::from_millis(50), child.wait());
                if wait.await.is_ok() {
                    deaths += 1;
                    break;
                }
            }
        }
    };
    tokio::time::timeout(PATIENCE * 2, all)
        .await
        .expect("all is done in the end");
    deaths
}

fn command(environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(executable("consumer"));
    command
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Starts it; with a point, it is killed when it passes that for the third time.
pub(super) async fn start(environment: &[(&str, &str)], point: Option<&str>) -> Child {
    let mut command = command(environment);
    command.stdout(Stdio::piped());
    if let Some(point) = point {
        command.env("IDEM_CRASH_AT", format!("{point}#3"));
    }
    let mut child = command.spawn().expect("the program is built");
    let output = child.stdout.take().expect("the output is piped");
    let mut lines = BufReader::new(output).lines();
    let consuming = tokio::time::timeout(PATIENCE, lines.next_line());
    let line = consuming.await.expect("it starts soon").unwrap();
    // It may be killed before it says so.
    assert!(point.is_some() || line.as_deref() == Some("consuming"));
    child
}

/// Waits until it is dead.
pub(super) async fn killed(mut child: Child) {
    use std::os::unix::process::ExitStatusExt;
    let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
    let status = ended.expect("it is killed soon").unwrap();
    assert!(status.signal().is_some(), "{status}");
}

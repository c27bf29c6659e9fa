//! A database server that is restarted again and again.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use idem_tests::private::PrivatePostgres;

/// Long enough for some clients to give up.
const AWAY: Duration = Duration::from_secs(4);

pub(crate) struct Restarts {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<(PrivatePostgres, u32, u32)>,
}

impl Restarts {
    /// Kills the server and shuts it down, in turn, so often. Of four times it stays away for [`AWAY`] in two, and comes back at
    /// once in two.
    pub(crate) fn start(mut server: PrivatePostgres, every: Duration) -> Restarts {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let (mut kills, mut shutdowns) = (0, 0);
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                if kills == shutdowns {
                    server.kill();
                    kills += 1;
                } else {
                    server.shut_down();
                    shutdowns += 1;
                }
                let away = match (kills + shutdowns) % 4 {
                    1 | 2 => AWAY,
                    _ => Duration::ZERO,
                };
                // Whoever stops it meanwhile gets it back as soon.
                let stopped = stopped.recv_timeout(away) != Err(RecvTimeoutError::Timeout);
                server.restart();
                if stopped {
                    break;
                }
            }
            (server, kills, shutdowns)
        });
        Restarts { stop, thread }
    }

    /// The server, running, and how often it was killed and shut down.
    pub(crate) async fn stop(self) -> (PrivatePostgres, u32, u32) {
        let _ = self.stop.send(());
        let joined = tokio::task::spawn_blocking(|| self.thread.join());
        joined
            .await
            .expect("joining does not panic")
            .expect("the server starts each time")
    }
}

//! What a probe holds: memory, file descriptors, tasks, and connections to its database.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use idem_tests::application::Application;
use sqlx::{Connection, PgConnection};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// What a probe holds at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vitals {
    /// Memory, in KiB.
    pub(crate) resident: u64,
    pub(crate) descriptors: u64,
    pub(crate) tasks: u64,
    /// As its database counts them.
    pub(crate) connections: u64,
}

/// How much more may be under way in one quarter than in another: each client sends up to five requests at once, and a machine
/// that others use as well is slow at times.
const UNDER_WAY: f64 = 64.0;

/// How much more may be held in the last quarter than in the second: a part of that, and this.
struct Tolerance {
    name: &'static str,
    of: fn(&Vitals) -> u64,
    part: f64,
    more: f64,
}

const TOLERANCES: [Tolerance; 4] = [
    Tolerance {
        name: "KiB of memory",
        of: |vitals| vitals.resident,
        part: 0.1,
        more: 2048.0,
    },
    Tolerance {
        name: "file descriptors",
        of: |vitals| vitals.descriptors,
        part: 0.0,
        more: UNDER_WAY,
    },
    Tolerance {
        name: "tasks",
        of: |vitals| vitals.tasks,
        part: 0.0,
        more: UNDER_WAY,
    },
    Tolerance {
        name: "connections",
        of: |vitals| vitals.connections,
        part: 0.0,
        more: 2.0,
    },
];

impl Vitals {
    /// `None` while the database is away.
    pub(crate) async fn of(app: &Application, database: &str) -> Option<Vitals> {
        let process = app.server.id().expect("the probe runs");
        let tasks = app.client.get("/tasks").send().await.json();
        let mut connection = PgConnection::connect(database).await.ok()?;
        let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
        let connections: i64 = sqlx::query_scalar(others)
            .fetch_one(&mut connection)
            .await
            .ok()?;
        let _ = connection.close().await;
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).expect("the probe runs");
        Some(Vitals {
            resident: resident(process),
            descriptors: descriptors.count() as u64,
            tasks: tasks["count"].as_u64().expect("the probe counts its tasks"),
            connections: connections.unsigned_abs(),
        })
    }
}

fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the probe runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.expect("the kernel says how much memory there is")
}

/// Looks again and again.
pub(crate) struct Watch {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Samples>,
}

/// What was seen, in its order.
pub(crate) struct Samples(Vec<Vitals>);

impl Watch {
    /// As often as a hundred times in each quarter of `length`, but not more often than four times a second.
    pub(crate) fn start(app: Arc<Application>, database: &str, length: Duration) -> Watch {
        let (stop, mut stopped) = oneshot::channel();
        let database = database.to_owned();
        let mut ticks = tokio::time::interval((length / 400).max(Duration::from_millis(250)));
        let task = tokio::spawn(async move {
            let mut samples = Samples(Vec::new());
            loop {
                tokio::select! {
                    _ = &mut stopped => return samples,
                    _ = ticks.tick() => samples.0.extend(Vitals::of(&app, &database).await),
                }
            }
        });
        Watch { stop, task }
    }

    pub(crate) async fn stop(self) -> Samples {
        let _ = self.stop.send(());
        self.task.await.expect("looking does not panic")
    }
}

impl Vitals {
    /// Whether no request has left anything behind since `idle`, when none had come. Connections to the database stay.
    pub(crate) fn is_idle_as(&self, idle: &Vitals, pool: u64) -> bool {
        self.tasks <= idle.tasks && self.descriptors <= idle.descriptors + pool
    }
}

impl Samples {
    /// Asserts that the median of the last quarter is no higher than that of the second, but for a tolerance.
    pub(crate) fn assert_flat(&self) {
        let quarter = self.0.len() / 4;
        assert!(quarter > 5, "{} samples", self.0.len());
        let quarters: Vec<&[Vitals]> = self.0.chunks(quarter).collect();
        let mut grown = Vec::new();
        for Tolerance {
            name,
            of,
            part,
            more,
        } in TOLERANCES
        {
            let medians: Vec<u64> = quarters[..4].iter().map(|part| median(part, of)).collect();
            let most = medians[1] as f64 * (1.0 + part) + more;
            eprintln!("{name}, median of each quarter: {medians:?}; at most {most:.0} in the last");
            if medians[3] as f64 > most {
                grown.push(name);
            }
        }
        assert!(grown.is_empty(), "more and more {grown:?}");
    }
}

fn median(samples: &[Vitals], of: fn(&Vitals) -> u64) -> u64 {
    let mut values: Vec<u64> = samples.iter().map(of).collect();
    values.sort_unstable();
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of which each holds so much more than the one before.
    fn growing(tasks: u64, kibibytes: u64) -> Samples {
        let sample = |number| Vitals {
            resident: 20_000 + number * kibibytes,
            descriptors: 40,
            tasks: 30 + number * tasks,
            connections: 10,
        };
        Samples((0..100).map(sample).collect())
    }

    #[test]
    fn a_task_or_a_descriptor_that_is_left_is_no_idleness() {
        let Samples(seen) = growing(1, 0);
        let (idle, mut now) = (seen[0], seen[0]);
        now.descriptors += 10;
        assert!(now.is_idle_as(&idle, 10));
        assert!(!now.is_idle_as(&idle, 9));
        assert!(!seen[1].is_idle_as(&idle, 10));
    }

    #[test]
    fn what_stays_as_it_is_is_flat() {
        growing(0, 0).assert_flat();
    }

    #[test]
    #[should_panic(expected = "more and more [\"tasks\"]")]
    fn a_task_that_is_left_each_time_is_found() {
        growing(2, 0).assert_flat();
    }

    #[test]
    #[should_panic(expected = "more and more [\"KiB of memory\"]")]
    fn memory_that_is_left_each_time_is_found() {
        growing(0, 100).assert_flat();
    }
}

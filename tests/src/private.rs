//! A PostgreSQL server of a test's own, which it may crash.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sqlx::{Connection, Executor, PgConnection};
use tempfile::TempDir;

use crate::process::free_port;
use crate::wait::{PATIENCE, until};

/// A server with its data in a temporary directory; it ends with the value.
pub struct PrivatePostgres {
    programs: PathBuf,
    user: Option<(u32, u32)>,
    address: SocketAddr,
    process: Option<Child>,
    directory: TempDir,
}

impl PrivatePostgres {
    /// Makes a cluster and starts its server, as the user `postgres` where the test is root.
    ///
    /// # Panics
    ///
    /// Where PostgreSQL is not installed as Debian does.
    pub fn start() -> Self {
        let mut server = Self::prepare();
        let made = server
            .command("initdb")
            .args([
                "-U",
                "idem",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
                "--no-sync",
            ])
            .status()
            .expect("initdb runs");
        assert!(made.success(), "initdb: {made}");
        server.run();
        server
    }

    /// A place and a port for a server.
    fn prepare() -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let directory = TempDir::new().expect("a temporary directory");
        let user = postgres_user(directory.path());
        if let Some((user, group)) = user {
            chown(directory.path(), Some(user), Some(group)).expect("the directory is ours");
        }
        Self {
            programs: programs(),
            user,
            address,
            process: None,
            directory,
        }
    }

    /// A server that follows this one, which from now on acknowledges nothing that the other has not. Returns once it does so.
    ///
    /// # Panics
    ///
    /// When it can't be made, or does not follow.
    pub async fn synchronous_standby(&self) -> Self {
        let mut standby = Self::prepare();
        let copied = standby
            .command("pg_basebackup")
            .args(["-d", &format!("postgres://idem@{}", self.address)])
            .args(["-R", "-X", "stream", "-c", "fast", "--no-sync"])
            // It warns of each socket that it leaves out.
            .stderr(Stdio::null())
            .status()
            .expect("pg_basebackup runs");
        assert!(copied.success(), "pg_basebackup: {copied}");
        standby.run();
        let mut admin = PgConnection::connect(&self.url())
            .await
            .expect("the primary lets in");
        for statement in [
            "ALTER SYSTEM SET synchronous_standby_names = '*'",
            "SELECT pg_reload_conf()",
        ] {
            admin.execute(statement).await.expect("a superuser may");
        }
        until("the standby is synchronous", PATIENCE, async || {
            let says = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
            let standbys: i64 = sqlx::query_scalar(says)
                .fetch_one(&mut admin)
                .await
                .expect("the primary answers");
            standbys == 1
        })
        .await;
        standby
    }

    /// Makes a standby a primary. Returns when it takes writes.
    ///
    /// # Panics
    ///
    /// When it does not become one.
    pub async fn promote(&self) {
        let promoted = self
            .command("pg_ctl")
            .args(["promote", "-w", "-t", "60"])
            .status()
            .expect("pg_ctl runs");
        assert!(promoted.success(), "pg_ctl promote: {promoted}");
    }

    /// Every process of the server ends at once (SIGKILL), as when its machine loses power.
    ///
    /// # Panics
    ///
    /// When it does not run.
    pub fn kill(&mut self) {
        let mut process = self.process.take().expect("the server runs");
        let id = process.id();
        // Those that serve connections would go on for a moment; some of them may end by themselves meanwhile.
        let command = format!(
            "children=$(cat /proc/{id}/task/{id}/children); kill -KILL {id} && {{ kill -KILL $children 2>/dev/null; true; }}"
        );
        let killed = Command::new("sh").arg("-c").arg(command).status();
        assert!(killed.is_ok_and(|status| status.success()), "it is killed");
        let _ = process.wait();
    }

    /// The server ends as an operator's restart has it: every transaction is rolled back, and what was committed is written
    /// (a fast shutdown).
    ///
    /// # Panics
    ///
    /// When it does not run.
    pub fn shut_down(&mut self) {
        let mut process = self.process.take().expect("the server runs");
        let sent = Command::new("kill")
            .args(["-INT", &process.id().to_string()])
            .status();
        assert!(sent.is_ok_and(|status| status.success()), "it is told");
        let _ = process.wait();
    }

    /// Starts it again, after a [`kill`](Self::kill) or a [shutdown](Self::shut_down).
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub fn restart(&mut self) {
        self.run();
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a database that exists.
    pub fn url(&self) -> String {
        format!("postgres://idem@{}/postgres", self.address)
    }

    /// The server crashes: every connection breaks at once, and what was not committed is gone. Then it starts again.
    pub fn crash_and_restart(&mut self) {
        self.crash();
        self.run();
    }

    fn crash(&mut self) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        // An immediate shutdown: it recovers from its log when it starts again.
        let sent = Command::new("kill")
            .args(["-QUIT", &process.id().to_string()])
            .status();
        if !sent.is_ok_and(|status| status.success()) {
            let _ = process.kill();
        }
        let _ = process.wait();
    }

    fn run(&mut self) {
        let start = Instant::now();
        let mut process = self.spawn();
        // It listens before it lets anybody in.
        while !self.lets_in() {
            assert!(start.elapsed() < Duration::from_secs(60), "it is ready");
            // It does not start while a process is left of one that was killed.
            if let Ok(Some(_)) = process.try_wait() {
                process = self.spawn();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.process = Some(process);
    }

    fn spawn(&self) -> Child {
        let log = self.directory.path().join("log");
        let log = File::options()
            .create(true)
            .append(true)
            .open(log)
            .expect("a log");
        self.command("postgres")
            .args([
                "-p",
                &self.address.port().to_string(),
                "-h",
                "127.0.0.1",
                "-c",
                "fsync=off",
            ])
            .args(["-c", "max_connections=100", "-k"])
            .arg(self.data())
            .stderr(log)
            .spawn()
            .expect("postgres starts")
    }

    fn lets_in(&self) -> bool {
        let asked = Command::new(self.programs.join("pg_isready"))
            .args([
                "-q",
                "-h",
                "127.0.0.1",
                "-p",
                &self.address.port().to_string(),
            ])
            .status();
        asked.is_ok_and(|status| status.success())
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.arg("-D").arg(self.data()).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        self.crash();
    }
}

/// The newest server that is installed.
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed");
    let newest = versions
        .filter_map(|version| version.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .max()
        .expect("a version of PostgreSQL");
    Path::new("/usr/lib/postgresql")
        .join(newest.to_string())
        .join("bin")
}

/// Whom a server runs as, where it would refuse to run as the owner of `directory`: root.
fn postgres_user(directory: &Path) -> Option<(u32, u32)> {
    use std::os::unix::fs::MetadataExt;
    let owner = fs::metadata(directory)
        .expect("the directory is there")
        .uid();
    if owner != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("users are listed");
    let user = users.lines().find(|line| line.starts_with("postgres:"));
    let mut fields = user
        .expect("the user of Debian's package")
        .split(':')
        .skip(2);
    let mut number = || fields.next()?.parse().ok();
    number().zip(number())
}

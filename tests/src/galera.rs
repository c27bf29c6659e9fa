//! A Galera cluster of a test's own: three nodes, which it may kill.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use sqlx::{Connection, MySqlConnection};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::process::free_port;
use crate::wait::{PATIENCE, until};

/// How many nodes there are.
const NODES: usize = 3;
/// How long a node may take to start, and to copy what the others have.
const START: Duration = Duration::from_secs(120);

/// Three nodes on loopback; they end with the value.
#[derive(Debug)]
pub struct Galera {
    nodes: Vec<Node>,
    directory: TempDir,
}

#[derive(Debug)]
struct Node {
    port: u16,
    group_port: u16,
    process: Option<Child>,
}

impl Galera {
    /// Starts the first, and then those that join it. It takes some ten seconds, and more on a busy machine.
    pub async fn start() -> Galera {
        let nodes = (0..NODES).map(|_| Node {
            port: free_port(),
            group_port: three_free_ports(),
            process: None,
        });
        let mut cluster = Galera {
            nodes: nodes.collect(),
            directory: TempDir::new().expect("a temporary directory"),
        };
        open_to_all(&cluster.directory);
        cluster.launch(0, &[]);
        cluster.joined(0, 1).await;
        for node in 1..NODES {
            cluster.join(node).await;
        }
        cluster
    }

    /// How many nodes run.
    fn running(&self) -> usize {
        let nodes = self.nodes.iter();
        nodes.filter(|node| node.process.is_some()).count()
    }

    fn launch(&mut self, node: usize, others: &[u16]) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/galera");
        let place = self.place(node);
        let Node {
            port, group_port, ..
        } = self.nodes[node];
        let process = Command::new(script)
            .arg(place)
            .args([port, group_port].iter().chain(others).map(u16::to_string))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("tests/galera can be run");
        self.nodes[node].process = Some(process);
    }

    /// Starts a node that does not run, and waits until it has what the others have.
    pub async fn join(&mut self, node: usize) {
        let others: Vec<u16> = (0..NODES)
            .filter(|other| *other != node)
            .map(|other| self.nodes[other].group_port)
            .collect();
        self.launch(node, &others);
        self.joined(node, self.running()).await;
    }

    async fn joined(&mut self, node: usize, size: usize) {
        let url = self.url(node);
        let place = self.place(node);
        let process = self.nodes[node].process.as_mut().expect("it was launched");
        until("a node has joined", START, async || {
            let ended = process.try_wait().expect("a child can be asked");
            assert!(
                ended.is_none(),
                "node {node} ended: {ended:?}, see {place:?}"
            );
            status(&url, "wsrep_local_state_comment").await.as_deref() == Some("Synced")
                && status(&url, "wsrep_cluster_size").await == Some(size.to_string())
        })
        .await;
    }

    /// A node ends at once (SIGKILL), as when its machine loses power.
    pub async fn kill(&mut self, node: usize) {
        let mut process = self.nodes[node].process.take().expect("the node runs");
        let _ = process.kill().await;
    }

    /// Whether a node is in a majority, and serves.
    pub async fn serves(&self, node: usize) -> bool {
        status(&self.url(node), "wsrep_ready").await.as_deref() == Some("ON")
    }

    /// Where a node listens.
    pub fn address(&self, node: usize) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.nodes[node].port))
    }

    /// The URL of a database that exists on every node.
    pub fn url(&self, node: usize) -> String {
        format!("mysql://idem:idem@{}/mysql", self.address(node))
    }

    fn place(&self, node: usize) -> PathBuf {
        self.directory.path().join(node.to_string())
    }
}

impl Drop for Galera {
    /// Their folders go after them, or they would write there again.
    fn drop(&mut self) {
        let start = Instant::now();
        for process in self
            .nodes
            .iter_mut()
            .filter_map(|node| node.process.as_mut())
        {
            let _ = process.start_kill();
            while start.elapsed() < PATIENCE && matches!(process.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

/// What a node says of itself; `None` where it does not.
async fn status(url: &str, name: &str) -> Option<String> {
    let mut connection = MySqlConnection::connect(url).await.ok()?;
    let says: Option<(String, String)> =
        sqlx::query_as(sqlx::AssertSqlSafe(format!("SHOW STATUS LIKE '{name}'")))
            .fetch_optional(&mut connection)
            .await
            .ok()?;
    let _ = connection.close().await;
    says.map(|(_, value)| value)
}

/// A node's group wants a port, and the two that follow.
fn three_free_ports() -> u16 {
    loop {
        let first = free_port();
        let free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if free(first + 1) && free(first + 2) {
            return first;
        }
    }
}

/// A node runs as a user of its own.
fn open_to_all(directory: &TempDir) {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), mode).expect("the directory is ours");
}

//! A PgBouncer of a test's own.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Stdio;

use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::process::free_port;
use crate::wait::{PATIENCE, until};

/// A PgBouncer in front of every database of one PostgreSQL server; it ends with the value.
#[derive(Debug)]
pub struct Pooler {
    address: SocketAddr,
    _process: Child,
    _directory: TempDir,
}

impl Pooler {
    /// Starts one, which lends connections a transaction at a time unless `settings`, each as `name=value`, say otherwise.
    ///
    /// # Panics
    ///
    /// When it ends before it listens.
    pub async fn start(server: SocketAddr, settings: &[&str]) -> Pooler {
        let directory = TempDir::new().expect("a temporary directory");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let mut process = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/pgbouncer"))
            .arg(directory.path())
            .args([address.port(), server.port()].map(|port| port.to_string()))
            .args(settings)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("tests/pgbouncer can be run");
        until("the pooler listens", PATIENCE, async || {
            let ended = process.try_wait().expect("a child can be asked");
            assert!(ended.is_none(), "the pooler ended: {ended:?}");
            TcpStream::connect(address).is_ok()
        })
        .await;
        Pooler {
            address,
            _process: process,
            _directory: directory,
        }
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

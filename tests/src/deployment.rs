//! What stands between a probe and its database: nothing, or what the environment says.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::Url;

use crate::servers::Backend;

/// The address of a pooler, through which probes reach PostgreSQL.
const POOLER: &str = "IDEM_POSTGRES_VIA";
/// The addresses of a cluster's nodes, separated by commas, of which each probe is given the next for its MariaDB.
const NODES: &str = "IDEM_MYSQL_NODES";

/// How many probes were given a node.
static GIVEN: AtomicUsize = AtomicUsize::new(0);

/// Whether probes reach this database through a pooler.
pub fn is_pooled(backend: Backend) -> bool {
    backend.is_postgres() && std::env::var_os(POOLER).is_some()
}

/// The URL that the next probe is given for the database at `url`.
///
/// # Panics
///
/// When the environment names what is no address.
pub fn url(backend: Backend, url: &str) -> String {
    let variable = match backend {
        Backend::Sqlite => return url.to_owned(),
        Backend::Postgres | Backend::PostgresFewest => POOLER,
        Backend::MySql => NODES,
    };
    let addresses = addresses(variable);
    if addresses.is_empty() {
        return url.to_owned();
    }
    // A server of a test's own, and a bad network, are neither behind a pooler nor in a cluster.
    let place = |url: &Url| (url.host_str().map(str::to_owned), url.port());
    if Url::parse(url).is_ok_and(|url| place(&url) != place(&backend.server_url())) {
        return url.to_owned();
    }
    let next = GIVEN.fetch_add(1, Ordering::Relaxed);
    at(url, addresses[next % addresses.len()])
}

/// The nodes of the cluster that this database is on; none for a server of its own.
///
/// # Panics
///
/// When the environment names what is no address.
pub(crate) fn nodes(backend: Backend, url: &Url) -> Vec<SocketAddr> {
    if backend != Backend::MySql {
        return Vec::new();
    }
    let nodes = addresses(NODES);
    let is_node = |address: &SocketAddr| url.port() == Some(address.port());
    if nodes.iter().any(is_node) {
        nodes
    } else {
        Vec::new()
    }
}

fn addresses(variable: &str) -> Vec<SocketAddr> {
    let Ok(addresses) = std::env::var(variable) else {
        return Vec::new();
    };
    let parse = |address: &str| {
        let parsed = address.parse();
        parsed.unwrap_or_else(|_| panic!("{variable} names no address: {address}"))
    };
    addresses.split(',').map(parse).collect()
}

/// A database's URL with another address in place of its server's.
///
/// # Panics
///
/// When it is no server's.
pub fn at(url: &str, address: SocketAddr) -> String {
    let mut url = Url::parse(url).expect("a database's URL");
    url.set_host(Some(&address.ip().to_string()))
        .expect("an address is a host");
    url.set_port(Some(address.port()))
        .expect("a server's URL takes a port");
    url.into()
}

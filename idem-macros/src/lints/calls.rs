//! Calls that are known by their path.

use syn::{Expr, ExprMethodCall, Lit, Token, punctuated::Punctuated};

use super::handle::Handle;

/// What a known call does beside the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Starts a task or a thread.
    Spawn,
    /// Makes what starts tasks or threads: its `spawn` is the call.
    Spawner,
    /// Opens a connection to a database.
    Connect,
    /// Talks to another service, or makes the client for it.
    Service,
    /// Writes to the disk.
    Disk,
    /// Runs another program.
    Program,
}

impl Call {
    /// What is wrong with it, and what to write instead.
    pub(super) fn message(self, handle: &Handle) -> String {
        let (outbox, call) = (handle.after_commit(), handle.call());
        match self {
            Call::Spawn | Call::Spawner => format!(
                "a spawned task outlives the transaction: its effects are not undone by a rollback; do the work here, send \
                 what follows the commit by {outbox}, call another service by {call}; if it has no effect, write \
                 `#[allow(clippy::disallowed_methods, reason = \"..\")]` on the statement"
            ),
            Call::Connect => {
                let transaction = handle.transaction();
                format!("opens a connection outside the transaction; use {transaction}")
            }
            Call::Service => format!(
                "talks to another service, and no rollback takes that back; send what can wait for the commit by {outbox}, \
                 and make a call whose result the answer needs by {call}"
            ),
            Call::Disk => {
                let transaction = handle.transaction();
                format!(
                    "writes to the disk, and no rollback takes that back; write it through {transaction}, or before the \
                     handler runs"
                )
            }
            Call::Program => format!(
                "runs another program, and no rollback takes back what that does; have it run after the commit, by a \
                 message of {outbox}"
            ),
        }
    }
}

const SPAWN: [&str; 19] = [
    "actix_rt::spawn",
    "actix_web::rt::spawn",
    "async_std::task::spawn",
    "async_std::task::spawn_blocking",
    "async_std::task::spawn_local",
    "blocking::unblock",
    "rayon::spawn",
    "rayon::spawn_fifo",
    "smol::spawn",
    "smol::unblock",
    "std::thread::spawn",
    "tokio::runtime::Handle::spawn",
    "tokio::spawn",
    "tokio::task::spawn",
    "tokio::task::spawn_blocking",
    "tokio::task::spawn_local",
    "wasm_bindgen_futures::spawn_local",
    "actix::spawn",
    "tokio_uring::spawn",
];

/// Names of modules that others have too: a call that starts something is given it there and then.
const SPAWN_IF_GIVEN_CODE: [&str; 4] = [
    "task::spawn",
    "task::spawn_blocking",
    "task::spawn_local",
    "thread::spawn",
];

const SPAWNERS: [&str; 23] = [
    "Handle::current",
    "Handle::try_current",
    "JoinSet::new",
    "TaskTracker::new",
    "rayon::ThreadPoolBuilder::new",
    "runtime::Builder::new_current_thread",
    "runtime::Builder::new_multi_thread",
    "runtime::Handle::current",
    "runtime::Runtime::new",
    "std::thread::Builder::new",
    "task::JoinSet::new",
    "task::LocalSet::new",
    "thread::Builder::new",
    "tokio::runtime::Builder::new_current_thread",
    "tokio::runtime::Builder::new_multi_thread",
    "tokio::runtime::Handle::current",
    "tokio::runtime::Handle::try_current",
    "tokio::runtime::Runtime::new",
    "tokio::task::JoinSet::default",
    "tokio::task::JoinSet::new",
    "tokio::task::LocalSet::new",
    "tokio_util::task::LocalPoolHandle::new",
    "tokio_util::task::TaskTracker::new",
];

const SERVICES: [&str; 34] = [
    "TcpStream::connect",
    "TcpStream::connect_timeout",
    "UdpSocket::bind",
    "UnixStream::connect",
    "async_nats::connect",
    "attohttpc::get",
    "attohttpc::post",
    "isahc::get",
    "isahc::post",
    "lapin::Connection::connect",
    "minreq::get",
    "minreq::post",
    "redis::Client::open",
    "reqwest::Client::builder",
    "reqwest::Client::default",
    "reqwest::Client::new",
    "reqwest::ClientBuilder::new",
    "reqwest::blocking::Client::builder",
    "reqwest::blocking::Client::default",
    "reqwest::blocking::Client::new",
    "reqwest::blocking::get",
    "reqwest::get",
    "std::net::TcpStream::connect",
    "std::net::TcpStream::connect_timeout",
    "std::net::UdpSocket::bind",
    "std::os::unix::net::UnixStream::connect",
    "surf::get",
    "surf::post",
    "tokio::net::TcpStream::connect",
    "tokio::net::UdpSocket::bind",
    "tokio::net::UnixStream::connect",
    "ureq::get",
    "ureq::post",
    "ureq::put",
];

const PROGRAMS: [&str; 3] = [
    "process::Command::new",
    "std::process::Command::new",
    "tokio::process::Command::new",
];

const FILE_SYSTEMS: [&str; 7] = [
    "async_fs",
    "async_std::fs",
    "fs",
    "fs_err",
    "smol::fs",
    "std::fs",
    "tokio::fs",
];

const FILE_WRITES: [&str; 14] = [
    "File::create",
    "File::create_new",
    "copy",
    "create_dir",
    "create_dir_all",
    "hard_link",
    "remove_dir",
    "remove_dir_all",
    "remove_file",
    "rename",
    "set_permissions",
    "soft_link",
    "symlink",
    "write",
];

const DATABASES: [&str; 4] = ["Pg", "Sqlite", "MySql", "Any"];

/// The call of this path, as `["tokio", "task", "spawn"]`, with these arguments.
pub(super) fn call(path: &[String], arguments: &Punctuated<Expr, Token![,]>) -> Option<Call> {
    let whole = path.join("::");
    let is = |known: &[&str]| known.contains(&whole.as_str());
    let given_code = || matches!(arguments.first(), Some(Expr::Async(_) | Expr::Closure(_)));
    if is(&SPAWN) || is(&SPAWN_IF_GIVEN_CODE) && given_code() {
        Some(Call::Spawn)
    } else if is(&SPAWNERS) {
        Some(Call::Spawner)
    } else if is(&SERVICES) {
        Some(Call::Service)
    } else if is(&PROGRAMS) {
        Some(Call::Program)
    } else if writes_file(&whole) {
        Some(Call::Disk)
    } else if connects(path) {
        Some(Call::Connect)
    } else {
        None
    }
}

fn writes_file(path: &str) -> bool {
    FILE_SYSTEMS.iter().any(|module| {
        path.strip_prefix(module)
            .and_then(|rest| rest.strip_prefix("::"))
            .is_some_and(|function| FILE_WRITES.contains(&function))
    })
}

/// Whether this path begins the options of a file that is opened by them.
pub(super) fn begins_file_options(path: &[String]) -> bool {
    matches!(path, [.., owner, function] if owner == "OpenOptions" && function == "new" || owner == "File" && function == "options")
}

/// Options by which an opened file can be written, if they are `true`.
const FILE_WRITE_OPTIONS: [&str; 5] = ["append", "create", "create_new", "truncate", "write"];

/// `.append(true)` and its kin. One of them is enough to be told of: they come together.
pub(super) fn opens_for_writing(call: &ExprMethodCall) -> bool {
    let is = |method: &ExprMethodCall| {
        FILE_WRITE_OPTIONS
            .iter()
            .any(|option| method.method == option)
            && matches!(method.args.first(), Some(Expr::Lit(literal)) if matches!(&literal.lit, Lit::Bool(on) if on.value))
    };
    let mut before = &*call.receiver;
    while let Expr::MethodCall(inner) = before {
        if is(inner) {
            return false;
        }
        before = &inner.receiver;
    }
    is(call)
}

/// `PgPool::connect` and its kin by the names that sqlx gives them; what has a plainer name must be sqlx's by its path.
fn connects(path: &[String]) -> bool {
    let [before @ .., owner, function] = path else {
        return false;
    };
    let of_sqlx = before
        .first()
        .is_some_and(|krate| krate == "sqlx" || krate == "sqlx_core");
    let named = |what: &str| {
        DATABASES
            .iter()
            .any(|database| owner.strip_prefix(database) == Some(what))
            || of_sqlx && owner == what
    };
    match function.as_str() {
        "connect" | "connect_with" => {
            named("Pool") || named("Connection") || owner == "Pool" && before.is_empty()
        }
        "connect_lazy" | "connect_lazy_with" => {
            named("Pool") || owner == "Pool" && before.is_empty()
        }
        "new" => named("PoolOptions"),
        _ => false,
    }
}

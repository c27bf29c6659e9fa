//! A loopback proxy in front of a database server that does what a bad network does.

mod requests;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use self::requests::Request;
use crate::servers::Backend;
use crate::wait::PATIENCE;

/// More connections than this at a time, and the proxy refuses.
const MOST_CONNECTIONS: usize = 512;

/// What the network does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    /// Carries everything.
    Fine,
    /// Accepts connections and bytes, and delivers nothing.
    Blackhole,
    /// Nobody listens; existing connections are cut.
    Refusing,
}

/// What becomes of the next COMMITs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommitFault {
    /// The server commits; its answer is lost, and the connection with it.
    SwallowAcknowledgement,
    /// The COMMIT itself is lost, and the connection with it: the server rolls back.
    LoseCommit,
}

#[derive(Debug)]
struct Shared {
    backend: Backend,
    /// Where new connections are carried to.
    server: Mutex<SocketAddr>,
    weather: watch::Sender<Weather>,
    /// Each change cuts every connection.
    generation: watch::Sender<u64>,
    latency_micros: AtomicU64,
    connections: AtomicUsize,
    commit_faults: Mutex<(Option<CommitFault>, usize)>,
    requests: Mutex<Vec<Request>>,
    /// Whether the server is out of reach from the next commit fault on.
    refuse_afterwards: AtomicBool,
    /// Whether answers to begins are held back.
    holds_answers: watch::Sender<bool>,
}

impl Shared {
    /// Whether this COMMIT is to fail, and how. Counts it.
    fn next_commit_fault(&self) -> Option<CommitFault> {
        let mut armed = self.commit_faults.lock().expect("no holder panics");
        let (Some(fault), left @ 1..) = *armed else {
            return None;
        };
        armed.1 = left - 1;
        Some(fault)
    }

    /// A commit fault is done.
    fn after_commit_fault(&self) {
        if self.refuse_afterwards.swap(false, Ordering::SeqCst) {
            self.weather.send_replace(Weather::Refusing);
            self.generation.send_modify(|number| *number += 1);
        }
    }

    /// Waits while the network is a black hole.
    async fn delivers(&self) {
        let mut weather = self.weather.subscribe();
        let _ = weather.wait_for(|now| *now != Weather::Blackhole).await;
    }

    async fn delay(&self) {
        let micros = self.latency_micros.load(Ordering::Relaxed);
        if micros > 0 {
            tokio::time::sleep(Duration::from_micros(micros)).await;
        }
    }
}

/// A proxy on a loopback port of its own; gone with this value.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// A proxy that carries everything to the database server at `server`.
    pub async fn start(backend: Backend, server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("a loopback port");
        let address = listener.local_addr().expect("a bound port");
        let shared = Arc::new(Shared {
            backend,
            server: Mutex::new(server),
            weather: watch::Sender::new(Weather::Fine),
            generation: watch::Sender::new(0),
            latency_micros: AtomicU64::new(0),
            connections: AtomicUsize::new(0),
            commit_faults: Mutex::new((None, 0)),
            requests: Mutex::default(),
            refuse_afterwards: AtomicBool::new(false),
            holds_answers: watch::Sender::new(false),
        });
        let task = tokio::spawn(listen(listener, address, Arc::clone(&shared)));
        Proxy {
            address,
            shared,
            task,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections it carries now.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Adds this much to every delivery, in each direction.
    pub fn set_latency(&self, each_way: Duration) {
        let micros = u64::try_from(each_way.as_micros()).unwrap_or(u64::MAX);
        self.shared.latency_micros.store(micros, Ordering::Relaxed);
    }

    /// Closes every connection; new ones are carried to another server, as an address that moves does.
    pub fn fail_over(&self, server: SocketAddr) {
        *self.shared.server.lock().expect("no holder panics") = server;
        self.cut();
    }

    /// Closes every connection; new ones work.
    pub fn cut(&self) {
        self.shared.generation.send_modify(|number| *number += 1);
    }

    /// Closes every connection and refuses new ones, as if the server had stopped.
    pub async fn refuse(&self) {
        self.shared.weather.send_replace(Weather::Refusing);
        self.cut();
        crate::wait::until("the proxy refuses", PATIENCE, async || {
            TcpStream::connect(self.address).await.is_err()
        })
        .await;
    }

    /// Keeps every connection, and delivers nothing on any, nor on new ones.
    pub fn blackhole(&self) {
        self.shared.weather.send_replace(Weather::Blackhole);
    }

    /// Carries everything again.
    pub async fn restore(&self) {
        self.shared.weather.send_replace(Weather::Fine);
        crate::wait::until("the proxy listens again", PATIENCE, async || {
            TcpStream::connect(self.address).await.is_ok()
        })
        .await;
    }

    /// The next `commits` reach the server; its acknowledgements don't reach the client.
    pub fn swallow_acknowledgements(&self, commits: usize) {
        *self.shared.commit_faults.lock().expect("no holder panics") =
            (Some(CommitFault::SwallowAcknowledgement), commits);
    }

    /// The next `commits` never reach the server.
    pub fn lose_commits(&self, commits: usize) {
        *self.shared.commit_faults.lock().expect("no holder panics") =
            (Some(CommitFault::LoseCommit), commits);
    }

    /// What was asked of the server since this was called last, in the order in which it was sent.
    pub fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut *self.shared.requests.lock().expect("no holder panics"))
    }

    /// From the next commit fault on, nobody listens until [`restore`](Proxy::restore).
    pub fn refuse_after_commit_fault(&self) {
        self.shared.refuse_afterwards.store(true, Ordering::SeqCst);
    }

    /// From now on a transaction begins at the server and the answer is held back, or, with `false`, is carried.
    pub fn hold_answers_to_begins(&self, hold: bool) {
        self.shared.holds_answers.send_replace(hold);
    }

    /// How many armed faults no COMMIT has met yet.
    pub fn armed(&self) -> usize {
        self.shared
            .commit_faults
            .lock()
            .expect("no holder panics")
            .1
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
        self.task.abort();
    }
}

async fn listen(listener: TcpListener, address: SocketAddr, shared: Arc<Shared>) {
    let mut listener = Some(listener);
    let mut weather = shared.weather.subscribe();
    loop {
        if *weather.borrow_and_update() == Weather::Refusing {
            listener = None;
            if weather.changed().await.is_err() {
                return;
            }
            continue;
        }
        let Some(open) = &listener else {
            match TcpListener::bind(address).await {
                Ok(bound) => listener = Some(bound),
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
            continue;
        };
        tokio::select! {
            changed = weather.changed() => if changed.is_err() { return },
            accepted = open.accept() => {
                let Ok((client, _)) = accepted else { continue };
                if shared.connections.load(Ordering::Relaxed) < MOST_CONNECTIONS {
                    tokio::spawn(carry(client, Arc::clone(&shared)));
                }
            }
        }
    }
}

/// Carries one connection until an end closes it, or the network cuts it.
async fn carry(client: TcpStream, shared: Arc<Shared>) {
    let mut generation = shared.generation.subscribe();
    generation.mark_unchanged();
    shared.connections.fetch_add(1, Ordering::Relaxed);
    let carried = async {
        shared.delivers().await;
        if *shared.weather.borrow() == Weather::Refusing {
            return;
        }
        let address = *shared.server.lock().expect("no holder panics");
        let Ok(server) = TcpStream::connect(address).await else {
            return;
        };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let swallowing = watch::Sender::new(false);
        let begun = watch::Sender::new(false);
        let reader = Mutex::new(requests::Reader::new(shared.backend));
        tokio::select! {
            () = upstream(from_client, to_server, &shared, &swallowing, &begun, &reader) => {}
            () = downstream(from_server, to_client, &shared, &swallowing, &begun, &reader) => {}
        }
    };
    tokio::select! {
        () = carried => {}
        _ = generation.changed() => {}
    }
    shared.connections.fetch_sub(1, Ordering::Relaxed);
}

/// Client to server, message by message, so that a COMMIT is seen.
async fn upstream(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    swallowing: &watch::Sender<bool>,
    begun: &watch::Sender<bool>,
    reader: &Mutex<requests::Reader>,
) {
    let mut messages = Messages::of_client(shared.backend);
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else {
            return;
        };
        let mut fault = None;
        let mut meet = |message: &[u8]| {
            let request = reader.lock().expect("no holder panics").read(message);
            if let Some(request) = request {
                begun.send_replace(request.begins());
                let mut requests = shared.requests.lock().expect("no holder panics");
                requests.push(request);
            }
            if is_commit(shared.backend, message) && fault.is_none() {
                fault = shared.next_commit_fault();
            }
        };
        messages.take(&buffer[..read], &mut meet);
        match fault {
            Some(CommitFault::LoseCommit) => {
                shared.after_commit_fault();
                return;
            }
            Some(CommitFault::SwallowAcknowledgement) => {
                swallowing.send_replace(true);
            }
            None => {}
        }
        shared.delay().await;
        if !delivered(&mut to, &buffer[..read], shared).await {
            return;
        }
        if fault.is_some() {
            // The other direction ends the connection once the server has answered.
            tokio::time::sleep(PATIENCE).await;
            return;
        }
    }
}

/// Server to client.
async fn downstream(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    swallowing: &watch::Sender<bool>,
    begun: &watch::Sender<bool>,
    reader: &Mutex<requests::Reader>,
) {
    let mut buffer = vec![0; 16 * 1024];
    let mut answers = Messages::of_server(shared.backend);
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else {
            return;
        };
        let mut committed = false;
        answers.take(&buffer[..read], &mut |message| {
            committed |= acknowledges_commit(shared.backend, message);
            reader.lock().expect("no holder panics").answered(message);
        });
        if *swallowing.borrow() {
            if committed {
                shared.after_commit_fault();
                return;
            }
            continue;
        }
        shared.delay().await;
        if *begun.borrow() {
            let mut holds = shared.holds_answers.subscribe();
            let _ = holds.wait_for(|holds| !holds).await;
        }
        if !delivered(&mut to, &buffer[..read], shared).await {
            return;
        }
    }
}

async fn delivered(to: &mut OwnedWriteHalf, bytes: &[u8], shared: &Shared) -> bool {
    shared.delivers().await;
    to.write_all(bytes).await.is_ok()
}

/// Cuts a byte stream into the wire protocol's messages. Those that are too long to end with a COMMIT are
/// cut off.
struct Messages {
    backend: Backend,
    /// PostgreSQL's first messages have no type byte.
    startup: bool,
    pending: Vec<u8>,
    /// Bytes of a long message that are still to come and of no interest.
    skip: usize,
}

const LONGEST_MESSAGE: usize = 64 * 1024;

impl Messages {
    fn of_client(backend: Backend) -> Messages {
        Messages {
            backend,
            startup: backend.is_postgres(),
            pending: Vec::new(),
            skip: 0,
        }
    }

    fn of_server(backend: Backend) -> Messages {
        Messages {
            startup: false,
            ..Messages::of_client(backend)
        }
    }

    /// The bytes before the payload, and the whole length, when both can be known.
    fn frame(&self) -> Option<(usize, usize)> {
        let bytes = &self.pending;
        match self.backend {
            Backend::MySql => {
                let length =
                    u32::from_le_bytes([*bytes.first()?, *bytes.get(1)?, *bytes.get(2)?, 0]);
                bytes.get(3)?;
                Some((4, 4 + length as usize))
            }
            _ => {
                let at = usize::from(!self.startup);
                let length = u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?);
                Some((at, at + (length as usize).max(4)))
            }
        }
    }

    fn take(&mut self, bytes: &[u8], seen: &mut dyn FnMut(&[u8])) {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        self.pending.extend_from_slice(&bytes[skipped..]);
        while let Some((_, length)) = self.frame() {
            if self.pending.len() < length {
                if length > LONGEST_MESSAGE {
                    self.skip = length - self.pending.len();
                    self.pending.clear();
                }
                return;
            }
            let message: Vec<u8> = self.pending.drain(..length).collect();
            // An SSLRequest is answered by one byte, and a startup message follows it again.
            let asks_for_tls =
                self.startup && message.get(4..8) == Some(&80_877_103_u32.to_be_bytes());
            self.startup = asks_for_tls;
            seen(&message);
        }
    }
}

/// Whether a client's message is a COMMIT, or a text of statements that ends with one. A new transaction may
/// follow it (`AND CHAIN`), or on MySQL what restores the session.
fn is_commit(backend: Backend, message: &[u8]) -> bool {
    let text = match (backend, message) {
        (Backend::Postgres | Backend::PostgresFewest, [b'Q', _, _, _, _, text @ ..]) => text,
        (Backend::MySql, [_, _, _, _, 3, text @ ..]) => text,
        _ => return false,
    };
    if backend == Backend::MySql && text.starts_with(b"COMMIT; SET ") {
        return true;
    }
    let text = text.strip_suffix(b"\0").unwrap_or(text).trim_ascii();
    let text = text.strip_suffix(b";").unwrap_or(text).trim_ascii_end();
    let text = text.strip_suffix(b" AND CHAIN").unwrap_or(text);
    let Some((rest, word)) = text.len().checked_sub(6).map(|at| text.split_at(at)) else {
        return false;
    };
    word.eq_ignore_ascii_case(b"commit")
        && rest
            .last()
            .is_none_or(|byte| byte.is_ascii_whitespace() || *byte == b';')
}

/// Whether a server's message says that a COMMIT is done. Asked only after one was sent.
fn acknowledges_commit(backend: Backend, message: &[u8]) -> bool {
    match backend {
        Backend::Postgres | Backend::PostgresFewest => {
            message.first() == Some(&b'C') && message[5..].starts_with(b"COMMIT")
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, PgConnection};

    use super::*;
    use crate::servers::TestDatabase;

    async fn insert_in_a_transaction(backend: Backend, url: &str) -> Result<(), sqlx::Error> {
        let statement = AssertSqlSafe("INSERT INTO t VALUES (1)".to_owned());
        match backend {
            Backend::Postgres => {
                let mut connection = PgConnection::connect(url).await?;
                let mut transaction = connection.begin().await?;
                transaction.execute(sqlx::query(statement)).await?;
                transaction.commit().await
            }
            _ => {
                let mut connection = MySqlConnection::connect(url).await?;
                let mut transaction = connection.begin().await?;
                transaction.execute(sqlx::query(statement)).await?;
                transaction.commit().await
            }
        }
    }

    #[tokio::test]
    async fn a_commit_loses_its_acknowledgement_or_itself_as_armed() {
        for backend in [Backend::Postgres, Backend::MySql] {
            let database = TestDatabase::create(backend).await;
            database
                .execute("CREATE TABLE t (n INTEGER)")
                .await
                .expect("a table");
            let proxy = Proxy::start(backend, database.server_address()).await;
            let url = database.url_through(proxy.address());
            let rows = async || database.number("SELECT COUNT(*) FROM t").await;

            insert_in_a_transaction(backend, &url)
                .await
                .expect("a proxy carries a commit");
            assert_eq!(rows().await, 1);

            proxy.swallow_acknowledgements(1);
            insert_in_a_transaction(backend, &url)
                .await
                .expect_err("no acknowledgement comes");
            assert_eq!((rows().await, proxy.armed()), (2, 0), "{backend:?}");

            proxy.lose_commits(1);
            insert_in_a_transaction(backend, &url)
                .await
                .expect_err("no acknowledgement comes");
            assert_eq!((rows().await, proxy.armed()), (2, 0), "{backend:?}");

            insert_in_a_transaction(backend, &url)
                .await
                .expect("later commits are carried");
            assert_eq!(rows().await, 3, "{backend:?}");
        }
    }

    #[tokio::test]
    async fn the_network_cuts_refuses_swallows_and_recovers() {
        for backend in [Backend::Postgres, Backend::MySql] {
            let database = TestDatabase::create(backend).await;
            database
                .execute("CREATE TABLE t (n INTEGER)")
                .await
                .expect("a table");
            let proxy = Proxy::start(backend, database.server_address()).await;
            let url = database.url_through(proxy.address());

            proxy.refuse().await;
            insert_in_a_transaction(backend, &url)
                .await
                .expect_err("refused");
            proxy.restore().await;
            insert_in_a_transaction(backend, &url)
                .await
                .expect("restored");

            proxy.blackhole();
            let lost = tokio::time::timeout(
                Duration::from_millis(200),
                insert_in_a_transaction(backend, &url),
            );
            assert!(lost.await.is_err(), "{backend:?}: nothing comes back");
            proxy.cut();
            proxy.restore().await;

            proxy.set_latency(Duration::from_millis(5));
            let start = std::time::Instant::now();
            insert_in_a_transaction(backend, &url)
                .await
                .expect("slow, but carried");
            assert!(
                start.elapsed() >= Duration::from_millis(40),
                "{:?}",
                start.elapsed()
            );
        }
    }
}

//! The load generator finds what is wrong with a service, with the right numbers, and nothing wrong with one that is right.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use idem_tests::application::{Application, Fixture, Setting};
use idem_tests::process::{executable, free_port};
use idem_tests::servers::Backend;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::process::Command;

/// What a service does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// The first duplicate of each second key is carried out again.
    Doubles,
    /// The effect of each second key is lost.
    Loses,
    /// Both, each with as many keys.
    DoublesAndLoses,
    /// Each second key's replays are not what was first answered.
    Differs,
    /// Another body is a replay, too.
    TakesAnyBody,
}

/// What a service has, and what it did wrong.
#[derive(Debug, Default)]
struct Ledger {
    /// The body of each key, whether it was doubled, and its number.
    keys: HashMap<String, (Bytes, bool, usize)>,
    effects: Vec<String>,
    doubled: Vec<String>,
    lost: Vec<String>,
    differing: u64,
}

impl Ledger {
    fn first(&mut self, wrong: Wrong, key: &str, body: Bytes) -> Response {
        let number = self.keys.len();
        self.keys.insert(key.to_owned(), (body, false, number));
        let loses = match wrong {
            Wrong::Loses => number % 2 == 1,
            // For each that was doubled one is lost.
            Wrong::DoublesAndLoses => self.lost.len() < self.doubled.len(),
            _ => false,
        };
        match loses {
            true => self.lost.push(key.to_owned()),
            false => self.effects.push(key.to_owned()),
        }
        (StatusCode::CREATED, format!("order {number}")).into_response()
    }

    fn again(&mut self, wrong: Wrong, key: &str, body: &Bytes) -> Response {
        let Some((first, doubled, number)) = self.keys.get_mut(key) else {
            unreachable!("the key is known");
        };
        if first != body && wrong != Wrong::TakesAnyBody {
            return StatusCode::UNPROCESSABLE_ENTITY.into_response();
        }
        let (second, number) = (*number % 2 == 1, *number);
        let doubles = matches!(wrong, Wrong::Doubles | Wrong::DoublesAndLoses);
        if doubles && second && !*doubled && !self.lost.iter().any(|lost| lost == key) {
            *doubled = true;
            self.effects.push(key.to_owned());
            self.doubled.push(key.to_owned());
        }
        let mut answer = format!("order {number}");
        if wrong == Wrong::Differs && second {
            self.differing += 1;
            answer.push('!');
        }
        let replay = [("idempotent-replayed", "true")];
        (StatusCode::CREATED, replay, answer).into_response()
    }
}

#[derive(Clone)]
struct Service {
    wrong: Wrong,
    ledger: Arc<Mutex<Ledger>>,
    address: SocketAddr,
}

impl Service {
    async fn start(wrong: Wrong) -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let service = Service {
            wrong,
            ledger: Arc::default(),
            address: listener.local_addr().expect("a bound port"),
        };
        let router = Router::new()
            .route("/orders", post(order))
            .route("/orders", get(orders))
            .with_state(service.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        service
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("no holder panics")
    }

    /// Loads it, with these arguments more.
    async fn hammered(&self, arguments: &[&str]) -> (i32, Value) {
        let url = format!("http://{}/orders", self.address);
        let body = r#"{"item": "book", "note": "{key}"}"#;
        let operation = ["--url", &url, "-d", body, "--count-url", &url];
        hammer(&[&operation, arguments].concat()).await
    }
}

async fn order(State(service): State<Service>, headers: HeaderMap, body: Bytes) -> Response {
    let Some(key) = headers.get("idempotency-key") else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let key = key.to_str().expect("a key is ASCII").trim_matches('"');
    let mut ledger = service.ledger();
    match ledger.keys.contains_key(key) {
        true => ledger.again(service.wrong, key, &body),
        false => ledger.first(service.wrong, key, body),
    }
}

async fn orders(State(service): State<Service>) -> Json<Value> {
    Json(json!(service.ledger().effects))
}

/// Runs the program, with 200 keys unless it is told otherwise: how it ended, and its report.
async fn hammer(arguments: &[&str]) -> (i32, Value) {
    let keys = ["--keys", "200"];
    let keys = if arguments.contains(&"--keys") {
        &[][..]
    } else {
        &keys
    };
    let output = Command::new(executable("hammer"))
        .args(keys)
        .args(["--json", "--settle", "0s"])
        .args(["--backoff", "20ms", "--concurrency", "8"])
        .args(arguments)
        .kill_on_drop(true)
        .output()
        .await
        .expect("the program runs");
    let code = output.status.code().expect("it ends by itself");
    let report = serde_json::from_slice(&output.stdout);
    (code, report.unwrap_or_else(|_| panic!("{output:?}")))
}

fn sorted(keys: &Value) -> Vec<String> {
    let mut keys: Vec<String> = serde_json::from_value(keys.clone()).expect("keys are listed");
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn a_service_that_is_right_passes() {
    let service = Service::start(Wrong::Nothing).await;
    for (index, arguments) in [&["--bare-key"][..], &["--by-key"]].into_iter().enumerate() {
        let (code, report) = service.hammered(arguments).await;
        assert_eq!(
            (code, &report["verdict"]),
            (0, &json!("right")),
            "{report:#}"
        );
        assert_eq!(report["keys"]["succeeded"], 200, "{report:#}");
        assert_eq!(report["effects"]["gained"], 200, "{report:#}");
        assert_eq!(service.ledger().effects.len(), 200 * (index + 1));
    }
}

#[tokio::test]
async fn effects_that_are_doubled_are_counted() {
    let service = Service::start(Wrong::Doubles).await;
    let (code, report) = service.hammered(&[]).await;
    let doubled = service.ledger().doubled.len();
    assert!(doubled > 20, "{doubled}");
    assert_eq!((code, &report["verdict"]), (1, &json!("wrong")));
    assert_eq!(report["effects"]["doubled"], doubled, "{report:#}");
    assert_eq!(report["effects"]["lost"], 0, "{report:#}");
    assert_eq!(report["fault_count"], 0, "{report:#}");
}

#[tokio::test]
async fn effects_that_are_lost_are_counted() {
    let service = Service::start(Wrong::Loses).await;
    let (code, report) = service.hammered(&[]).await;
    assert_eq!((code, &report["verdict"]), (1, &json!("wrong")));
    assert_eq!(report["effects"]["lost"], 100, "{report:#}");
    assert_eq!(report["effects"]["doubled"], 0, "{report:#}");
}

#[tokio::test]
async fn as_many_lost_as_doubled_are_found_by_key() {
    let service = Service::start(Wrong::DoublesAndLoses).await;
    let (code, report) = service.hammered(&["--by-key", "--keys", "100"]).await;
    assert_eq!((code, &report["verdict"]), (1, &json!("wrong")));
    let ledger = service.ledger();
    for (wrong, count, keys) in [
        (&ledger.lost, "lost", "lost_keys"),
        (&ledger.doubled, "doubled", "doubled_keys"),
    ] {
        assert!((5..50).contains(&wrong.len()), "{wrong:?}");
        assert_eq!(report["effects"][count], wrong.len(), "{report:#}");
        let mut wrong = wrong.clone();
        wrong.sort_unstable();
        assert_eq!(sorted(&report["effects"][keys]), wrong);
    }
}

#[tokio::test]
async fn answers_to_one_key_that_differ_are_faults() {
    let service = Service::start(Wrong::Differs).await;
    // A lost answer is followed by one that is the first to be seen.
    let mix = ["--mix", "once,replays,together"];
    let (code, report) = service.hammered(&mix).await;
    assert_eq!((code, &report["verdict"]), (1, &json!("wrong")));
    let differing = service.ledger().differing;
    assert!(differing > 20, "{differing}");
    assert!(report["fault_count"].as_u64() > Some(20), "{report:#}");
    assert!(
        report["fault_count"].as_u64() <= Some(differing),
        "{report:#}"
    );
    let fault = &report["faults"][0]["what"];
    let says = fault.as_str().expect("a fault says what it is");
    assert!(says.starts_with("answers differ: 201 with"), "{says}");
    for effects in ["lost", "doubled"] {
        assert_eq!(report["effects"][effects], 0, "{report:#}");
    }
}

#[tokio::test]
async fn a_changed_body_that_is_not_refused_is_a_fault() {
    let service = Service::start(Wrong::TakesAnyBody).await;
    let (code, report) = service
        .hammered(&["--mix", "changed", "--keys", "20"])
        .await;
    assert_eq!((code, &report["fault_count"]), (1, &json!(20)));
    let fault = &report["faults"][0]["what"];
    assert_eq!(fault, "a changed body was answered with 201 ", "{report:#}");
}

#[tokio::test]
async fn keys_of_an_earlier_run_prove_nothing() {
    let service = Service::start(Wrong::Nothing).await;
    let seed = ["--seed", "5"];
    let (code, report) = service.hammered(&seed).await;
    assert_eq!(code, 0, "{report:#}");
    let (code, report) = service.hammered(&seed).await;
    assert_eq!((code, &report["verdict"]), (3, &json!("open")));
    assert_eq!(service.ledger().effects.len(), 200, "the same keys");
    assert!(
        report["keys"]["used_before"].as_u64() > Some(50),
        "{report:#}"
    );
}

#[tokio::test]
async fn keys_that_never_end_are_listed() {
    let url = format!("http://127.0.0.1:{}/", free_port());
    let arguments = ["--count-command", "echo 0", "--keys", "10"];
    let brief = ["--attempts", "2", "--mix", "once,together"];
    let (code, report) = hammer(&[&["--url", &url][..], &arguments, &brief].concat()).await;
    assert_eq!((code, &report["verdict"]), (3, &json!("open")));
    assert_eq!(report["keys"]["given_up"], 10, "{report:#}");
    assert_eq!(sorted(&report["given_up_keys"]).len(), 10, "{report:#}");
    let failed = &report["requests"]["failed"]["connection refused"];
    assert_eq!(failed, &report["requests"]["sent"], "{report:#}");
}

/// Loads a probe, and counts in its database.
async fn probe_hammered(fixture: &Fixture, arguments: &[&str]) -> (i32, Value) {
    let url = format!("http://{}/effects", fixture.server.address());
    let body = r#"{"n": {number}, "key": "{key}"}"#;
    let token = "authorization: Bearer alice-token";
    let operation = ["--url", &url, "-H", token, "-d", body];
    hammer(&[&operation, arguments].concat()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_probe_passes_on_every_database() {
    for backend in Backend::all() {
        let fixture = Fixture::start(backend, &[]).await;
        let url = fixture.database.url();
        let arguments = ["--count-sql", url, "SELECT count(*) FROM effects"];
        let sometimes = [
            "--sometimes",
            "x-probe-fault: panic",
            "--sometimes",
            "x-probe-sleep-ms: 50",
        ];
        let (code, report) = probe_hammered(&fixture, &[&arguments[..], &sometimes].concat()).await;
        assert_eq!(code, 0, "{backend:?}: {report:#}");
        assert_eq!(report["effects"]["gained"], 200, "{backend:?}: {report:#}");
        let problems = &report["requests"]["problems"];
        assert!(problems["idempotency-handler-panicked"].as_u64() > Some(5));
        assert!(problems["idempotency-key-reused"].as_u64() > Some(5));

        let texts = ["--by-key", "--count-sql", url, "SELECT body FROM effects"];
        let (code, report) = probe_hammered(&fixture, &texts).await;
        assert_eq!(code, 0, "{backend:?}: {report:#}");
        assert_eq!(report["effects"]["gained"], 200, "{backend:?}: {report:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_that_claim_nothing_are_found_out() {
    let plant = ("IDEM_PLANT", "NoClaim");
    let fixture = Fixture::start(Backend::Postgres, &[plant]).await;
    let setting = Setting::of(Backend::Postgres, fixture.database.url()).with(plant.0, plant.1);
    let other = Application::start(&setting).await;
    let address = fixture.server.address();
    let other_url = format!("http://{}/effects", other.server.address());
    let count = format!("http://{address}/effects?account=alice");
    let arguments = [
        &["--url", &other_url, "--mix", "together"][..],
        &["--count-url", &count, "--count-pointer", "/count"],
    ];
    let (code, report) = probe_hammered(&fixture, &arguments.concat()).await;
    assert_eq!((code, &report["verdict"]), (1, &json!("wrong")));
    let rows = fixture.rows("alice").await.len();
    assert!(rows > 200, "{rows}");
    assert_eq!(report["effects"]["doubled"], rows - 200, "{report:#}");
}

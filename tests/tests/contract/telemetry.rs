//! What is told of requests, and what never is.

use std::collections::{BTreeMap, BTreeSet};

use idem_tests::application::Fixture;
use idem_tests::http::fresh_key;
use idem_tests::on_every_backend;
use idem_tests::servers::Backend;
use serde::Deserialize;
use serde_json::json;

on_every_backend! {
    metrics_are_labelled_by_operation_and_outcome_only,
    an_event_of_a_refusal_has_its_code ["KEEP_EVENTS" = "idem=info"],
    no_event_has_a_key_a_body_or_a_header ["KEEP_EVENTS" = "idem=trace,idem_runtime=trace,sqlx=trace"],
}

#[derive(Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Series {
    kind: String,
    name: String,
    labels: BTreeMap<String, String>,
}

/// A first use, its replay, another request with its key, a failure, and a request without a key.
async fn a_few_of_each(app: &Fixture, key: &str) {
    let call = app.with_key("/effects", key);
    app.accepted(&call, 201).await;
    assert!(call.send().await.is_replay());
    let other = call.json(&json!({"amount": 2})).send().await;
    assert_eq!(other.status, 422);
    let failing = app.effect("/strict").asking("err", 402);
    assert_eq!(failing.send().await.status, 402);
    let keyless = app.client.post("/strict").json(&json!({}));
    assert_eq!(keyless.send().await.status, 400);
}

async fn metrics_are_labelled_by_operation_and_outcome_only(app: &Fixture) {
    a_few_of_each(app, &fresh_key()).await;
    let answer = app.client.get("/metrics").send().await;
    let measured: Vec<(Series, u64)> =
        serde_json::from_slice(&answer.body).expect("the probe lists its metrics");
    let measured: BTreeMap<Series, u64> = measured.into_iter().collect();
    let mut expected = BTreeMap::new();
    for (operation, outcome) in [
        ("effects", "accepted"),
        ("effects", "replayed"),
        ("effects", "mismatch"),
        ("strict", "accepted"),
        ("strict", "released"),
        ("strict", "refused"),
    ] {
        for (kind, name) in [
            ("counter", "idempotency_requests_total"),
            ("histogram", "idempotency_request_duration_seconds"),
        ] {
            let labels = [("operation", operation), ("outcome", outcome)];
            let series = Series {
                kind: kind.to_owned(),
                name: name.to_owned(),
                labels: labels
                    .map(|(label, value)| (label.to_owned(), value.to_owned()))
                    .into(),
            };
            expected.insert(series, 1);
        }
    }
    assert_eq!(measured, expected);
}

async fn an_event_of_a_refusal_has_its_code(app: &Fixture) {
    a_few_of_each(app, &fresh_key()).await;
    let malformed = app.with_key("/effects", "one, two").send().await;
    assert_eq!(malformed.status, 400, "{malformed:?}");
    // A client that still sends may not see the answer.
    let large = app
        .effect("/upload")
        .body("text/plain", vec![b'x'; 2 << 20]);
    let _ = large.try_send().await;
    let unreadable = app.effect("/typed").body("application/json", "{");
    assert_eq!(unreadable.send().await.status, 400);
    let told = app.client.get("/events").send().await;
    let told = String::from_utf8_lossy(&told.body).into_owned();
    let codes = |signal: &str| -> Vec<Option<String>> {
        let of_signal = told
            .lines()
            .filter(|line| line.contains(&format!("signal=\"{signal}\"")));
        let code = |line: &str| Some(line.split("code=\"").nth(1)?.split('"').next()?.to_owned());
        of_signal.map(code).collect()
    };
    let some = |code: &str| Some(code.to_owned());
    let refused = [
        some("idempotency-key-missing"),
        some("idempotency-key-invalid"),
        some("request-too-large"),
        // The extractor's own answer.
        None,
    ];
    assert_eq!(codes("refused"), refused, "{told}");
    assert_eq!(
        codes("mismatch"),
        [some("idempotency-key-reused")],
        "{told}"
    );
    assert_eq!(codes("replayed"), [None], "{told}");
}

/// Everything that goes wrong is told too; none of it may quote the request.
async fn no_event_has_a_key_a_body_or_a_header(app: &Fixture) {
    let marked = |call: idem_tests::http::Call| {
        call.set("x-secret", b"secret-header")
            .set("user-agent", b"secret-agent")
    };
    let mut keys = BTreeSet::from(["secret-key".to_owned()]);
    a_few_of_each(app, "secret-key").await;
    let body = json!({"card": "secret-body", "n": 1});
    for (path, fault) in [
        ("/effects?q=secret-query", ""),
        ("/effects/secret-path", ""),
        ("/effects", "panic"),
        ("/effects", "swallow"),
        ("/effects", "deferred"),
        ("/effects", "raw-commit"),
        ("/effects", "static-pool"),
        ("/effects", "serialization-always"),
        ("/timeout", "slow-statement"),
        ("/typed", ""),
    ] {
        let key = format!("secret-key-{}", fresh_key());
        let call = marked(app.with_key(path, &key)).json(&body);
        call.asking("fault", fault).send().await;
        keys.insert(key);
    }
    for (name, value) in [("body", "endless"), ("err", "402"), ("status", "500")] {
        let call = marked(app.with_key("/effects", "secret-key-2")).json(&body);
        call.asking(name, value).send().await;
    }
    let malformed = app.with_key("/effects", "secret-key,b").json(&body);
    marked(malformed).send().await;
    let unreadable = app.with_key("/typed", "secret-key-3");
    marked(unreadable.body("application/json", "{\"secret-body"))
        .send()
        .await;
    // A record whose columns can't be read, which is an error to tell of.
    let byte = match app.database.backend() {
        Backend::Postgres | Backend::PostgresFewest => "'\\x7b'",
        Backend::Sqlite | Backend::MySql => "x'7b'",
    };
    let spoil = format!("UPDATE idem_keys SET headers = {byte} WHERE headers IS NOT NULL");
    app.database.execute(&spoil).await.expect("an update");
    let spoilt = app.with_key("/effects", "secret-key").send().await;
    assert_eq!(spoilt.status, 503, "{spoilt:?}");

    let told = app.client.get("/events").send().await;
    let told = String::from_utf8_lossy(&told.body).into_owned();
    for signal in ["accepted", "replayed", "mismatch", "refused", "unresolved"] {
        let signal = format!("signal=\"{signal}\"");
        assert!(told.contains(&signal), "{signal} is told: {told}");
    }
    assert!(told.contains("sqlx::query"), "statements are told: {told}");
    assert!(
        !told.contains("idem_complete("),
        "an answer as text: {told}"
    );
    for line in told.lines() {
        let quotes = line.contains("secret") || line.contains("alice-token");
        let quotes = quotes || keys.iter().any(|key| line.contains(key));
        assert!(!quotes, "an event quotes the request: {line}");
    }
}

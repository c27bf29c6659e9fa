//! What an operation keeps of its handler's data, with a cipher: nothing that can be read, at any moment; and what becomes of
//! it when the cipher fails.

mod cipher;
mod handler;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use idem_runtime::Idempotency;
use idem_runtime::operations::{Decision, List, OperationSummary};
use idem_runtime::steps::Recovered;
use idem_tests::dump::{dump, holds};
use idem_tests::servers::{Backend, TestDatabase};
use idem_tests::wait::{PATIENCE, until};
use serde_json::json;
use sqlx::pool::PoolOptions;
use tower::ServiceExt;

use self::cipher::Cipher;
use self::handler::{App, Bank, Plan, Tested};

/// What must not be read.
const WORD: &str = "needle7f3a";
const MAX_ATTEMPTS: u32 = 2;

struct Vault<DB: Tested> {
    app: App<DB>,
    database: Arc<TestDatabase>,
    cipher: Cipher,
    backend: Backend,
}

impl<DB: Tested> Vault<DB> {
    async fn open(backend: Backend, is_sealed: bool) -> Self {
        let database = Arc::new(TestDatabase::create(backend).await);
        let cipher = Cipher::new();
        let bank = Bank {
            plan: Arc::default(),
            calls: Arc::new(Mutex::default()),
            database: database.clone(),
            cipher: cipher.clone(),
        };
        let idempotency = connected::<DB>(backend, &database, is_sealed.then_some(&cipher)).await;
        idempotency.migrate().await.expect("the schema is made");
        Self {
            app: App { idempotency, bank },
            database,
            cipher,
            backend,
        }
    }

    fn plan(&self, plan: Plan) {
        *self.app.bank.plan.lock().expect("no holder panics") = plan;
    }

    /// The status and the body of the one request of an account.
    async fn send(&self, account: &str) -> (u16, String) {
        let request = Request::post(format!("/notes/{account}"))
            .header("idempotency-key", "\"k\"")
            .header("content-type", "application/json")
            .body(Body::from(json!({ "text": WORD }).to_string()))
            .expect("a request");
        let router = DB::router(self.app.clone());
        let answer = router.oneshot(request).await.expect("infallible");
        let status = answer.status().as_u16();
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
        (
            status,
            String::from_utf8_lossy(&body.expect("a body")).into_owned(),
        )
    }

    async fn recovered(&self) -> Recovered {
        self.recovered_by(&self.app).await
    }

    async fn recovered_by(&self, app: &App<DB>) -> Recovered {
        let mut all = Vec::new();
        until("it is due", PATIENCE, async || {
            let recovery = DB::recovery(app);
            all = recovery.run_once().await.expect("the store is there");
            !all.is_empty()
        })
        .await;
        all[0]
    }

    async fn only(&self) -> OperationSummary {
        let listed = self.app.idempotency.operations().list(&List::all()).await;
        let mut listed = listed.expect("the operations are listed");
        assert_eq!(listed.len(), 1, "{listed:?}");
        listed.remove(0)
    }

    async fn keys(&self) -> i64 {
        self.database.number("SELECT COUNT(*) FROM idem_keys").await
    }

    fn calls(&self) -> usize {
        self.app.bank.calls.lock().expect("no holder panics").len()
    }

    /// It is unknown, for this reason; with what was right before it goes on.
    async fn assert_parked(&self, reason: &str) {
        let parked = self.only().await;
        let said = parked.reason.as_deref().unwrap_or_default();
        assert!(said.contains(reason), "{reason}: {said}");
        let (status, body) = self.send("alice").await;
        assert_eq!(status, 409, "{body}");
        assert!(body.contains("idempotency-outcome-unknown"), "{body}");
    }

    async fn resume(&self) {
        let operations = self.app.idempotency.operations();
        let seen = self.only().await.seen;
        let resumed = operations.resume(seen, "alice", "it is mended").await;
        resumed.expect("it is unknown");
        assert_eq!(self.recovered().await, Recovered::Completed);
    }
}

async fn connected<DB: Tested>(
    backend: Backend,
    database: &TestDatabase,
    cipher: Option<&Cipher>,
) -> Idempotency<DB> {
    let pool = idem_runtime::guard(PoolOptions::<DB>::new())
        .connect(database.url())
        .await
        .expect("the database is there");
    let mut builder = Idempotency::builder(pool)
        .round_trips(backend.round_trips())
        .wait(Duration::from_millis(100))
        .store_timeout(Duration::from_secs(10))
        .retry_pause(Duration::from_millis(1))
        .max_attempts(MAX_ATTEMPTS);
    if let Some(cipher) = cipher {
        builder = builder.cipher(cipher.clone());
    }
    builder.build().expect("the settings make sense")
}

/// The rows of every moment of operations that end in each way there is, by what the moment is.
async fn moments<DB: Tested>(vault: &Vault<DB>) -> Vec<(&'static str, Vec<String>)> {
    let mut all = Vec::new();
    let operations = vault.app.idempotency.operations();
    let whole = |kind: &str, body: &str| {
        for part in ["reserved", "sent", "settled"] {
            assert!(body.contains(&format!("{WORD} {part}")), "{kind}: {body}");
        }
    };

    vault.plan(Plan::FailsAtLast);
    assert_eq!(vault.send("alice").await.0, 409, "it goes on later");
    all.push(("all steps but the last", dump(&vault.database).await));
    vault.plan(Plan::Works);
    let calls = vault.calls();
    assert_eq!(vault.recovered().await, Recovered::Completed);
    assert_eq!(vault.calls(), calls, "what is recorded is read");
    all.push(("completed by recovery", dump(&vault.database).await));
    let (status, body) = vault.send("alice").await;
    assert_eq!(status, 200);
    whole("a replay", &body);

    vault.plan(Plan::Refuses);
    let (status, body) = vault.send("bob").await;
    assert_eq!((status, body.contains(WORD)), (402, true), "{body}");
    all.push(("refused", dump(&vault.database).await));

    vault.plan(Plan::Loses);
    assert_eq!(vault.send("carol").await.0, 409, "it goes on later");
    assert_eq!(vault.recovered().await, Recovered::Unknown);
    all.push(("unknown", dump(&vault.database).await));
    let unknown = vault.only().await;
    let value = json!({ "text": format!("{WORD} sent by hand") });
    let decided = operations.resolve(unknown.seen, Decision::Done(value.clone()), "dora", "seen");
    decided.await.expect("it is unknown");
    all.push(("decided", dump(&vault.database).await));
    vault.plan(Plan::Works);
    assert_eq!(vault.recovered().await, Recovered::Completed);
    all.push(("completed by hand", dump(&vault.database).await));
    whole("decided", &vault.send("carol").await.1);
    let audit = operations.audit(unknown.id).await.expect("it is kept");
    let detail = audit[0].detail.as_ref().expect("a value was given");
    assert_eq!(detail, &json!({ "step": "charge", "value": value }));

    let calls = vault.app.bank.calls.lock().expect("no holder panics");
    all.extend(calls.iter().map(|rows| ("during the call", rows.clone())));
    all
}

async fn nothing_is_in_clear<DB: Tested>(backend: Backend) {
    let vault = Vault::<DB>::open(backend, true).await;
    for (moment, rows) in moments(&vault).await {
        assert!(rows.len() > 2, "{moment}: {rows:?}");
        assert!(!holds(&rows, WORD), "{moment}: {rows:#?}");
    }
    // Without a cipher, each of these moments shows it.
    let vault = Vault::<DB>::open(backend, false).await;
    for (moment, rows) in moments(&vault).await {
        assert!(holds(&rows, WORD), "{moment}: {rows:#?}");
    }
}

/// An argument that can't be read is not quoted by the reason either.
async fn no_reason_quotes<DB: Tested>(backend: Backend) {
    for is_sealed in [true, false] {
        let vault = Vault::<DB>::open(backend, is_sealed).await;
        vault.plan(Plan::Loses);
        assert_eq!(vault.send("alice").await.0, 409);
        assert_eq!(vault.recovered().await, Recovered::Unknown);
        let operations = vault.app.idempotency.operations();
        let seen = vault.only().await.seen;
        // Not what the handler reads: its error quotes it.
        let given = Decision::Done(json!(WORD));
        let decided = operations.resolve(seen, given, "dora", "mistaken").await;
        decided.expect("it is unknown");
        assert_eq!(vault.recovered().await, Recovered::Unknown);
        vault
            .assert_parked("what step `charge` recorded can't be read now")
            .await;
        let rows = dump(&vault.database).await;
        assert_eq!(holds(&rows, WORD), !is_sealed, "{rows:#?}");
    }
}

async fn a_claim_fails_soon<DB: Tested>(backend: Backend) {
    let vault = Vault::<DB>::open(backend, true).await;
    vault.cipher.refuse(true);
    let (status, body) = vault.send("alice").await;
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("idempotency-store-unavailable"), "{body}");
    assert_eq!(
        (vault.calls(), vault.keys().await),
        (0, 0),
        "nothing is begun"
    );
    vault.cipher.refuse(false);
    assert_eq!(vault.send("alice").await.0, 200);
}

async fn what_is_begun_goes_on<DB: Tested>(backend: Backend) {
    let vault = Vault::<DB>::open(backend, true).await;
    vault.plan(Plan::ClosesTheVault);
    let (status, body) = vault.send("alice").await;
    assert_eq!(status, 409, "it goes on later: {body}");
    vault.plan(Plan::Works);
    assert_eq!(vault.recovered().await, Recovered::Unknown);
    vault.cipher.refuse(false);
    vault
        .assert_parked("the payload cipher failed: the vault is closed")
        .await;
    vault.resume().await;
    assert_eq!(vault.send("alice").await.0, 200);
}

async fn a_changed_key_is_said<DB: Tested>(backend: Backend) {
    let vault = Vault::<DB>::open(backend, true).await;
    vault.plan(Plan::FailsAtLast);
    assert_eq!(vault.send("alice").await.0, 409);
    vault.plan(Plan::Works);
    let calls = vault.calls();
    vault.cipher.change_key(2);
    assert_eq!(vault.recovered().await, Recovered::Unknown);
    vault
        .assert_parked("it was sealed with key 1, and this is key 2")
        .await;
    vault.cipher.change_key(1);
    vault.resume().await;
    assert_eq!(vault.calls(), calls, "what is recorded is read");
    let (status, body) = vault.send("alice").await;
    assert_eq!(status, 200, "{body}");
    // The same of its answer, which stays.
    vault.cipher.change_key(2);
    let (refused, problem) = vault.send("alice").await;
    assert_eq!(refused, 503, "{problem}");
    assert!(
        problem.contains("idempotency-store-unavailable"),
        "{problem}"
    );
    vault.cipher.change_key(1);
    assert_eq!(vault.send("alice").await, (200, body));
}

async fn a_process_without_it_says_so<DB: Tested>(backend: Backend) {
    let vault = Vault::<DB>::open(backend, true).await;
    vault.plan(Plan::FailsAtLast);
    assert_eq!(vault.send("alice").await.0, 409);
    vault.plan(Plan::Works);
    let without = App {
        idempotency: connected::<DB>(vault.backend, &vault.database, None).await,
        bank: vault.app.bank.clone(),
    };
    assert_eq!(vault.recovered_by(&without).await, Recovered::Unknown);
    vault.assert_parked("no `PayloadCipher` is set").await;
    vault.resume().await;
    assert_eq!(vault.send("alice").await.0, 200);
}

crate::resume::on_each_database! {
    nothing_that_an_operation_keeps_is_in_clear_at_any_moment: nothing_is_in_clear();
    a_reason_does_not_quote_what_is_sealed: no_reason_quotes();
    a_cipher_that_refuses_lets_nothing_begin: a_claim_fails_soon();
    a_cipher_that_refuses_later_parks_with_its_reason: what_is_begun_goes_on();
    a_changed_key_parks_with_its_reason: a_changed_key_is_said();
    a_process_without_the_cipher_parks_with_its_reason: a_process_without_it_says_so();
}

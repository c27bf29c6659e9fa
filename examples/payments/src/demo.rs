//! `payments --demo`: four payments that go wrong, over a real network, with processes that are really killed.
//!
//! Each story ends with a look into the provider's ledger.

mod client;
mod stage;

use std::error::Error;
use std::time::Duration;

use axum::http::StatusCode;
use idem_runtime::operations::{Decision, List, OperationState};
use serde_json::json;

use self::client::{Answer, Request};
use self::stage::Stage;
use crate::auth::Account;
use crate::database;

const LIMIT: Duration = Duration::from_secs(60);

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// Tells the stories, and fails unless each ends as it should.
pub async fn run() -> Result<()> {
    let stories = async {
        let mut stage = Stage::set().await?;
        crash(&mut stage).await?;
        lost_answer(&mut stage).await?;
        lookup(&mut stage).await?;
        unknown(&mut stage).await?;
        println!("Four stories, and one payment in each.");
        Ok(())
    };
    tokio::time::timeout(LIMIT, stories)
        .await
        .map_err(|_| format!("the demo was not over after {LIMIT:?}"))?
}

async fn crash(stage: &mut Stage) -> Result<()> {
    println!("1. A card is charged, and the server killed (SIGKILL) before it can record that.");
    let request = Request::new("/charges", "tok_slow")?;
    let answer = crash_after_payment(stage, &request).await?;
    println!("   The client sends its request again, with the same key: {answer}");
    expect(&answer, StatusCode::CREATED, "Idempotent-Replayed")?;
    println!("   The card was charged again with the same key, which changes nothing.");
    stage.end_story("charge", 2).await
}

async fn lost_answer(stage: &mut Stage) -> Result<()> {
    println!("2. The provider charges a card, and the connection breaks before its answer.");
    let request = Request::new("/charges", "tok_lost")?;
    let answer = request.send(&stage.server.url).await?;
    println!("   The server calls again, with the same key. All that the client sees: {answer}");
    expect(&answer, StatusCode::CREATED, "")?;
    stage.end_story("charge", 2).await
}

async fn lookup(stage: &mut Stage) -> Result<()> {
    println!("3. The same crash at a bank that knows no keys: a second request would debit twice.");
    let request = Request::new("/debits", "tok_slow")?;
    let answer = crash_after_payment(stage, &request).await?;
    println!("   The client sends its request again, with the same key: {answer}");
    expect(&answer, StatusCode::CREATED, "Idempotent-Replayed")?;
    println!("   It was not debited again: the bank was asked for the reference, and found it.");
    stage.end_story("debit", 1).await
}

async fn unknown(stage: &mut Stage) -> Result<()> {
    println!(
        "4. A gift card's issuer takes the money, and the connection breaks before its answer."
    );
    println!("   It knows no keys, and can't be asked: nobody knows what happened.");
    let request = Request::new("/redemptions", "tok_lost")?;
    let answer = request.send(&stage.server.url).await?;
    println!("   What the client is told: {answer}");
    expect(&answer, StatusCode::CONFLICT, "rel=\"status\"")?;
    let path = answer.status_link().ok_or("no link to the operation")?;
    let state = request.get(&stage.server.url, path).await?;
    println!("   What it sees there: {state}");
    expect(&state, StatusCode::OK, "unknown")?;

    operate(stage).await?;
    let answer = request.until_answered(&stage.server.url).await?;
    println!("   The client sends its request again, with the same key: {answer}");
    expect(&answer, StatusCode::CREATED, "Idempotent-Replayed")?;
    stage.end_story("redemption", 1).await
}

/// Sends a payment, and kills the server when the provider has made it; recovery ends it, and the client asks again.
async fn crash_after_payment(stage: &mut Stage, request: &Request) -> Result<Answer> {
    let receipts = database::count_receipts(&stage.pool).await?;
    let (once, url) = (request.clone(), stage.server.url.clone());
    let once = tokio::spawn(async move { once.send(&url).await });
    stage.payment().await?;
    stage.server.kill().await?;
    match once.await? {
        Err(error) => println!("   No answer: {error}."),
        Ok(answer) => return Err(format!("the killed server has answered: {answer}").into()),
    }
    stage.start_server().await?;
    println!("   The server is back. When the lease is over, its recovery worker goes on.");
    stage
        .until("a receipt", async |stage| {
            Ok(database::count_receipts(&stage.pool).await? > receipts)
        })
        .await?;
    println!("   There is a receipt.");
    request.until_answered(&stage.server.url).await
}

/// An operator looks at what is unknown and at the issuer's books, and decides.
async fn operate(stage: &Stage) -> Result<()> {
    let operations = stage.idempotency.operations();
    let unknown = List::all()
        .operation("redemptions.create")
        .scope(&Account("alice".to_owned()))
        .state(OperationState::Unknown);
    let operation = operations.list(&unknown).await?.pop();
    let operation = operation.ok_or("nothing is unknown")?;
    println!(
        "   What the operator sees: {}",
        operation.reason.unwrap_or_default()
    );
    let payment = stage.last_payment().await?;
    let payment = payment.ok_or("the issuer's books have nothing")?;
    println!("   The issuer's books say that it took place, as {payment}. The operator runs");
    let done = json!({ "id": payment });
    let (actor, reason) = ("operator", "found in the issuer's books");
    println!(
        "     idem --database-url {} resolve {} --done '{done}' --by {actor} --why '{reason}'",
        stage.database_url, operation.seen,
    );
    println!("   or, as here, calls the library.");
    operations
        .resolve(operation.seen, Decision::Done(done), actor, reason)
        .await?;
    Ok(())
}

/// Fails unless an answer has a status, and a field with or of a name.
fn expect(answer: &Answer, status: StatusCode, field: &str) -> Result<()> {
    if answer.status == status && answer.to_string().contains(field) {
        return Ok(());
    }
    Err(format!("expected {status} {field}, and the answer is {answer}").into())
}

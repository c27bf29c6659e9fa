//! `notifications --demo`: each part is killed at its worst moment, over a real network and with a real broker.
//!
//! Each story ends with a look into the ledger.

mod accounts;
mod client;
mod stage;

use std::error::Error;
use std::time::Duration;

use axum::http::StatusCode;

use self::stage::Stage;
use crate::process;

const LIMIT: Duration = Duration::from_secs(60);

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// Tells the stories, and fails unless each ends as it should. All that it has started ends with it.
pub async fn run() -> Result<()> {
    let stories = async {
        let mut stage = Stage::set().await?;
        shop(&mut stage).await?;
        consumer(&mut stage).await?;
        broker(&mut stage).await?;
        receiver(&mut stage).await?;
        end(&stage).await?;
        stage.clear().await
    };
    tokio::select! {
        told = tokio::time::timeout(LIMIT, stories) => {
            told.map_err(|_| format!("the demo was not over after {LIMIT:?}"))?
        }
        () = process::stop() => Err("stopped before its end".into()),
    }
}

async fn shop(stage: &mut Stage) -> Result<()> {
    println!(
        "1. The shop is killed (SIGKILL) when the broker has a message, and the shop has not written that down."
    );
    stage.shop.stand_still().await?;
    let first = stage.place("alice", "book").await?;
    stage.place("alice", "lamp").await?;
    stage.place("alice", "book").await?;
    println!("   Three orders are made. The first message goes out, and the shop is dead.");
    stage.shop.kill_standing_still().await?;
    stage.start_shop().await?;
    println!(
        "   It is back. When the dead one's lease is over, its relay publishes what is not known to be published."
    );
    stage.settled().await?;
    let answer = stage.client.send(&stage.shop.url, &first).await?;
    println!("   The client sends its first order again, with the same key: {answer}");
    if answer.status != StatusCode::CREATED || !answer.replayed {
        return Err(format!("expected a replay, and the answer is {answer}").into());
    }
    let (messages, _) = stage.stream_counts().await?;
    println!(
        "   Messages in the stream: {messages}, for 3 orders: one is there twice, with one id."
    );
    if messages != 4 {
        return Err(format!("expected 4 messages, not {messages}").into());
    }
    stage.end_story().await
}

async fn consumer(stage: &mut Stage) -> Result<()> {
    println!(
        "2. The ledger is killed when it has committed an entry, and the broker has not heard of it."
    );
    stage.ledger.stand_still().await?;
    stage.place("alice", "lamp").await?;
    stage.place("bob", "lamp").await?;
    stage.place("alice", "book").await?;
    stage.ledger.kill_standing_still().await?;
    stage.start_ledger().await?;
    println!(
        "   It is back. The broker delivers the message again, which finds its row in the inbox."
    );
    stage.settled().await?;
    let (messages, deliveries) = stage.stream_counts().await?;
    println!("   Messages in the stream: {messages}, deliveries of them: {deliveries}.");
    if deliveries <= messages {
        return Err("no message was delivered twice".into());
    }
    stage.end_story().await
}

async fn broker(stage: &mut Stage) -> Result<()> {
    println!("3. nats-server is killed while orders come in.");
    stage.place("bob", "book").await?;
    stage.place("alice", "book").await?;
    let is_own = stage.kill_broker().await?;
    for account in ["alice", "bob", "alice"] {
        stage.place(account, "lamp").await?;
    }
    if is_own {
        let waiting = stage.events_waiting().await?;
        println!(
            "   Three more orders are made without it, and answered. Events that wait in the outbox: {waiting}."
        );
        if waiting < 3 {
            return Err(format!("expected 3 events or more to wait, not {waiting}").into());
        }
        stage.restart_broker().await?;
        println!("   It is back, with what it had stored.");
    } else {
        println!("   Or would be, but NATS_URL is somebody else's: it is left alone.");
    }
    stage.settled().await?;
    stage.end_story().await
}

async fn receiver(stage: &mut Stage) -> Result<()> {
    println!("4. The webhooks' receiver is killed when it has counted one, and has not answered.");
    stage.receiver.stand_still().await?;
    stage.place("bob", "book").await?;
    stage.place("bob", "lamp").await?;
    stage.receiver.kill_standing_still().await?;
    stage.start_receiver().await?;
    println!("   It is back, and is sent the webhook again, with the same id.");
    stage.settled().await?;
    stage.end_story().await
}

async fn end(stage: &Stage) -> Result<()> {
    let accounts = stage.accounts().await?;
    println!("What the ledger has, in the order in which it was entered:");
    println!("{accounts}");
    let seen = stage.seen().await?;
    let orders = stage.placed.len();
    println!(
        "Orders: {orders}. Entries in the ledger: {}, each order once, in the order of its account.",
        accounts.len()
    );
    println!(
        "Webhooks: {} deliveries of {} ids, {} counted.",
        seen.deliveries, seen.ids, seen.counted
    );
    if seen.deliveries <= seen.ids {
        return Err("no webhook came twice".into());
    }
    Ok(())
}

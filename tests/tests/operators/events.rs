//! What is told of an operation on its way: kept as unknown, resolved, recovered.

use std::io::Write;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use idem_runtime::operations::Decision;
use idem_runtime::steps::Recovered;
use serde_json::json;

use crate::handler::{Tested, Version};
use crate::on_each_database;
use crate::plan::{Answer, Plan};
use crate::setup::World;

on_each_database! {
    parking_deciding_and_recovering_are_events_with_the_operations_id,
}

/// Everything that this process tells: recovery runs in tasks, on any thread.
static TOLD: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Told;

impl Write for Told {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        TOLD.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn listen() {
    static LISTENING: OnceLock<()> = OnceLock::new();
    LISTENING.get_or_init(|| {
        tracing_subscriber::fmt()
            .with_env_filter("idem=info")
            .with_ansi(false)
            .with_writer(|| Told)
            .init();
    });
}

async fn parking_deciding_and_recovering_are_events_with_the_operations_id<DB: Tested>() {
    listen();
    let world = World::<DB>::new(Plan {
        answer: Answer::Lost,
        timeout: Duration::from_secs(30),
        ..Plan::default()
    })
    .await;
    // Of nobody else in this process.
    let owner = format!("owner-{:?}", DB::BACKEND);
    world.charge(&owner).await;
    let operation = world.only().await;
    let charged = Decision::Done(json!({ "id": "ch_42" }));
    let operations = world.app.idempotency.operations();
    operations
        .resolve(operation.seen, charged, "alice", "found")
        .await
        .unwrap();
    assert_eq!(world.recover(Version::First).await, Recovered::Completed);

    let told = String::from_utf8(TOLD.lock().unwrap().clone()).unwrap();
    let id = format!("id={}", operation.id);
    let told: Vec<_> = told.lines().filter(|line| line.contains(&id)).collect();
    let expected = [
        ("ERROR", "parked", "reason=\"the outcome of step `charge`"),
        ("INFO", "resolved", "action=\"done\" actor=\"alice\""),
        ("INFO", "recovered", "outcome=\"completed\""),
    ];
    assert_eq!(told.len(), expected.len(), "{told:?}");
    for (line, (level, signal, field)) in told.into_iter().zip(expected) {
        assert!(line.contains(&format!(" {level} idem: ")), "{line}");
        assert!(line.contains(&format!("signal=\"{signal}\"")), "{line}");
        assert!(line.contains("operation=\"charges.create\""), "{line}");
        assert!(line.contains(field), "{line}");
    }
}

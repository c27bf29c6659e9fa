//! What is left of an owner.

use std::time::Duration;

use axum::http::StatusCode;
use idem_runtime::Erased;
use idem_tests::http::fresh_key;
use idem_tests::wait::PATIENCE;

use super::setup::{
    EXPIRED, LIVE, Record, STARTED, Store, TOMBSTONE, Tested, UNKNOWN, gate, is_replay, send,
};
use crate::on_each_backend;

on_each_backend![
    an_erasure_leaves_other_owners_alone,
    an_erasure_keeps_and_counts_records_without_an_outcome,
    an_erased_key_runs_again,
    an_erasure_waits_for_no_request_and_puts_none_off,
];

async fn an_erasure_leaves_other_owners_alone<DB: Tested>() {
    let store = Store::<DB>::new().await;
    // More than two pages of them, mingled.
    for first in (0..2400).step_by(8) {
        store.put(first, 4, &LIVE).await;
        store
            .put(
                first + 4,
                4,
                &Record {
                    scope: "bob",
                    ..LIVE
                },
            )
            .await;
    }
    store
        .put(
            5000,
            1,
            &Record {
                scope: "alice2",
                ..LIVE
            },
        )
        .await;
    let erased = store.idempotency.erase("alice").await.unwrap();
    assert_eq!(
        erased,
        Erased {
            erased: 1200,
            kept: 0
        }
    );
    assert_eq!(store.count("1 = 1").await, 1201);
    let erased = store.idempotency.erase("alice").await.unwrap();
    assert_eq!(erased, Erased { erased: 0, kept: 0 });
}

async fn an_erasure_keeps_and_counts_records_without_an_outcome<DB: Tested>() {
    let store = Store::<DB>::new().await;
    for (first, record) in [LIVE, EXPIRED, TOMBSTONE, STARTED, UNKNOWN]
        .iter()
        .enumerate()
    {
        store.put(first as u64 * 100, 2, record).await;
    }
    store
        .put(
            1000,
            1,
            &Record {
                scope: "bob",
                ..UNKNOWN
            },
        )
        .await;
    let erased = store.idempotency.erase(&"alice".to_owned()).await.unwrap();
    assert_eq!(erased, Erased { erased: 6, kept: 4 });
    assert_eq!(store.count("state = 1").await, 0);
    assert_eq!(store.count("state <> 1").await, 5);
}

async fn an_erased_key_runs_again<DB: Tested>() {
    let store = Store::<DB>::new().await;
    let service = DB::service(store.idempotency.clone());
    send(&service, "/effects/alice", "k").await;
    send(&service, "/effects/bob", "k").await;
    assert_eq!(store.idempotency.erase("alice").await.unwrap().erased, 1);
    assert!(!is_replay(&send(&service, "/effects/alice", "k").await));
    assert!(is_replay(&send(&service, "/effects/bob", "k").await));
    assert_eq!(store.effects().await, 3);
}

async fn an_erasure_waits_for_no_request_and_puts_none_off<DB: Tested>() {
    let store = Store::<DB>::new().await;
    let other = store.another().await;
    let service = DB::service(store.idempotency.clone());
    store.put(0, 1500, &LIVE).await;
    let name = fresh_key();
    let (gate, path) = (gate(&name), format!("/held/alice/{name}"));
    gate.set_open(true);
    send(&service, &path, "held").await;
    gate.set_open(false);
    store.let_all_expire().await;
    // One request takes over an expired record, another makes a new one; SQLite has one writer.
    let keys = if DB::SINGLE_WRITER {
        &["held"][..]
    } else {
        &["held", "new"]
    };
    let held = keys
        .iter()
        .map(|&key| {
            let (service, path) = (service.clone(), path.clone());
            tokio::spawn(async move { send(&service, &path, key).await.status() })
        })
        .collect::<Vec<_>>();
    gate.reached(1 + keys.len()).await;
    let erasure = async { other.erase("alice").await.unwrap() };
    let requests = async {
        for key in 0..60 {
            let answer = send(&service, "/hasty/bob", &format!("fresh {key}")).await;
            assert_eq!(answer.status(), StatusCode::CREATED, "{key}");
        }
    };
    // SQLite's one writer has to be waited for.
    let writer_ends = async {
        if DB::SINGLE_WRITER {
            tokio::time::sleep(Duration::from_millis(300)).await;
            gate.set_open(true);
        }
    };
    let all = async { tokio::join!(erasure, requests, writer_ends) };
    let all = tokio::time::timeout(PATIENCE, all).await;
    let (erased, (), ()) = all.expect("they don't wait for the requests that are held");
    assert!(erased.erased >= 1500, "{erased:?}");
    gate.set_open(true);
    for held in held {
        assert_eq!(held.await.unwrap(), StatusCode::CREATED);
    }
    assert_eq!(store.effects().await, 61 + keys.len() as i64);
}

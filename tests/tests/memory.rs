//! Keys at rest are in the database, and nowhere else.

use std::process::Command;

/// Keys after which everything that is of one size has it.
const WARM_UP: u64 = 50_000;

/// What a process has more in memory after so many keys than before, in bytes.
fn growth(keys: u64, plant: Option<&str>) -> i64 {
    let output = Command::new(env!("CARGO_BIN_EXE_keys"))
        .args([(keys / 4).min(WARM_UP).to_string(), keys.to_string()])
        .envs(plant.map(|plant| ("IDEM_PLANT", plant)))
        // One arena, so that what is freed is used again.
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let sizes: Vec<i64> = text
        .split_whitespace()
        .map(|size| size.parse().expect("a number of bytes"))
        .collect();
    let [before, after] = sizes[..] else {
        panic!("two sizes, and not {text}");
    };
    println!("{keys} keys, {plant:?}: {before} bytes before, {after} after");
    after - before
}

/// Half of what fifty bytes a key would be.
fn bound(keys: u64) -> i64 {
    i64::try_from(keys).expect("a number of keys") * 25
}

fn assert_keeps_nothing(keys: u64) {
    let growth = growth(keys, None);
    assert!(growth < bound(keys), "{growth} bytes for {keys} keys");
}

#[test]
fn fifty_thousand_keys_leave_memory_where_it_was() {
    assert_keeps_nothing(50_000);
}

#[test]
#[ignore = "takes minutes: tests/run --full"]
fn a_million_keys_leave_memory_where_it_was() {
    assert_keeps_nothing(1_000_000);
}

#[test]
#[ignore = "takes minutes: tests/run --full"]
fn fifty_bytes_a_key_are_found() {
    let keys = 100_000;
    let growth = growth(keys, Some("KeysKept"));
    assert!(growth > bound(keys), "{growth} bytes for {keys} keys");
}

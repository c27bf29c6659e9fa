//! Digests that must stay what they are: version 1 is frozen.
//!
//! `IDEM_BLESS=1` gives a digest to a request that has none yet. It never changes one: whoever needs another digest for
//! a request needs another version.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::requests::Request;

const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../tests/cases/fingerprint-golden.json"
);

#[derive(Serialize, Deserialize)]
struct Golden {
    name: String,
    method: String,
    uri: String,
    headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    counted_headers: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ignore: Vec<String>,
    body: String,
    /// How often the body is repeated, for long ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repeat: Option<usize>,
    #[serde(default)]
    version_1: Option<String>,
}

impl Golden {
    fn digest(&self) -> String {
        let body = self.body.repeat(self.repeat.unwrap_or(1));
        let strings = |list: &'_ Vec<String>| list.clone();
        let (counted, ignored) = (strings(&self.counted_headers), strings(&self.ignore));
        let counted: Vec<&str> = counted.iter().map(String::as_str).collect();
        let ignored: Vec<&str> = ignored.iter().map(String::as_str).collect();
        let request = Request {
            method: &self.method,
            uri: &self.uri,
            headers: self
                .headers
                .iter()
                .map(|(name, value)| (&name[..], value.as_bytes()))
                .collect(),
            body: body.as_bytes(),
            counted: &counted,
            ignored: &ignored,
        };
        request
            .fingerprint()
            .digest()
            .iter()
            .fold(String::new(), |mut hexadecimal, byte| {
                let _ = write!(hexadecimal, "{byte:02x}");
                hexadecimal
            })
    }
}

#[test]
fn the_digests_of_version_1_never_change() {
    let text = std::fs::read_to_string(FILE).expect("the golden file can be read");
    let mut golden: Vec<Golden> =
        serde_json::from_str(&text).expect("the golden file is JSON of its form");
    assert!(golden.len() >= 40);
    if std::env::var_os("IDEM_BLESS").is_some_and(|value| value == "1") {
        for request in golden
            .iter_mut()
            .filter(|request| request.version_1.is_none())
        {
            request.version_1 = Some(request.digest());
        }
        let blessed = serde_json::to_string_pretty(&golden).expect("a request can be written");
        std::fs::write(FILE, blessed + "\n").expect("the golden file can be written");
    }
    let changed: Vec<&str> = golden
        .iter()
        .filter(|request| request.version_1.as_deref() != Some(&request.digest()))
        .map(|request| &request.name[..])
        .collect();
    assert!(
        changed.is_empty(),
        "Version 1 of the fingerprint is frozen: stored records were made with it, and a retry of one of these would now \
         be answered 422. Restore what was computed, or add a version 2. Changed or without a digest (IDEM_BLESS=1 gives \
         one to a new request): {changed:?}"
    );
}

#[test]
fn no_two_golden_requests_have_one_digest_unless_their_names_say_so() {
    let golden: Vec<Golden> =
        serde_json::from_str(include_str!("../../../tests/cases/fingerprint-golden.json"))
            .expect("the golden file is JSON of its form");
    // "order, compact" and "order, indented" are the same request.
    let group = |request: &Golden| request.name.split(',').next().map(str::to_owned);
    for (index, one) in golden.iter().enumerate() {
        for other in &golden[..index] {
            let same = one.version_1 == other.version_1;
            assert_eq!(
                same,
                group(one) == group(other),
                "{} and {}",
                one.name,
                other.name
            );
        }
    }
}

//! Small lists that are stored with a record, as JSON.

use serde::{Deserialize, Serialize};

use crate::operation::Spec;

/// What a fingerprint counts and ignores besides the rules of its version.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Stored {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ignore: Vec<String>,
}

/// The lists of an operation; `None` where it has none.
pub(crate) fn encode(spec: &Spec) -> Option<String> {
    if spec.fingerprint_headers.is_empty() && spec.fingerprint_ignore.is_empty() {
        return None;
    }
    let owned = |list: &[&str]| list.iter().map(|item| (*item).to_owned()).collect();
    let stored = Stored {
        headers: owned(spec.fingerprint_headers),
        ignore: owned(spec.fingerprint_ignore),
    };
    Some(serde_json::to_string(&stored).expect("lists of strings always serialize"))
}

impl Stored {
    pub(crate) fn decode(stored: Option<&str>) -> serde_json::Result<Self> {
        stored.map_or_else(|| Ok(Self::default()), serde_json::from_str)
    }

    /// Whether these are an operation's lists of today.
    pub(crate) fn is(&self, headers: &[&str], ignore: &[&str]) -> bool {
        self.headers == headers && self.ignore == ignore
    }

    pub(crate) fn lists(&self) -> (Vec<&str>, Vec<&str>) {
        (
            self.headers.iter().map(String::as_str).collect(),
            self.ignore.iter().map(String::as_str).collect(),
        )
    }
}

/// Resources as (kind, id); `None` for none.
pub(crate) fn encode_resources(resources: &[(String, String)]) -> Option<String> {
    (!resources.is_empty())
        .then(|| serde_json::to_string(resources).expect("lists of strings always serialize"))
}

/// How long resources may be as JSON, in bytes: a `BLOB` of MariaDB's.
const MAX_RESOURCES: usize = 65_535;

/// Whether every database can store them.
pub(crate) fn resources_fit(resources: &[(String, String)]) -> bool {
    encode_resources(resources).is_none_or(|json| json.len() <= MAX_RESOURCES)
}

pub(crate) fn decode_resources(stored: Option<&str>) -> serde_json::Result<Vec<(String, String)>> {
    stored.map_or_else(|| Ok(Vec::new()), serde_json::from_str)
}

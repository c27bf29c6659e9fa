//! The value that an operator gave, as the audit keeps it: encrypted, where a cipher is set.

use serde_json::{Value, json};

use super::AuditEntry;
use crate::backend::Backend;
use crate::digest;
use crate::idempotency::{Idempotency, StoreError};
use crate::scope::RecordId;
use crate::steps::{seal, unseal};

const PART: &[u8] = b"audit";

/// As JSON: the step, and the value or what the cipher made of it.
pub(super) fn written<DB: Backend>(
    idempotency: &Idempotency<DB>,
    id: &RecordId,
    step: &str,
    value: &Value,
) -> Result<String, StoreError> {
    let sealed = seal(idempotency, id, PART, value.to_string().as_bytes())?;
    let detail = if sealed.is_sealed {
        json!({ "step": step, "sealed": digest::hex(&sealed.bytes) })
    } else {
        json!({ "step": step, "value": value })
    };
    Ok(detail.to_string())
}

/// With the value, if it can be decrypted; as it is stored, if not.
pub(super) fn opened<DB: Backend>(
    idempotency: &Idempotency<DB>,
    id: &RecordId,
    mut entry: AuditEntry,
) -> AuditEntry {
    let sealed = entry.detail.as_ref().and_then(|detail| {
        let bytes = bytes(detail.get("sealed")?.as_str()?)?;
        let opened = unseal(idempotency, id, PART, &bytes, true).ok()?;
        let value: Value = serde_json::from_slice(&opened).ok()?;
        Some(json!({ "step": detail.get("step")?, "value": value }))
    });
    entry.detail = sealed.or(entry.detail);
    entry
}

/// From hexadecimal.
fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = hex.as_bytes().chunks(2).map(|pair| match *pair {
        [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
        _ => None,
    });
    pairs.collect()
}

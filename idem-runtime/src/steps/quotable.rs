//! Errors that quote what they are about.

use std::fmt::Display;

use crate::backend::Backend;
use crate::idempotency::Idempotency;

/// An error's text as it may be kept and logged. That of one about stored data may quote the data: where those are
/// encrypted, it is left out.
pub(super) fn quotable<DB: Backend>(idempotency: &Idempotency<DB>, error: impl Display) -> String {
    match idempotency.shared.settings.cipher {
        None => error.to_string(),
        Some(_) => "its error may quote what is encrypted, and is left out".to_owned(),
    }
}

//! The handler's other attributes: which of its two functions each belongs to, and which can't stay.

use quote::ToTokens;
use syn::Attribute;

use crate::errors::Errors;

/// The attributes of the function that is generated, and of the user's own inside it.
#[derive(Clone, Default)]
pub(crate) struct Attributes {
    pub(crate) outer: Vec<Attribute>,
    pub(crate) inner: Vec<Attribute>,
}

/// What only makes sense on the item that others see.
const OUTER: [&str; 4] = ["doc", "cfg", "deprecated", "must_use"];
const LINT_LEVELS: [&str; 5] = ["allow", "expect", "warn", "deny", "forbid"];

impl Attributes {
    /// Attributes that can't work below ours are errors, and left out. `ours` is its name.
    pub(crate) fn sort(attributes: &[Attribute], ours: &str, errors: &mut Errors) -> Attributes {
        let mut sorted = Attributes::default();
        for attribute in attributes {
            if let Some(message) = refusal(attribute, ours) {
                errors.at(attribute.path(), message);
            } else if is_outer(attribute) {
                sorted.outer.push(attribute.clone());
            } else {
                sorted.inner.push(attribute.clone());
            }
        }
        sorted
    }
}

fn refusal(attribute: &Attribute, ours: &str) -> Option<String> {
    let segments = &attribute.path().segments;
    let last = segments.last()?.ident.to_string();
    let first = segments.first()?.ident.to_string();
    match (first.as_str(), last.as_str()) {
        (_, "debug_handler") if ours == "idempotent" => Some(
            "`#[debug_handler]` can't see through `#[idempotent]`; remove it, and say `state = AppState` in the attribute, with your state's type: then it makes the same checks"
                .into(),
        ),
        ("utoipa", "path") => Some(format!(
            "`#[utoipa::path]` must read the handler's own arguments: move it above `#[{ours}]`"
        )),
        (_, other) if other == ours => Some(format!("`#[{ours}]` is given twice; remove one")),
        (_, "consumer") => Some(
            "a consumer has no request: give it a function of its own, without this attribute".into(),
        ),
        (_, "idempotent" | "repeat_safe") if ours == "consumer" => Some(
            "a consumer is called by a broker's message, and by no request: give the handler a function of its own".into(),
        ),
        (_, "idempotent" | "repeat_safe") => Some(
            "a handler is `#[idempotent]` or `#[repeat_safe]`: the first makes a repeat harmless, the second says that it is; remove one"
                .into(),
        ),
        _ => None,
    }
}

/// A lint level on the outer function holds for all inside it, and `expect` must not be met twice. Only a level
/// for the lint that the expansion sets on the inner function has to be there too, to win.
fn is_outer(attribute: &Attribute) -> bool {
    let path = attribute.path();
    let is = |names: &[&str]| names.iter().any(|name| path.is_ident(name));
    let sets_ours = || {
        attribute
            .meta
            .to_token_stream()
            .to_string()
            .contains("disallowed_methods")
    };
    is(&OUTER) || is(&LINT_LEVELS) && !sets_ours()
}

//! Who calls: a bearer token stands for an account.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::extract::{FromRef, FromRequestParts};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use idem_runtime::{EffectFree, Scope};
use serde::{Deserialize, Serialize};

/// The caller's account.
#[derive(Clone, Debug, Serialize, Deserialize, EffectFree, Scope)]
pub(crate) struct Account(pub(crate) String);

/// The tokens that are valid now.
#[derive(Debug)]
pub(crate) struct Tokens(Mutex<HashMap<&'static str, &'static str>>);

impl Tokens {
    pub(crate) fn new() -> Tokens {
        Tokens(Mutex::new(HashMap::from([
            ("alice-token", "alice"),
            ("alice-token-2", "alice"),
            ("bob-token", "bob"),
        ])))
    }

    fn account(&self, token: &str) -> Option<Account> {
        let tokens = self.0.lock().expect("no holder panics");
        tokens.get(token).map(|name| Account((*name).to_owned()))
    }

    /// Whether there was such a token.
    pub(crate) fn revoke(&self, token: &str) -> bool {
        let mut tokens = self.0.lock().expect("no holder panics");
        tokens.remove(token).is_some()
    }
}

impl<S> FromRequestParts<S> for Account
where
    S: Send + Sync,
    Arc<Tokens>: FromRef<S>,
{
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Account, StatusCode> {
        let token = parts
            .headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        token
            .and_then(|token| Arc::<Tokens>::from_ref(state).account(token))
            .ok_or(StatusCode::UNAUTHORIZED)
    }
}

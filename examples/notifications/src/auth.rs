//! Who calls: bearer tokens (RFC 6750) of two demo accounts.

use axum::extract::{FromRef, FromRequestParts};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{StatusCode, request::Parts};
use axum::response::{IntoResponse, Response};
use idem_runtime::{EffectFree, Scope};

/// The account that calls. It is the scope of its idempotency keys: two accounts that happen to send the
/// same key never meet. The account and not the token, so that a client finds its keys again after it got
/// a new token.
#[derive(Clone, Debug, EffectFree, Scope)]
pub struct Account(pub String);

/// The tokens that are known. A real service asks its identity provider.
#[derive(Clone, Copy, Debug)]
pub struct Tokens;

impl Tokens {
    fn account(self, token: &str) -> Option<&'static str> {
        match token {
            "alice-token" => Some("alice"),
            "bob-token" => Some("bob"),
            _ => None,
        }
    }
}

/// Runs on every request, on replays too: who may not call now does not see a stored answer either.
impl<S> FromRequestParts<S> for Account
where
    Tokens: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = Unauthorized;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Unauthorized> {
        let field = parts.headers.get(AUTHORIZATION).ok_or(Unauthorized)?;
        let (scheme, token) = field
            .to_str()
            .ok()
            .and_then(|value| value.split_once(' '))
            .ok_or(Unauthorized)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Unauthorized);
        }
        let account = Tokens::from_ref(state).account(token.trim());
        account.map(|id| Self(id.to_owned())).ok_or(Unauthorized)
    }
}

/// No token, or none that is known.
#[derive(Debug)]
pub struct Unauthorized;

impl IntoResponse for Unauthorized {
    fn into_response(self) -> Response {
        (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")]).into_response()
    }
}

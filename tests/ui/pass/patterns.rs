//! `mut`, destructured and raw bindings, and scopes inside of them.
#![deny(warnings)]

#[path = "../support.rs"]
mod support;
use support::*;

#[derive(Clone, EffectFree, Scope)]
struct Tenant {
    region: String,
    id: u32,
}

#[derive(Clone, EffectFree)]
struct Claims {
    tenant: Tenant,
    pair: (u8, (u64, String)),
    issued: u64,
}

#[derive(EffectFree)]
struct Token(Claims, &'static str);

impl<S: Send + Sync> FromRequestParts<S> for Token {
    type Rejection = StatusCode;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        Err(StatusCode::UNAUTHORIZED)
    }
}

#[idempotent(scope = "claims.tenant")]
async fn field(_tx: &mut Tx<Sqlite>, Token(mut claims, _): Token, body: String) -> String {
    claims.issued += 1;
    let Tenant { region, id } = claims.tenant;
    format!("{body} {region} {id}")
}

#[idempotent(scope = "pair.1.0")]
async fn index(
    _tx: &mut Tx<Sqlite>,
    Token(Claims { pair, ref tenant, issued: _at }, _): Token,
    mut body: String,
) -> String {
    body.push_str(&tenant.region);
    format!("{body} {pair:?}")
}

#[idempotent(scope = "type.0.tenant")]
async fn r#move(_tx: &mut Tx<Sqlite>, r#type: Token, body: String) -> String {
    format!("{body} {}", r#type.1)
}

#[idempotent(scope = "tenant")]
async fn inside(
    _tx: &mut Tx<Sqlite>,
    whole @ Claims { .. }: Claims,
    Extracted { inner: Claims { ref tenant, .. } }: Extracted,
    body: String,
) -> String {
    format!("{body} {} {}", whole.issued, tenant.id)
}

#[derive(EffectFree)]
struct Extracted {
    inner: Claims,
}

macro_rules! extractor {
    ($name:ty) => {
        impl<S: Send + Sync> FromRequestParts<S> for $name {
            type Rejection = StatusCode;

            async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, StatusCode> {
                Err(StatusCode::UNAUTHORIZED)
            }
        }
    };
}
extractor!(Claims);
extractor!(Extracted);

impl Scope for Claims {
    fn write_scope(&self, out: &mut idem_runtime::scope::ScopeBuilder) {
        self.tenant.write_scope(out);
    }
}

/// The names of everything that generated code calls its own.
#[idempotent(scope = "prefix")]
async fn call(tx: &mut Tx<Sqlite>, Account(prefix): Account, args: Query<u8>, out: String) -> String {
    let spec = (tx.operation_id(), args.0);
    format!("{prefix:?} {out} {spec:?}")
}

#[idempotent(scope = "call")]
async fn tx(tx: &mut Tx<Sqlite>, call: Account) -> impl IntoResponse {
    format!("{call:?} {}", tx.operation_id())
}

fn main() {
    let _: Router<AppState> = Router::new()
        .route("/field", post(field))
        .route("/index", post(index))
        .route("/move", post(r#move))
        .route("/inside", post(inside))
        .route("/call", post(call))
        .route("/tx", post(tx));
}

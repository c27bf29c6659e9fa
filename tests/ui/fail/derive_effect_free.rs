#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use sqlx::PgPool;

#[derive(EffectFree)]
struct Part {
    name: String,
    pool: PgPool,
    http: reqwest::Client,
}

// not refused once more
#[idempotent(scope = "account")]
async fn create(tx: &mut Tx<Postgres>, account: Account, State(part): State<Part>) -> StatusCode {
    StatusCode::CREATED
}

#[derive(EffectFree)]
enum Either {
    Left(u64),
    Right { pool: PgPool },
}

#[derive(EffectFree)]
union Bits {
    integer: u32,
    float: f32,
}

#[derive(EffectFree)]
struct NoReason {
    #[effect_free(trust)]
    first: PgPool,
    #[effect_free(trust = "")]
    second: PgPool,
    #[effect_free]
    third: PgPool,
    #[effect_free(skip = "it is read only")]
    fourth: PgPool,
}

#[derive(EffectFree)]
#[effect_free(trust = "all of it")]
struct WholeType {
    text: String,
}

const NO_REASON: AssertEffectFree<u8> = AssertEffectFree::new(7, " ");

fn main() {
    let _ = NO_REASON;
}

#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

trait Repo: EffectFree {
    fn name(&self) -> String;
}

#[idempotent(scope = "account")]
async fn create<R: Repo>(tx: &mut Tx<Sqlite>, account: Account, State(repo): State<R>) -> String {
    repo.nam()
}

#[derive(Clone, EffectFree)]
struct NoRepo;

fn main() {
    let _ = create::<NoRepo>;
}

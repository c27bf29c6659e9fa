::core::compile_error! {
    "an idempotent handler can't take `self`; take what it needs from `State<_>`"
}
#[allow(unused)]
async fn create(&self, tx: &mut Tx<Postgres>, account: Account) -> StatusCode {
    self.create(tx, account).await
}

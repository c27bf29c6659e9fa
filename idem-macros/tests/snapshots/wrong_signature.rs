::core::compile_error! {
    "take the transaction by reference: `tx: &mut Tx<DB>`; the framework commits it"
}
#[allow(unused)]
async fn create(
    _: ::idem_runtime::__private::Request,
) -> ::idem_runtime::__private::Response {
    async fn create(tx: Tx<Postgres>, account: Account) -> StatusCode {
        StatusCode::CREATED
    }
    ::core::unreachable!()
}

::core::compile_error! {
    "take the transaction by reference: `tx: &mut Tx<DB>`; the framework commits it"
}
#[allow(unused)]
async fn create(
    _: ::idem_runtime::__private::Request,
) -> ::idem_runtime::__private::Declared<
    ::idem_runtime::__private::Response,
    ::idem_runtime::__private::Faulty,
> {
    async fn create(tx: Tx<Postgres>, account: Account) -> StatusCode {
        StatusCode::CREATED
    }
    ::core::unreachable!()
}

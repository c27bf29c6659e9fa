::core::compile_error! {
    "missing `source`: write `#[consumer(source = \"orders\")]`, naming the source whose messages these are"
}
::core::compile_error! {
    "a consumer must be an `async fn`"
}
::core::compile_error! {
    "take the transaction by reference: `tx: &mut Tx<DB>`; the framework commits it"
}
::core::compile_error! {
    "an argument can't borrow: it is made of the message and owned by the consumer; take it by value"
}
#[allow(unused)]
fn on_order(
    _: ::idem_runtime::__private::Registration,
) -> ::idem_runtime::__private::Registered<::idem_runtime::__private::FaultyConsumer> {
    fn on_order(tx: &Tx<Sqlite>, order: &Order) {}
    ::core::unreachable!()
}

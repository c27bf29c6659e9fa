::core::compile_error! {
    "unknown argument `clientid`; did you mean `client_id`?"
}
::core::compile_error! {
    "missing `why`: say in a sentence why a repeat is harmless, as `why = \"the client chooses the order's id\"`"
}
::core::compile_error! {
    "a repeat-safe handler must be an `async fn`"
}
#[allow(unused)]
pub async fn put(
    _: ::idem_runtime::__private::Request,
) -> ::idem_runtime::__private::Declared<
    ::idem_runtime::__private::Response,
    ::idem_runtime::__private::Faulty,
> {
    fn put(new: New) -> StatusCode {
        new.status()
    }
    ::core::unreachable!()
}

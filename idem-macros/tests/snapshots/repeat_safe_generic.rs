async fn put<T: Store + ::core::marker::Send + ::core::marker::Sync + 'static>(
    argument0: State<T>,
    argument1: Put,
) -> crate::idem::__private::Declared<(), impl crate::idem::__private::Declaration>
where
    T: Clone,
{
    async fn put<T: Store>(State(store): State<T>, put: Put)
    where
        T: Clone,
    {
        store.put(put).await
    }
    struct PutOperation;
    impl crate::idem::__private::Declaration for PutOperation {
        const DECLARED: crate::idem::__private::RepeatSafe = crate::idem::__private::RepeatSafe {
            name: "put",
            function: ::core::concat!(::core::module_path!(), "::put"),
            design: crate::idem::__private::Design::ClientId,
            why: "x",
        };
    }
    crate::idem::__private::future()
        .must_be_send_and_declare::<
            _,
            PutOperation,
        >(
            put::<T>(argument0, argument1),
            crate::idem::__private::IntoResponse::into_response,
        )
        .await
}

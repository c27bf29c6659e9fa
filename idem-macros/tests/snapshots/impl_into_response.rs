fn create(
    call: ::idem_runtime::__private::Call<Tx<Postgres>, (Account, Bytes)>,
) -> ::idem_runtime::__private::Running<
    impl ::idem_runtime::__private::Operation<
        Handle = Tx<Postgres>,
        Args = (Account, Bytes),
        Output = ::idem_runtime::__private::Settled,
    >,
> {
    use ::idem_runtime::__private as runtime;
    #[deny(clippy::disallowed_methods)]
    async fn create(
        tx: &mut Tx<Postgres>,
        #[allow(unused_variables)]
        account: Account,
        body: Bytes,
    ) -> impl IntoResponse {
        StatusCode::CREATED
    }
    struct CreateOperation;
    impl runtime::Operation for CreateOperation {
        type Handle = Tx<Postgres>;
        type Args = (Account, Bytes);
        type Output = runtime::Settled;
        const SPEC: runtime::Spec = runtime::spec!("create", "account", "create");
        const FUNCTIONS: runtime::Functions<Self> = runtime::Functions {
            scope: |prefix| runtime::ScopeKey::of(&prefix.0),
            call: |tx, args| {
                runtime::future()
                    .must_be_send_and_settled(
                        create(tx, args.0, args.1),
                        |out| runtime::outcome(&out).settle(out),
                    )
            },
            settle: |out| out,
        };
        fn check() {
            runtime::vet::<Account>().takes::<Account>();
            runtime::vet::<Bytes>().takes::<Bytes>();
        }
    }
    runtime::run::<CreateOperation>(call)
}

#[must_use]
#[expect(dead_code)]
#[deprecated]
fn create(
    call: ::idem_runtime::__private::Call<
        Tx<Postgres>,
        ::idem_runtime::__private::AllParts<(Account,)>,
    >,
) -> ::idem_runtime::__private::Running<
    impl ::idem_runtime::__private::Operation<
        Handle = Tx<Postgres>,
        Args = ::idem_runtime::__private::AllParts<(Account,)>,
        Output = StatusCode,
    >,
> {
    use ::idem_runtime::__private as runtime;
    #[deny(clippy::disallowed_methods)]
    #[tracing::instrument(skip_all)]
    #[allow(clippy::disallowed_methods, reason = "audited")]
    async fn create(
        tx: &mut Tx<Postgres>,
        #[allow(unused_variables)]
        account: Account,
    ) -> StatusCode {
        StatusCode::CREATED
    }
    struct CreateOperation;
    impl runtime::Operation for CreateOperation {
        type Handle = Tx<Postgres>;
        type Args = runtime::AllParts<(Account,)>;
        type Output = StatusCode;
        const SPEC: runtime::Spec = runtime::spec!("create", "account", "create");
        const FUNCTIONS: runtime::Functions<Self> = runtime::Functions {
            scope: |prefix| runtime::ScopeKey::of(&prefix.0),
            call: |tx, args| runtime::future().must_be_send(create(tx, args.0.0)),
            settle: |out| runtime::outcome(&out).settle(out),
        };
        fn check() {
            runtime::vet::<Account>().takes::<Account>();
        }
    }
    runtime::run::<CreateOperation>(call)
}

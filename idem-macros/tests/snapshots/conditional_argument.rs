#[cfg(feature = "audit")]
#[cfg(feature = "orders")]
fn create(
    call: ::idem_runtime::__private::Call<
        Tx<Postgres>,
        (Account, State<Audit>, Json<New>),
    >,
) -> ::idem_runtime::__private::Running<
    impl ::idem_runtime::__private::Operation<
        Handle = Tx<Postgres>,
        Args = (Account, State<Audit>, Json<New>),
        Output = StatusCode,
    >,
> {
    use ::idem_runtime::__private as runtime;
    #[deny(clippy::disallowed_methods)]
    async fn create(
        tx: &mut Tx<Postgres>,
        account: Account,
        State(audit): State<Audit>,
        #[allow(unused_variables)]
        Json(new): Json<New>,
    ) -> StatusCode {
        #[cfg(feature = "audit")] audit.note(&account);
        StatusCode::CREATED
    }
    struct CreateOperation;
    impl runtime::Operation for CreateOperation {
        type Handle = Tx<Postgres>;
        type Args = (Account, State<Audit>, Json<New>);
        type Output = StatusCode;
        const SPEC: runtime::Spec = runtime::spec!("create", "account", "create");
        const FUNCTIONS: runtime::Functions<Self> = runtime::Functions {
            scope: |prefix| runtime::ScopeKey::of(&prefix.0),
            call: |tx, args| {
                runtime::future().must_be_send(create(tx, args.0, args.1, args.2))
            },
            settle: |out| runtime::outcome(&out).settle(out),
        };
        fn check() {
            runtime::vet::<Account>().takes::<Account>();
            runtime::vet::<State<Audit>>().takes::<State<Audit>>();
            runtime::vet::<Json<New>>().takes::<Json<New>>();
        }
    }
    runtime::run::<CreateOperation>(call)
}
#[cfg(not(feature = "audit"))]
#[cfg(feature = "orders")]
fn create(
    call: ::idem_runtime::__private::Call<Tx<Postgres>, (Account, Json<New>)>,
) -> ::idem_runtime::__private::Running<
    impl ::idem_runtime::__private::Operation<
        Handle = Tx<Postgres>,
        Args = (Account, Json<New>),
        Output = StatusCode,
    >,
> {
    use ::idem_runtime::__private as runtime;
    #[deny(clippy::disallowed_methods)]
    async fn create(
        tx: &mut Tx<Postgres>,
        account: Account,
        #[allow(unused_variables)]
        Json(new): Json<New>,
    ) -> StatusCode {
        #[cfg(feature = "audit")] audit.note(&account);
        StatusCode::CREATED
    }
    struct CreateOperation;
    impl runtime::Operation for CreateOperation {
        type Handle = Tx<Postgres>;
        type Args = (Account, Json<New>);
        type Output = StatusCode;
        const SPEC: runtime::Spec = runtime::spec!("create", "account", "create");
        const FUNCTIONS: runtime::Functions<Self> = runtime::Functions {
            scope: |prefix| runtime::ScopeKey::of(&prefix.0),
            call: |tx, args| runtime::future().must_be_send(create(tx, args.0, args.1)),
            settle: |out| runtime::outcome(&out).settle(out),
        };
        fn check() {
            runtime::vet::<Account>().takes::<Account>();
            runtime::vet::<Json<New>>().takes::<Json<New>>();
        }
    }
    runtime::run::<CreateOperation>(call)
}

#[cfg(feature = "audit")]
#[cfg(feature = "orders")]
async fn create(
    call: ::idem_runtime::__private::Call<
        Tx<Postgres>,
        (Account, State<Audit>, Json<New>),
    >,
) -> ::idem_runtime::__private::Answer<
    impl ::idem_runtime::__private::Operation<
        Handle = Tx<Postgres>,
        Args = (Account, State<Audit>, Json<New>),
        Output = StatusCode,
    >,
> {
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
    impl ::idem_runtime::__private::Operation for CreateOperation {
        type Handle = Tx<Postgres>;
        type Args = (Account, State<Audit>, Json<New>);
        type Output = StatusCode;
        const SPEC: ::idem_runtime::__private::Spec = {
            let mut spec = ::idem_runtime::__private::spec("create", "account");
            spec.function = ::core::concat!(::core::module_path!(), "::create");
            spec
        };
        fn scope(
            prefix: &<Self::Args as ::idem_runtime::__private::Split>::Prefix,
        ) -> ::idem_runtime::__private::ScopeKey {
            let account = &prefix.0;
            ::idem_runtime::__private::ScopeKey::of(account)
        }
        fn call<'t>(
            tx: &'t mut Self::Handle,
            args: Self::Args,
        ) -> impl ::core::future::Future<
            Output = Self::Output,
        > + ::core::marker::Send + 't {
            ::idem_runtime::__private::vet::<Account>().takes::<Account>();
            ::idem_runtime::__private::vet::<State<Audit>>().takes::<State<Audit>>();
            ::idem_runtime::__private::vet::<Json<New>>().takes::<Json<New>>();
            create(tx, args.0, args.1, args.2)
        }
        fn settle(out: Self::Output) -> ::idem_runtime::__private::Settled {
            use ::idem_runtime::__private::*;
            (&&&&::idem_runtime::__private::outcome(&out)).kind().settle(out)
        }
    }
    ::idem_runtime::__private::run::<CreateOperation>(call).await
}
#[cfg(not(feature = "audit"))]
#[cfg(feature = "orders")]
async fn create(
    call: ::idem_runtime::__private::Call<Tx<Postgres>, (Account, Json<New>)>,
) -> ::idem_runtime::__private::Answer<
    impl ::idem_runtime::__private::Operation<
        Handle = Tx<Postgres>,
        Args = (Account, Json<New>),
        Output = StatusCode,
    >,
> {
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
    impl ::idem_runtime::__private::Operation for CreateOperation {
        type Handle = Tx<Postgres>;
        type Args = (Account, Json<New>);
        type Output = StatusCode;
        const SPEC: ::idem_runtime::__private::Spec = {
            let mut spec = ::idem_runtime::__private::spec("create", "account");
            spec.function = ::core::concat!(::core::module_path!(), "::create");
            spec
        };
        fn scope(
            prefix: &<Self::Args as ::idem_runtime::__private::Split>::Prefix,
        ) -> ::idem_runtime::__private::ScopeKey {
            let account = &prefix.0;
            ::idem_runtime::__private::ScopeKey::of(account)
        }
        fn call<'t>(
            tx: &'t mut Self::Handle,
            args: Self::Args,
        ) -> impl ::core::future::Future<
            Output = Self::Output,
        > + ::core::marker::Send + 't {
            ::idem_runtime::__private::vet::<Account>().takes::<Account>();
            ::idem_runtime::__private::vet::<Json<New>>().takes::<Json<New>>();
            create(tx, args.0, args.1)
        }
        fn settle(out: Self::Output) -> ::idem_runtime::__private::Settled {
            use ::idem_runtime::__private::*;
            (&&&&::idem_runtime::__private::outcome(&out)).kind().settle(out)
        }
    }
    ::idem_runtime::__private::run::<CreateOperation>(call).await
}

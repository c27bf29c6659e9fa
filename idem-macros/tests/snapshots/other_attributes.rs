#[must_use]
#[expect(dead_code)]
#[deprecated]
async fn create(
    call: ::idem_runtime::__private::Call<
        Tx<Postgres>,
        ::idem_runtime::__private::AllParts<(Account,)>,
    >,
) -> ::idem_runtime::__private::Answer<
    impl ::idem_runtime::__private::Operation<
        Handle = Tx<Postgres>,
        Args = ::idem_runtime::__private::AllParts<(Account,)>,
        Output = StatusCode,
    >,
> {
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
    impl ::idem_runtime::__private::Operation for CreateOperation {
        type Handle = Tx<Postgres>;
        type Args = ::idem_runtime::__private::AllParts<(Account,)>;
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
            create(tx, args.0.0)
        }
        fn settle(out: Self::Output) -> ::idem_runtime::__private::Settled {
            use ::idem_runtime::__private::*;
            (&&&&::idem_runtime::__private::outcome(&out)).kind().settle(out)
        }
    }
    ::idem_runtime::__private::run::<CreateOperation>(call).await
}

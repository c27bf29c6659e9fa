async fn create(
    call: ::idem_runtime::__private::Call<Tx<Postgres>, (Account, Bytes)>,
) -> ::idem_runtime::__private::Answer<
    impl ::idem_runtime::__private::Operation<
        Handle = Tx<Postgres>,
        Args = (Account, Bytes),
        Output = ::idem_runtime::__private::Settled,
    >,
> {
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
    impl ::idem_runtime::__private::Operation for CreateOperation {
        type Handle = Tx<Postgres>;
        type Args = (Account, Bytes);
        type Output = ::idem_runtime::__private::Settled;
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
            ::idem_runtime::__private::vet::<Bytes>().takes::<Bytes>();
            let run = ::idem_runtime::__private::handler_future()
                .must_be_send(create(tx, args.0, args.1));
            async move {
                let out = run.await;
                {
                    use ::idem_runtime::__private::*;
                    (&&&&::idem_runtime::__private::outcome(&out)).kind().settle(out)
                }
            }
        }
        fn settle(out: Self::Output) -> ::idem_runtime::__private::Settled {
            out
        }
    }
    ::idem_runtime::__private::run::<CreateOperation>(call).await
}

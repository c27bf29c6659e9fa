async fn close(
    call: ::idem_runtime::__private::Call<
        Tx<MySql>,
        ::idem_runtime::__private::AllParts<(Path<Uuid>, Account)>,
    >,
) -> ::idem_runtime::__private::Answer<
    impl ::idem_runtime::__private::Operation<
        Handle = Tx<MySql>,
        Args = ::idem_runtime::__private::AllParts<(Path<Uuid>, Account)>,
        Output = (),
    >,
> {
    #[deny(clippy::disallowed_methods)]
    async fn close(
        tx: &mut Tx<MySql>,
        Path(shop): Path<Uuid>,
        #[allow(unused_variables)]
        Account(id): Account,
    ) {
        shop.close(tx).await;
    }
    struct CloseOperation;
    impl ::idem_runtime::__private::Operation for CloseOperation {
        type Handle = Tx<MySql>;
        type Args = ::idem_runtime::__private::AllParts<(Path<Uuid>, Account)>;
        type Output = ();
        const SPEC: ::idem_runtime::__private::Spec = {
            let mut spec = ::idem_runtime::__private::spec("close", "id");
            spec.function = ::core::concat!(::core::module_path!(), "::close");
            spec
        };
        fn scope(
            prefix: &<Self::Args as ::idem_runtime::__private::Split>::Prefix,
        ) -> ::idem_runtime::__private::ScopeKey {
            let Account(id) = &prefix.1;
            ::idem_runtime::__private::ScopeKey::of(id)
        }
        fn call<'t>(
            tx: &'t mut Self::Handle,
            args: Self::Args,
        ) -> impl ::core::future::Future<
            Output = Self::Output,
        > + ::core::marker::Send + 't {
            ::idem_runtime::__private::vet::<Path<Uuid>>().takes::<Path<Uuid>>();
            ::idem_runtime::__private::vet::<Account>().takes::<Account>();
            close(tx, args.0.0, args.0.1)
        }
        fn settle(out: Self::Output) -> ::idem_runtime::__private::Settled {
            use ::idem_runtime::__private::*;
            (&&&&::idem_runtime::__private::outcome(&out)).kind().settle(out)
        }
        fn authorize(
            prefix: &<Self::Args as ::idem_runtime::__private::Split>::Prefix,
        ) -> impl ::core::future::Future<
            Output = ::core::result::Result<(), ::idem_runtime::__private::Response>,
        > + ::core::marker::Send {
            async move {
                ::idem_runtime::__private::authorized(
                    may_close(&prefix.0, &prefix.1).await,
                )
            }
        }
    }
    ::idem_runtime::__private::router_state().has_idempotency::<AppState, Tx<MySql>>();
    ::idem_runtime::__private::argument().reads_parts::<Path<Uuid>, AppState>();
    ::idem_runtime::__private::argument().reads_parts::<Account, AppState>();
    ::idem_runtime::__private::run::<CloseOperation>(call).await
}

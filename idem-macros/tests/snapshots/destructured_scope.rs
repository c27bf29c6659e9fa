async fn transfer(
    call: ::idem_runtime::__private::Call<
        Tx<Sqlite>,
        (State<Fees>, Token, Json<Transfer>),
    >,
) -> ::idem_runtime::__private::Answer<
    impl ::idem_runtime::__private::Operation<
        Handle = Tx<Sqlite>,
        Args = (State<Fees>, Token, Json<Transfer>),
        Output = Json<Receipt>,
    >,
> {
    #[deny(clippy::disallowed_methods)]
    async fn transfer(
        State(fees): State<Fees>,
        Token { ref mut claims, issued, .. }: Token,
        tx: &mut Tx<Sqlite>,
        Json(order): Json<Transfer>,
    ) -> Json<Receipt> {
        receipt(order)
    }
    struct TransferOperation;
    impl ::idem_runtime::__private::Operation for TransferOperation {
        type Handle = Tx<Sqlite>;
        type Args = (State<Fees>, Token, Json<Transfer>);
        type Output = Json<Receipt>;
        const SPEC: ::idem_runtime::__private::Spec = {
            let mut spec = ::idem_runtime::__private::spec(
                "transfer",
                "claims.tenant.0",
            );
            spec.function = ::core::concat!(::core::module_path!(), "::transfer");
            spec
        };
        fn scope(
            prefix: &<Self::Args as ::idem_runtime::__private::Split>::Prefix,
        ) -> ::idem_runtime::__private::ScopeKey {
            let Token { claims, issued: _, .. } = &prefix.1;
            ::idem_runtime::__private::ScopeKey::of(&claims.tenant.0)
        }
        fn call<'t>(
            tx: &'t mut Self::Handle,
            args: Self::Args,
        ) -> impl ::core::future::Future<
            Output = Self::Output,
        > + ::core::marker::Send + 't {
            ::idem_runtime::__private::vet::<State<Fees>>().takes::<State<Fees>>();
            ::idem_runtime::__private::vet::<Token>().takes::<Token>();
            ::idem_runtime::__private::vet::<Json<Transfer>>().takes::<Json<Transfer>>();
            transfer(args.0, args.1, tx, args.2)
        }
        fn settle(out: Self::Output) -> ::idem_runtime::__private::Settled {
            use ::idem_runtime::__private::*;
            (&&&&::idem_runtime::__private::outcome(&out)).kind().settle(out)
        }
    }
    ::idem_runtime::__private::run::<TransferOperation>(call).await
}

fn transfer(
    call: ::idem_runtime::__private::Call<
        Tx<Sqlite>,
        (State<Fees>, Token, Json<Transfer>),
    >,
) -> ::idem_runtime::__private::Running<
    impl ::idem_runtime::__private::Operation<
        Handle = Tx<Sqlite>,
        Args = (State<Fees>, Token, Json<Transfer>),
        Output = Json<Receipt>,
    >,
> {
    use ::idem_runtime::__private as runtime;
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
    impl runtime::Operation for TransferOperation {
        type Handle = Tx<Sqlite>;
        type Args = (State<Fees>, Token, Json<Transfer>);
        type Output = Json<Receipt>;
        const SPEC: runtime::Spec = runtime::spec!(
            "transfer", "claims.tenant.0", "transfer"
        );
        const FUNCTIONS: runtime::Functions<Self> = runtime::Functions {
            scope: |prefix| {
                let Token { claims, issued: _, .. } = &prefix.1;
                runtime::ScopeKey::of(&claims.tenant.0)
            },
            call: |tx, args| {
                runtime::future().must_be_send(transfer(args.0, args.1, tx, args.2))
            },
            settle: |out| runtime::outcome(&out).settle(out),
        };
        fn check() {
            runtime::vet::<State<Fees>>().takes::<State<Fees>>();
            runtime::vet::<Token>().takes::<Token>();
            runtime::vet::<Json<Transfer>>().takes::<Json<Transfer>>();
        }
    }
    runtime::run::<TransferOperation>(call)
}

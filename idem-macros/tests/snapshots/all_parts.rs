fn close(
    call: ::idem_runtime::__private::Call<
        Tx<MySql>,
        ::idem_runtime::__private::AllParts<(Path<Uuid>, Account)>,
    >,
) -> ::idem_runtime::__private::Running<
    impl ::idem_runtime::__private::Operation<
        Handle = Tx<MySql>,
        Args = ::idem_runtime::__private::AllParts<(Path<Uuid>, Account)>,
        Output = (),
    >,
> {
    use ::idem_runtime::__private as runtime;
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
    impl runtime::Operation for CloseOperation {
        type Handle = Tx<MySql>;
        type Args = runtime::AllParts<(Path<Uuid>, Account)>;
        type Output = ();
        const SPEC: runtime::Spec = runtime::spec!("close", "id", "close");
        const FUNCTIONS: runtime::Functions<Self> = runtime::Functions {
            scope: |prefix| {
                let Account(id) = &prefix.1;
                runtime::ScopeKey::of(id)
            },
            call: |tx, args| {
                runtime::future().must_be_send(close(tx, args.0.0, args.0.1))
            },
            settle: |out| runtime::outcome(&out).settle(out),
        };
        const AUTHORIZE: runtime::AuthorizeOf<Self> = runtime::Some(|prefix| {
            runtime::future().must_be_send_and_authorize(may_close(&prefix.0, &prefix.1))
        });
        fn check() {
            runtime::router_state().has_idempotency::<AppState, Self::Handle>();
            runtime::vet::<Path<Uuid>>().takes_part::<Path<Uuid>, AppState>();
            runtime::vet::<Account>().takes_part::<Account, AppState>();
        }
    }
    runtime::run::<CloseOperation>(call)
}

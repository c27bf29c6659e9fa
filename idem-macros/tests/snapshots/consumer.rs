/// Keeps the ledger.
pub fn on_order(
    registration: ::idem_runtime::__private::Registration,
) -> ::idem_runtime::__private::Registered<
    impl ::idem_runtime::__private::Consumer<
        Handle = Tx<Postgres>,
        Args = (Message<OrderPlaced>, State<Accounts>),
        Output = Result<(), LedgerError>,
    >,
> {
    use ::idem_runtime::__private as runtime;
    #[deny(clippy::disallowed_methods)]
    #[instrument(skip_all)]
    async fn on_order(
        tx: &mut Tx<Postgres>,
        order: Message<OrderPlaced>,
        State(accounts): State<Accounts>,
    ) -> Result<(), LedgerError> {
        post(tx, &order, &accounts).await
    }
    struct OnOrderConsumer;
    impl runtime::Consumer for OnOrderConsumer {
        type Handle = Tx<Postgres>;
        type Args = (Message<OrderPlaced>, State<Accounts>);
        type Output = Result<(), LedgerError>;
        const SPEC: runtime::ConsumerSpec = {
            let mut spec = runtime::consumer_spec!("on_order", "orders", "on_order");
            spec.ttl = runtime::seconds(604800);
            spec
        };
        const FUNCTIONS: runtime::ConsumerFunctions<Self> = runtime::ConsumerFunctions {
            call: |tx, args| {
                runtime::future().must_be_send(on_order(tx, args.0, args.1))
            },
            verdict: |out| runtime::verdict(&out).settle(out),
        };
        fn check() {
            runtime::vet::<Message<OrderPlaced>>().takes::<Message<OrderPlaced>>();
            runtime::vet::<State<Accounts>>().takes::<State<Accounts>>();
        }
    }
    registration.of::<OnOrderConsumer>()
}

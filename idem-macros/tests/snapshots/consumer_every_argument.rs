fn on_order<T: Event + ::core::marker::Send + ::core::marker::Sync + 'static>(
    registration: crate::idem::__private::Registration,
) -> crate::idem::__private::Registered<
    impl crate::idem::__private::Consumer<
        Handle = Tx<Sqlite>,
        Args = (Message<T>,),
        Output = (),
    >,
>
where
    T: Clone,
{
    use crate::idem::__private as runtime;
    #[deny(clippy::disallowed_methods)]
    async fn on_order<T: Event>(order: Message<T>, tx: &mut Tx<Sqlite>)
    where
        T: Clone,
    {}
    struct OnOrderConsumer<T: ?::core::marker::Sized>(runtime::Type<T>);
    impl<
        T: Event + ::core::marker::Send + ::core::marker::Sync + 'static,
    > runtime::Consumer for OnOrderConsumer<T>
    where
        T: Clone,
    {
        type Handle = Tx<Sqlite>;
        type Args = (Message<T>,);
        type Output = ();
        const SPEC: runtime::ConsumerSpec = {
            let mut spec = runtime::consumer_spec!(
                "ledger.orders", "orders", "on_order"
            );
            spec.ttl = runtime::milliseconds(90500);
            spec.timeout = runtime::seconds(120);
            spec.id = runtime::MessageIdentity::Field("/data/event_id");
            spec
        };
        const FUNCTIONS: runtime::ConsumerFunctions<Self> = runtime::ConsumerFunctions {
            call: |tx, args| runtime::future().must_be_send(on_order::<T>(args.0, tx)),
            verdict: |out| runtime::verdict(&out).settle(out),
        };
        fn check() {
            runtime::vet::<Message<T>>().takes::<Message<T>>();
            runtime::message().makes::<Message<T>, AppState>();
        }
    }
    registration.of::<OnOrderConsumer<T>>()
}

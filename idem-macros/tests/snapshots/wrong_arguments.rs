::core::compile_error! {
    "unknown argument `retries`; there are `scope`, `ttl`, `errors`, `in_flight`, `wait`, `expired`, `tombstone`, `timeout`, `max_body`, `max_response`, `fingerprint_headers`, `fingerprint_ignore`, `key_space`, `authorize`, `replay_with`, `operation`, `definition`, `key`, `state`, `crate`"
}
::core::compile_error! {
    "invalid `ttl`: `x` is no unit (ms, s, m, h and d are); write a number and a unit, as \"48h\" or \"7d\""
}
::core::compile_error! {
    "`scope = \"acount\"` names no parameter; did you mean `account`?"
}
/// Takes an order.
pub fn create_order(
    call: ::idem_runtime::__private::Call<
        Tx<Postgres>,
        (Account, State<Pricing>, Json<NewOrder>),
    >,
) -> ::idem_runtime::__private::Running<
    impl ::idem_runtime::__private::Operation<
        Handle = Tx<Postgres>,
        Args = (Account, State<Pricing>, Json<NewOrder>),
        Output = Result<(StatusCode, Json<Order>), ApiError>,
    >,
> {
    use ::idem_runtime::__private as runtime;
    #[deny(clippy::disallowed_methods)]
    async fn create_order(
        tx: &mut Tx<Postgres>,
        account: Account,
        State(pricing): State<Pricing>,
        Json(new): Json<NewOrder>,
    ) -> Result<(StatusCode, Json<Order>), ApiError> {
        let order = insert_order(tx, &account, &new, &pricing).await?;
        Ok((StatusCode::CREATED, Json(order)))
    }
    struct CreateOrderOperation;
    impl runtime::Operation for CreateOrderOperation {
        type Handle = Tx<Postgres>;
        type Args = (Account, State<Pricing>, Json<NewOrder>);
        type Output = Result<(StatusCode, Json<Order>), ApiError>;
        const SPEC: runtime::Spec = runtime::spec!("create_order", "", "create_order");
        const FUNCTIONS: runtime::Functions<Self> = runtime::Functions {
            scope: |_| ::core::unreachable!(),
            call: |tx, args| {
                runtime::future().must_be_send(create_order(tx, args.0, args.1, args.2))
            },
            settle: |out| runtime::outcome(&out).settle(out),
        };
        fn check() {
            runtime::vet::<Account>().takes::<Account>();
            runtime::vet::<State<Pricing>>().takes::<State<Pricing>>();
            runtime::vet::<Json<NewOrder>>().takes::<Json<NewOrder>>();
        }
    }
    runtime::run::<CreateOrderOperation>(call)
}

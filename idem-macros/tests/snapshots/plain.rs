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
        const SPEC: runtime::Spec = {
            let mut spec = runtime::spec!("create_order", "account", "create_order");
            spec.ttl = runtime::seconds(172800);
            spec
        };
        const FUNCTIONS: runtime::Functions<Self> = runtime::Functions {
            scope: |prefix| runtime::ScopeKey::of(&prefix.0),
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

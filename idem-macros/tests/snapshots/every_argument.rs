/// Takes an order.
pub fn create_order(
    call: ::shop::idem::__private::Call<
        Tx<Postgres>,
        (Account, State<Pricing>, Json<NewOrder>),
    >,
) -> ::shop::idem::__private::Running<
    impl ::shop::idem::__private::Operation<
        Handle = Tx<Postgres>,
        Args = (Account, State<Pricing>, Json<NewOrder>),
        Output = Result<(StatusCode, Json<Order>), ApiError>,
    >,
> {
    use ::shop::idem::__private as runtime;
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
            let mut spec = runtime::spec!("orders.create", "account", "create_order");
            runtime::durations(&mut spec, 604800000, 250, 2592000000, 120000);
            spec.errors = runtime::Some(runtime::Errors::Store);
            spec.in_flight = runtime::Some(runtime::InFlight::Reject);
            spec.expired = runtime::Some(runtime::Expired::Reject);
            spec.max_body = runtime::Some(65536);
            spec.max_response = runtime::Some(1000000);
            spec.fingerprint_headers = &["x-api-version"];
            spec.fingerprint_ignore = &["/sent_at", "?utm_source"];
            spec.key_space = runtime::KeySpace::Operation;
            spec.key = runtime::KeyRequirement::Optional;
            spec
        };
        const FUNCTIONS: runtime::Functions<Self> = runtime::Functions {
            scope: |prefix| runtime::ScopeKey::of(&prefix.0),
            call: |tx, args| {
                runtime::future().must_be_send(create_order(tx, args.0, args.1, args.2))
            },
            settle: |out| runtime::outcome(&out).settle(out),
        };
        const AUTHORIZE: runtime::AuthorizeOf<Self> = runtime::Some(|prefix| {
            runtime::future()
                .must_be_send_and_authorize(policy::may_create(&prefix.0, &prefix.1))
        });
        const REBUILD: runtime::RebuildOf<Self> = runtime::Some(|db, replay| {
            runtime::future()
                .must_be_send_and_rebuild(rebuild::<Order, Invoice>(db, replay))
        });
        fn check() {
            runtime::router_state()
                .has_idempotency::<AppState<Live, Metrics>, Self::Handle>();
            runtime::vet::<Account>().takes_part::<Account, AppState<Live, Metrics>>();
            runtime::vet::<State<Pricing>>()
                .takes_part::<State<Pricing>, AppState<Live, Metrics>>();
            runtime::vet::<Json<NewOrder>>()
                .takes_last::<Json<NewOrder>, AppState<Live, Metrics>, _>();
        }
    }
    runtime::run::<CreateOrderOperation>(call)
}

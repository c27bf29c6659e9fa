/// Takes an order.
pub async fn create_order(
    call: ::shop::idem::__private::Call<
        Tx<Postgres>,
        (Account, State<Pricing>, Json<NewOrder>),
    >,
) -> ::shop::idem::__private::Answer<
    impl ::shop::idem::__private::Operation<
        Handle = Tx<Postgres>,
        Args = (Account, State<Pricing>, Json<NewOrder>),
        Output = Result<(StatusCode, Json<Order>), ApiError>,
    >,
> {
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
    impl ::shop::idem::__private::Operation for CreateOrderOperation {
        type Handle = Tx<Postgres>;
        type Args = (Account, State<Pricing>, Json<NewOrder>);
        type Output = Result<(StatusCode, Json<Order>), ApiError>;
        const SPEC: ::shop::idem::__private::Spec = {
            let mut spec = ::shop::idem::__private::spec("orders.create", "account");
            spec.function = ::core::concat!(::core::module_path!(), "::create_order");
            spec.ttl = ::shop::idem::__private::seconds(604800);
            spec.wait = ::shop::idem::__private::milliseconds(250);
            spec.tombstone = ::shop::idem::__private::seconds(2592000);
            spec.timeout = ::shop::idem::__private::seconds(120);
            spec.errors = ::core::option::Option::Some(
                ::shop::idem::__private::Errors::Store,
            );
            spec.in_flight = ::core::option::Option::Some(
                ::shop::idem::__private::InFlight::Reject,
            );
            spec.expired = ::core::option::Option::Some(
                ::shop::idem::__private::Expired::Reject,
            );
            spec.max_body = ::core::option::Option::Some(65536);
            spec.max_response = ::core::option::Option::Some(1000000);
            spec.fingerprint_headers = &["x-api-version"];
            spec.fingerprint_ignore = &["/sent_at", "?utm_source"];
            spec.key_space = ::shop::idem::__private::KeySpace::Operation;
            spec.key = ::shop::idem::__private::KeyRequirement::Optional;
            spec
        };
        fn scope(
            prefix: &<Self::Args as ::shop::idem::__private::Split>::Prefix,
        ) -> ::shop::idem::__private::ScopeKey {
            let account = &prefix.0;
            ::shop::idem::__private::ScopeKey::of(account)
        }
        fn call<'t>(
            tx: &'t mut Self::Handle,
            args: Self::Args,
        ) -> impl ::core::future::Future<
            Output = Self::Output,
        > + ::core::marker::Send + 't {
            ::shop::idem::__private::vet::<Account>().takes::<Account>();
            ::shop::idem::__private::vet::<State<Pricing>>().takes::<State<Pricing>>();
            ::shop::idem::__private::vet::<Json<NewOrder>>().takes::<Json<NewOrder>>();
            create_order(tx, args.0, args.1, args.2)
        }
        fn settle(out: Self::Output) -> ::shop::idem::__private::Settled {
            use ::shop::idem::__private::*;
            (&&&&::shop::idem::__private::outcome(&out)).kind().settle(out)
        }
        fn authorize(
            prefix: &<Self::Args as ::shop::idem::__private::Split>::Prefix,
        ) -> impl ::core::future::Future<
            Output = ::core::result::Result<(), ::shop::idem::__private::Response>,
        > + ::core::marker::Send {
            async move {
                ::shop::idem::__private::authorized(
                    policy::may_create(&prefix.0, &prefix.1).await,
                )
            }
        }
        const REBUILDS: bool = true;
        fn replay<'c>(
            db: &'c mut ::shop::idem::__private::ConnectionOf<Self::Handle>,
            replay: &'c ::shop::idem::__private::Replay,
        ) -> impl ::core::future::Future<
            Output = ::core::option::Option<::shop::idem::__private::Response>,
        > + ::core::marker::Send + 'c {
            async move {
                ::core::option::Option::Some(
                    ::shop::idem::__private::IntoResponse::into_response(
                        rebuild::<Order, Invoice>(db, replay).await,
                    ),
                )
            }
        }
    }
    ::shop::idem::__private::router_state()
        .has_idempotency::<AppState<Live, Metrics>, Tx<Postgres>>();
    ::shop::idem::__private::argument()
        .reads_parts::<Account, AppState<Live, Metrics>>();
    ::shop::idem::__private::argument()
        .reads_parts::<State<Pricing>, AppState<Live, Metrics>>();
    ::shop::idem::__private::argument()
        .reads_request::<Json<NewOrder>, AppState<Live, Metrics>, _>();
    ::shop::idem::__private::run::<CreateOrderOperation>(call).await
}

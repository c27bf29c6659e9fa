/// Takes an order.
pub async fn create_order(
    call: ::idem_runtime::__private::Call<
        Tx<Postgres>,
        (Account, State<Pricing>, Json<NewOrder>),
    >,
) -> ::idem_runtime::__private::Answer<
    impl ::idem_runtime::__private::Operation<
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
    impl ::idem_runtime::__private::Operation for CreateOrderOperation {
        type Handle = Tx<Postgres>;
        type Args = (Account, State<Pricing>, Json<NewOrder>);
        type Output = Result<(StatusCode, Json<Order>), ApiError>;
        const SPEC: ::idem_runtime::__private::Spec = {
            let mut spec = ::idem_runtime::__private::spec("create_order", "account");
            spec.function = ::core::concat!(::core::module_path!(), "::create_order");
            spec.ttl = ::idem_runtime::__private::seconds(172800);
            spec
        };
        fn scope(
            prefix: &<Self::Args as ::idem_runtime::__private::Split>::Prefix,
        ) -> ::idem_runtime::__private::ScopeKey {
            let account = &prefix.0;
            ::idem_runtime::__private::ScopeKey::of(account)
        }
        fn call<'t>(
            tx: &'t mut Self::Handle,
            args: Self::Args,
        ) -> impl ::core::future::Future<
            Output = Self::Output,
        > + ::core::marker::Send + 't {
            ::idem_runtime::__private::vet::<Account>().takes::<Account>();
            ::idem_runtime::__private::vet::<State<Pricing>>().takes::<State<Pricing>>();
            ::idem_runtime::__private::vet::<Json<NewOrder>>().takes::<Json<NewOrder>>();
            create_order(tx, args.0, args.1, args.2)
        }
        fn settle(out: Self::Output) -> ::idem_runtime::__private::Settled {
            use ::idem_runtime::__private::*;
            (&&&&::idem_runtime::__private::outcome(&out)).kind().settle(out)
        }
    }
    ::idem_runtime::__private::run::<CreateOrderOperation>(call).await
}

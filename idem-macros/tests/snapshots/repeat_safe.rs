/// Pays an order.
pub async fn pay(
    account: Account,
    argument1: State<PgPool>,
    argument2: Path<Uuid>,
) -> ::idem_runtime::__private::Declared<
    Result<Json<Order>, ApiError>,
    impl ::idem_runtime::__private::Declaration,
> {
    #[instrument(skip_all)]
    async fn pay(
        account: Account,
        State(pool): State<PgPool>,
        Path(id): Path<Uuid>,
    ) -> Result<Json<Order>, ApiError> {
        pay_order(&pool, &account, id).await
    }
    struct PayOperation;
    impl ::idem_runtime::__private::Declaration for PayOperation {
        const DECLARED: ::idem_runtime::__private::RepeatSafe = ::idem_runtime::__private::RepeatSafe {
            name: "orders.pay",
            function: ::core::concat!(::core::module_path!(), "::pay"),
            design: ::idem_runtime::__private::Design::Conditional,
            why: "only an open order changes",
        };
    }
    ::idem_runtime::__private::future()
        .must_be_send_and_declare::<
            _,
            PayOperation,
        >(
            pay(account, argument1, argument2),
            ::idem_runtime::__private::IntoResponse::into_response,
        )
        .await
}

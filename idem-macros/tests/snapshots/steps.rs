fn create_charge(
    call: ::idem_runtime::__private::Call<
        Steps<Postgres, ApiError>,
        (Account, State<External<Gateway>>, Json<NewCharge>),
    >,
) -> ::idem_runtime::__private::Running<
    impl ::idem_runtime::__private::Operation<
        Handle = Steps<Postgres, ApiError>,
        Args = (Account, State<External<Gateway>>, Json<NewCharge>),
        Output = Result<Json<Charge>, ApiError>,
    >,
> {
    use ::idem_runtime::__private as runtime;
    #[deny(clippy::disallowed_methods)]
    async fn create_charge(
        steps: &mut Steps<Postgres, ApiError>,
        account: Account,
        State(gateway): State<External<Gateway>>,
        Json(new): Json<NewCharge>,
    ) -> Result<Json<Charge>, ApiError> {
        charge(steps, account, &gateway, new).await
    }
    struct CreateChargeOperation;
    impl runtime::Operation for CreateChargeOperation {
        type Handle = Steps<Postgres, ApiError>;
        type Args = (Account, State<External<Gateway>>, Json<NewCharge>);
        type Output = Result<Json<Charge>, ApiError>;
        const SPEC: runtime::Spec = {
            let mut spec = runtime::spec!("charges.create", "account", "create_charge");
            spec.timeout = runtime::seconds(120);
            spec.expired = runtime::Some(runtime::Expired::Reject);
            spec.definition = 2;
            spec
        };
        const FUNCTIONS: runtime::Functions<Self> = runtime::Functions {
            scope: |prefix| runtime::ScopeKey::of(&prefix.0),
            call: |tx, args| {
                runtime::future().must_be_send(create_charge(tx, args.0, args.1, args.2))
            },
            settle: |out| runtime::outcome(&out).settle(out),
        };
        const INPUTS: runtime::InputsOf<Self> = runtime::Some(|args| {
            runtime::Inputs::new()
                .keep::<Account, _>(&args.0)
                .keep::<State<External<Gateway>>, _>(&args.1)
                .keep::<Json<NewCharge>, _>(&args.2)
        });
        fn check() {
            runtime::vet::<Account>().takes::<Account>();
            runtime::vet::<State<External<Gateway>>>()
                .takes::<State<External<Gateway>>>();
            runtime::vet::<Json<NewCharge>>().takes::<Json<NewCharge>>();
        }
    }
    runtime::run::<CreateChargeOperation>(call)
}

pub(crate) fn create<
    R: Repo + ?Sized + ::core::marker::Send + ::core::marker::Sync + 'static,
    const N: usize,
>(
    call: ::idem_runtime::__private::Call<
        Tx<R::Database>,
        (Account, State<Arc<R>>, Json<[New; N]>),
    >,
) -> ::idem_runtime::__private::Running<
    impl ::idem_runtime::__private::Operation<
        Handle = Tx<R::Database>,
        Args = (Account, State<Arc<R>>, Json<[New; N]>),
        Output = Result<Json<R::Row>, R::Error>,
    >,
>
where
    R::Error: IntoResponse,
{
    use ::idem_runtime::__private as runtime;
    #[deny(clippy::disallowed_methods)]
    async fn create<'t, R: Repo + ?Sized, const N: usize>(
        tx: &'t mut Tx<R::Database>,
        account: Account,
        State(repo): State<Arc<R>>,
        Json(new): Json<[New; N]>,
    ) -> Result<Json<R::Row>, R::Error>
    where
        't: 't,
        R::Error: IntoResponse,
    {
        repo.create(tx, account, new).await
    }
    struct CreateOperation<R: ?::core::marker::Sized, const N: usize>(runtime::Type<R>);
    impl<
        R: Repo + ?Sized + ::core::marker::Send + ::core::marker::Sync + 'static,
        const N: usize,
    > runtime::Operation for CreateOperation<R, N>
    where
        R::Error: IntoResponse,
    {
        type Handle = Tx<R::Database>;
        type Args = (Account, State<Arc<R>>, Json<[New; N]>);
        type Output = Result<Json<R::Row>, R::Error>;
        const SPEC: runtime::Spec = runtime::spec!("create", "account", "create");
        const FUNCTIONS: runtime::Functions<Self> = runtime::Functions {
            scope: |prefix| runtime::ScopeKey::of(&prefix.0),
            call: |tx, args| {
                runtime::future()
                    .must_be_send(create::<R, N>(tx, args.0, args.1, args.2))
            },
            settle: |out| runtime::outcome(&out).settle(out),
        };
        fn check() {
            runtime::vet::<Account>().takes::<Account>();
            runtime::vet::<State<Arc<R>>>().takes::<State<Arc<R>>>();
            runtime::vet::<Json<[New; N]>>().takes::<Json<[New; N]>>();
        }
    }
    runtime::run::<CreateOperation<R, N>>(call)
}

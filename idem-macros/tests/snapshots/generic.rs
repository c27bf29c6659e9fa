pub(crate) async fn create<
    R: Repo + ?Sized + ::core::marker::Send + ::core::marker::Sync + 'static,
    const N: usize,
>(
    call: ::idem_runtime::__private::Call<
        Tx<R::Database>,
        (Account, State<Arc<R>>, Json<[New; N]>),
    >,
) -> ::idem_runtime::__private::Answer<
    impl ::idem_runtime::__private::Operation<
        Handle = Tx<R::Database>,
        Args = (Account, State<Arc<R>>, Json<[New; N]>),
        Output = Result<Json<R::Row>, R::Error>,
    >,
>
where
    R::Error: IntoResponse,
{
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
    struct CreateOperation<
        R: Repo + ?Sized + ::core::marker::Send + ::core::marker::Sync + 'static,
        const N: usize,
    >(
        ::core::marker::PhantomData<fn() -> (::core::marker::PhantomData<R>,)>,
    )
    where
        R::Error: IntoResponse;
    impl<
        R: Repo + ?Sized + ::core::marker::Send + ::core::marker::Sync + 'static,
        const N: usize,
    > ::idem_runtime::__private::Operation for CreateOperation<R, N>
    where
        R::Error: IntoResponse,
    {
        type Handle = Tx<R::Database>;
        type Args = (Account, State<Arc<R>>, Json<[New; N]>);
        type Output = Result<Json<R::Row>, R::Error>;
        const SPEC: ::idem_runtime::__private::Spec = {
            let mut spec = ::idem_runtime::__private::spec("create", "account");
            spec.function = ::core::concat!(::core::module_path!(), "::create");
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
            ::idem_runtime::__private::vet::<State<Arc<R>>>().takes::<State<Arc<R>>>();
            ::idem_runtime::__private::vet::<Json<[New; N]>>().takes::<Json<[New; N]>>();
            create::<R, N>(tx, args.0, args.1, args.2)
        }
        fn settle(out: Self::Output) -> ::idem_runtime::__private::Settled {
            use ::idem_runtime::__private::*;
            (&&&&::idem_runtime::__private::outcome(&out)).kind().settle(out)
        }
    }
    ::idem_runtime::__private::run::<CreateOperation<R, N>>(call).await
}

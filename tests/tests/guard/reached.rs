//! Ways to the database that a handler's body does not show: deep in futures, in the answer, in an argument, in what runs
//! beside the handler. Those that are not found are the holes that `docs/what-does-not-compile.md` lists.

macro_rules! reached {
    ($db:ty, $connection:ty, $backend:expr) => {
        use futures_util::StreamExt;
        use futures_util::future::BoxFuture;
        use futures_util::stream::{self, FuturesUnordered};
        use idem_runtime::{EffectFree, Replay};
        use std::time::Duration;

        fn boxed(account: &str) -> BoxFuture<'_, sqlx::Result<()>> {
            Box::pin(beside(account, "acquire"))
        }

        static HOOK: fn(&str) -> BoxFuture<'_, sqlx::Result<()>> = boxed;

        async fn reach(account: &str, how: &str) -> sqlx::Result<()> {
            match how {
                "boxed" => boxed(account).await,
                "hook" => HOOK(account).await,
                "unordered" => {
                    let mut all: FuturesUnordered<_> = [beside(account, how)].into_iter().collect();
                    all.next().await.unwrap_or(Ok(()))
                }
                "select" => tokio::select! { done = beside(account, how) => done },
                "timeout" => tokio::time::timeout(Duration::from_secs(9), beside(account, how))
                    .await
                    .expect("in time"),
                "blocking" => {
                    let runtime = tokio::runtime::Handle::current();
                    tokio::task::block_in_place(|| runtime.block_on(beside(account, how)))
                }
                "spawned" => {
                    let account = account.to_owned();
                    tokio::spawn(async move { beside(&account, "acquire").await })
                        .await
                        .expect("no panic")
                }
                _ => unreachable!("no other way"),
            }
        }

        #[idempotent(scope = "account")]
        async fn helped(
            tx: &mut Tx<$db>,
            Account(account): Account,
            Path(how): Path<String>,
        ) -> Result<String, Failed> {
            insert(tx, 1).await?;
            reach(&account, &how).await?;
            Ok(how)
        }

        /// The connection is taken when the answer is read.
        #[idempotent(scope = "account")]
        async fn answering(
            tx: &mut Tx<$db>,
            Account(account): Account,
        ) -> Result<Response, Failed> {
            insert(tx, 1).await?;
            let body =
                stream::once(async move { beside(&account, "acquire").await.map(|()| "done") });
            Ok(Body::from_stream(body).into_response())
        }

        type Pools = &'static Mutex<HashMap<String, (String, Pool<$db>)>>;

        fn all_pools() -> Pools {
            &POOLS
        }

        /// What serde puts into a field that it skips comes from a global.
        #[derive(serde::Deserialize)]
        struct Skipping {
            #[serde(skip, default = "all_pools")]
            pools: Pools,
        }

        async fn through(pools: Pools, account: &str) -> sqlx::Result<()> {
            let pool = pools.lock().expect("no holder panics")[account].1.clone();
            write_beside(&mut *pool.acquire().await?).await
        }

        #[idempotent(scope = "account")]
        async fn skipping(
            tx: &mut Tx<$db>,
            Account(account): Account,
            skipping: axum::extract::Query<Skipping>,
        ) -> Result<&'static str, Failed> {
            insert(tx, 1).await?;
            through(skipping.pools, &account).await?;
            Ok("done")
        }

        /// An extractor that writes.
        #[derive(EffectFree)]
        struct Seen;

        impl<S: Send + Sync> FromRequestParts<S> for Seen {
            type Rejection = StatusCode;
            async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, StatusCode> {
                let failed = |_| StatusCode::INTERNAL_SERVER_ERROR;
                let Account(account) = Account::from_request_parts(parts, state).await?;
                let mut other = pool_of(&account).acquire().await.map_err(failed)?;
                insert(&mut other, 5).await.map_err(failed)?;
                Ok(Self)
            }
        }

        #[idempotent(scope = "account")]
        async fn extracted(tx: &mut Tx<$db>, account: Account, _: Seen) -> Result<String, Failed> {
            insert(tx, 1).await?;
            let _ = account;
            Err(Failed(sqlx::Error::RowNotFound))
        }

        #[idempotent(scope = "account", replay_with = writes_again)]
        async fn rebuilt(tx: &mut Tx<$db>, account: Account) -> Result<String, Failed> {
            insert(tx, 1).await?;
            Ok(account.0)
        }

        async fn writes_again(db: &mut $connection, _: &Replay) -> Result<&'static str, Failed> {
            insert(db, 6).await?;
            Ok("again")
        }

        fn reached() -> Router<App> {
            Router::new()
                .route("/helped/{how}", route(helped))
                .route("/answering", route(answering))
                .route("/skipping", route(skipping))
                .route("/extracted", route(extracted))
                .route("/rebuilt", route(rebuilt))
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn a_connection_is_found_however_deep_it_is_taken() {
            let set = Set::guarded().await;
            for how in [
                "boxed",
                "hook",
                "unordered",
                "select",
                "timeout",
                "blocking",
            ] {
                set.is_unknown(&format!("/helped/{how}"), OUTSIDE).await;
            }
            set.is_unknown("/answering", OUTSIDE).await;
            set.is_unknown("/skipping", OUTSIDE).await;
            assert_eq!(set.things(1).await, 0);
        }

        /// A hole: the guard watches the handler's own task.
        #[tokio::test]
        async fn a_connection_of_a_task_that_a_helper_spawns_is_not_found() {
            let set = Set::guarded().await;
            assert_eq!(set.post("/helped/spawned", "k").await.0, 200);
        }

        /// A hole: extractors may ask the database who calls, and so they may write.
        #[tokio::test]
        async fn a_write_of_an_extractor_is_not_found_and_not_undone() {
            let set = Set::guarded().await;
            for run in 1..=2 {
                let (status, body) = set.post("/extracted", "k").await;
                assert_eq!(status, 418, "{body}");
                assert_eq!((set.things(1).await, set.things(5).await), (0, run));
            }
        }

        #[tokio::test]
        async fn what_replay_with_writes_is_rolled_back() {
            let set = Set::guarded().await;
            let (status, body) = set.post("/rebuilt", "k").await;
            assert_eq!((status, &body), (200, &set.account));
            let (status, body) = set.post("/rebuilt", "k").await;
            assert_eq!((status, body.as_str()), (200, "again"));
            assert_eq!((set.things(1).await, set.things(6).await), (1, 0));
        }
    };
}

pub(crate) use reached;

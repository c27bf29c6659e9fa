//! The cases, on one database.

macro_rules! cases {
    ($db:ty, $backend:expr) => {
        const OUTSIDE: &str = "idempotency-effect-outside-transaction";
        const ENDED: &str = "idempotency-transaction-ended";

        #[tokio::test]
        async fn a_connection_beside_the_transaction_is_found_however_it_is_taken() {
            let (set, pool) = Set::new(5).await;
            for how in ["acquire", "join", "query", "begin"] {
                set.is_unknown(&format!("/keyed/beside/{how}"), OUTSIDE)
                    .await;
                assert_eq!(
                    set.things(1).await,
                    0,
                    "{how}: its own writes are rolled back"
                );
            }
            // The first found a new connection, these find idle ones.
            warm(&pool, 4).await;
            for how in ["acquire-idle", "join-idle"] {
                set.is_unknown(&format!("/keyed/beside/{how}"), OUTSIDE)
                    .await;
            }
            set.is_unknown("/keyed/beside-and-fail/acquire", OUTSIDE)
                .await;
            assert_eq!(set.things(1).await, 0);
        }

        #[tokio::test]
        async fn a_connection_that_is_new_is_found_too() {
            let (set, pool) = Set::new(5).await;
            // All but one, which is the handler's own; another must be opened.
            let mut held = Vec::new();
            while pool.num_idle() > 1 {
                held.push(pool.acquire().await.expect("an idle connection"));
            }
            let size = pool.size();
            set.is_unknown("/keyed/beside/acquire", OUTSIDE).await;
            assert!(pool.size() > size, "it was opened");
        }

        #[tokio::test]
        async fn a_handler_that_takes_no_connection_is_not_suspected() {
            let (set, pool) = Set::new(5).await;
            warm(&pool, 3).await;
            // Another task may take what it likes meanwhile.
            let other = tokio::spawn(async move { pool.acquire().await.map(drop) });
            assert_eq!(set.post("/keyed/none/fine", "k").await.0, 200);
            other.await.expect("no panic").expect("a connection");
            assert_eq!(set.things(1).await, 1);
        }

        #[tokio::test]
        async fn without_a_key_the_faults_are_found_as_well() {
            let set = Set::guarded().await;
            let path = "/unkeyed/beside/acquire";
            let (status, body) = post(&set.app, path, &set.account, None).await;
            assert_eq!(status, 500);
            assert!(body.contains(OUTSIDE), "{body}");
            assert_eq!(set.things(1).await, 0);
            let path = "/unkeyed/forget/part";
            let (status, body) = post(&set.app, path, &set.account, None).await;
            assert_eq!(status, 500, "{body}");
            assert_eq!((set.things(1).await, set.things(3).await), (0, 0));
            let path = "/unkeyed/run/COMMIT";
            let (status, body) = post(&set.app, path, &set.account, None).await;
            // SQLite refuses the statement, and the handler passes its error on.
            let refused = $backend == Backend::Sqlite;
            assert_eq!(status, if refused { 418 } else { 500 }, "{body}");
            assert_eq!(set.things(1).await, i64::from(!refused));
        }

        #[tokio::test]
        async fn a_transaction_that_the_handler_ends_is_found() {
            let set = Set::guarded().await;
            let mut leaks = vec!["COMMIT", "COMMIT;BEGIN", "ROLLBACK;BEGIN", "ROLLBACK"];
            match $backend {
                // The commit hook refuses the commit, and SQLite rolls back.
                Backend::Sqlite => {
                    for leak in ["COMMIT", "END", "ROLLBACK", "ROLLBACK;BEGIN"] {
                        let (status, body) = set.post(&format!("/keyed/run/{leak}"), leak).await;
                        assert!(matches!(status, 500 | 418), "{leak}: {body}");
                        assert_eq!(set.things(1).await, 0, "{leak}");
                    }
                    return;
                }
                Backend::Postgres | Backend::PostgresFewest => {
                    leaks.extend(["COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "END"])
                }
                Backend::MySql => leaks.extend([
                    "COMMIT AND CHAIN",
                    "CREATE TABLE more (n int)",
                    "ALTER TABLE things COMMENT = 'more'",
                    "SET autocommit = 0;START TRANSACTION",
                    "LOCK TABLES things WRITE;UNLOCK TABLES",
                ]),
            }
            for leak in leaks {
                let leak = leak.replace(' ', "%20");
                set.is_unknown(&format!("/keyed/run/{leak}"), ENDED).await;
            }
            // As after a deadlock: another transaction that may write, and no trace of the first.
            if $backend == Backend::MySql {
                let other = Set::guarded().await;
                other.is_undone("/keyed/run/ROLLBACK%20AND%20CHAIN").await;
            }
            // The transaction that fails is not the one that was claimed in.
            if $backend.is_postgres() {
                for kind in ["run", "run-and-swallow"] {
                    for begin in ["COMMIT;BEGIN", "COMMIT AND CHAIN"] {
                        let path = format!("/keyed/{kind}/{begin};SELECT nothing");
                        set.is_unknown(&path.replace(' ', "%20"), ENDED).await;
                    }
                }
            }
            set.is_unknown("/keyed/run-and-fail/COMMIT", ENDED).await;
            set.is_unknown("/keyed/run-and-panic/COMMIT", ENDED).await;
        }

        #[tokio::test]
        async fn what_the_database_can_undo_is_no_fault() {
            let set = Set::guarded().await;
            let mut honest = vec!["SAVEPOINT a;ROLLBACK TO a;RELEASE SAVEPOINT a"];
            match $backend {
                Backend::MySql => honest.push("CREATE TEMPORARY TABLE more (n int)"),
                _ => honest.push("CREATE TABLE more (n int)"),
            }
            for statements in honest {
                let path = format!("/keyed/run/{}", statements.replace(' ', "%20"));
                let (status, body) = set.post(&path, &path).await;
                assert_eq!(status, 200, "{statements}: {body}");
            }
            assert_eq!(set.things(1).await, 2);
        }

        #[tokio::test]
        async fn a_nested_transaction_is_a_savepoint() {
            let set = Set::guarded().await;
            for how in ["commit", "drop"] {
                let (status, body) = set.post(&format!("/keyed/nested/{how}"), how).await;
                assert_eq!(status, 200, "{how}: {body}");
            }
            assert_eq!((set.things(1).await, set.things(3).await), (2, 1));
        }

        #[tokio::test]
        async fn a_nested_transaction_that_is_forgotten_undoes_everything() {
            // One connection: what the first request leaves of it, the next ones find.
            let (set, _) = Set::new(1).await;
            set.is_undone("/keyed/forget/part").await;
            assert_eq!(set.post("/keyed/none/fine", "k").await.0, 200);
            assert_eq!(set.things(1).await, 1);
        }

        #[tokio::test]
        async fn a_connection_that_was_swapped_is_found() {
            let set = Set::guarded().await;
            let (status, body) = set.post("/keyed/swap/it", "k").await;
            assert_eq!(status, 500, "{body}");
            let (again, body) = set.post("/keyed/swap/it", "k").await;
            assert_eq!(again, 409, "{body}");
            assert_eq!(set.things(1).await, 0);
        }

        /// The hole that sqlx leaves: it asks no hook. Clippy and the lint of the body name the method.
        #[tokio::test]
        async fn try_acquire_is_not_found() {
            let (set, pool) = Set::new(5).await;
            warm(&pool, 2).await;
            assert_eq!(set.post("/keyed/beside/try-acquire", "k").await.0, 200);
        }

        /// What a start says of a pool over these options.
        async fn said_at_the_start(options: PoolOptions<$db>) -> String {
            let database = TestDatabase::create($backend).await;
            let pool = options
                .connect(database.url())
                .await
                .expect("the database is there");
            let idempotency = Idempotency::<$db>::new(pool);
            idempotency.migrate().await.expect("the schema is made");
            let log = Log::default();
            let listening = log.listen();
            idempotency.check().await.expect("all is well");
            drop(listening);
            log.text()
        }

        #[tokio::test]
        async fn a_start_warns_of_a_pool_without_the_whole_guard() {
            let options = PoolOptions::<$db>::new;
            let own = || {
                guard(options()).after_connect(|_, _| {
                    idem_runtime::record_acquire();
                    Box::pin(async { Ok(()) })
                })
            };
            for guarded in [guard(options()), guard(options().max_connections(1)), own()] {
                let said = said_at_the_start(guarded).await;
                assert!(!said.contains("no run-time guard"), "{said}");
            }
            let new_only = guard(options()).before_acquire(|_, _| Box::pin(async { Ok(true) }));
            let idle_only = guard(options()).after_connect(|_, _| Box::pin(async { Ok(()) }));
            for unguarded in [options(), new_only, idle_only] {
                let said = said_at_the_start(unguarded).await;
                assert!(said.contains("no run-time guard"), "{said}");
            }
        }

        #[tokio::test]
        async fn a_fault_is_reported() {
            let set = Set::guarded().await;
            let log = Log::default();
            let listening = log.listen();
            set.post("/keyed/beside/acquire", "k").await;
            drop(listening);
            let text = log.text();
            assert!(text.contains("ERROR"), "{text}");
            assert!(
                text.contains("an effect may have missed the transaction"),
                "{text}"
            );
            assert!(
                text.contains("operation=\"keyed\"") && text.contains(OUTSIDE),
                "{text}"
            );
        }

        #[tokio::test]
        async fn a_report_names_the_fault() {
            let mut faults = vec![
                ("/keyed/beside/acquire", "connection_beside_transaction"),
                ("/keyed/swap/it", "other_connection"),
            ];
            // SQLite's hooks refuse it.
            if $backend != Backend::Sqlite {
                faults.push(("/keyed/run/COMMIT", "transaction_ended"));
            }
            let unkeyed = [("/unkeyed/beside/acquire", "connection_beside_transaction")];
            for (path, fault) in faults.into_iter().chain(unkeyed) {
                let set = Set::guarded().await;
                let key = path.starts_with("/keyed").then_some("k");
                let log = Log::default();
                let listening = log.listen();
                post(&set.app, path, &set.account, key).await;
                drop(listening);
                let text = log.text();
                let named = format!("fault=\"{fault}\"");
                let told: Vec<&str> = text
                    .lines()
                    .filter(|line| line.contains("fault="))
                    .collect();
                assert!(
                    told.len() == 1 && told[0].contains(&named) && told[0].contains("the handler"),
                    "{path}: {text}"
                );
                assert_eq!(told[0].contains("kept as unknown"), key.is_some(), "{text}");
            }
        }
    };
}

pub(crate) use cases;

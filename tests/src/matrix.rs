//! One case, a test on each backend.

/// Makes each named case a test on every backend: `postgres::case`, `postgres_fewest::case`,
/// `sqlite::case`, `mysql::case`.
///
/// A case is an `async fn(&Fixture)` in scope. Variables of the probe's environment may follow its
/// name in brackets; `on [..]` before the list restricts the backends.
#[macro_export]
macro_rules! on_every_backend {
    (on [$($module:ident = $backend:ident),*]; $($cases:tt)*) => {
        $crate::on_every_backend!(@each [$($module = $backend),*] [$($cases)*]);
    };
    (@each [$($module:ident = $backend:ident),*] $cases:tt) => {
        $( $crate::on_every_backend!(@module $module $backend $cases); )*
    };
    (@module $module:ident $backend:ident
        [$($case:ident $([$($name:literal = $value:literal),* $(,)?])?),* $(,)?]
    ) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let fixture = $crate::application::Fixture::start(
                        $crate::servers::Backend::$backend,
                        &[$($(($name, $value)),*)?],
                    )
                    .await;
                    super::$case(&fixture).await;
                }
            )*
        }
    };
    ($($cases:tt)*) => {
        $crate::on_every_backend!(
            @each [
                postgres = Postgres, postgres_fewest = PostgresFewest, sqlite = Sqlite, mysql = MySql
            ] [$($cases)*]
        );
    };
}

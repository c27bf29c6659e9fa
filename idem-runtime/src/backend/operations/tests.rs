//! The contract of the store, on each database.

#![allow(clippy::unwrap_used, reason = "tests")]

/// Runs cases on the databases that are compiled in.
macro_rules! on_each_database {
    ($($case:ident,)+) => {
        #[cfg(feature = "sqlite")]
        mod sqlite { on_each_database!(@ sqlx::Sqlite; $($case,)+); }
        on_each_server! { $($case,)+ }
    };
    (@ $database:ty; $($case:ident,)+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            use crate::backend::operations::tests::setup::Engine;
            if let Some(place) = <$database as Engine>::create().await {
                super::$case(&place).await;
            }
        }
    )+};
}

/// Runs cases on the servers: SQLite locks no row.
macro_rules! on_each_server {
    ($($case:ident,)+) => {
        #[cfg(feature = "postgres")]
        mod postgres { on_each_database!(@ sqlx::Postgres; $($case,)+); }
        #[cfg(feature = "mysql")]
        mod mysql { on_each_database!(@ sqlx::MySql; $($case,)+); }
    };
}

mod attempts;
#[cfg(feature = "mysql")]
mod clock;
mod erasing;
mod operators;
mod setup;
mod take_over;

//! Real deadlocks: two transactions that lock two rows in opposite order. The server rolls back the handler's, and the
//! handler runs again; where it ignored the error, nothing of it is kept. SQLite has one writer, and so none.

/// Makes each named case a test on both servers.
macro_rules! on_both {
    ($($case:ident),* $(,)?) => {
        mod postgres { $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)] async fn $case() {
            super::$case::<sqlx::Postgres>().await;
        })* }
        mod mysql { $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)] async fn $case() {
            super::$case::<sqlx::MySql>().await;
        })* }
    };
}

mod cases;
mod handlers;
mod late;
mod rival;
mod session;

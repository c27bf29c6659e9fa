//! Real deadlocks: two transactions that lock two rows in opposite order. The server rolls back the handler's, and the
//! handler runs again; where it ignored the error, nothing of it is kept. SQLite has one writer, and so none.

mod cases;
mod handlers;
mod rival;
mod session;

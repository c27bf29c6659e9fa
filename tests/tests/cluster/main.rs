//! More than one server, or something between the service and its server. Each test starts what it is about, so that they run
//! only when they are asked for: `tests/run --full`, or one of the modules by name.

mod galera;
mod load;
mod pgbouncer;
mod standby;

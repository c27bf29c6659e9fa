//! Idempotent axum handlers.

#![cfg_attr(
    not(any(feature = "postgres", feature = "sqlite", feature = "mysql")),
    allow(dead_code, unused)
)]
#![deny(missing_docs)]
#![allow(
    clippy::result_large_err,
    reason = "axum's own rejections are responses, and are made where they are answered"
)]

extern crate self as idem_runtime;

#[doc(hidden)]
pub mod __private;
mod accept;
mod atomic;
mod backend;
mod call;
mod cipher;
mod detach;
mod digest;
mod faults;
mod filter;
pub mod fingerprint;
mod flight;
mod guard;
mod idempotency;
pub mod key;
mod operation;
mod options;
pub mod problem;
mod replay;
pub mod response;
mod retention;
pub mod scope;
mod settle;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod tx;

pub use backend::{Backend, Isolation};
pub use call::IdempotentHandler;
pub use cipher::{CipherError, PayloadCipher};
pub use guard::{guard, record_acquire};
pub use idem_macros::*;
pub use idempotency::{Idempotency, IdempotencyBuilder, StartupError};
pub use key::IdempotencyKey;
pub use operation::{Errors, Expired, InFlight, KeyRequirement, KeySpace, Spec};
pub use replay::Replay;
pub use retention::{Erased, RetentionError, Sweeper, SweeperHandle, Swept};
pub use scope::Scope;
pub use settle::{Disposition, ErrorKind};
pub use tx::{Handle, Tx};

//! Runtime.

mod digest;
#[allow(dead_code, reason = "until the engine asks it")]
mod filter;
pub mod key;
pub mod problem;
pub mod response;
pub mod scope;
pub mod telemetry;

//! Runtime.

mod digest;
pub mod key;
pub mod problem;
pub mod response;
pub mod scope;

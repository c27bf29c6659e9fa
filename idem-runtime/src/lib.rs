//! Runtime.

pub mod fingerprint;

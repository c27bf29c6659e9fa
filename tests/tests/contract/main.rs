//! The contract, over real HTTP, on every backend: each rule is a case named as a sentence.

mod answers;
mod expiry;
mod failures;
mod fingerprint;
mod key;
mod load;
mod order;
mod planted;
mod processes;
mod routing;
mod signals;
mod stored;
mod telemetry;
mod writers;

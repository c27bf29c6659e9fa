//! The fingerprint as the contract has it: given cases, properties, frozen digests, and arbitrary bytes.

mod arbitrary_bytes;
mod cases;
mod forms;
mod golden;
mod json_model;
mod properties;
mod requests;

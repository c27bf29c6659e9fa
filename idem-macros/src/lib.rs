//! The attribute and derive macros of idem; use them through idem-runtime.
#![deny(missing_docs)]

mod args;
mod attributes;
mod errors;
mod expand;
mod fallback;
mod handler;
mod idempotent;
mod model;
mod paths;
mod rules;
mod scope;
mod signature;
mod suggest;
mod units;
mod values;

/// x
#[proc_macro_attribute]
pub fn idempotent(
    arguments: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    idempotent::idempotent(arguments.into(), item.into()).into()
}

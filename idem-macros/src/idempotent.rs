//! The attribute from end to end: parse, validate, expand.

use proc_macro2::TokenStream;

use crate::{
    annotated, args::Args, errors::Errors, expand, fallback, handler::Handler, lints, model::Model,
};

pub(crate) fn idempotent(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = Args::parse(attribute, &mut errors);
    annotated::replace("idempotent", item, errors, |handler, errors| {
        one(handler, &args, errors)
    })
}

/// A wrong argument leaves the handler itself to be checked by rustc; a wrong signature does not.
fn one(handler: &Handler, args: &Args, errors: &mut Errors) -> TokenStream {
    let expanded = match Model::new(handler, args, errors) {
        Some(model) => expand::expand(&model),
        None => fallback::handler(handler, args.runtime.as_ref()),
    };
    errors.extend(lints::body(handler));
    expanded
}

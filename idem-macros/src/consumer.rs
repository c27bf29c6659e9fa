//! `#[consumer]` from end to end: parse, validate, expand.

mod arguments;
mod expand;
mod fallback;
mod model;

use proc_macro2::TokenStream;

use self::{arguments::Arguments, model::Model};
use crate::{annotated, errors::Errors, handler::Handler, lints};

pub(crate) fn consumer(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let arguments = Arguments::parse(attribute, &mut errors);
    annotated::replace("consumer", item, errors, |handler, errors| {
        one(handler, &arguments, errors)
    })
}

/// A wrong argument leaves the consumer itself to be checked by rustc; a wrong signature does not.
fn one(handler: &Handler, arguments: &Arguments, errors: &mut Errors) -> TokenStream {
    let expanded = match Model::new(handler, arguments, errors) {
        Some(model) => expand::expand(&model),
        None => fallback::consumer(handler, arguments.runtime.as_ref()),
    };
    errors.extend(lints::body(handler));
    expanded
}

//! `#[repeat_safe]` from end to end: parse, validate, expand.

mod arguments;
mod expand;
mod model;

use proc_macro2::TokenStream;

pub(crate) use self::arguments::Design;
use self::{arguments::Arguments, model::Model};
use crate::{annotated, errors::Errors, fallback, handler::Handler, lints};

pub(crate) fn repeat_safe(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let arguments = Arguments::parse(attribute, &mut errors);
    annotated::replace("repeat_safe", item, errors, |handler, errors| {
        one(handler, &arguments, errors)
    })
}

/// A wrong argument leaves the handler itself to be checked by rustc; a wrong signature does not.
fn one(handler: &Handler, arguments: &Arguments, errors: &mut Errors) -> TokenStream {
    let expanded = match Model::new(handler, arguments, errors) {
        Some(model) => expand::expand(&model),
        None => fallback::handler(handler, arguments.runtime.as_ref()),
    };
    if let Some(design) = arguments.design {
        errors.extend(lints::repeat_safe(design, &handler.body));
    }
    expanded
}

//! `#[repeat_safe]` from end to end: parse, validate, expand.

mod arguments;
mod expand;
mod model;

use proc_macro2::TokenStream;
use quote::quote;

pub(crate) use self::arguments::Design;
use self::{arguments::Arguments, model::Model};
use crate::{errors::Errors, fallback, handler::Handler, handler::Variant, lints};

pub(crate) fn repeat_safe(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let arguments = Arguments::parse(attribute, &mut errors);
    let handler = match Handler::parse_for("repeat_safe", item.clone()) {
        Ok(handler) => handler,
        Err(error) => {
            errors.push(error);
            return fallback::item(&errors, &item);
        }
    };
    let variants = handler.variants(&mut errors);
    variants
        .iter()
        .map(|variant| one(variant, &arguments, errors.clone()))
        .collect()
}

/// A wrong argument leaves the handler itself to be checked by rustc; a wrong signature does not.
fn one(variant: &Variant, arguments: &Arguments, mut errors: Errors) -> TokenStream {
    let handler = match Model::new(&variant.handler, arguments, &mut errors) {
        Some(model) => expand::expand(&model),
        None => fallback::handler(&variant.handler, arguments.runtime.as_ref()),
    };
    if let Some(design) = arguments.design {
        errors.extend(lints::repeat_safe(design, &variant.handler.body));
    }
    let errors = errors.to_items();
    let conditions = &variant.conditions;
    let conditional = quote!(#(#[cfg(#conditions)])*);
    quote!(#(#conditional #errors)* #conditional #handler)
}

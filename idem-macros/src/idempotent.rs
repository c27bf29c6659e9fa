//! The attribute from end to end: parse, validate, expand.

use proc_macro2::TokenStream;
use quote::quote;

use crate::{
    args::Args, errors::Errors, expand, fallback, handler::Handler, handler::Variant, lints,
    model::Model,
};

pub(crate) fn idempotent(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = Args::parse(attribute, &mut errors);
    let handler = match syn::parse2::<Handler>(item.clone()) {
        Ok(handler) => handler,
        Err(error) => {
            errors.push(error);
            return fallback::item(&errors, &item);
        }
    };
    let variants = handler.variants(&mut errors);
    variants
        .iter()
        .map(|variant| one(variant, &args, errors.clone()))
        .collect()
}

/// A wrong argument leaves the handler itself to be checked by rustc; a wrong signature does not.
fn one(variant: &Variant, args: &Args, mut errors: Errors) -> TokenStream {
    let handler = match Model::new(&variant.handler, args, &mut errors) {
        Some(model) => expand::expand(&model),
        None => fallback::handler(&variant.handler, args.runtime.as_ref()),
    };
    errors.extend(lints::body(&variant.handler));
    let errors = errors.to_items();
    let conditions = &variant.conditions;
    let conditional = quote!(#(#[cfg(#conditions)])*);
    quote!(#(#conditional #errors)* #conditional #handler)
}

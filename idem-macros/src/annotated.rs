//! An annotated function, from its item to what stands in its place: what all attributes of handlers do alike.

use proc_macro2::TokenStream;
use quote::quote;

use crate::{errors::Errors, fallback, handler::Handler};

/// Replaces the function, once for each combination of `#[cfg]` on its arguments, by what `expand` makes of it and by its
/// errors. `attribute` is how the errors name the attribute.
pub(crate) fn replace(
    attribute: &str,
    item: TokenStream,
    mut errors: Errors,
    expand: impl Fn(&Handler, &mut Errors) -> TokenStream,
) -> TokenStream {
    let handler = match Handler::parse_for(attribute, item.clone()) {
        Ok(handler) => handler,
        Err(error) => {
            errors.push(error);
            return fallback::item(&errors, &item);
        }
    };
    let variants = handler.variants(&mut errors);
    let replaced = variants.iter().map(|variant| {
        let mut errors = errors.clone();
        let handler = expand(&variant.handler, &mut errors);
        let errors = errors.to_items();
        let conditions = &variant.conditions;
        let conditional = quote!(#(#[cfg(#conditions)])*);
        quote!(#(#conditional #errors)* #conditional #handler)
    });
    replaced.collect()
}

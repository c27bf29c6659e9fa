//! What is left of a consumer that has errors: the errors, and something that causes no others.

use proc_macro2::TokenStream;
use quote::quote;

use crate::{
    attributes::Attributes, errors::Errors, fallback::can_be_nested, handler::Handler,
    paths::CratePath,
};

/// A consumer that is never run, around the user's function: an editor goes on with its body, and the registration that names
/// it compiles.
pub(super) fn consumer(handler: &Handler, runtime: Option<&CratePath>) -> TokenStream {
    let Attributes { outer, inner } =
        Attributes::sort(&handler.attributes, "consumer", &mut Errors::default());
    let Handler {
        visibility,
        signature,
        body,
        ..
    } = handler;
    let item = quote!(#(#inner)* #signature #body);
    let (Some(runtime), true) = (runtime, can_be_nested(handler)) else {
        return quote!(#(#outer)* #[allow(unused)] #visibility #item);
    };
    let runtime = runtime.private();
    let name = &signature.ident;
    let (declared, _, bounds) = signature.generics.split_for_impl();
    quote! {
        #(#outer)*
        #[allow(unused)]
        #visibility fn #name #declared(_: #runtime::Registration) -> #runtime::Registered<#runtime::FaultyConsumer> #bounds {
            #item
            ::core::unreachable!()
        }
    }
}

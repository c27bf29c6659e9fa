//! What is left of a handler that has errors: the errors, and something that causes no others.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

use crate::{attributes::Attributes, errors::Errors, handler::Handler, paths::CratePath};

/// The item that is no function, or can't be read as one.
pub(crate) fn item(errors: &Errors, item: &TokenStream) -> TokenStream {
    let errors = errors.to_tokens();
    quote!(#errors #item)
}

/// A handler, for axum's routes and for ours, that is never called, around the user's function: an editor goes on with its body, and the
/// route that uses it compiles.
pub(crate) fn handler(handler: &Handler, runtime: Option<&CratePath>) -> TokenStream {
    let Attributes { outer, inner } =
        Attributes::sort(&handler.attributes, "idempotent", &mut Errors::default());
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
        #visibility async fn #name #declared(_: #runtime::Request) -> #runtime::Declared<#runtime::Response, #runtime::Faulty> #bounds {
            #item
            ::core::unreachable!()
        }
    }
}

/// A method has to stay where it is, and so does what says `Self`.
pub(crate) fn can_be_nested(handler: &Handler) -> bool {
    fn says_self(tokens: TokenStream) -> bool {
        tokens.into_iter().any(|token| match token {
            proc_macro2::TokenTree::Ident(word) => word == "self" || word == "Self",
            proc_macro2::TokenTree::Group(group) => says_self(group.stream()),
            _ => false,
        })
    }
    !says_self(handler.signature.to_token_stream()) && !says_self(handler.body.clone())
}

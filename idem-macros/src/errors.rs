//! Every error of one expansion, so that all of them appear at once.

use std::fmt::Display;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// Collects errors; what is wrong in one place never hides what is wrong in another.
#[derive(Clone, Default)]
pub(crate) struct Errors(Vec<syn::Error>);

impl Errors {
    /// Blames `tokens`.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.0.push(syn::Error::new_spanned(tokens, message));
    }

    /// Blames a place that has no tokens of its own, such as a pair of parentheses.
    pub(crate) fn at_span(&mut self, span: Span, message: impl Display) {
        self.0.push(syn::Error::new(span, message));
    }

    /// Keeps an error of the parser.
    pub(crate) fn push(&mut self, error: syn::Error) {
        self.0.extend(error);
    }

    /// Takes over the errors of a part.
    pub(crate) fn extend(&mut self, other: Errors) {
        self.0.extend(other.0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One `compile_error!` item each: items, so that each can carry a `#[cfg]`.
    pub(crate) fn to_items(&self) -> Vec<TokenStream> {
        self.0.iter().map(syn::Error::to_compile_error).collect()
    }

    /// All of them as one stream.
    pub(crate) fn to_tokens(&self) -> TokenStream {
        self.to_items().into_iter().collect()
    }

    #[cfg(test)]
    pub(crate) fn messages(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }
}

//! A consumer that can only be right.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::Type;

use super::arguments::Arguments;
use crate::{
    args::Args,
    attributes::Attributes,
    errors::Errors,
    handler::Handler,
    model::{self, Model as Function},
    signature,
    words::Words,
};

/// All that the expansion needs; it decides nothing itself.
pub(super) struct Model {
    /// What it has in common with a handler.
    pub(super) function: Function,
    /// Empty after an error only.
    pub(super) source: String,
    pub(super) arguments: Arguments,
}

impl Model {
    /// `None` if the signature can't be a consumer's, or nothing of the runtime can be named.
    pub(super) fn new(
        handler: &Handler,
        arguments: &Arguments,
        errors: &mut Errors,
    ) -> Option<Model> {
        let attributes = Attributes::sort(&handler.attributes, "consumer", errors);
        let parameters = signature::check_consumer(handler, errors)?;
        let signature = &handler.signature;
        let mut words = Words::of(handler.to_token_stream());
        words.add(given(arguments.state.as_ref()));
        let types = parameters
            .arguments
            .iter()
            .map(|argument| (*argument.ty).clone());
        let function = Function {
            runtime: arguments.runtime.clone()?,
            outer: attributes.outer,
            inner: attributes.inner,
            visibility: handler.visibility.clone(),
            signature: signature.clone(),
            body: handler.body.clone(),
            operation: model::hidden_name(&signature.ident, "Consumer", &words),
            alias: Ident::new(&words.without("runtime".to_owned()), Span::call_site()),
            name: arguments
                .name
                .clone()
                .unwrap_or_else(|| model::bare(&signature.ident)),
            generics: model::generics(signature),
            handle: parameters.handle_type.clone(),
            handle_at: parameters.handle_at,
            arguments: types.collect(),
            all_parts: false,
            output: model::output(signature),
            steps: false,
            owner: None,
            args: Args::default(),
        };
        Some(Model {
            function,
            source: arguments.source.clone().unwrap_or_default(),
            arguments: arguments.clone(),
        })
    }
}

/// What the attribute says that is repeated in the generated function.
fn given(state: Option<&Type>) -> TokenStream {
    quote!(#state)
}

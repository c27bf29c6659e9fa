//! A repeat-safe handler that can only be right.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Generics, Pat, ReturnType, Signature, Type, Visibility};

use super::arguments::{Arguments, Design};
use crate::{
    attributes::Attributes, errors::Errors, handler::Handler, model, paths::CratePath, signature,
    words::Words,
};

/// All that the expansion needs; it decides nothing itself.
pub(super) struct Model {
    pub(super) runtime: CratePath,
    pub(super) outer: Vec<Attribute>,
    pub(super) inner: Vec<Attribute>,
    pub(super) visibility: Visibility,
    /// The user's function, as written.
    pub(super) signature: Signature,
    pub(super) body: TokenStream,
    /// The hidden type that carries the declaration.
    pub(super) declaration: Ident,
    pub(super) name: String,
    pub(super) generics: Generics,
    /// The arguments, each by a name of its own.
    pub(super) arguments: Vec<(Ident, Type)>,
    /// `None` where nothing is written.
    pub(super) output: Option<Type>,
    /// Any, after an error.
    pub(super) design: Design,
    pub(super) why: String,
}

impl Model {
    /// `None` if the signature can't be a handler's, or nothing of the runtime can be named.
    pub(super) fn new(
        handler: &Handler,
        arguments: &Arguments,
        errors: &mut Errors,
    ) -> Option<Model> {
        let attributes = Attributes::sort(&handler.attributes, "repeat_safe", errors);
        let extractors = signature::check_without_transaction(handler, errors)?;
        if arguments.design == Some(Design::Precondition) {
            if_match(handler, &extractors, errors);
        }
        let signature = &handler.signature;
        let text = model::bare(&signature.ident);
        let names = extractors.iter().enumerate();
        let named = names
            .map(|(at, argument)| (name(at, &argument.pat, signature), (*argument.ty).clone()));
        Some(Model {
            runtime: arguments.runtime.clone()?,
            outer: attributes.outer,
            inner: attributes.inner,
            visibility: handler.visibility.clone(),
            signature: signature.clone(),
            body: handler.body.clone(),
            declaration: model::operation_type(
                &signature.ident,
                &Words::of(handler.to_token_stream()),
            ),
            name: arguments.operation.clone().unwrap_or(text),
            generics: model::generics(signature),
            arguments: named.collect(),
            output: match &signature.output {
                ReturnType::Default => None,
                ReturnType::Type(_, ty) => Some((**ty).clone()),
            },
            design: arguments.design.unwrap_or(Design::Conditional),
            why: arguments.why.clone().unwrap_or_default(),
        })
    }
}

/// The user's own name where there is one, for documentation and editors.
fn name(at: usize, pattern: &Pat, signature: &Signature) -> Ident {
    let place = Span::call_site().located_at(signature.ident.span());
    match pattern {
        Pat::Ident(pattern) if pattern.ident != signature.ident => {
            let mut name = pattern.ident.clone();
            name.set_span(place);
            name
        }
        _ => Ident::new(&format!("argument{at}"), place),
    }
}

/// The version that the client has seen must be asked for.
fn if_match(handler: &Handler, extractors: &[&syn::PatType], errors: &mut Errors) {
    const MESSAGE: &str = "`precondition` needs the version that the client has seen: add `if_match: IfMatch`, and compare it with what is there";
    let mut found = false;
    for argument in extractors {
        let tokens = argument.ty.to_token_stream();
        if !says(&tokens, "IfMatch") {
            continue;
        }
        found = true;
        if says(&tokens, "Option") {
            errors.at(
                &argument.ty,
                "`If-Match` can't be optional here: a client that leaves it out overwrites what it has not seen; take `IfMatch`, which refuses with 428",
            );
        }
    }
    if !found {
        errors.at_span(handler.signature.paren_token.span.join(), MESSAGE);
    }
}

fn says(tokens: &TokenStream, wanted: &str) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Ident(word) => word == wanted,
        TokenTree::Group(group) => says(&group.stream(), wanted),
        _ => false,
    })
}

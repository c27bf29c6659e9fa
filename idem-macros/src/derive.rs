//! What the derives share: where the runtime is, and bounds for generic types.

pub(crate) mod disposition;
pub(crate) mod effect_free;
pub(crate) mod scope;

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Field, Generics, Index, Member, Type, parse_quote};

use crate::{errors::Errors, paths::CratePath};

/// `name(crate = "::path")` on the type, and nothing else in that attribute.
fn crate_argument(tokens: &TokenStream) -> Option<TokenStream> {
    let mut tokens = tokens.clone().into_iter();
    let is_crate = matches!(tokens.next(), Some(TokenTree::Ident(word)) if word == "crate");
    let equals = matches!(tokens.next(), Some(TokenTree::Punct(sign)) if sign.as_char() == '=');
    (is_crate && equals).then(|| tokens.collect())
}

/// The attributes called `name`, each as what is in its parentheses.
fn helper<'a>(attributes: &'a [Attribute], name: &str) -> Vec<(&'a Attribute, TokenStream)> {
    let named = attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident(name));
    let arguments = |attribute: &Attribute| match &attribute.meta {
        syn::Meta::List(list) => list.tokens.clone(),
        _ => TokenStream::new(),
    };
    named
        .map(|attribute| (attribute, arguments(attribute)))
        .collect()
}

/// The runtime, from `#[name(crate = ..)]` if it is given.
fn runtime(attributes: &[Attribute], name: &str, errors: &mut Errors) -> CratePath {
    let mut runtime = CratePath::default();
    for (_, arguments) in helper(attributes, name) {
        if let Some(path) = crate_argument(&arguments) {
            match CratePath::parse(path) {
                Ok(path) => runtime = path,
                Err(error) => errors.push(error),
            }
        }
    }
    runtime
}

/// How a field is named in an expression or a pattern.
fn member(index: usize, field: &Field) -> Member {
    match &field.ident {
        Some(name) => Member::Named(name.clone()),
        None => Member::Unnamed(Index::from(index)),
    }
}

/// Bounds the fields that a type parameter occurs in, not the parameter: a `PhantomData<T>` asks nothing of `T`.
fn bound_fields<'a>(
    generics: &Generics,
    fields: impl Iterator<Item = &'a Type>,
    bound: &TokenStream,
) -> Generics {
    let mut bounded = generics.clone();
    let parameters: Vec<&Ident> = generics
        .type_params()
        .map(|parameter| &parameter.ident)
        .collect();
    for ty in fields.filter(|ty| mentions(ty.to_token_stream(), &parameters)) {
        bounded
            .make_where_clause()
            .predicates
            .push(parse_quote!(#ty: #bound));
    }
    bounded
}

fn mentions(tokens: TokenStream, names: &[&Ident]) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(word) => names.contains(&&word),
        TokenTree::Group(group) => mentions(group.stream(), names),
        _ => false,
    })
}

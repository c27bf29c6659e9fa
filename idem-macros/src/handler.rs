//! The annotated item, its body left unparsed.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{
    Attribute, FnArg, Meta, ReturnType, Signature, Token, Type, Visibility,
    parse::{Parse, ParseStream, Parser},
    punctuated::Punctuated,
};

use crate::errors::Errors;

/// Each condition doubles the number of items; nobody needs more than a few.
const MOST_CONDITIONS: usize = 4;

/// A function whose body may not be valid Rust yet: an editor expands it after every keystroke.
#[derive(Clone)]
pub(crate) struct Handler {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    pub(crate) body: TokenStream,
}

impl Parse for Handler {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        Self::read(input, "idempotent")
    }
}

impl Handler {
    /// For another attribute, which the errors name.
    pub(crate) fn parse_for(attribute: &str, item: TokenStream) -> syn::Result<Self> {
        let parser = |input: ParseStream<'_>| Self::read(input, attribute);
        parser.parse2(item)
    }

    fn read(input: ParseStream<'_>, attribute: &str) -> syn::Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        if !starts_function(&input.fork()) {
            return Err(input.error(format!("`#[{attribute}]` goes on an `async fn`")));
        }
        let signature: Signature = input.parse()?;
        if signature.asyncness.is_none() && answers_boxed_future(&signature) {
            return Err(syn::Error::new_spanned(
                &signature.ident,
                format!(
                    "`#[async_trait]` has rewritten this function; `#[{attribute}]` goes on an `async fn` that is no trait's: \
                     write a free one, which may call the trait's method"
                ),
            ));
        }
        let body: TokenStream = input.parse()?;
        let braced = body.clone().into_iter().next().is_some_and(
            |token| matches!(&token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace),
        );
        if !braced {
            return Err(syn::Error::new_spanned(
                signature.fn_token,
                format!("`#[{attribute}]` goes on an `async fn` with a body"),
            ));
        }
        Ok(Handler {
            attributes,
            visibility,
            signature,
            body,
        })
    }
}

/// Whether it returns `Pin<Box<dyn Future<..>>>`.
fn answers_boxed_future(signature: &Signature) -> bool {
    let ReturnType::Type(_, answer) = &signature.output else {
        return false;
    };
    let Type::Path(path) = &**answer else {
        return false;
    };
    let pinned = path.path.segments.last();
    pinned.is_some_and(|last| {
        let boxed = last.arguments.to_token_stream().to_string();
        last.ident == "Pin" && boxed.contains("Box <") && boxed.contains("dyn")
    })
}

/// Tells "this is no function" from "this function has a mistake", which the parser says better.
fn starts_function(ahead: ParseStream<'_>) -> bool {
    const QUALIFIERS: [&str; 4] = ["const", "async", "unsafe", "extern"];
    loop {
        if ahead.peek(Token![fn]) {
            return true;
        }
        let qualifier = match ahead.parse::<TokenTree>() {
            Ok(TokenTree::Ident(word)) => QUALIFIERS.iter().any(|known| word == known),
            Ok(TokenTree::Literal(_)) => true, // the ABI of `extern "C"`
            _ => false,
        };
        if !qualifier {
            return false;
        }
    }
}

impl ToTokens for Handler {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        for attribute in &self.attributes {
            attribute.to_tokens(tokens);
        }
        self.visibility.to_tokens(tokens);
        self.signature.to_tokens(tokens);
        self.body.to_tokens(tokens);
    }
}

/// One of the handlers that a function with `#[cfg]` on its arguments stands for.
pub(crate) struct Variant {
    /// What must hold for this one, as tokens of `#[cfg(..)]`.
    pub(crate) conditions: Vec<TokenStream>,
    pub(crate) handler: Handler,
}

impl Handler {
    /// `#[cfg]` on an argument reaches an attribute macro unresolved, and no tuple type can carry it: each
    /// outcome becomes an item of its own, and rustc keeps the one that holds.
    pub(crate) fn variants(mut self, errors: &mut Errors) -> Vec<Variant> {
        self.remove_argument_docs();
        let conditions = self.argument_conditions();
        if conditions.len() > MOST_CONDITIONS {
            errors.at(
                &conditions[MOST_CONDITIONS],
                format!(
                    "a handler's arguments can have at most {MOST_CONDITIONS} different `#[cfg]` conditions"
                ),
            );
        }
        let mut variants = vec![Variant {
            conditions: Vec::new(),
            handler: self,
        }];
        for condition in conditions.iter().take(MOST_CONDITIONS) {
            variants = variants
                .into_iter()
                .flat_map(|variant| variant.split(condition))
                .collect();
        }
        variants
    }

    /// rustc refuses documentation on a parameter; an attribute macro may take it.
    fn remove_argument_docs(&mut self) {
        for input in &mut self.signature.inputs {
            attributes_of(input).retain(|attribute| !attribute.path().is_ident("doc"));
        }
    }

    fn argument_conditions(&mut self) -> Vec<TokenStream> {
        let mut found: Vec<TokenStream> = Vec::new();
        for input in &mut self.signature.inputs {
            for condition in attributes_of(input).iter().filter_map(condition) {
                if !found.iter().any(|other| same(other, &condition)) {
                    found.push(condition);
                }
            }
        }
        found
    }

    fn conditional_on(input: &mut FnArg, wanted: &TokenStream) -> bool {
        attributes_of(input)
            .iter()
            .filter_map(condition)
            .any(|found| same(&found, wanted))
    }
}

impl Variant {
    fn split(self, wanted: &TokenStream) -> [Variant; 2] {
        let (mut with, mut without) = (self.handler.clone(), self.handler);
        for input in &mut with.signature.inputs {
            attributes_of(input).retain(|attribute| {
                !condition(attribute).is_some_and(|found| same(&found, wanted))
            });
        }
        let kept: Punctuated<FnArg, Token![,]> = std::mem::take(&mut without.signature.inputs)
            .into_iter()
            .filter_map(|mut input| (!Handler::conditional_on(&mut input, wanted)).then_some(input))
            .collect();
        without.signature.inputs = kept;
        let and = |more: TokenStream| {
            let mut conditions = self.conditions.clone();
            conditions.push(more);
            conditions
        };
        [
            Variant {
                conditions: and(quote!(#wanted)),
                handler: with,
            },
            Variant {
                conditions: and(quote!(not(#wanted))),
                handler: without,
            },
        ]
    }
}

fn attributes_of(input: &mut FnArg) -> &mut Vec<Attribute> {
    match input {
        FnArg::Receiver(receiver) => &mut receiver.attrs,
        FnArg::Typed(typed) => &mut typed.attrs,
    }
}

fn condition(attribute: &Attribute) -> Option<TokenStream> {
    match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => Some(list.tokens.clone()),
        _ => None,
    }
}

fn same(a: &TokenStream, b: &TokenStream) -> bool {
    a.to_string() == b.to_string()
}

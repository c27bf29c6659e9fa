//! `#[derive(EffectFree)]`: a type is free of effects if its fields are.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::{
    Attribute, Data, DeriveInput, Field, LitStr, Token, Type, parse::Parser, spanned::Spanned,
};

use super::{bound_fields, crate_argument, helper, mentions, runtime};
use crate::errors::Errors;

pub(crate) fn derive(item: TokenStream) -> TokenStream {
    let input: DeriveInput = match syn::parse2(item) {
        Ok(input) => input,
        Err(error) => return error.to_compile_error(),
    };
    let mut errors = Errors::default();
    let runtime = runtime(&input.attrs, "effect_free", &mut errors);
    refuse_off_fields(&input, &mut errors);
    let fields = checked_fields(&input, &mut errors);
    let (bounded, checked): (Vec<&Type>, Vec<&Type>) =
        fields.into_iter().partition(|ty| is_bound(ty, &input));
    let private = runtime.private();
    let generics = bound_fields(
        &input.generics,
        bounded.into_iter(),
        &quote!(#private::EffectFree),
    );
    let name = &input.ident;
    let (declared, used, bounds) = generics.split_for_impl();
    let itself = quote!(#name #used);
    let checks = checked.iter().map(|ty| {
        let place = Span::call_site().located_at(ty.span());
        let ty = without_self(ty.to_token_stream(), &itself);
        let runtime = runtime.private_at(place);
        quote_spanned!(place=> #runtime::field().must_be_effect_free::<#ty>();)
    });
    // with an error too: a type that is not `EffectFree` would be a second one
    let errors = errors.to_tokens();
    quote! {
        #errors
        #[automatically_derived]
        impl #declared #private::EffectFree for #name #used #bounds {}
        const _: () = {
            #[allow(dead_code)]
            fn fields #declared() #bounds {
                #(#checks)*
            }
        };
    }
}

/// A generic field is checked where the type is used, by a bound; one that holds the type itself would
/// make the bound depend on itself, and is checked as the others are.
fn is_bound(ty: &Type, input: &DeriveInput) -> bool {
    let parameters: Vec<&Ident> = input
        .generics
        .type_params()
        .map(|parameter| &parameter.ident)
        .collect();
    let itself = [&input.ident, &Ident::new("Self", Span::call_site())];
    mentions(ty.to_token_stream(), &parameters) && !mentions(ty.to_token_stream(), &itself)
}

/// The checks stand in a function, where there is no `Self`.
fn without_self(ty: TokenStream, itself: &TokenStream) -> TokenStream {
    ty.into_iter()
        .flat_map(|token| match token {
            TokenTree::Ident(word) if word == "Self" => {
                quote_spanned!(word.span()=> #itself)
            }
            TokenTree::Group(group) => {
                let mut inside =
                    Group::new(group.delimiter(), without_self(group.stream(), itself));
                inside.set_span(group.span());
                TokenTree::Group(inside).into()
            }
            other => other.into(),
        })
        .collect()
}

/// All that are not trusted.
fn checked_fields<'a>(input: &'a DeriveInput, errors: &mut Errors) -> Vec<&'a Type> {
    let fields: Vec<&Field> = match &input.data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data
            .variants
            .iter()
            .flat_map(|variant| &variant.fields)
            .collect(),
        Data::Union(data) => {
            errors.at(
                data.union_token,
                "`EffectFree` can't be derived for a union: nobody knows which field it holds",
            );
            return Vec::new();
        }
    };
    fields
        .into_iter()
        .filter(|field| !is_trusted(field, errors))
        .map(|field| &field.ty)
        .collect()
}

const TRUST: &str = "say why the field has no effects outside the transaction: \
                     `#[effect_free(trust = \"a table in memory that nothing writes to\")]`";

fn is_trusted(field: &Field, errors: &mut Errors) -> bool {
    let attributes = helper(&field.attrs, "effect_free");
    for (attribute, arguments) in &attributes {
        match reason(arguments.clone()) {
            Some(reason) if !reason.value().trim().is_empty() => {}
            Some(reason) => errors.at(reason, TRUST),
            None => errors.at(attribute, TRUST),
        }
    }
    // a fault in the attribute is one error, and not two
    !attributes.is_empty()
}

/// `trust = "reason"`.
fn reason(arguments: TokenStream) -> Option<LitStr> {
    let parser = |input: syn::parse::ParseStream<'_>| {
        let name: Ident = input.parse()?;
        input.parse::<Token![=]>()?;
        let reason: LitStr = input.parse()?;
        input.parse::<Option<Token![,]>>()?;
        match name == "trust" {
            true => Ok(reason),
            false => Err(input.error("not `trust`")),
        }
    };
    parser.parse2(arguments).ok()
}

fn refuse_off_fields(input: &DeriveInput, errors: &mut Errors) {
    const ON_TYPE: &str = "on the type, `#[effect_free(..)]` takes only `crate = \"::path\"`; \
                           trust goes on the field that it is about";
    let mut refuse = |attributes: &[Attribute], is_type: bool| {
        for (attribute, arguments) in helper(attributes, "effect_free") {
            if !is_type || crate_argument(&arguments).is_none() {
                errors.at(attribute, ON_TYPE);
            }
        }
    };
    refuse(&input.attrs, true);
    if let Data::Enum(data) = &input.data {
        for variant in &data.variants {
            refuse(&variant.attrs, false);
        }
    }
}

//! `#[derive(Disposition)]`: what each error leaves of its idempotency key.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{
    Attribute, Data, DeriveInput, Field, Fields, Member, Type, ext::IdentExt, parse::Parser,
    spanned::Spanned,
};

use super::{bound_fields, crate_argument, helper, member, runtime};
use crate::{errors::Errors, suggest::nearest};

const WORDS: [&str; 5] = [
    "validation",
    "rejection",
    "transient",
    "source",
    "transparent",
];

/// What is said of one variant, or of a struct.
#[derive(Clone, Copy)]
enum Word {
    /// A variant of `ErrorKind`.
    Kind(&'static str),
    /// Transient, and the field is the error underneath.
    Source,
    /// Whatever the field says.
    Transparent,
}

/// One arm of the generated matches.
struct Arm<'a> {
    /// `Self::Sold`, or `Self` for a struct.
    path: TokenStream,
    word: Word,
    /// The field that the answer, or the cause, is taken from.
    field: Option<(Member, &'a Type)>,
}

pub(crate) fn derive(item: TokenStream) -> TokenStream {
    let input: DeriveInput = match syn::parse2(item) {
        Ok(input) => input,
        Err(error) => return error.to_compile_error(),
    };
    let mut errors = Errors::default();
    let runtime = runtime(&input.attrs, "disposition", &mut errors).private();
    let arms = arms(&input, &mut errors);
    if !errors.is_empty() {
        return errors.to_tokens();
    }
    let transparent = |arm: &&Arm<'_>| matches!(arm.word, Word::Transparent);
    let asked = arms
        .iter()
        .filter(transparent)
        .filter_map(|arm| arm.field.as_ref());
    let name = &input.ident;
    let generics = bound_fields(
        &input.generics,
        asked.map(|(_, ty)| *ty),
        &quote!(#runtime::Disposition),
    );
    let (declared, used, bounds) = generics.split_for_impl();
    let kinds = arms.iter().map(|arm| arm.kind(&runtime));
    // a type with no variants is matched by value
    let value = if arms.is_empty() {
        quote!(*self)
    } else {
        quote!(self)
    };
    let cause = arms.iter().any(|arm| arm.field.is_some()).then(|| {
        let causes = arms.iter().map(|arm| arm.cause(&runtime));
        quote! {
            fn cause(&self) -> ::core::option::Option<&(dyn ::core::error::Error + 'static)> {
                match #value { #(#causes)* }
            }
        }
    });
    quote! {
        #[automatically_derived]
        impl #declared #runtime::Disposition for #name #used #bounds {
            fn disposition(&self) -> #runtime::ErrorKind {
                match #value { #(#kinds)* }
            }
            #cause
        }
    }
}

impl Arm<'_> {
    fn kind(&self, runtime: &TokenStream) -> TokenStream {
        let path = &self.path;
        let kind = match (self.word, &self.field) {
            (Word::Transparent, Some((member, ty))) => {
                let place = Span::call_site().located_at(ty.span());
                let answer = quote_spanned!(place=> #runtime::Disposition::disposition(field));
                return quote!(#path { #member: field, .. } => #answer,);
            }
            (Word::Kind(kind), _) => format_ident!("{kind}"),
            (Word::Source | Word::Transparent, _) => format_ident!("Transient"),
        };
        quote!(#path { .. } => #runtime::ErrorKind::#kind,)
    }

    fn cause(&self, runtime: &TokenStream) -> TokenStream {
        let path = &self.path;
        let Some((member, ty)) = &self.field else {
            return quote!(#path { .. } => ::core::option::Option::None,);
        };
        let place = Span::call_site().located_at(ty.span());
        let cause = match self.word {
            Word::Transparent => quote_spanned!(place=> #runtime::Disposition::cause(field)),
            // a boxed `dyn Error` is no error itself
            _ if is_pointer(ty) => quote_spanned!(place=> ::core::option::Option::Some(&**field)),
            _ => {
                quote_spanned!(place=> ::core::option::Option::Some(#runtime::underneath().is(field)))
            }
        };
        quote!(#path { #member: field, .. } => #cause,)
    }
}

fn arms<'a>(input: &'a DeriveInput, errors: &mut Errors) -> Vec<Arm<'a>> {
    match &input.data {
        Data::Struct(data) => arm(
            quote!(Self),
            &input.ident,
            &input.attrs,
            &data.fields,
            errors,
        )
        .into_iter()
        .collect(),
        Data::Enum(data) => {
            for (attribute, arguments) in helper(&input.attrs, "disposition") {
                if crate_argument(&arguments).is_none() {
                    errors.at(attribute, "write `#[disposition(..)]` on each variant; variants differ in what they leave of their key");
                }
            }
            data.variants
                .iter()
                .filter_map(|variant| {
                    let name = &variant.ident;
                    arm(
                        quote!(Self::#name),
                        name,
                        &variant.attrs,
                        &variant.fields,
                        errors,
                    )
                })
                .collect()
        }
        Data::Union(data) => {
            errors.at(
                data.union_token,
                "`Disposition` can't be derived for a union",
            );
            Vec::new()
        }
    }
}

fn arm<'a>(
    path: TokenStream,
    name: &Ident,
    attributes: &[Attribute],
    fields: &'a Fields,
    errors: &mut Errors,
) -> Option<Arm<'a>> {
    let said: Vec<_> = helper(attributes, "disposition")
        .into_iter()
        .filter(|(_, arguments)| crate_argument(arguments).is_none())
        .collect();
    let Some(((attribute, arguments), more)) = said.split_first() else {
        errors.at(
            name,
            format!("say what `{name}` leaves of its key: `#[disposition(validation)]`, `#[disposition(rejection)]` or `#[disposition(transient)]`"),
        );
        return None;
    };
    for (attribute, _) in more {
        errors.at(
            attribute,
            format!("`{name}` has one disposition; remove the second"),
        );
    }
    let Some(written) = Ident::parse_any.parse2(arguments.clone()).ok() else {
        errors.at(attribute, format!("write one of {}", choices()));
        return None;
    };
    let word = match written.to_string().as_str() {
        "validation" => Word::Kind("Validation"),
        "rejection" => Word::Kind("Rejection"),
        "transient" => Word::Kind("Transient"),
        "source" => Word::Source,
        "transparent" => Word::Transparent,
        unknown => {
            let advice = match nearest(unknown, WORDS) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("write one of {}", choices()),
            };
            errors.at(
                &written,
                format!("unknown disposition `{unknown}`; {advice}"),
            );
            return None;
        }
    };
    let field = match word {
        Word::Kind(_) => fields
            .iter()
            .enumerate()
            .find(|(_, field)| is_source(field)),
        Word::Source | Word::Transparent if fields.len() == 1 => fields.iter().enumerate().next(),
        Word::Source | Word::Transparent => {
            errors.at(
                &written,
                format!("`{written}` asks the field, so `{name}` must have exactly one"),
            );
            return None;
        }
    };
    Some(Arm {
        path,
        word,
        field: field.map(|(index, field)| (member(index, field), &field.ty)),
    })
}

fn choices() -> String {
    WORDS.map(|word| format!("`{word}`")).join(", ")
}

/// The marks that `thiserror` reads, so that an error with both derives says it once.
fn is_source(field: &Field) -> bool {
    field
        .attrs
        .iter()
        .any(|attribute| attribute.path().is_ident("source") || attribute.path().is_ident("from"))
}

fn is_pointer(ty: &Type) -> bool {
    match ty {
        Type::Path(path) => path
            .path
            .segments
            .last()
            .is_some_and(|last| last.ident == "Box" || last.ident == "Arc"),
        _ => false,
    }
}

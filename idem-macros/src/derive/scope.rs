//! `#[derive(Scope)]`: a type with one field is that field, one with several is their tuple.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Data, DeriveInput, Field, Member, Type, spanned::Spanned};

use super::{bound_fields, crate_argument, helper, member, runtime};
use crate::errors::Errors;

pub(crate) fn derive(item: TokenStream) -> TokenStream {
    let input: DeriveInput = match syn::parse2(item) {
        Ok(input) => input,
        Err(error) => return error.to_compile_error(),
    };
    let mut errors = Errors::default();
    let runtime = runtime(&input.attrs, "scope", &mut errors).private();
    for (attribute, arguments) in helper(&input.attrs, "scope") {
        if crate_argument(&arguments).is_none() {
            errors.at(attribute, "`#[scope(..)]` takes only `crate = \"::path\"`");
        }
    }
    let fields = fields(&input, &mut errors);
    if !errors.is_empty() {
        return errors.to_tokens();
    }
    let values = fields.iter().map(|(member, ty)| {
        let place = Span::call_site().located_at(ty.span());
        quote_spanned!(place=> &self.#member)
    });
    let write = match fields.as_slice() {
        [(member, ty)] => {
            let place = Span::call_site().located_at(ty.span());
            quote_spanned!(place=> #runtime::Scope::write_scope(&self.#member, out))
        }
        _ => quote!(out.tuple(&[#(#values),*])),
    };
    let name = &input.ident;
    let generics = bound_fields(
        &input.generics,
        fields.iter().map(|(_, ty)| *ty),
        &quote!(#runtime::Scope),
    );
    let (declared, used, bounds) = generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #declared #runtime::Scope for #name #used #bounds {
            fn write_scope(&self, out: &mut #runtime::ScopeBuilder) {
                #write;
            }
        }
    }
}

/// The fields that say who the owner is: all but markers.
fn fields<'a>(input: &'a DeriveInput, errors: &mut Errors) -> Vec<(Member, &'a Type)> {
    const ADVICE: &str = "implement it by hand, so that no two owners write the same";
    let fields = match &input.data {
        Data::Struct(data) => &data.fields,
        Data::Enum(data) => {
            errors.at(
                data.enum_token,
                format!("`Scope` can't be derived for an enum; {ADVICE}"),
            );
            return Vec::new();
        }
        Data::Union(data) => {
            errors.at(
                data.union_token,
                format!("`Scope` can't be derived for a union; {ADVICE}"),
            );
            return Vec::new();
        }
    };
    let fields: Vec<_> = fields
        .iter()
        .enumerate()
        .filter(|(_, field)| !is_marker(field))
        .map(|(index, field)| (member(index, field), &field.ty))
        .collect();
    if fields.is_empty() {
        errors.at(
            &input.ident,
            format!("`{}` has no field that says whose keys these are: all its callers would share them", input.ident),
        );
    }
    fields
}

fn is_marker(field: &Field) -> bool {
    match &field.ty {
        Type::Path(path) => path
            .path
            .segments
            .last()
            .is_some_and(|last| last.ident == "PhantomData"),
        _ => false,
    }
}

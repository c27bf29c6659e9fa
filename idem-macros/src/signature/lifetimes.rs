//! Borrows in a handler's types, which nothing but the transaction may be.

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::{
    GenericParam, Lifetime, Signature, Type, TypeReference,
    visit::{self, Visit},
};

use crate::errors::Errors;

/// The lifetime parameters. One may name the transaction's borrow; nothing else lives that long.
pub(super) struct Lifetimes(Vec<Ident>);

impl Lifetimes {
    pub(super) fn declared_by(signature: &Signature) -> Lifetimes {
        Lifetimes(
            signature
                .generics
                .lifetimes()
                .map(|parameter| parameter.lifetime.ident.clone())
                .collect(),
        )
    }

    pub(super) fn first_borrow(&self, ty: &Type) -> Option<TokenStream> {
        let mut find = Borrow {
            declared: &self.0,
            elided: true,
            found: None,
        };
        find.visit_type(ty);
        find.found
    }

    pub(super) fn refuse_borrows(&self, ty: &Type, message: &str, errors: &mut Errors) {
        if let Some(found) = self.first_borrow(ty) {
            errors.at(found, message);
        }
    }

    pub(super) fn refuse_in_bounds(&self, signature: &Signature, errors: &mut Errors) {
        let mut find = Borrow {
            declared: &self.0,
            elided: false,
            found: None,
        };
        for parameter in &signature.generics.params {
            if !matches!(parameter, GenericParam::Lifetime(_)) {
                find.visit_generic_param(parameter);
            }
        }
        for predicate in signature
            .generics
            .where_clause
            .iter()
            .flat_map(|clause| &clause.predicates)
        {
            if !matches!(predicate, syn::WherePredicate::Lifetime(_)) {
                find.visit_where_predicate(predicate);
            }
        }
        if let Some(found) = find.found {
            errors.at(
                found,
                "a handler's types can't depend on a lifetime of its own; use `'static`, or none",
            );
        }
    }
}

/// The first lifetime other than `'static`. References in `Fn(&T)` and under `for<'a>` are their own.
struct Borrow<'a> {
    declared: &'a [Ident],
    elided: bool,
    found: Option<TokenStream>,
}

impl<'a> Visit<'a> for Borrow<'_> {
    fn visit_lifetime(&mut self, lifetime: &'a Lifetime) {
        let elided = lifetime.ident == "_" && self.elided;
        if elided || self.declared.contains(&lifetime.ident) {
            self.found.get_or_insert_with(|| lifetime.to_token_stream());
        }
    }

    fn visit_type_reference(&mut self, reference: &'a TypeReference) {
        if reference.lifetime.is_none() && self.elided {
            self.found
                .get_or_insert_with(|| reference.to_token_stream());
        }
        visit::visit_type_reference(self, reference);
    }

    fn visit_type_bare_fn(&mut self, _: &'a syn::TypeBareFn) {}
    fn visit_parenthesized_generic_arguments(&mut self, _: &'a syn::ParenthesizedGenericArguments) {
    }
}

//! What a handler's body says in plain words: a help, and no proof.
//!
//! A copy of the body is parsed and walked as syntax; the body that is compiled stays as written. Syntax knows no types,
//! so a lint speaks only where nothing honest can be meant:
//!
//! * a call is known by its path, as written or imported in the body (`calls`);
//! * a value is the transaction, or surely not the transaction, by where it comes from (`names`);
//! * SQL is a literal in a place where only SQL can be (`queries`), read as words (`sql`).
//!
//! All else is left to the types, to clippy, which resolves names, and to the guard at run time. A body that does not
//! parse has no lints: rustc says what is wrong with it.

mod allowed;
mod calls;
mod handle;
mod imports;
mod macros;
mod names;
mod queries;
mod repeat_safe;
mod sealed;
mod sql;
mod transaction;
mod walk;

use proc_macro2::TokenStream;
use syn::{Block, FnArg, Pat, Type};

pub(crate) use repeat_safe::repeat_safe;

use crate::{errors::Errors, handler::Handler, steps};

use walk::Walk;

/// What is surely wrong in the body of an idempotent handler.
pub(crate) fn body(handler: &Handler) -> Errors {
    let Some(block) = parse(&handler.body) else {
        return Errors::default();
    };
    let mut walk = Walk::new(&block);
    let mut mysql = false;
    let (handles, others): (Vec<_>, Vec<_>) = handler
        .signature
        .inputs
        .iter()
        .filter_map(|input| match input {
            FnArg::Typed(argument) => Some(argument),
            FnArg::Receiver(_) => None,
        })
        .partition(|argument| is_handle(&argument.ty));
    for handle in &handles {
        mysql |= names::mentions(&handle.ty, "MySql");
        if let Pat::Ident(name) = &*handle.pat {
            walk.take_handle(&name.ident, steps::is_steps(referenced(&handle.ty)));
        }
    }
    // Where none is by reference, as it must be, one of the others may be meant.
    if !handles.is_empty() {
        for argument in others {
            walk.take_argument(argument);
        }
    }
    if handler.attributes.iter().any(allowed::allows) {
        walk.allow();
    }
    let found = walk.over(&block);
    let mut errors = found.errors;
    for sql in found.sql.iter().filter(|sql| sql.sure) {
        for fault in transaction::faults(&sql.literal.value(), mysql) {
            errors.at(&sql.literal, fault);
        }
    }
    errors
}

/// Whether it is a `&mut`, also as a macro passes it on.
fn is_handle(ty: &Type) -> bool {
    match ty {
        Type::Reference(reference) => reference.mutability.is_some(),
        Type::Group(inner) => is_handle(&inner.elem),
        Type::Paren(inner) => is_handle(&inner.elem),
        _ => false,
    }
}

/// What it is a `&mut` of.
fn referenced(ty: &Type) -> &Type {
    match ty {
        Type::Reference(reference) => &reference.elem,
        Type::Group(inner) => referenced(&inner.elem),
        Type::Paren(inner) => referenced(&inner.elem),
        other => other,
    }
}

fn parse(body: &TokenStream) -> Option<Block> {
    syn::parse2(body.clone()).ok()
}

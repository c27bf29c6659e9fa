//! Queries of sqlx, and the SQL in them.

use proc_macro2::TokenTree;
use syn::{Expr, ExprCall, ExprLit, Lit, LitStr, Macro};

use super::sql;

/// Functions that make a query of the SQL that is their first argument.
const FUNCTIONS: [&str; 10] = [
    "query",
    "query_as",
    "query_as_with",
    "query_as_with_result",
    "query_scalar",
    "query_scalar_with",
    "query_scalar_with_result",
    "query_with",
    "query_with_result",
    "raw_sql",
];

/// Their macros, and the checked ones.
const MACROS: [&str; 12] = [
    "query",
    "query_as",
    "query_as_unchecked",
    "query_file",
    "query_file_as",
    "query_file_as_unchecked",
    "query_file_scalar",
    "query_file_scalar_unchecked",
    "query_file_unchecked",
    "query_scalar",
    "query_scalar_unchecked",
    "query_unchecked",
];

/// Methods that run a query on the executor that is their first argument, or on themselves.
const RUNS: [&str; 9] = [
    "execute",
    "execute_many",
    "fetch",
    "fetch_all",
    "fetch_many",
    "fetch_one",
    "fetch_optional",
    "prepare",
    "describe",
];

/// Whether a method of this name runs a query.
pub(super) fn runs(method: &syn::Ident) -> bool {
    RUNS.iter().any(|name| method == name)
}

/// Whether this function makes a query: `sqlx::query`, or a name of sqlx that is given SQL.
pub(super) fn is_query(path: &[String], call: &ExprCall) -> bool {
    let Some(function) = path.last() else {
        return false;
    };
    if path
        .iter()
        .rev()
        .nth(1)
        .is_some_and(|owner| owner == "QueryBuilder")
    {
        return matches!(function.as_str(), "new" | "with_arguments");
    }
    FUNCTIONS.contains(&function.as_str())
        && match path {
            [krate, ..] if krate == "sqlx" => true,
            [_] => call
                .args
                .first()
                .and_then(literal)
                .is_some_and(|text| sql::is_sentence(&text.value())),
            _ => false,
        }
}

/// The SQL of `query("..").bind(..)`, as an import makes it look.
pub(super) fn of_bare_name(expression: &Expr) -> Option<LitStr> {
    match expression {
        Expr::MethodCall(call) => of_bare_name(&call.receiver),
        Expr::Call(call) => match &*call.func {
            Expr::Path(path)
                if path.path.segments.len() == 1
                    && FUNCTIONS
                        .iter()
                        .any(|known| path.path.segments[0].ident == known) =>
            {
                literal(call.args.first()?)
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whether this macro makes a query.
pub(super) fn is_query_macro(call: &Macro) -> bool {
    let mut path = call.path.segments.iter().rev();
    let named = path
        .next()
        .is_some_and(|name| MACROS.iter().any(|known| name.ident == known));
    named && path.next().is_none_or(|krate| krate.ident == "sqlx")
}

/// The SQL of a query's macro: a literal among its arguments, and not in a group. Not of those that name a file.
pub(super) fn literal_of_macro(call: &Macro) -> Option<LitStr> {
    let name = call.path.segments.last()?.ident.to_string();
    if name.starts_with("query_file") {
        return None;
    }
    call.tokens
        .clone()
        .into_iter()
        .find_map(|token| match token {
            TokenTree::Literal(literal) => match Lit::new(literal) {
                Lit::Str(text) => Some(text),
                _ => None,
            },
            _ => None,
        })
}

/// A string literal, also in `AssertSqlSafe("..")`, by reference, or turned into an `SqlStr`.
pub(super) fn literal(expression: &Expr) -> Option<LitStr> {
    match expression {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text.clone()),
        Expr::Paren(inner) => literal(&inner.expr),
        Expr::Group(inner) => literal(&inner.expr),
        Expr::Reference(inner) => literal(&inner.expr),
        Expr::MethodCall(call) if call.args.is_empty() => literal(&call.receiver),
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) if path.path.segments.last()?.ident == "AssertSqlSafe" => {
                literal(call.args.first()?)
            }
            _ => None,
        },
        _ => None,
    }
}

//! The expressions inside calls of well-known macros.

use quote::quote;
use syn::{
    Expr, Macro, Pat, Token,
    parse::{ParseStream, Parser},
    punctuated::Punctuated,
};

/// Macros that take expressions, separated by commas.
const OF_EXPRESSIONS: [&str; 32] = [
    "anyhow",
    "assert",
    "assert_eq",
    "assert_ne",
    "bail",
    "chain",
    "dbg",
    "debug",
    "debug_assert",
    "ensure",
    "eprintln",
    "error",
    "format",
    "format_args",
    "info",
    "join",
    "join_all",
    "matches",
    "panic",
    "pin",
    "poll",
    "print",
    "println",
    "ready",
    "todo",
    "trace",
    "try_join",
    "unreachable",
    "vec",
    "warn",
    "write",
    "writeln",
];

/// What the call holds, as far as it can be read: nothing of a macro that is not known.
pub(super) fn expressions(call: &Macro) -> Vec<Expr> {
    let Some(name) = call.path.segments.last() else {
        return Vec::new();
    };
    let name = name.ident.to_string();
    let tokens = call.tokens.clone();
    let found = if name == "select" || name == "select_biased" {
        select.parse2(tokens)
    } else if OF_EXPRESSIONS.contains(&name.as_str()) {
        list.parse2(tokens)
    } else {
        return Vec::new();
    };
    found.unwrap_or_default()
}

fn list(input: ParseStream<'_>) -> syn::Result<Vec<Expr>> {
    // `vec![x; 3]`
    let ahead = input.fork();
    if ahead.parse::<Expr>().is_ok() && ahead.peek(Token![;]) {
        let value = input.parse()?;
        input.parse::<Token![;]>()?;
        return Ok(vec![value, input.parse()?]);
    }
    Ok(Punctuated::<Expr, Token![,]>::parse_terminated(input)?
        .into_iter()
        .collect())
}

/// The branches of `tokio::select!`: `pattern = future, if condition => handler`. Each is returned as the match that it is.
fn select(input: ParseStream<'_>) -> syn::Result<Vec<Expr>> {
    let mut found = Vec::new();
    if input.peek(syn::Ident) && input.peek2(Token![;]) {
        input.parse::<syn::Ident>()?; // `biased;`
        input.parse::<Token![;]>()?;
    }
    while !input.is_empty() {
        if input.peek(Token![else]) {
            input.parse::<Token![else]>()?;
            input.parse::<Token![=>]>()?;
            found.push(input.parse()?);
        } else {
            let pattern = input.call(Pat::parse_multi_with_leading_vert)?;
            input.parse::<Token![=]>()?;
            let future: Expr = input.parse()?;
            if input.peek(Token![,]) {
                input.parse::<Token![,]>()?;
                input.parse::<Token![if]>()?;
                found.push(input.parse()?);
            }
            input.parse::<Token![=>]>()?;
            let handler: Expr = input.parse()?;
            // In parentheses: a struct's braces would be those of the match.
            found.push(syn::parse2(
                quote!(match (#future) { #pattern => #handler }),
            )?);
        }
        if input.peek(Token![,]) {
            input.parse::<Token![,]>()?;
        }
    }
    Ok(found)
}

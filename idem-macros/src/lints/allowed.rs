//! The escape: what is allowed with a reason.
//!
//! One attribute for the lints of the body and for clippy's: a real lint's name, so that rustc checks it, and a reason, so
//! that a review finds it. A transaction can't be ended by any reason.

use syn::{Attribute, Expr, Meta, Stmt, Token, punctuated::Punctuated};

/// Whether this is `#[allow(clippy::disallowed_methods, reason = "..")]`, or `expect`.
pub(super) fn allows(attribute: &Attribute) -> bool {
    if !attribute.path().is_ident("allow") && !attribute.path().is_ident("expect") {
        return false;
    }
    let list = Punctuated::<Meta, Token![,]>::parse_terminated;
    let Ok(list) = attribute.parse_args_with(list) else {
        return false;
    };
    let lint = |meta: &Meta| {
        let segments: Vec<_> = meta
            .path()
            .segments
            .iter()
            .map(|part| &part.ident)
            .collect();
        matches!(&segments[..], [tool, lint] if *tool == "clippy" && *lint == "disallowed_methods")
    };
    list.iter().any(lint) && list.iter().any(|meta| meta.path().is_ident("reason"))
}

/// The attributes of a statement.
pub(super) fn of_statement(statement: &Stmt) -> &[Attribute] {
    match statement {
        Stmt::Local(local) => &local.attrs,
        Stmt::Expr(expression, _) => of_expression(expression),
        Stmt::Macro(call) => &call.attrs,
        Stmt::Item(_) => &[],
    }
}

/// The attributes of the expressions that can be statements.
fn of_expression(expression: &Expr) -> &[Attribute] {
    match expression {
        Expr::Assign(expression) => of_expression(&expression.left),
        Expr::Async(expression) => &expression.attrs,
        Expr::Await(expression) => &expression.attrs,
        Expr::Block(expression) => &expression.attrs,
        Expr::Call(expression) => &expression.attrs,
        Expr::ForLoop(expression) => &expression.attrs,
        Expr::If(expression) => &expression.attrs,
        Expr::Loop(expression) => &expression.attrs,
        Expr::Macro(expression) => &expression.attrs,
        Expr::Match(expression) => &expression.attrs,
        Expr::MethodCall(expression) => &expression.attrs,
        Expr::Return(expression) => &expression.attrs,
        Expr::Try(expression) => &expression.attrs,
        Expr::While(expression) => &expression.attrs,
        _ => &[],
    }
}

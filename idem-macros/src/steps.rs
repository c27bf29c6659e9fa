//! What holds for handlers with recovery points alone.

use std::collections::HashSet;

use proc_macro2::Span;
use syn::{Expr, ExprLit, ExprMethodCall, Lit, LitStr, Type, visit::Visit};

use crate::{args::Args, errors::Errors, handler::Handler};

/// Whether the handle has recovery points. By its name: a macro knows no types, and the runtime refuses an alias that hides it.
pub(crate) fn is_steps(handle: &Type) -> bool {
    match handle {
        Type::Path(path) => path
            .path
            .segments
            .last()
            .is_some_and(|segment| segment.ident == "Steps"),
        Type::Group(inner) => is_steps(&inner.elem),
        Type::Paren(inner) => is_steps(&inner.elem),
        _ => false,
    }
}

/// The attribute's arguments, and the names of the steps.
pub(crate) fn check(steps: bool, args: &Args, handler: &Handler, errors: &mut Errors) {
    if !steps {
        if let Some(value) = args.value("definition") {
            errors.at(
                value,
                "`definition` is the version of a handler's steps: it needs `&mut Steps<DB, E>`",
            );
        }
        return;
    }
    if args.value("operation").is_none() {
        errors.at_span(
            Span::call_site(),
            "a handler with steps must name its operation, since the keys of its external steps depend on it: add \
             `operation = \"charges.create\"`, and never change it",
        );
    }
    let refused = |chosen: Option<crate::values::Choice>, variant| {
        chosen.is_some_and(|chosen| chosen.variant == variant)
    };
    if refused(args.key, "Optional") {
        errors.at(
            args.value("key"),
            "a handler with steps needs a key: without one nothing could be recovered; remove `key = \"optional\"`",
        );
    }
    if refused(args.expired, "Execute") {
        errors.at(
            args.value("expired"),
            "a handler with steps refuses expired keys, since the keys of its external steps depend on them: remove \
             `expired = \"execute\"`",
        );
    }
    if let Ok(block) = syn::parse2::<syn::Block>(handler.body.clone()) {
        let mut names = Names::default();
        names.visit_block(&block);
        for twice in names.twice {
            errors.at(
                &twice,
                format!(
                    "two steps are named `{}`: what is recorded of them can't be told apart; give one another name",
                    twice.value()
                ),
            );
        }
    }
}

/// The names that steps are written with. One place in a loop is one name: its turns are counted.
#[derive(Default)]
struct Names {
    seen: HashSet<String>,
    twice: Vec<LitStr>,
}

impl Visit<'_> for Names {
    fn visit_item(&mut self, _: &syn::Item) {}

    fn visit_expr_method_call(&mut self, call: &ExprMethodCall) {
        // In the order in which it is written.
        self.visit_expr(&call.receiver);
        let takes_name = match call.method.to_string().as_str() {
            "atomic" => call.args.len() == 2,
            "external" => call.args.len() == 3,
            _ => false,
        };
        if takes_name
            && let Some(Expr::Lit(ExprLit {
                lit: Lit::Str(name),
                ..
            })) = call.args.first()
            && !self.seen.insert(name.value())
        {
            self.twice.push(name.clone());
        }
        for argument in &call.args {
            self.visit_expr(argument);
        }
    }
}

//! One walk over a body. Closures and async blocks are part of it; functions and other items in it are not.

mod origins;

use quote::ToTokens;
use syn::{
    Block, Expr, ExprCall, ExprMethodCall, Ident, LitStr, Pat, PatType,
    visit::{self, Visit},
};

use super::{
    allowed,
    calls::{self, Call},
    handle::Handle,
    imports::{self, Imports},
    macros,
    names::{Names, Origin},
    queries, sealed, sql,
};
use crate::errors::Errors;

/// SQL that stands in the body.
pub(super) struct Sql {
    pub(super) literal: LitStr,
    /// Whether it can only be SQL, and not what some other API calls by the same words.
    pub(super) sure: bool,
}

/// What a walk finds.
#[derive(Default)]
pub(super) struct Found {
    /// What leaves the transaction.
    pub(super) errors: Errors,
    /// In the order in which it is written.
    pub(super) sql: Vec<Sql>,
}

/// Where the walk is, and what it knows there.
pub(super) struct Walk<'b> {
    block: &'b Block,
    names: Names,
    imports: Vec<Imports>,
    /// What is written through at this place.
    handle: Handle,
    /// How many of the statements around are allowed to leave the transaction.
    allowed: usize,
    found: Found,
}

impl<'b> Walk<'b> {
    pub(super) fn new(block: &'b Block) -> Self {
        Self {
            block,
            names: Names::new(),
            imports: Vec::new(),
            handle: Handle::Transaction("tx".to_owned()),
            allowed: 0,
            found: Found::default(),
        }
    }

    pub(super) fn take_handle(&mut self, name: &Ident, steps: bool) {
        let handle = if steps {
            Handle::Steps
        } else {
            Handle::Transaction
        };
        self.handle = handle(name.to_string());
        self.names.take_transaction(name, self.block);
    }

    pub(super) fn take_argument(&mut self, argument: &PatType) {
        self.names.take_argument(&argument.pat);
        if let Some(name) = sealed::name(argument) {
            self.names.take_sealed(name);
        }
    }

    /// Allows the whole body to leave the transaction.
    pub(super) fn allow(&mut self) {
        self.allowed += 1;
    }

    pub(super) fn over(mut self, block: &Block) -> Found {
        self.visit_block(block);
        self.found
    }

    fn report(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        if self.allowed == 0 {
            self.found.errors.at(tokens, message);
        }
    }

    fn path(&self, function: &Expr) -> Option<Vec<String>> {
        match function {
            Expr::Paren(inner) => self.path(&inner.expr),
            Expr::Path(path) => Some(imports::resolve(&path.path, &self.imports)),
            _ => None,
        }
    }

    /// A query that is run on something else than the transaction.
    fn check_run(&mut self, call: &ExprMethodCall) {
        let Some(argument) = call.args.first() else {
            return;
        };
        let runner = self.origin(&call.receiver);
        if runner == Origin::Query && self.origin(argument) == Origin::Outside {
            let runner = self.handle.runner();
            let message = format!("runs outside the transaction; pass {runner}");
            self.report(argument, message);
        }
        // `query` alone may be anybody's function, but not when what it makes is run on the transaction.
        if let Some(literal) = queries::of_bare_name(&call.receiver)
            && self.names.reaches_transaction(argument)
        {
            self.found.sql.push(Sql {
                literal,
                sure: true,
            });
        }
        let text = queries::literal(argument);
        let is_sql = |text: &LitStr| sql::is_sql(&text.value());
        let is_query = self.origin(argument) == Origin::Query
            || is_pool(&call.receiver) && text.as_ref().is_some_and(is_sql);
        if runner == Origin::Outside && is_query {
            let message = format!(
                "runs outside the transaction; use {}",
                self.handle.transaction()
            );
            self.report(&call.receiver, message);
        }
        if let Some(literal) = text.filter(is_sql) {
            let sure = runner == Origin::Transaction;
            self.found.sql.push(Sql { literal, sure });
        }
    }

    /// A method that is the client's, and not one of `External` itself or of a trait of the user's that is given the steps.
    fn check_sealed(&mut self, call: &ExprMethodCall) {
        if sealed::is_own_method(&call.method) || self.names.names_transaction(&call.args) {
            return;
        }
        let client = match &*call.receiver {
            Expr::Path(path) => path.to_token_stream().to_string(),
            _ => "client".to_owned(),
        };
        self.report(&call.method, self.handle.sealed(&client));
    }

    /// The closure of a savepoint or of an atomic step: it has a transaction of its own.
    fn bind_part(&mut self, part: &syn::ExprClosure) {
        let name = match part.inputs.first() {
            Some(Pat::Ident(name)) => name.ident.to_string(),
            _ => "tx".to_owned(),
        };
        let around = std::mem::replace(&mut self.handle, Handle::Transaction(name));
        self.bind_closure(part, Origin::Transaction);
        self.handle = around;
    }

    fn bind_closure(&mut self, closure: &syn::ExprClosure, origin: Origin) {
        self.names.enter();
        for input in &closure.inputs {
            self.names.bind(input, origin);
        }
        self.visit_expr(&closure.body);
        self.names.leave();
    }
}

/// Methods of a pool; `acquire` is one of semaphores too.
const BEGINS: [&str; 5] = [
    "begin",
    "begin_with",
    "try_acquire",
    "try_begin",
    "try_begin_with",
];

/// Methods of the handle that give their closure a transaction.
const TRANSACTIONS: [&str; 2] = ["savepoint", "atomic"];

/// Whether the place is called a pool, or the database.
fn is_pool(place: &Expr) -> bool {
    let name = match place {
        Expr::Paren(inner) => return is_pool(&inner.expr),
        Expr::Reference(inner) => return is_pool(&inner.expr),
        Expr::Unary(inner) => return is_pool(&inner.expr),
        Expr::Await(inner) => return is_pool(&inner.base),
        Expr::Try(inner) => return is_pool(&inner.expr),
        Expr::MethodCall(inner) if inner.method == "pool" => return true,
        Expr::MethodCall(inner) => return is_pool(&inner.receiver),
        Expr::Call(inner) => return is_pool(&inner.func),
        Expr::Path(path) => path.path.segments.last().map(|name| name.ident.to_string()),
        Expr::Field(field) => Some(field.member.to_token_stream().to_string()),
        _ => None,
    };
    name.is_some_and(|name| {
        let name = name.to_lowercase();
        name == "pool" || name.ends_with("_pool") || name == "db" || name == "database"
    })
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item(&mut self, _: &'ast syn::Item) {}

    fn visit_block(&mut self, block: &'ast Block) {
        self.names.enter();
        self.imports.push(Imports::of(block));
        visit::visit_block(self, block);
        self.imports.pop();
        self.names.leave();
    }

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        let allowed = allowed::of_statement(statement).iter().any(allowed::allows);
        self.allowed += usize::from(allowed);
        visit::visit_stmt(self, statement);
        self.allowed -= usize::from(allowed);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        let mut origin = Origin::Unknown;
        if let Some(init) = &local.init {
            self.visit_expr(&init.expr);
            origin = self.origin(&init.expr);
            if let Some((_, diverge)) = &init.diverge {
                self.visit_expr(diverge);
            }
        }
        self.names.bind(&local.pat, origin);
    }

    fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
        self.bind_closure(closure, Origin::Unknown);
    }

    fn visit_expr_if(&mut self, branch: &'ast syn::ExprIf) {
        self.names.enter();
        self.visit_expr(&branch.cond);
        self.visit_block(&branch.then_branch);
        self.names.leave();
        if let Some((_, otherwise)) = &branch.else_branch {
            self.visit_expr(otherwise);
        }
    }

    fn visit_expr_while(&mut self, turns: &'ast syn::ExprWhile) {
        self.names.enter();
        visit::visit_expr_while(self, turns);
        self.names.leave();
    }

    fn visit_expr_let(&mut self, condition: &'ast syn::ExprLet) {
        self.visit_expr(&condition.expr);
        let origin = self.origin(&condition.expr);
        self.names.bind(&condition.pat, origin);
    }

    fn visit_expr_match(&mut self, choice: &'ast syn::ExprMatch) {
        self.visit_expr(&choice.expr);
        let origin = self.origin(&choice.expr);
        for arm in &choice.arms {
            self.names.enter();
            self.names.bind(&arm.pat, origin);
            if let Some((_, guard)) = &arm.guard {
                self.visit_expr(guard);
            }
            self.visit_expr(&arm.body);
            self.names.leave();
        }
    }

    fn visit_expr_for_loop(&mut self, turns: &'ast syn::ExprForLoop) {
        self.visit_expr(&turns.expr);
        self.names.enter();
        self.names.bind(&turns.pat, Origin::Unknown);
        self.visit_block(&turns.body);
        self.names.leave();
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if let Some(path) = self.path(&call.func) {
            if queries::is_query(&path, call)
                && let Some(literal) = call.args.first().and_then(queries::literal)
            {
                let sure = path.len() > 1;
                self.found.sql.push(Sql { literal, sure });
            }
            match calls::call(&path, &call.args) {
                None | Some(Call::Spawner) => {}
                Some(Call::Spawn) => self.report(&call.func, Call::Spawn.message(&self.handle)),
                // It may be some other function of the name.
                Some(_) if self.names.reaches_transaction(&call.args) && path.len() < 3 => {}
                Some(known) => self.report(&call.func, known.message(&self.handle)),
            }
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let receiver = self.origin(&call.receiver);
        let method = call.method.to_string();
        if queries::runs(&call.method) {
            self.check_run(call);
        } else if receiver == Origin::Spawner && method.starts_with("spawn") {
            self.report(&call.method, Call::Spawn.message(&self.handle));
        } else if receiver == Origin::FileOptions && calls::opens_for_writing(call) {
            self.report(&call.method, Call::Disk.message(&self.handle));
        } else if receiver == Origin::Outside
            && BEGINS.contains(&method.as_str())
            && is_pool(&call.receiver)
        {
            let (transaction, part) = (self.handle.transaction(), self.handle.part());
            let message = format!("goes outside the transaction; use {transaction}{part}");
            self.report(&call.method, message);
        } else if receiver == Origin::Sealed {
            self.check_sealed(call);
        }
        self.visit_expr(&call.receiver);
        for argument in &call.args {
            match argument {
                Expr::Closure(part)
                    if receiver == Origin::Transaction
                        && TRANSACTIONS.contains(&method.as_str()) =>
                {
                    self.bind_part(part);
                }
                argument => self.visit_expr(argument),
            }
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if queries::is_query_macro(call) {
            let literal = queries::literal_of_macro(call);
            self.found.sql.extend(literal.map(|literal| Sql {
                literal,
                sure: true,
            }));
        }
        for expression in macros::expressions(call) {
            self.visit_expr(&expression);
        }
    }
}

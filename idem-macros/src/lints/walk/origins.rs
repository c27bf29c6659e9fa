//! Where the value of an expression comes from.

use syn::{Expr, ExprCall, ExprMethodCall};

use super::{
    super::{
        calls::{self, Call},
        names::{self, Origin},
        queries, sealed,
    },
    Walk,
};

impl Walk<'_> {
    /// Where a value comes from.
    pub(super) fn origin(&self, expression: &Expr) -> Origin {
        match expression {
            Expr::Lit(_) => Origin::Outside,
            Expr::Paren(inner) => self.origin(&inner.expr),
            Expr::Group(inner) => self.origin(&inner.expr),
            Expr::Reference(inner) => self.origin(&inner.expr),
            Expr::Unary(inner) => self.origin(&inner.expr),
            Expr::Path(path) => self.origin_of_path(path),
            // The one field of the `State` or the `External` around it.
            Expr::Field(inner) if self.origin(&inner.base) == Origin::Sealed => Origin::Sealed,
            Expr::Field(inner) => only_outside(self.origin(&inner.base)),
            Expr::Index(inner) => only_outside(self.origin(&inner.expr)),
            Expr::Await(inner) => only_outside(self.origin(&inner.base)),
            Expr::Try(inner) => match self.origin(&inner.expr) {
                Origin::Spawner => Origin::Spawner,
                origin => only_outside(origin),
            },
            Expr::Cast(inner) => only_outside(self.origin(&inner.expr)),
            Expr::MethodCall(call) => self.origin_of_method(call),
            Expr::Call(call) => self.origin_of_call(call),
            Expr::Macro(call) if queries::is_query_macro(&call.mac) => Origin::Query,
            _ => Origin::Unknown,
        }
    }

    fn origin_of_path(&self, path: &syn::ExprPath) -> Origin {
        let known = path
            .path
            .get_ident()
            .and_then(|name| self.names.get(&name.to_string()));
        let is_static = || {
            path.path
                .segments
                .last()
                .is_some_and(|name| names::is_static(&name.ident.to_string()))
        };
        match known {
            Some(origin) => origin,
            None if is_static() => Origin::Outside,
            None => Origin::Unknown,
        }
    }

    fn origin_of_method(&self, call: &ExprMethodCall) -> Origin {
        match self.origin(&call.receiver) {
            Origin::Query if queries::runs(&call.method) => Origin::Unknown,
            Origin::Query => Origin::Query,
            origin @ (Origin::Spawner | Origin::FileOptions) => origin,
            Origin::Sealed if sealed::is_copy(&call.method) => Origin::Sealed,
            Origin::Transaction if call.method == "as_mut" || call.method == "deref_mut" => {
                Origin::Transaction
            }
            Origin::Outside if !self.names.reaches_transaction(&call.args) => Origin::Outside,
            _ => Origin::Unknown,
        }
    }

    fn origin_of_call(&self, call: &ExprCall) -> Origin {
        let Some(path) = self.path(&call.func) else {
            return Origin::Unknown;
        };
        if queries::is_query(&path, call) {
            return Origin::Query;
        }
        if calls::call(&path, &call.args) == Some(Call::Spawner) {
            return Origin::Spawner;
        }
        if calls::begins_file_options(&path) {
            return Origin::FileOptions;
        }
        // A local closure may have captured the transaction.
        let is_local = path.len() == 1 && self.names.get(&path[0]).is_some();
        if is_local || self.names.reaches_transaction(&call.args) {
            Origin::Unknown
        } else {
            Origin::Outside
        }
    }
}

/// What a part of a value is, or what it gives.
fn only_outside(origin: Origin) -> Origin {
    match origin {
        Origin::Outside => Origin::Outside,
        _ => Origin::Unknown,
    }
}

//! Where the values that a body names come from.

use std::collections::{HashMap, HashSet};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{
    Block, Expr, Ident, Pat,
    visit::{self, Visit},
};

/// What a value can be, by where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The handler's transaction, or a reborrow of it.
    Transaction,
    /// Of another argument, of a static, or of a function that is given neither the transaction nor anything unknown:
    /// whatever it is, it is not the transaction.
    Outside,
    /// An sqlx query that is not run yet.
    Query,
    /// What starts tasks or threads.
    Spawner,
    /// Options by which a file is opened.
    FileOptions,
    /// A client that only an external step opens.
    Sealed,
    /// Anything.
    Unknown,
}

/// The names in sight, innermost scope last.
pub(super) struct Names {
    scopes: Vec<HashMap<String, Origin>>,
    /// Locals that stand beside the transaction in some expression: they may hold it by then.
    met: HashSet<String>,
}

impl Names {
    pub(super) fn new() -> Self {
        Self {
            scopes: vec![HashMap::new()],
            met: HashSet::new(),
        }
    }

    pub(super) fn take_transaction(&mut self, name: &Ident, block: &Block) {
        self.insert(name, Origin::Transaction);
        self.met = Met::beside(name, block);
    }

    /// An argument is `'static`, so that it can't come to hold the transaction.
    pub(super) fn take_argument(&mut self, pattern: &Pat) {
        for name in bound(pattern) {
            self.insert(&name, Origin::Outside);
        }
    }

    /// An argument that is an `External`.
    pub(super) fn take_sealed(&mut self, name: &Ident) {
        self.insert(name, Origin::Sealed);
    }

    pub(super) fn enter(&mut self) {
        self.scopes.push(HashMap::new());
    }

    pub(super) fn leave(&mut self) {
        self.scopes.pop();
    }

    pub(super) fn get(&self, name: &str) -> Option<Origin> {
        self.scopes
            .iter()
            .rev()
            .find_map(|scope| scope.get(name))
            .copied()
    }

    /// Binds a pattern to what a value of this origin gives it.
    pub(super) fn bind(&mut self, pattern: &Pat, origin: Origin) {
        let whole = matches!(unwrapped(pattern), Pat::Ident(name) if name.subpat.is_none());
        for name in bound(pattern) {
            let origin = match origin {
                Origin::Outside if self.met.contains(&name.to_string()) => Origin::Unknown,
                Origin::Outside => Origin::Outside,
                origin if whole => origin,
                _ => Origin::Unknown,
            };
            self.insert(&name, origin);
        }
    }

    /// Whether the tokens name something that is, or may be, the transaction.
    pub(super) fn reaches_transaction(&self, tokens: &impl ToTokens) -> bool {
        words(tokens)
            .iter()
            .any(|word| matches!(self.get(word), Some(Origin::Transaction | Origin::Unknown)))
    }

    /// Whether the tokens name the transaction, for all that is known.
    pub(super) fn names_transaction(&self, tokens: &impl ToTokens) -> bool {
        words(tokens)
            .iter()
            .any(|word| self.get(word) == Some(Origin::Transaction))
    }

    fn insert(&mut self, name: &Ident, origin: Origin) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_string(), origin);
        }
    }
}

fn unwrapped(pattern: &Pat) -> &Pat {
    match pattern {
        Pat::Type(typed) => unwrapped(&typed.pat),
        Pat::Paren(inner) => unwrapped(&inner.pat),
        pattern => pattern,
    }
}

/// The names that a pattern binds.
fn bound(pattern: &Pat) -> Vec<Ident> {
    struct Bound(Vec<Ident>);
    impl Visit<'_> for Bound {
        fn visit_pat_ident(&mut self, pattern: &syn::PatIdent) {
            self.0.push(pattern.ident.clone());
            visit::visit_pat_ident(self, pattern);
        }
    }
    let mut bound = Bound(Vec::new());
    bound.visit_pat(pattern);
    bound.0
}

/// `POOL`, as a static is written.
pub(super) fn is_static(name: &str) -> bool {
    name.len() > 1
        && name.starts_with(|first: char| first.is_ascii_uppercase())
        && name
            .chars()
            .all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_')
}

/// Whether a word stands anywhere in the tokens.
pub(super) fn mentions(tokens: &impl ToTokens, word: &str) -> bool {
    words(tokens).contains(word)
}

fn words(tokens: &impl ToTokens) -> HashSet<String> {
    fn collect(tokens: TokenStream, found: &mut HashSet<String>) {
        for token in tokens {
            match token {
                TokenTree::Ident(word) => {
                    found.insert(word.to_string());
                }
                TokenTree::Group(group) => collect(group.stream(), found),
                _ => {}
            }
        }
    }
    let mut found = HashSet::new();
    collect(tokens.to_token_stream(), &mut found);
    found
}

/// Collects the names that stand in one expression with the transaction, or with what was made of it.
struct Met {
    carriers: HashSet<String>,
    met: HashSet<String>,
}

impl Met {
    fn beside(transaction: &Ident, block: &Block) -> HashSet<String> {
        let mut found = Met {
            carriers: HashSet::from([transaction.to_string()]),
            met: HashSet::new(),
        };
        // What is made of what is made of it, until nothing new is found.
        loop {
            let before = (found.carriers.len(), found.met.len());
            found.visit_block(block);
            if before == (found.carriers.len(), found.met.len()) {
                return found.met;
            }
        }
    }

    fn meet(&mut self, tokens: &impl ToTokens) {
        let words = words(tokens);
        if !words.is_disjoint(&self.carriers) {
            self.met.extend(words);
        }
    }
}

impl<'ast> Visit<'ast> for Met {
    fn visit_local(&mut self, local: &'ast syn::Local) {
        if let Some(init) = &local.init
            && !words(init.expr.as_ref()).is_disjoint(&self.carriers)
        {
            let bound = bound(&local.pat);
            self.carriers.extend(bound.iter().map(ToString::to_string));
        }
        visit::visit_local(self, local);
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        if let Expr::MethodCall(_)
        | Expr::Call(_)
        | Expr::Assign(_)
        | Expr::Struct(_)
        | Expr::Macro(_) = expression
        {
            self.meet(expression);
        }
        visit::visit_expr(self, expression);
    }
}

//! What a router remembers of each of its routes.

use std::fmt;

use super::check::Limits;
use super::declared::{Declaration, RepeatSafe};
use crate::operation::Spec;

/// What a repeat of a route's request does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Does {
    /// It gets the first answer.
    Idempotent(&'static Spec),
    /// It is harmless.
    ByDesign(RepeatSafe),
    /// It reads again.
    Reads,
}

/// A function that is routed to.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Its path, for people.
    pub(super) path: &'static str,
    /// What tells it from every other: two functions of one module can have one path, in two `impl`s.
    pub(super) identity: &'static str,
    pub(super) does: Does,
}

impl Function {
    pub(super) fn by_design<D: Declaration>() -> Self {
        Self {
            path: D::DECLARED.function,
            identity: std::any::type_name::<D>(),
            does: Does::ByDesign(D::DECLARED),
        }
    }

    pub(super) fn that_reads<H>() -> Self {
        let name = std::any::type_name::<H>();
        Self {
            path: name,
            identity: name,
            does: Does::Reads,
        }
    }

    /// A router of axum's, that can't be looked into.
    pub(super) fn of_axum() -> Self {
        Self {
            path: "axum::Router",
            identity: "axum::Router",
            does: Does::Reads,
        }
    }

    /// The operation's name. What reads has none.
    pub(super) fn operation(&self) -> Option<&'static str> {
        match &self.does {
            Does::Idempotent(spec) => Some(spec.name),
            Does::ByDesign(declared) => Some(declared.name),
            Does::Reads => None,
        }
    }

    /// A generic function stays itself whatever its types are.
    pub(super) fn is_the_same_as(&self, other: &Function) -> bool {
        let named = |function: &Function| without_generics(function.identity);
        self.path == other.path && named(self) == named(other)
    }
}

/// The name of a type without what it is generic over.
fn without_generics(name: &str) -> String {
    let mut depth = 0_u32;
    name.chars()
        .filter(|&letter| {
            depth += u32::from(letter == '<');
            let kept = depth == 0;
            depth -= u32::from(letter == '>' && depth > 0);
            kept
        })
        .collect()
}

/// Finds the limits of an operation in a router's state.
type Resolve<S> = fn(&S, &Spec) -> Option<Limits>;

/// A function on a route.
pub(super) struct Listed<S> {
    /// As the report names it: one method, or what stands for several.
    pub(super) method: &'static str,
    pub(super) route: String,
    pub(super) function: Function,
    resolve: Option<Resolve<S>>,
    pub(super) limits: Option<Limits>,
}

impl<S> Listed<S> {
    /// Not on a route yet.
    pub(super) fn new(method: &'static str, function: Function) -> Self {
        Self {
            method,
            route: String::new(),
            function,
            resolve: None,
            limits: None,
        }
    }

    pub(super) fn resolved_by(mut self, resolve: Resolve<S>) -> Self {
        self.resolve = Some(resolve);
        self
    }

    pub(super) fn at(mut self, route: &str) -> Self {
        route.clone_into(&mut self.route);
        self
    }

    /// As axum joins paths.
    pub(super) fn below(mut self, prefix: &str) -> Self {
        self.route = if self.route == "/" {
            prefix.to_owned()
        } else {
            format!("{}{}", prefix.trim_end_matches('/'), self.route)
        };
        self
    }

    /// What the state says stays when the state is gone.
    pub(super) fn with_state<S2>(self, state: &S) -> Listed<S2> {
        let limits = match (self.resolve, &self.function.does) {
            (Some(resolve), Does::Idempotent(spec)) => resolve(state, spec),
            _ => self.limits,
        };
        Listed {
            method: self.method,
            route: self.route,
            function: self.function,
            resolve: None,
            limits,
        }
    }
}

impl<S> Clone for Listed<S> {
    fn clone(&self) -> Self {
        Self {
            route: self.route.clone(),
            ..*self
        }
    }
}

impl<S> fmt::Debug for Listed<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.method, self.route, self.function.path)
    }
}

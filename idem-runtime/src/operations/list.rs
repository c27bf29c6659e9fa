//! Which operations are listed.

use std::time::Duration;

use super::{OperationId, OperationState, OperationSummary};
use crate::backend::State;
use crate::backend::operations::Filter;
use crate::scope::{Scope, ScopeKey};

/// Which operations to list. Made by [`List::all`].
#[derive(Clone, Debug)]
#[must_use]
pub struct List {
    operation: Option<String>,
    scope: Option<ScopeKey>,
    state: Option<OperationState>,
    older_than: Duration,
    after: Option<(i64, OperationId)>,
    limit: u32,
}

impl List {
    /// All, a hundred at once.
    pub fn all() -> Self {
        Self {
            operation: None,
            scope: None,
            state: None,
            older_than: Duration::ZERO,
            after: None,
            limit: 100,
        }
    }

    /// Those of one operation, by its name.
    pub fn operation(mut self, name: impl Into<String>) -> Self {
        self.operation = Some(name.into());
        self
    }

    /// Those of one owner.
    pub fn scope(mut self, owner: &(impl Scope + ?Sized)) -> Self {
        self.scope = Some(ScopeKey::of(owner));
        self
    }

    /// Those in one state.
    pub fn state(mut self, state: OperationState) -> Self {
        self.state = Some(state);
        self
    }

    /// Those that began so long ago, or longer.
    pub fn older_than(mut self, age: Duration) -> Self {
        self.older_than = age;
        self
    }

    /// Those that follow one of the page before.
    pub fn after(mut self, last: &OperationSummary) -> Self {
        self.after = Some((last.created_at, last.id));
        self
    }

    /// At most so many.
    pub fn limit(mut self, operations: u32) -> Self {
        self.limit = operations.max(1);
        self
    }

    /// As the store is asked.
    pub(super) fn filter(&self) -> Filter<'_> {
        Filter {
            operation: self.operation.as_deref(),
            scope: self.scope.as_ref().map(ScopeKey::as_str),
            state: self.state.map(|state| match state {
                OperationState::Started => State::Started,
                OperationState::Unknown => State::Unknown,
            }),
            older_than: self.older_than,
            after: self.after.map(|(at, id)| (at, id.record())),
            limit: self.limit,
        }
    }
}

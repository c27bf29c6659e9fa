//! What an external step says of its service.

use std::ops::AsyncFnOnce;
use std::time::Duration;

use crate::steps::{DownstreamKey, Reconciled};

/// What an external step that was refused for the moment does: [`Retry::times`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    pub(super) times: u32,
    pub(super) pause: Duration,
}

impl Retry {
    /// Calls again at most so often, after 200 milliseconds and then twice as long each time, each 50 to 100 % of it.
    #[must_use]
    pub const fn times(times: u32) -> Self {
        Self {
            times,
            pause: Duration::from_millis(200),
        }
    }

    /// The pause before the first repeat.
    #[must_use]
    pub const fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }
}

/// Marks a step that does not say what follows a lost answer.
#[derive(Debug)]
pub enum Undeclared {}
/// Marks one that does.
#[derive(Debug)]
pub enum Declared {}

/// Nothing is declared yet.
pub trait Missing {}
impl Missing for Undeclared {}

/// What follows a lost answer is declared.
#[diagnostic::on_unimplemented(
    message = "this external step does not say what follows a lost answer",
    label = "add `.key_lifetime(..)`, `.reconcile(..)` or `.at_most_once()` before `.call(..)`",
    note = "`key_lifetime`: the service honours the key for so long, and calling again with it is safe",
    note = "`reconcile`: the service can be asked whether the call took place",
    note = "`at_most_once`: neither; after a lost answer the operation is kept as unknown"
)]
pub trait Policy {}
impl Policy for Declared {}

/// No `reconcile`.
#[derive(Clone, Copy, Debug)]
pub struct NoReconcile;
/// With `reconcile`.
#[derive(Clone, Copy, Debug)]
pub struct With<F>(pub(super) F);

/// How a step asks its provider, if it can.
pub trait Reconcile<C: ?Sized, T, X> {
    /// `None`: it can't ask.
    fn ask(
        &self,
        client: &C,
        key: &DownstreamKey,
    ) -> impl Future<Output = Option<Result<Reconciled<T>, X>>>;
}

impl<C: ?Sized, T, X> Reconcile<C, T, X> for NoReconcile {
    async fn ask(&self, _: &C, _: &DownstreamKey) -> Option<Result<Reconciled<T>, X>> {
        None
    }
}

impl<C: ?Sized, T, X, F> Reconcile<C, T, X> for With<F>
where
    F: AsyncFnOnce(&C, &DownstreamKey) -> Result<Reconciled<T>, X> + Clone,
{
    async fn ask(&self, client: &C, key: &DownstreamKey) -> Option<Result<Reconciled<T>, X>> {
        Some(self.0.clone()(client, key).await)
    }
}

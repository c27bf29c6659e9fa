//! What may run again.

/// A part of a handler that may run more than once. Every closure that changes nothing around it, and moves nothing out of
/// it, is one: those that can be cloned.
#[diagnostic::on_unimplemented(
    message = "this step changes what is around it, or moves it away, and a step may run again",
    label = "compute it inside, and return it as the step's result",
    note = "what the step needs it can borrow, or take as a clone; what comes out of it is what is recorded"
)]
pub trait RunsAgain: Clone {}

#[diagnostic::do_not_recommend]
impl<T: Clone> RunsAgain for T {}

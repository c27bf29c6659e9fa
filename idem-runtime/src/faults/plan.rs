//! One attempt that is lost on purpose, in a process that goes on: what `testing::Crashes` runs handlers under.
//!
//! A process that is killed writes nothing more, and its transactions are rolled back. So does an attempt here: at its
//! point it unwinds, and again at each later one, should something have caught it. A point precedes whatever the framework
//! writes and each call of another service, so that neither happens after the loss.

use std::any::Any;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::Either;
use tokio::task::futures::TaskLocalFuture;

/// Passed when a timer says so, and thus not at the same place of two runs. The process has changed nothing since the point
/// before, at which it is lost too.
const BY_TIMER: &str = "renew";

tokio::task_local! {
    static PLAN: Plan;
}

/// Where an attempt is lost, and what it passed before.
#[derive(Clone, Debug)]
pub(crate) struct Plan(Arc<Mutex<Progress>>);

#[derive(Debug)]
struct Progress {
    passed: Vec<&'static str>,
    /// Counted from 1.
    lost_at: Option<usize>,
    lost: Option<&'static str>,
}

/// What an attempt unwinds with.
struct Lost;

impl Plan {
    /// The attempt is lost at a point, counted from 1; `None`: it is only watched.
    pub(crate) fn new(lost_at: Option<usize>) -> Self {
        Self(Arc::new(Mutex::new(Progress {
            passed: Vec::new(),
            lost_at,
            lost: None,
        })))
    }

    /// Runs a request under the plan.
    pub(crate) fn scope<F: Future>(&self, request: F) -> TaskLocalFuture<Plan, F> {
        PLAN.scope(self.clone(), request)
    }

    /// The points that were passed, in their order.
    pub(crate) fn passed(&self) -> Vec<&'static str> {
        self.progress().passed.clone()
    }

    /// The point at which the attempt was lost, once it was.
    pub(crate) fn lost(&self) -> Option<&'static str> {
        self.progress().lost
    }

    /// Whether the attempt ends at this point.
    fn pass(&self, name: &'static str) -> bool {
        let mut progress = self.progress();
        if progress.lost.is_some() {
            return true;
        }
        if name == BY_TIMER {
            return false;
        }
        progress.passed.push(name);
        if progress.lost_at == Some(progress.passed.len()) {
            progress.lost = Some(name);
        }
        progress.lost.is_some()
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The attempt ends here, when this is the point that its plan counts to, or a later one.
pub(super) fn point(name: &'static str) {
    // A destructor that runs while the attempt unwinds: a second panic would end the process.
    if std::thread::panicking() {
        return;
    }
    if PLAN.try_with(|plan| plan.pass(name)).unwrap_or(false) {
        // Not `panic!`: nobody wants to read of it.
        resume_unwind(Box::new(Lost));
    }
}

/// Lets the loss of an attempt through where a panic of its handler ends.
pub(crate) fn let_through(panic: Box<dyn Any + Send>) {
    if panic.is::<Lost>() {
        resume_unwind(panic);
    }
}

/// Keeps the present plan, if there is one, with a future that may become a task of its own.
pub(crate) fn carried<F: Future>(future: F) -> Either<TaskLocalFuture<Plan, F>, F> {
    match PLAN.try_with(Plan::clone) {
        Ok(plan) => Either::Left(PLAN.scope(plan, future)),
        Err(_) => Either::Right(future),
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use futures_util::FutureExt;
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::detach::Detached;

    #[tokio::test]
    async fn what_is_lost_stays_lost_whoever_catches_it() {
        let plan = Plan::new(Some(2));
        let attempt = plan.scope(async {
            point("first");
            point(BY_TIMER);
            assert!(catch_unwind(|| point("second")).is_err());
            assert!(catch_unwind(|| point(BY_TIMER)).is_err());
            point("third");
        });
        let ended = AssertUnwindSafe(attempt).catch_unwind().await;
        assert!(ended.is_err_and(|panic| panic.is::<Lost>()));
        assert_eq!(plan.passed(), ["first", "second"]);
        assert_eq!(plan.lost(), Some("second"));
    }

    #[tokio::test]
    async fn a_plan_follows_an_attempt_into_a_task_of_its_own() {
        let (plan, tasks) = (Plan::new(Some(2)), TaskTracker::new());
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        plan.scope(async {
            let mut attempt = Detached::new(&tasks, async {
                point("first");
                gone.await.expect("it is sent");
                point("second");
                point("never");
            });
            assert!(futures_util::poll!(&mut attempt).is_pending());
        })
        .await;
        assert_eq!((plan.lost(), tasks.len()), (None, 1));
        go.send(()).expect("it is waited for");
        tasks.close();
        tasks.wait().await;
        assert_eq!(plan.lost(), Some("second"));
        assert_eq!(plan.passed(), ["first", "second"]);
    }

    #[test]
    fn without_a_plan_a_point_is_nothing_and_a_panic_is_a_panic() {
        point("anywhere");
        let panic = catch_unwind(|| panic!("on purpose")).expect_err("it panics");
        let_through(panic);
    }

    #[tokio::test]
    async fn a_destructor_that_passes_a_point_does_not_end_the_process() {
        struct Passing;
        impl Drop for Passing {
            fn drop(&mut self) {
                point("in a destructor");
            }
        }
        let plan = Plan::new(Some(1));
        let attempt = plan.scope(async {
            let _passing = Passing;
            point("first");
        });
        assert!(AssertUnwindSafe(attempt).catch_unwind().await.is_err());
        assert_eq!(plan.passed(), ["first"]);
    }
}

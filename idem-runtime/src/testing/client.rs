//! The client of a contract test: it sends to instances in turn, loses answers, and asks again.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::Request;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout, timeout_at};
use tower_service::Service;

use super::answer::Answer;
use super::violation::{Phase, Violation};
use crate::faults::Plan;

/// Makes the request with a key.
pub(super) type MakeRequest = Box<dyn Fn(&str) -> Request<Body>>;

/// The longest pause before a request that was put off is sent again, whatever `Retry-After` says: a
/// test is no load.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Sends requests, within one phase.
pub(super) struct Client<'t> {
    pub(super) instances: &'t [Router],
    pub(super) phase: Phase,
    pub(super) patience: Duration,
    /// The instance whose turn it is.
    next: usize,
    pub(super) sent: u64,
}

impl<'t> Client<'t> {
    pub(super) fn new(instances: &'t [Router], phase: Phase, patience: Duration) -> Client<'t> {
        Client {
            instances,
            phase,
            patience,
            next: 0,
            sent: 0,
        }
    }

    /// Sends one request, to another instance than the last.
    pub(super) async fn send(&mut self, request: Request<Body>) -> Result<Answer, Violation> {
        let answer = answer(self.instance(), request);
        // In a task of its own, as a server runs it: a panic ends the connection and not the test.
        let task = tokio::spawn(timeout(self.patience, answer));
        self.received(task.await)
    }

    /// Sends requests at once, each to the next instance.
    pub(super) async fn send_at_once(
        &mut self,
        requests: impl IntoIterator<Item = Request<Body>>,
    ) -> Result<Vec<Answer>, Violation> {
        let mut tasks = JoinSet::new();
        for request in requests {
            tasks.spawn(timeout(self.patience, answer(self.instance(), request)));
        }
        let mut answers = Vec::new();
        while let Some(joined) = tasks.join_next().await {
            answers.push(self.received(joined)?);
        }
        Ok(answers)
    }

    /// Sends one request and drops its answer's future after some polls, as a server does when the client
    /// goes away. Whether an answer was there before, nobody reads it.
    pub(super) async fn send_and_lose(
        &mut self,
        request: Request<Body>,
        polls: u32,
    ) -> Result<(), Violation> {
        let mut router = self.instance();
        let lost = async move {
            let mut answer = pin!(router.call(request));
            let mut left = polls;
            poll_fn(|context| match answer.as_mut().poll(context) {
                Poll::Pending if left > 1 => {
                    left -= 1;
                    Poll::Pending
                }
                _ => Poll::Ready(()),
            })
            .await;
        };
        let task = tokio::spawn(timeout(self.patience, lost));
        match task.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.no_answer(None)),
            Err(error) => Err(self.panicked(error)),
        }
    }

    /// Sends one request under a plan. `None`: the attempt was lost, and so is its answer, if somebody made one up for it.
    pub(super) async fn send_planned(
        &mut self,
        request: Request<Body>,
        plan: &Plan,
    ) -> Result<Option<Answer>, Violation> {
        let answer = plan.scope(answer(self.instance(), request));
        let joined = tokio::spawn(timeout(self.patience, answer)).await;
        match plan.lost() {
            Some(_) => Ok(None),
            None => self.received(joined).map(Some),
        }
    }

    /// Sends a request again until it is not put off.
    pub(super) async fn send_until_answered(
        &mut self,
        request: impl Fn() -> Request<Body>,
    ) -> Result<Answer, Violation> {
        let limit = Instant::now() + self.patience;
        loop {
            let answer = self.send(request()).await?;
            if !answer.puts_off() {
                return Ok(answer);
            }
            if !answer.has_retry_after() {
                return Err(Violation::NoRetryAfter {
                    phase: self.phase,
                    answer: Box::new(answer),
                });
            }
            let pause = timeout_at(limit, tokio::time::sleep(ASK_AGAIN));
            if pause.await.is_err() {
                return Err(self.no_answer(Some(&answer)));
            }
        }
    }

    fn instance(&mut self) -> Router {
        self.sent += 1;
        self.next = (self.next + 1) % self.instances.len();
        self.instances[self.next].clone()
    }

    fn received(
        &self,
        joined: Result<Result<Result<Answer, String>, tokio::time::error::Elapsed>, JoinError>,
    ) -> Result<Answer, Violation> {
        match joined {
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Ok(Err(message))) => Err(Violation::Broken {
                phase: self.phase,
                message,
            }),
            Ok(Err(_)) => Err(self.no_answer(None)),
            Err(error) => Err(self.panicked(error)),
        }
    }

    fn no_answer(&self, last: Option<&Answer>) -> Violation {
        Violation::NoAnswer {
            phase: self.phase,
            patience: self.patience,
            last: last.map_or("none".to_owned(), Answer::to_string),
        }
    }

    fn panicked(&self, error: JoinError) -> Violation {
        Violation::Broken {
            phase: self.phase,
            message: error.to_string(),
        }
    }
}

async fn answer(mut router: Router, request: Request<Body>) -> Result<Answer, String> {
    let response: Response = match router.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    Answer::read(response).await
}

//! One key's way from its first request to its end.

use std::time::{Duration, Instant};

use axum::http::{HeaderName, HeaderValue};
use bytes::Bytes;
use fastrand::Rng;
use futures_util::future::join_all;

use super::plan::{Course, KeyPlan};
use super::request::Filled;
use super::retry::{Advice, advice};
use super::sender::{Got, Reading};
use super::{End, Hammer, Unusable};
use crate::http::Answer;

/// Within what disconnects come before anything is known of the service.
const UNKNOWN_MEDIAN: Duration = Duration::from_millis(10);

/// A key under way.
pub(super) struct Journey<'a> {
    hammer: &'a Hammer,
    plan: KeyPlan,
    request: Filled,
    /// The first answer with success.
    success: Option<Answer>,
    /// Whether every request was answered with a replay: some other run had the key.
    only_replays: bool,
}

/// How one client's tries ended, and with which answer.
struct Tried {
    end: End,
    answer: Option<Answer>,
    /// Whether its first request got that answer.
    at_once: bool,
}

impl<'a> Journey<'a> {
    pub(super) fn new(hammer: &'a Hammer, number: u64) -> Result<Journey<'a>, Unusable> {
        let plan = hammer.settings.plan.key(number);
        Ok(Journey {
            request: hammer.settings.request.fill(&plan)?,
            hammer,
            plan,
            success: None,
            only_replays: true,
        })
    }

    /// Goes the whole way.
    pub(super) async fn run(mut self) {
        let line = self.plan.sometimes;
        let mut line = line.and_then(|line| self.hammer.settings.sometimes.get(line));
        let mut rng = self.plan.chance.clone();
        let end = match self.plan.course.clone() {
            Course::Together(copies) => self.together(copies, line, &mut rng).await,
            course => {
                for reading in self.interruptions(&course) {
                    self.only_replays = false;
                    let body = &self.request.body;
                    // One that was fast enough to get its answer ignores it, too.
                    let _ = self.send(body, line.take(), reading).await;
                }
                let tried = self.pursue(line, &mut rng).await;
                self.observe(tried)
            }
        };
        if end == End::Succeeded {
            self.afterwards(&mut rng).await;
        }
        self.ended(end);
    }

    /// Goes on with a key that was given up. A client would do so at its next start.
    pub(super) async fn resolve(mut self) {
        self.only_replays = false;
        let mut rng = self.plan.chance.fork();
        let tried = self.pursue(None, &mut rng).await;
        let end = self.observe(tried);
        if end != End::Open {
            self.hammer.tally().late += 1;
        }
        self.ended(end);
    }

    fn ended(&self, end: End) {
        let mut tally = self.hammer.tally();
        tally.set_end(self.plan.number, end);
        if end == End::Succeeded && self.only_replays {
            tally.used_before += 1;
        }
    }

    /// Requests whose answers do not reach the client, before the one that does.
    fn interruptions(&self, course: &Course) -> Vec<Reading> {
        match course {
            Course::LostAnswers(times) => vec![Reading::Nothing; (*times).into()],
            Course::Disconnects(moments) => {
                let within = self.hammer.disconnect_within();
                let at = |moment: &f64| Reading::For(within.mul_f64(*moment));
                moments.iter().map(at).collect()
            }
            _ => Vec::new(),
        }
    }

    async fn together(
        &mut self,
        copies: u8,
        line: Option<&(HeaderName, HeaderValue)>,
        rng: &mut Rng,
    ) -> End {
        let mut rngs: Vec<Rng> = (0..copies).map(|_| rng.fork()).collect();
        let this = &*self;
        let copies = rngs.iter_mut().enumerate();
        let tries = copies.map(|(copy, rng)| this.pursue(line.filter(|_| copy == 0), rng));
        let tries = join_all(tries).await;
        let ends: Vec<End> = tries.into_iter().map(|tried| self.observe(tried)).collect();
        let by_weight = [End::Succeeded, End::Unknown, End::Open];
        let end = by_weight.into_iter().find(|end| ends.contains(end));
        // One may be refused and let the key go, and another succeed.
        end.unwrap_or(End::Refused)
    }

    /// What follows a success.
    async fn afterwards(&mut self, rng: &mut Rng) {
        let again = match self.plan.course {
            Course::Replays(times) => times,
            Course::ChangedBody => {
                self.change(rng).await;
                1
            }
            _ => 0,
        };
        for _ in 0..again {
            let tried = self.pursue(None, rng).await;
            let status = tried.answer.as_ref().map_or(0, |answer| answer.status);
            // Asked to try again until the end: it says nothing.
            if matches!(self.observe(tried), End::Refused | End::Unknown) {
                self.fault(format!("answered with success, and then with {status}"));
            }
        }
    }

    /// The same key with another body.
    async fn change(&mut self, rng: &mut Rng) {
        self.hammer.tally().requests.changed += 1;
        let body = self.request.changed.clone();
        let tried = self.try_until_it_ends(&body, None, rng).await;
        let Some(answer) = tried.answer.filter(|_| tried.end != End::Open) else {
            return;
        };
        let code = answer.code();
        let refused = answer.status == self.hammer.settings.mismatch_status
            && code
                .as_deref()
                .is_none_or(|code| code == "idempotency-key-reused");
        if !refused {
            let code = code.unwrap_or_default();
            self.fault(format!(
                "a changed body was answered with {} {code}",
                answer.status
            ));
        }
    }

    async fn pursue(&self, line: Option<&(HeaderName, HeaderValue)>, rng: &mut Rng) -> Tried {
        self.try_until_it_ends(&self.request.body, line, rng).await
    }

    async fn try_until_it_ends(
        &self,
        body: &Bytes,
        mut line: Option<&(HeaderName, HeaderValue)>,
        rng: &mut Rng,
    ) -> Tried {
        let patience = self.hammer.settings.patience;
        let start = Instant::now();
        for attempt in 0.. {
            let mut at_least = Duration::ZERO;
            let answered = self.send(body, line.take(), Reading::Whole).await;
            if let Some(answer) = answered {
                let end = match advice(&answer) {
                    Advice::Done => Some(End::Succeeded),
                    Advice::Refused => Some(End::Refused),
                    Advice::Unknown => Some(End::Unknown),
                    Advice::Again(after) => {
                        at_least = after;
                        None
                    }
                };
                if let Some(end) = end {
                    return Tried {
                        end,
                        answer: Some(answer),
                        at_once: attempt == 0,
                    };
                }
            }
            let wait = patience.wait(attempt, rng).max(at_least);
            let over = start.elapsed().saturating_add(wait) > patience.give_up;
            if over || attempt + 1 >= patience.attempts {
                break;
            }
            tokio::time::sleep(wait).await;
        }
        Tried {
            end: End::Open,
            answer: None,
            at_once: false,
        }
    }

    async fn send(
        &self,
        body: &Bytes,
        line: Option<&(HeaderName, HeaderValue)>,
        reading: Reading,
    ) -> Option<Answer> {
        let got = self.hammer.sender.send(&self.request, body, line, reading);
        let got = got.await;
        self.hammer.tally().got(&got);
        match got {
            Got::Answered(answer, _) => Some(answer),
            Got::Left | Got::Failed(_) => None,
        }
    }

    /// Compares an answer with the first of its kind.
    fn observe(&mut self, tried: Tried) -> End {
        let Some(answer) = tried.answer else {
            self.only_replays = false;
            return tried.end;
        };
        self.only_replays &= tried.at_once && answer.is_replay();
        if answer.code().as_deref() == Some("idempotency-key-reused") {
            self.fault("the same body was refused as another".to_owned());
        }
        if tried.end != End::Succeeded {
            return tried.end;
        }
        match &self.success {
            None => self.success = Some(answer),
            Some(first) if (first.status, &first.body) == (answer.status, &answer.body) => {}
            Some(first) => self.fault(differ(first, &answer)),
        }
        End::Succeeded
    }

    fn fault(&self, what: String) {
        let KeyPlan { number, key, .. } = &self.plan;
        self.hammer.tally().fault(*number, key, what);
    }
}

impl Hammer {
    fn disconnect_within(&self) -> Duration {
        self.settings.disconnect_within.unwrap_or_else(|| {
            let median = self.tally().median();
            median.unwrap_or(UNKNOWN_MEDIAN) * 2
        })
    }
}

fn differ(first: &Answer, other: &Answer) -> String {
    let same = first.body.iter().zip(&other.body);
    let at = same.take_while(|(one, other)| one == other).count();
    format!(
        "answers differ: {} with {} bytes, then {} with {} bytes; the first difference is at byte {at}",
        first.status,
        first.body.len(),
        other.status,
        other.body.len(),
    )
}

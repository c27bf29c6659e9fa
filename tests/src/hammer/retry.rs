//! When a client tries again, and how long it waits before: as `docs/clients.md` says.

use std::time::{Duration, SystemTime};

use fastrand::Rng;

use crate::http::Answer;

/// How long a client tries.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How many requests it sends.
    pub attempts: u32,
    /// How long it goes on.
    pub give_up: Duration,
    /// What the first wait is at most; each that follows is twice as long at most.
    pub backoff: Duration,
    /// What any wait is at most, unless an answer asks for more.
    pub longest: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            attempts: 8,
            give_up: Duration::from_secs(120),
            backoff: Duration::from_millis(500),
            longest: Duration::from_secs(30),
        }
    }
}

impl Patience {
    /// A wait after so many attempts: any time up to the bound, so that those who lost one server do not come back at one moment.
    pub(super) fn wait(&self, attempts: u32, rng: &mut Rng) -> Duration {
        let doubled = self.backoff.saturating_mul(1 << attempts.min(20));
        doubled.min(self.longest).mul_f64(rng.f64())
    }
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// It was done.
    Done,
    /// Nothing was done, and a retry would change nothing.
    Refused,
    /// The service does not know itself.
    Unknown,
    /// The same request with the same key, after so long.
    Again(Duration),
}

/// What leaves open whether the operation took place.
const UNSETTLED: [&str; 4] = [
    "idempotency-outcome-unknown",
    "idempotency-transaction-ended",
    "idempotency-effect-outside-transaction",
    "idempotency-key-expired",
];

/// What a client makes of an answer.
pub(super) fn advice(answer: &Answer) -> Advice {
    if (200..300).contains(&answer.status) {
        return Advice::Done;
    }
    let code = answer.code();
    if code
        .as_deref()
        .is_some_and(|code| UNSETTLED.contains(&code))
    {
        return Advice::Unknown;
    }
    let says = code.and_then(|_| answer.json()["retryable"].as_bool());
    let again = says.unwrap_or(answer.status >= 500 || matches!(answer.status, 408 | 425 | 429));
    if again {
        Advice::Again(retry_after(answer))
    } else {
        Advice::Refused
    }
}

/// Seconds or an HTTP date (RFC 9110, section 10.2.3).
fn retry_after(answer: &Answer) -> Duration {
    let Some(text) = answer.header("retry-after") else {
        return Duration::ZERO;
    };
    if let Ok(seconds) = text.parse() {
        return Duration::from_secs(seconds);
    }
    httpdate::parse_http_date(text)
        .ok()
        .and_then(|at| at.duration_since(SystemTime::now()).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue};

    use super::*;

    fn answer(status: u16, code: Option<&str>, retryable: bool, after: Option<&str>) -> Answer {
        let mut headers = HeaderMap::new();
        if let Some(after) = after {
            headers.insert("retry-after", after.parse().expect("a field value"));
        }
        let body = code.map(|code| {
            let problem = HeaderValue::from_static("application/problem+json");
            headers.insert("content-type", problem);
            format!(r#"{{"code":"{code}","retryable":{retryable}}}"#)
        });
        Answer {
            status,
            headers,
            body: body.unwrap_or_default().into(),
        }
    }

    #[test]
    fn answers_are_taken_as_the_clients_page_says() {
        let again = Advice::Again(Duration::ZERO);
        for (status, code, retryable, advised) in [
            (201, None, false, Advice::Done),
            (204, None, false, Advice::Done),
            (500, None, false, again),
            (502, None, false, again),
            (429, None, false, again),
            (402, None, false, Advice::Refused),
            (301, None, false, Advice::Refused),
            (409, Some("idempotency-key-in-progress"), true, again),
            (
                409,
                Some("idempotency-outcome-unknown"),
                false,
                Advice::Unknown,
            ),
            (
                500,
                Some("idempotency-transaction-ended"),
                false,
                Advice::Unknown,
            ),
            (410, Some("idempotency-key-expired"), false, Advice::Unknown),
            (500, Some("response-not-storable"), false, Advice::Refused),
            (422, Some("idempotency-key-reused"), false, Advice::Refused),
            (400, Some("request-body-unreadable"), true, again),
        ] {
            let seen = advice(&answer(status, code, retryable, None));
            assert_eq!(seen, advised, "{status} {code:?}");
        }
    }

    #[test]
    fn a_wait_that_is_asked_for_is_kept() {
        let seconds = answer(503, None, false, Some("3"));
        assert_eq!(advice(&seconds), Advice::Again(Duration::from_secs(3)));
        let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(60));
        let Advice::Again(wait) = advice(&answer(503, None, false, Some(&date))) else {
            panic!("503 is to be tried again");
        };
        assert!(wait > Duration::from_secs(50) && wait <= Duration::from_secs(60));
        let past = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(
            advice(&answer(503, None, false, Some(past))),
            Advice::Again(Duration::ZERO)
        );
    }

    #[test]
    fn waits_grow_up_to_a_bound_and_are_random_below_it() {
        let patience = Patience::default();
        let mut rng = Rng::with_seed(1);
        for (attempts, bound) in [(0, 0.5), (1, 1.0), (3, 4.0), (6, 30.0), (60, 30.0)] {
            let waits: Vec<f64> = (0..500)
                .map(|_| patience.wait(attempts, &mut rng).as_secs_f64())
                .collect();
            let longest = waits.iter().copied().fold(0.0, f64::max);
            let shortest = waits.iter().copied().fold(bound, f64::min);
            assert!(longest <= bound && longest > 0.95 * bound, "{longest}");
            assert!(shortest < 0.05 * bound, "{shortest}");
        }
    }
}

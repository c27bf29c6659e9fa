//! The trace that a message belongs to, as [W3C Trace Context](https://www.w3.org/TR/trace-context/) writes it.

use std::fmt;
use std::sync::Arc;

use http::HeaderMap;

/// The length of `00-<32 digits>-<16 digits>-<2 digits>`.
const LENGTH: usize = 55;
/// What everybody must carry of a `tracestate`, in characters.
const STATE: usize = 512;

/// A valid `traceparent`, and the `tracestate` that goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    parent: String,
    state: Option<String>,
}

impl TraceContext {
    /// From the two fields' values; `None` unless `traceparent` is valid by the recommendation. A `tracestate` that is
    /// malformed, or longer than 512 characters, is left out.
    #[must_use]
    pub fn new(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        is_parent(traceparent.as_bytes()).then(|| Self {
            parent: traceparent.to_owned(),
            state: tracestate
                .filter(|state| is_state(state))
                .map(str::to_owned),
        })
    }

    /// From a request; `None` unless it has one valid `traceparent`.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut parents = headers.get_all("traceparent").iter();
        let parent = parents.next()?.to_str().ok()?;
        if parents.next().is_some() {
            return None;
        }
        // Several lines are one list.
        let states: Option<Vec<&str>> = headers
            .get_all("tracestate")
            .iter()
            .map(|line| line.to_str().ok())
            .collect();
        let state = states.filter(|lines| !lines.is_empty());
        Self::new(parent, state.map(|lines| lines.join(",")).as_deref())
    }

    /// As a message's headers.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let state = self.state.as_deref().map(|state| ("tracestate", state));
        std::iter::once(("traceparent", self.parent.as_str())).chain(state)
    }
}

fn is_parent(parent: &[u8]) -> bool {
    let hex = |part: &[u8]| {
        part.iter()
            .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    };
    let Some((fields, rest)) = parent.split_at_checked(LENGTH) else {
        return false;
    };
    let mut parts = fields.split(|byte| *byte == b'-');
    let (Some(version), Some(trace), Some(span), Some(flags), None) = (
        parts.next(),
        parts.next(),
        parts.next(),
        parts.next(),
        parts.next(),
    ) else {
        return false;
    };
    let whole = [(version, 2), (trace, 32), (span, 16), (flags, 2)]
        .into_iter()
        .all(|(part, length)| part.len() == length && hex(part));
    let zero = |part: &[u8]| part.iter().all(|digit| *digit == b'0');
    // Later versions may have more after a dash; what it means is theirs.
    let ends = rest.is_empty() || (version != b"00" && rest[0] == b'-' && rest.is_ascii());
    whole && ends && version != b"ff" && !zero(trace) && !zero(span)
}

fn is_state(state: &str) -> bool {
    let printable = |byte: u8| (0x20..0x7f).contains(&byte) || byte == b'\t';
    state.len() <= STATE && state.bytes().all(printable)
}

/// Where a message's trace comes from, if not from the request.
#[derive(Clone)]
pub(crate) struct TraceHook(pub(crate) Arc<dyn Fn() -> Option<TraceContext> + Send + Sync>);

impl fmt::Debug for TraceHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TraceHook")
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_is_carried_only_if_it_is_valid() {
        assert!(TraceContext::new(PARENT, None).is_some());
        let later = format!("cc{}-what-comes", &PARENT[2..]);
        assert!(TraceContext::new(&later, None).is_some(), "a later version");
        for wrong in [
            "",
            "00",
            &PARENT[1..],
            &PARENT.to_uppercase(),
            &format!("{PARENT}-00"),
            &format!("{later}\u{e9}"),
            &format!("ff{}", &PARENT[2..]),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e47-3600f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceContext::new(wrong, None), None, "{wrong}");
        }
    }

    #[test]
    fn a_tracestate_goes_with_its_traceparent_and_never_alone() {
        let mut headers = HeaderMap::new();
        headers.append("tracestate", HeaderValue::from_static("a=1"));
        headers.append("tracestate", HeaderValue::from_static("b=2"));
        assert_eq!(TraceContext::of(&headers), None);
        headers.append("traceparent", HeaderValue::from_static(PARENT));
        let context = TraceContext::of(&headers).expect("it is valid");
        let carried: Vec<_> = context.headers().collect();
        assert_eq!(
            carried,
            [("traceparent", PARENT), ("tracestate", "a=1,b=2")]
        );
        headers.append("traceparent", HeaderValue::from_static(PARENT));
        assert_eq!(TraceContext::of(&headers), None, "which one is meant?");
    }

    #[test]
    fn a_tracestate_that_is_too_long_is_left_out() {
        let long = format!("a={}", "1".repeat(STATE));
        let context = TraceContext::new(PARENT, Some(&long)).expect("it is valid");
        assert_eq!(context.headers().count(), 1);
    }
}

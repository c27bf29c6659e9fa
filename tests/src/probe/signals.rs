//! How often each signal was emitted, by the framework's own metric.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

type Counters = BTreeMap<String, Arc<AtomicU64>>;

static COUNTERS: Mutex<Counters> = Mutex::new(BTreeMap::new());

/// Counts `idempotency_requests_total` by its outcome.
struct Signals;

/// Counts from now on.
pub(crate) fn install() {
    metrics::set_global_recorder(Signals).expect("one recorder a process");
}

/// How often each signal was emitted.
pub(crate) fn counts() -> BTreeMap<String, u64> {
    let counters = COUNTERS.lock().expect("no holder panics");
    let count = |counter: &Arc<AtomicU64>| counter.load(Ordering::SeqCst);
    counters
        .iter()
        .map(|(outcome, counter)| (outcome.clone(), count(counter)))
        .collect()
}

impl Recorder for Signals {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let outcome = key.labels().find(|label| label.key() == "outcome");
        let (Some(outcome), "idempotency_requests_total") = (outcome, key.name()) else {
            return Counter::noop();
        };
        let mut counters = COUNTERS.lock().expect("no holder panics");
        let counter = counters.entry(outcome.value().to_owned()).or_default();
        Counter::from_arc(Arc::clone(counter))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

//! What the framework measures, by its own metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use serde::Serialize;

/// A metric with its labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Series {
    kind: &'static str,
    name: String,
    labels: BTreeMap<String, String>,
}

static COUNTS: Mutex<BTreeMap<Series, Arc<Count>>> = Mutex::new(BTreeMap::new());

/// How often a counter was incremented, or a histogram given a value.
#[derive(Default)]
struct Count(AtomicU64);

impl Count {
    fn of(kind: &'static str, key: &Key) -> Arc<Count> {
        let labels = key.labels();
        let series = Series {
            kind,
            name: key.name().to_owned(),
            labels: labels
                .map(|label| (label.key().to_owned(), label.value().to_owned()))
                .collect(),
        };
        let mut counts = COUNTS.lock().expect("no holder panics");
        Arc::clone(counts.entry(series).or_default())
    }
}

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::SeqCst);
    }

    fn absolute(&self, value: u64) {
        self.0.store(value, Ordering::SeqCst);
    }
}

impl HistogramFn for Count {
    fn record(&self, value: f64) {
        if value.is_finite() && value >= 0.0 {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Counts everything.
struct Signals;

/// Counts from now on.
pub(crate) fn install() {
    metrics::set_global_recorder(Signals).expect("one recorder a process");
}

/// Every metric, and its count.
pub(crate) fn metrics() -> Vec<(Series, u64)> {
    let counts = COUNTS.lock().expect("no holder panics");
    counts
        .iter()
        .map(|(series, count)| (series.clone(), count.0.load(Ordering::SeqCst)))
        .collect()
}

/// How often each signal was emitted.
pub(crate) fn counts() -> BTreeMap<String, u64> {
    let mut outcomes = BTreeMap::new();
    for (series, count) in metrics() {
        if let ("idempotency_requests_total", Some(outcome)) =
            (&*series.name, series.labels.get("outcome"))
        {
            *outcomes.entry(outcome.clone()).or_default() += count;
        }
    }
    outcomes
}

impl Recorder for Signals {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Count::of("counter", key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Count::of("gauge", key);
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Count::of("histogram", key))
    }
}

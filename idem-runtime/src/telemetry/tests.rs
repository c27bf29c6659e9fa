#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex},
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use super::*;
use crate::operations::OperationId;

type Fields = BTreeMap<&'static str, String>;

/// Keeps every event's level, target and fields.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<(Level, String, Fields)>>>);

impl Subscriber for Listener {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut fields = FieldsOf(Fields::new());
        event.record(&mut fields);
        let metadata = event.metadata();
        let seen = (*metadata.level(), metadata.target().to_owned(), fields.0);
        self.0.lock().unwrap().push(seen);
    }
}

struct FieldsOf(Fields);

impl Visit for FieldsOf {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

fn heard(emit: impl FnOnce()) -> Vec<(Level, String, Fields)> {
    let listener = Listener::default();
    tracing::subscriber::with_default(listener.clone(), emit);
    listener.0.lock().unwrap().clone()
}

#[test]
fn an_event_names_signal_operation_and_key_digest() {
    let events =
        heard(|| Signal::Replayed.emit("orders.create", "0123", Duration::from_millis(250)));
    let fields = Fields::from([
        ("signal", "replayed".to_owned()),
        ("operation", "orders.create".to_owned()),
        ("key", "0123".to_owned()),
        ("elapsed_seconds", "0.25".to_owned()),
    ]);
    assert_eq!(events, [(Level::INFO, "idem".to_owned(), fields)]);
}

#[test]
fn a_request_without_a_valid_key_has_no_key_field() {
    let events = heard(|| Signal::Refused.emit("orders.create", "", Duration::ZERO));
    assert!(!events[0].2.contains_key("key"));
}

#[test]
fn every_signal_is_one_event_at_its_level() {
    let mut names = HashSet::new();
    for signal in Signal::ALL {
        let events = heard(|| signal.emit("op", "0123", Duration::ZERO));
        assert_eq!(events.len(), 1, "{signal}");
        assert_eq!(events[0].0, signal.level(), "{signal}");
        assert!(names.insert(events[0].2["signal"].clone()), "{signal}");
    }
}

fn id() -> OperationId {
    "ab".repeat(32).parse().unwrap()
}

#[test]
fn what_happens_to_an_operation_is_an_event_with_its_id() {
    let events = heard(|| {
        parked("charges.create", id(), "nobody knows");
        recovered("charges.create", id(), "completed");
        resolved("charges.create", id(), "done", "alice");
    });
    let expected = [
        (Level::ERROR, "parked", vec![("reason", "nobody knows")]),
        (Level::INFO, "recovered", vec![("outcome", "completed")]),
        (
            Level::INFO,
            "resolved",
            vec![("action", "done"), ("actor", "alice")],
        ),
    ];
    assert_eq!(events.len(), expected.len());
    for ((level, target, mut fields), (wanted, signal, more)) in events.into_iter().zip(expected) {
        assert_eq!((level, target.as_str()), (wanted, "idem"), "{signal}");
        fields.remove("message").expect("a message for people");
        let mut all = Fields::from([
            ("signal", signal.to_owned()),
            ("operation", "charges.create".to_owned()),
            ("id", id().to_string()),
        ]);
        all.extend(
            more.into_iter()
                .map(|(name, value)| (name, value.to_owned())),
        );
        assert_eq!(fields, all, "{signal}");
    }
}

#[cfg(feature = "metrics")]
mod with_metrics {
    use metrics::{
        Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata,
        Recorder, SharedString, Unit,
    };

    use super::*;
    use crate::backend::operations::Unresolved;
    use crate::backend::outbox::MessageCounts;
    use crate::outbox::{MessageId, OutboxMessage};

    /// Keeps what was measured, as lines.
    #[derive(Clone, Default)]
    struct Ledger(Arc<Mutex<Vec<String>>>);

    impl Ledger {
        fn push(&self, line: String) {
            self.0.lock().unwrap().push(line);
        }
    }

    struct Entry(Ledger, String);

    impl Entry {
        fn of(ledger: &Ledger, key: &Key) -> Arc<Entry> {
            let labels: Vec<_> = key
                .labels()
                .map(|label| format!("{}={}", label.key(), label.value()))
                .collect();
            let name = format!("{}{{{}}}", key.name(), labels.join(","));
            Arc::new(Entry(ledger.clone(), name))
        }
    }

    impl CounterFn for Entry {
        fn increment(&self, value: u64) {
            self.0.push(format!("{} +{value}", self.1));
        }
        fn absolute(&self, value: u64) {
            self.0.push(format!("{} ={value}", self.1));
        }
    }

    impl HistogramFn for Entry {
        fn record(&self, value: f64) {
            self.0.push(format!("{} {value}", self.1));
        }
    }

    impl GaugeFn for Entry {
        fn increment(&self, value: f64) {
            self.0.push(format!("{} +{value}", self.1));
        }
        fn decrement(&self, value: f64) {
            self.0.push(format!("{} -{value}", self.1));
        }
        fn set(&self, value: f64) {
            self.0.push(format!("{} ={value}", self.1));
        }
    }

    impl Recorder for Ledger {
        fn describe_counter(&self, key: KeyName, unit: Option<Unit>, _: SharedString) {
            self.push(format!("{} {unit:?}", key.as_str()));
        }
        fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, _: SharedString) {
            self.push(format!("{} {unit:?}", key.as_str()));
        }
        fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, _: SharedString) {
            self.push(format!("{} {unit:?}", key.as_str()));
        }
        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(Entry::of(self, key))
        }
        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(Entry::of(self, key))
        }
        fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::from_arc(Entry::of(self, key))
        }
    }

    fn measured(act: impl FnOnce()) -> Vec<String> {
        let ledger = Ledger::default();
        metrics::with_local_recorder(&ledger, act);
        ledger.0.lock().unwrap().clone()
    }

    #[test]
    fn a_request_is_counted_and_timed_by_operation_and_outcome() {
        let lines = measured(|| {
            Signal::PendingDuplicate.emit("orders.create", "0123", Duration::from_millis(250));
        });
        let labels = "{operation=orders.create,outcome=pending_duplicate}";
        assert_eq!(
            lines,
            [
                format!("idempotency_requests_total{labels} +1"),
                format!("idempotency_request_duration_seconds{labels} 0.25"),
            ]
        );
    }

    #[test]
    fn every_metric_is_described() {
        assert_eq!(
            measured(describe),
            [
                "idempotency_requests_total Some(Count)",
                "idempotency_request_duration_seconds Some(Seconds)",
                "idempotency_operations_parked_total Some(Count)",
                "idempotency_operations_recovered_total Some(Count)",
                "idempotency_operations_resolved_total Some(Count)",
                "idempotency_operations_unresolved Some(Count)",
                "idempotency_operations_due Some(Count)",
                "idempotency_operations_oldest_seconds Some(Seconds)",
                "idempotency_outbox_staged_total Some(Count)",
                "idempotency_outbox_published_total Some(Count)",
                "idempotency_outbox_messages Some(Count)",
                "idempotency_outbox_oldest_seconds Some(Seconds)",
            ]
        );
    }

    #[test]
    fn what_happens_to_messages_is_counted() {
        let lines = measured(|| {
            outbox::staged(3);
            outbox::delivered();
            outbox::failed(&message(), "full", Some(Duration::from_secs(1)));
            outbox::failed(&message(), "full", None);
        });
        let published =
            |outcome| format!("idempotency_outbox_published_total{{outcome={outcome}}} +1");
        assert_eq!(
            lines,
            [
                "idempotency_outbox_staged_total{} +3".to_owned(),
                published("delivered"),
                published("failed"),
                published("dead"),
            ]
        );
    }

    #[test]
    fn messages_are_measured_in_counts_and_seconds() {
        let counted = MessageCounts {
            pending: 5,
            delayed: 4,
            failed: 3,
            delivered: 2,
            dead: 1,
            oldest: 90_500,
        };
        assert_eq!(
            measured(|| outbox::counted(&counted)),
            [
                "idempotency_outbox_messages{state=pending} =5",
                "idempotency_outbox_messages{state=delayed} =4",
                "idempotency_outbox_messages{state=failed} =3",
                "idempotency_outbox_messages{state=delivered} =2",
                "idempotency_outbox_messages{state=dead} =1",
                "idempotency_outbox_oldest_seconds{} =90",
            ]
        );
    }

    fn message() -> OutboxMessage {
        OutboxMessage {
            id: MessageId::from_uuid(uuid::Uuid::nil()),
            topic: "orders.placed".to_owned(),
            ordering_key: None,
            content_type: String::new(),
            payload: bytes::Bytes::new(),
            headers: Vec::new(),
            staged_at: std::time::SystemTime::UNIX_EPOCH,
            attempt: 1,
        }
    }

    #[test]
    fn what_is_not_resolved_is_measured_in_counts_and_seconds() {
        let counted = Unresolved {
            due: 1,
            started: 3,
            unknown: 2,
            oldest: 90_500,
        };
        assert_eq!(
            measured(|| unresolved(&counted)),
            [
                "idempotency_operations_unresolved{state=started} =3",
                "idempotency_operations_unresolved{state=unknown} =2",
                "idempotency_operations_due{} =1",
                "idempotency_operations_oldest_seconds{} =90",
            ]
        );
    }

    #[test]
    fn what_happens_to_an_operation_is_counted() {
        let lines = measured(|| {
            parked("charges.create", id(), "nobody knows");
            recovered("charges.create", id(), "completed");
            resolved("charges.create", id(), "done", "alice");
        });
        assert_eq!(
            lines,
            [
                "idempotency_operations_parked_total{operation=charges.create} +1",
                "idempotency_operations_recovered_total{operation=charges.create,outcome=completed} +1",
                "idempotency_operations_resolved_total{operation=charges.create,action=done} +1",
            ]
        );
    }
}

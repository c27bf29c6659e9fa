//! `#[consumer]`: its arguments, its signatures, and what it leaves of a function that is wrong.

use super::{snapshots, tokens};
use crate::consumer::consumer;

const PLAIN: &str = "async fn on_order(tx: &mut Tx<Sqlite>, order: Message<Order>) {}";

/// The messages of all errors.
fn faults(arguments: &str, function: &str) -> Vec<String> {
    let expanded = consumer(tokens(arguments), tokens(function));
    let file: syn::File = syn::parse2(expanded).expect("an expansion is a list of items");
    let message = |item: syn::Item| match item {
        syn::Item::Macro(item) if item.mac.path.segments.last()?.ident == "compile_error" => {
            Some(item.mac.parse_body::<syn::LitStr>().ok()?.value())
        }
        _ => None,
    };
    file.items.into_iter().filter_map(message).collect()
}

fn snapshot(name: &str, arguments: &str, function: &str) {
    let expanded = consumer(tokens(arguments), tokens(function));
    snapshots::matches(name, expanded);
}

#[test]
fn a_consumer() {
    snapshot(
        "consumer",
        r#"source = "orders", ttl = "7d""#,
        r"
        /// Keeps the ledger.
        #[instrument(skip_all)]
        pub async fn on_order(
            tx: &mut Tx<Postgres>,
            order: Message<OrderPlaced>,
            State(accounts): State<Accounts>,
        ) -> Result<(), LedgerError> {
            post(tx, &order, &accounts).await
        }",
    );
}

#[test]
fn a_generic_one_with_every_argument() {
    snapshot(
        "consumer_every_argument",
        r#"source = "orders", name = "ledger.orders", ttl = "90500ms", id = "data.event_id", timeout = "2m", state = AppState, crate = "crate::idem""#,
        "async fn on_order<T: Event>(order: Message<T>, tx: &mut Tx<Sqlite>) where T: Clone { }",
    );
}

#[test]
fn what_is_left_of_a_wrong_one() {
    snapshot(
        "consumer_wrong",
        "",
        "fn on_order(tx: &Tx<Sqlite>, order: &Order) {}",
    );
}

#[test]
fn a_source_must_be_given() {
    let missing = faults("", PLAIN);
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert!(missing[0].starts_with("missing `source`: write `#[consumer(source = \"orders\")]`"));
    for tried in ["sorce = \"orders\"", "source", "\"orders\"", "source = 7"] {
        assert_eq!(faults(tried, PLAIN).len(), 1, "{tried}: one mistake");
    }
}

#[test]
fn names_and_ids_are_checked() {
    let accepted = [
        r#"source = "orders", id = "broker""#,
        r#"source = "orders", id = "event_id""#,
        r#"source = "orders", id = "/data/event~1id""#,
        r#"source = "orders.eu", name = "ledger", timeout = "30s""#,
    ];
    for arguments in accepted {
        assert_eq!(faults(arguments, PLAIN), [""; 0], "{arguments}");
    }
    let refused = [
        (r#"source = """#, "`source` is empty"),
        (r#"source = "my orders""#, "`source` has ' ' in it"),
        (r#"source = "o", name = "ü""#, "`name` has 'ü' in it"),
        (r#"source = "o", id = """#, "\"\" names no field"),
        (r#"source = "o", id = "a..b""#, "\"a..b\" names no field"),
        (
            r#"source = "o", id = "/a~b""#,
            "\"/a~b\" is no JSON pointer",
        ),
        (
            r#"source = "o", ttl = "7""#,
            "invalid `ttl`: it has no unit",
        ),
        (
            r#"source = "o", ttl = "1d", ttl = "2d""#,
            "`ttl` is given twice",
        ),
        (
            r#"source = "o", retries = 3"#,
            "unknown argument `retries`; there are",
        ),
    ];
    for (arguments, message) in refused {
        let faults = faults(arguments, PLAIN);
        assert_eq!(faults.len(), 1, "{arguments}: {faults:?}");
        assert!(faults[0].starts_with(message), "{arguments}: {faults:?}");
    }
}

#[test]
fn a_signature_must_be_a_consumers() {
    let refused = [
        (
            "async fn f(order: Message<Order>) {}",
            "a consumer must take its transaction",
        ),
        (
            "async fn f(tx: &mut Tx<Sqlite>) {}",
            "a consumer must take its message",
        ),
        (
            "fn f(tx: &mut Tx<Sqlite>, order: Message<Order>) {}",
            "a consumer must be an `async fn`",
        ),
        (
            "async fn f(tx: &mut Steps<Sqlite>, order: Message<Order>) {}",
            "a consumer has no recovery points",
        ),
        (
            "async fn f(tx: &mut Tx<Sqlite>, order: Message<Order>) -> impl IntoResponse {}",
            "`impl Trait` does not say whether the consumer failed",
        ),
        (
            "async fn f(tx: &mut Tx<Sqlite>, order: &Order) {}",
            "an argument can't borrow: it is made of the message",
        ),
        (
            "#[idempotent(scope = \"a\")] async fn f(tx: &mut Tx<Sqlite>, order: Message<Order>) {}",
            "a consumer is called by a broker's message",
        ),
    ];
    for (function, message) in refused {
        let faults = faults(r#"source = "orders""#, function);
        assert_eq!(faults.len(), 1, "{function}: {faults:?}");
        assert!(faults[0].starts_with(message), "{function}: {faults:?}");
    }
}

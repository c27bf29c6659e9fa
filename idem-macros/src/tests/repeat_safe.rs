//! `#[repeat_safe]`: its arguments, its signatures, and what it leaves of a function that is wrong.

use super::{snapshots, tokens};
use crate::repeat_safe::repeat_safe;

const PLAIN: &str =
    "async fn put(account: Account, Path(id): Path<Uuid>) -> StatusCode { StatusCode::OK }";

/// The messages of all errors.
fn faults(arguments: &str, function: &str) -> Vec<String> {
    let expanded = repeat_safe(tokens(arguments), tokens(function));
    let file: syn::File = syn::parse2(expanded).expect("an expansion is a list of items");
    let message = |item: syn::Item| match item {
        syn::Item::Macro(item) if item.mac.path.segments.last()?.ident == "compile_error" => {
            Some(item.mac.parse_body::<syn::LitStr>().ok()?.value())
        }
        _ => None,
    };
    file.items.into_iter().filter_map(message).collect()
}

fn snapshot(name: &str, arguments: &str, function: &str) -> String {
    let expanded = repeat_safe(tokens(arguments), tokens(function));
    snapshots::matches(name, expanded)
}

#[test]
fn a_declared_handler() {
    let expanded = snapshot(
        "repeat_safe",
        r#"conditional, why = "only an open order changes", operation = "orders.pay""#,
        r"
        /// Pays an order.
        #[instrument(skip_all)]
        pub async fn pay(
            account: Account,
            State(pool): State<PgPool>,
            Path(id): Path<Uuid>,
        ) -> Result<Json<Order>, ApiError> {
            pay_order(&pool, &account, id).await
        }",
    );
    let lines = expanded.lines().count();
    assert!(lines <= 60, "{lines} lines");
}

#[test]
fn a_generic_one_without_an_answer() {
    snapshot(
        "repeat_safe_generic",
        r#"client_id, why = "x", crate = "crate::idem""#,
        "async fn put<T: Store>(State(store): State<T>, put: Put) where T: Clone { store.put(put).await }",
    );
}

#[test]
fn a_design_and_a_reason_must_be_given() {
    let missing = faults("", PLAIN);
    assert_eq!(missing.len(), 2, "{missing:?}");
    assert!(missing[0].starts_with("say what makes a repeat harmless: `client_id`"));
    assert!(missing[1].starts_with("missing `why`: say in a sentence"));
    let blank = faults(r#"client_id, why = "  ""#, PLAIN);
    assert_eq!(blank.len(), 1);
    assert!(blank[0].starts_with("`why` is empty"));
}

#[test]
fn there_is_one_design() {
    let two = r#"client_id, conditional, why = "x""#;
    assert_eq!(
        faults(two, PLAIN),
        ["a handler has one design, and `client_id` is given; remove one"]
    );
    let twice = r#"client_id, client_id, why = "x""#;
    assert_eq!(faults(twice, PLAIN), ["`client_id` is given twice"]);
    let value = r#"client_id = true, why = "x""#;
    assert_eq!(
        faults(value, PLAIN),
        ["`client_id` has no value: write `client_id` alone, and the reason as `why = \"..\"`"]
    );
}

#[test]
fn a_slip_is_one_mistake() {
    let cases = [
        (
            r#"clientid, why = "x""#,
            "unknown argument `clientid`; did you mean `client_id`?",
        ),
        (
            r#"client_id, wy = "x""#,
            "unknown argument `wy`; did you mean `why`?",
        ),
        (
            r#"client_id, why = "x", scope = "account""#,
            "unknown argument `scope`; there are `client_id`, `conditional`, `precondition`, `why`, `operation`, `crate`",
        ),
        (
            r#"client_id, why"#,
            "`why` needs a value: write `why = \"the client chooses the order's id\"`",
        ),
        (
            r#"client_id, why = x"#,
            "`why` takes a string: write `why = \"the client chooses the order's id\"`",
        ),
        (r#"client_id, why = "x", why = "y""#, "`why` is given twice"),
        (
            r#"client_id, "the client chooses the id""#,
            "write a design and a reason, as `#[repeat_safe(client_id, why = \"the client chooses the order's id\")]`",
        ),
        (
            r#"client_id, why = "x", operation = """#,
            "`operation` is empty: write a name, as \"orders.create\"",
        ),
        (
            r#"client_id, why = "x", crate = "idem""#,
            "path must be absolute: write `::x::y` or `crate::x`",
        ),
    ];
    for (arguments, message) in cases {
        assert_eq!(faults(arguments, PLAIN), [message], "{arguments}");
    }
}

#[test]
fn a_precondition_asks_for_the_version() {
    let with = |argument: &str| {
        let function = format!("async fn replace({argument}, Json(new): Json<New>) {{}}");
        faults(r#"precondition, why = "x""#, &function)
    };
    assert!(with("if_match: IfMatch").is_empty());
    assert!(with("TypedHeader(seen): TypedHeader<headers::IfMatch>").is_empty());
    assert_eq!(
        with("account: Account"),
        [
            "`precondition` needs the version that the client has seen: add `if_match: IfMatch`, and compare it with what is there"
        ]
    );
    assert!(with("seen: Option<IfMatch>")[0].starts_with("`If-Match` can't be optional here"));
}

#[test]
fn what_can_t_be_a_handler_is_refused_at_once() {
    let found = faults(
        r#"client_id, why = "x""#,
        "unsafe fn put(&self, tx: &mut Tx<Postgres>, body: Json<New>, account: &Account) -> Self {}",
    );
    let starts = [
        "a repeat-safe handler must be an `async fn`",
        "a repeat-safe handler can't be `unsafe`",
        "`Self` doesn't reach into a repeat-safe handler",
        "a repeat-safe handler can't take `self`",
        "a repeat-safe handler has no key, and so no transaction of the framework",
        "this reads the request's body, so it must be the last argument",
        "an argument can't borrow",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (found, start) in found.iter().zip(starts) {
        assert!(found.starts_with(start), "{found}");
    }
    let item = faults(r#"client_id, why = "x""#, "struct Put;");
    assert_eq!(item, ["`#[repeat_safe]` goes on an `async fn`"]);
}

#[test]
fn one_handler_is_not_both() {
    let both = format!("#[idempotent(scope = \"account\")] {PLAIN}");
    let found = faults(r#"client_id, why = "x""#, &both);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("`#[idempotent]` or `#[repeat_safe]`"));
}

#[test]
fn a_wrong_one_leaves_the_function() {
    let expanded = snapshot(
        "repeat_safe_wrong",
        "clientid",
        "pub fn put(new: New) -> StatusCode { new.status() }",
    );
    assert!(expanded.contains("pub async fn put"), "{expanded}");
    assert!(expanded.contains("new.status()"), "{expanded}");
    let unfinished = repeat_safe(
        tokens("clientid"),
        tokens("async fn put(new: New) { new. }"),
    );
    assert!(unfinished.to_string().contains("{ new . }"), "{unfinished}");
}

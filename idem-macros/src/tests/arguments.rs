//! What is refused in `#[idempotent(..)]`, and in which words.

use super::{faults_of_arguments as faults, tokens};
use crate::{args::Args, errors::Errors};

fn accepted(arguments: &str) -> Args {
    let mut errors = Errors::default();
    let args = Args::parse(tokens(arguments), &mut errors);
    assert!(errors.is_empty(), "{arguments}: {:?}", errors.messages());
    args
}

/// The one error of an argument beside a good scope.
fn fault(argument: &str) -> String {
    let mut faults = faults(&format!(r#"scope = "account", {argument}"#));
    assert_eq!(faults.len(), 1, "{argument}: {faults:?}");
    faults.remove(0)
}

#[test]
fn a_scope_is_needed() {
    assert_eq!(
        faults(""),
        [
            "missing `scope`: write `#[idempotent(scope = \"account\")]`, naming whose keys these are"
        ]
    );
    assert_eq!(faults(r#"ttl = "48h""#).len(), 1);
}

#[test]
fn a_scope_names_a_binding_or_a_path_into_one() {
    for scope in [
        "account",
        "claims.tenant",
        "pair.0",
        "a.0.1.b",
        "r#type",
        "type",
    ] {
        accepted(&format!("scope = {scope:?}"));
    }
    for scope in [
        "",
        "_",
        "a b",
        "a.",
        "a..b",
        "1",
        "account()",
        "&account",
        "a::b",
    ] {
        assert_eq!(
            faults(&format!("scope = {scope:?}")),
            [
                "invalid `scope`: name one of the handler's bindings, as \"account\", or a field of one, as \"claims.tenant\""
            ],
            "{scope}"
        );
    }
}

#[test]
fn an_unknown_argument_is_met_with_the_nearest_one() {
    assert_eq!(
        fault("retries = 3"),
        "unknown argument `retries`; there are `scope`, `ttl`, `errors`, `in_flight`, `wait`, `expired`, `tombstone`, \
         `timeout`, `max_body`, `max_response`, `fingerprint_headers`, `fingerprint_ignore`, `key_space`, `authorize`, \
         `replay_with`, `operation`, `definition`, `key`, `state`, `crate`"
    );
    for (slip, meant) in [
        ("tll = \"1h\"", "ttl"),
        ("inflight = \"wait\"", "in_flight"),
        ("fingerprint_header = []", "fingerprint_headers"),
        ("operatoin = \"a\"", "operation"),
    ] {
        let name = slip.split(' ').next().unwrap_or_default();
        assert_eq!(
            fault(slip),
            format!("unknown argument `{name}`; did you mean `{meant}`?")
        );
    }
}

#[test]
fn a_misspelt_scope_is_also_a_missing_one() {
    let faults = faults(r#"scop = "account""#);
    assert_eq!(faults, ["unknown argument `scop`; did you mean `scope`?"]);
}

#[test]
fn an_argument_is_given_once_and_with_a_value() {
    assert_eq!(fault(r#"ttl = "1h", ttl = "2h""#), "`ttl` is given twice");
    assert_eq!(fault("ttl"), "`ttl` needs a value: write `ttl = \"48h\"`");
    assert_eq!(fault("ttl ="), "`ttl` needs a value: write `ttl = \"48h\"`");
    assert_eq!(
        fault(r#"ttl("48h")"#),
        "`ttl` needs a value: write `ttl = \"48h\"`"
    );
    assert_eq!(
        faults(r#""account""#),
        ["write arguments as `name = value`, such as `scope = \"account\"`"]
    );
}

#[test]
fn durations_have_a_number_and_a_unit() {
    let args = accepted(r#"scope = "a", ttl = "2d", wait = "250ms", timeout = "1m""#);
    assert_eq!(args.ttl.map(|ttl| ttl.as_secs()), Some(172_800));
    assert_eq!(args.wait.map(|wait| wait.as_millis()), Some(250));
    assert_eq!(args.timeout.map(|timeout| timeout.as_secs()), Some(60));
    assert_eq!(
        fault(r#"ttl = "2 weeks""#),
        "invalid `ttl`: ` weeks` is no unit (ms, s, m, h and d are); write a number and a unit, as \"48h\" or \"7d\""
    );
    assert_eq!(
        fault(r#"wait = "5""#),
        "invalid `wait`: it has no unit; write a number and a unit, as \"5s\" or \"250ms\""
    );
    assert_eq!(
        fault("ttl = 48"),
        "`ttl` takes a number and a unit, in quotes: write `ttl = \"48h\"`"
    );
    assert_eq!(
        fault(r#"timeout = "0s""#),
        "`timeout` must be longer than zero"
    );
    assert_eq!(
        fault("ttl = Duration::from_secs(5)"),
        "`ttl` takes a number and a unit, in quotes: write `ttl = \"48h\"`"
    );
}

#[test]
fn sizes_are_bytes_or_have_a_unit() {
    let args = accepted(r#"scope = "a", max_body = "2MiB", max_response = 1_000"#);
    assert_eq!(
        (args.max_body, args.max_response),
        (Some(2 << 20), Some(1000))
    );
    assert_eq!(
        fault(r#"max_body = "2Mb""#),
        "invalid `max_body`: `Mb` is no unit (B, KB, MB, KiB and MiB are); write a size, as \"2MiB\" or \"64KiB\", or a number of bytes"
    );
    assert_eq!(
        fault("max_body = 2MiB"),
        "invalid `max_body`: `MiB` needs quotes; write a size, as \"2MiB\" or \"64KiB\", or a number of bytes"
    );
    assert_eq!(
        fault("max_body = 2 << 20"),
        "`max_body` takes a number of bytes, or a size in quotes: write `max_body = \"2MiB\"`"
    );
    assert_eq!(
        fault("max_response = 0"),
        "`max_response` must be larger than zero"
    );
}

#[test]
fn choices_are_listed() {
    for (argument, first, second) in [
        ("errors", "release", "store"),
        ("in_flight", "wait", "reject"),
        ("expired", "execute", "reject"),
        ("key_space", "scope", "operation"),
        ("key", "required", "optional"),
    ] {
        accepted(&format!("scope = \"a\", {argument} = {first:?}"));
        accepted(&format!("scope = \"a\", {argument} = {second:?}"));
        for value in ["\"other\"", "first", "true", "7", "[\"release\"]"] {
            assert_eq!(
                fault(&format!("{argument} = {value}")),
                format!(
                    "unknown `{argument}`: write `{argument} = {first:?}` or `{argument} = {second:?}`"
                )
            );
        }
    }
}

#[test]
fn a_ttl_outlives_the_wait() {
    accepted(r#"scope = "a", ttl = "6s", wait = "5s""#);
    assert_eq!(
        fault(r#"ttl = "5s", wait = "5s""#),
        "`ttl` must be longer than `wait`"
    );
}

#[test]
fn a_tombstone_needs_rejection() {
    accepted(r#"scope = "a", tombstone = "30d", expired = "reject""#);
    let message =
        "`tombstone` is how long an expired key is still refused: it needs `expired = \"reject\"`";
    assert_eq!(fault(r#"tombstone = "30d""#), message);
    assert_eq!(fault(r#"tombstone = "30d", expired = "execute""#), message);
    // the other mistake is enough to report
    assert!(fault(r#"tombstone = "30d", expired = "rejct""#).starts_with("unknown `expired`"));
}

#[test]
fn headers_have_valid_names() {
    let args = accepted(r#"scope = "a", fingerprint_headers = ["X-Api-Version", "accept"]"#);
    assert_eq!(args.fingerprint_headers, ["x-api-version", "accept"]);
    assert_eq!(
        fault(r#"fingerprint_headers = ["x api"]"#),
        "\"x api\" is no header name: it has ' ' in it"
    );
    assert_eq!(
        fault(r#"fingerprint_headers = [""]"#),
        "a header's name can't be empty"
    );
    assert_eq!(
        fault(r#"fingerprint_headers = ["a", "A"]"#),
        "`a` is listed twice"
    );
    assert_eq!(
        fault(r#"fingerprint_headers = ["Idempotency-Key"]"#),
        "`idempotency-key` is what requests are compared under; it is never compared itself"
    );
    assert_eq!(
        fault(r#"fingerprint_headers = "x-api-version""#),
        "`fingerprint_headers` takes a list of strings: write `fingerprint_headers = [\"x-api-version\"]`"
    );
    assert_eq!(
        fault("fingerprint_headers = []"),
        "`fingerprint_headers` is empty: leave it out, or name what it is for"
    );
}

#[test]
fn ignored_members_are_pointers_or_query_names() {
    accepted(r#"scope = "a", fingerprint_ignore = ["/sent_at", "/a~1b/~0c", "/", "?utm_source"]"#);
    assert_eq!(
        fault(r#"fingerprint_ignore = ["sent_at"]"#),
        "\"sent_at\" must start with `/` (a member of the JSON body, \"/sent_at\") or `?` (a query parameter, \"?utm_source\")"
    );
    assert_eq!(
        fault(r#"fingerprint_ignore = ["/a~b"]"#),
        "\"/a~b\" is no JSON pointer: write `~0` for `~` and `~1` for `/` in a member's name"
    );
    assert_eq!(
        fault(r#"fingerprint_ignore = ["?"]"#),
        "name the query parameter to ignore, as \"?utm_source\""
    );
    // each wrong member is an error of its own
    assert_eq!(
        faults(r#"scope = "a", fingerprint_ignore = ["a", "b", "/c"]"#).len(),
        2
    );
}

#[test]
fn operations_have_printable_names() {
    let args = accepted(r#"scope = "a", operation = "orders.create/v2""#);
    assert_eq!(args.operation.as_deref(), Some("orders.create/v2"));
    assert_eq!(
        fault(r#"operation = """#),
        "`operation` is empty: write a name, as \"orders.create\""
    );
    assert_eq!(
        fault(r#"operation = "create order""#),
        "`operation` has ' ' in it: use printable ASCII without spaces, as \"orders.create\""
    );
    assert_eq!(
        fault(&format!("operation = {:?}", "a".repeat(256))),
        "`operation` is longer than 255 bytes"
    );
}

#[test]
fn paths_and_types_are_not_quoted() {
    accepted(
        r#"scope = "a", authorize = policy::may, replay_with = again::<A, B>, state = App<A, B>"#,
    );
    accepted(r#"scope = "a", state = (A, fn(A) -> B), ttl = "1h""#);
    assert_eq!(
        fault(r#"authorize = "may_create""#),
        "`authorize` takes the function's path, without quotes: write `authorize = may_create`"
    );
    assert_eq!(
        fault(r#"state = "AppState""#),
        "`state` takes a type, without quotes: write `state = AppState`"
    );
    assert_eq!(
        fault("replay_with = |db| async {}"),
        "`replay_with` takes the function's path, without quotes: write `replay_with = rebuild`"
    );
    assert_eq!(
        fault("authorize = Self::may_create"),
        "`Self` doesn't reach into an idempotent handler; write the type's name"
    );
}

#[test]
fn the_runtime_s_path_is_absolute() {
    for path in [
        "\"::renamed\"",
        "::renamed",
        "crate::idem",
        "\"crate::idem\"",
        "crate",
    ] {
        let args = accepted(&format!("scope = \"a\", crate = {path}"));
        assert!(args.runtime.is_some());
    }
    for path in [
        "renamed",
        "\"renamed\"",
        "self::idem",
        "7",
        "\"\"",
        "\"::a b\"",
    ] {
        assert_eq!(
            fault(&format!("crate = {path}")),
            "path must be absolute: write `::x::y` or `crate::x`"
        );
    }
}

#[test]
fn all_faults_come_together() {
    let faults = faults(
        r#"scop = "account", ttl = "48x", errors = "keep", max_body = 0, ttl = "1h", , fingerprint_ignore = ["a"]"#,
    );
    assert_eq!(faults.len(), 6, "{faults:?}");
}

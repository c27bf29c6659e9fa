//! What is refused in handlers with steps, and in which words.

use super::faults;

const STEPS: &str = "async fn f(steps: &mut Steps<Sqlite, Error>, account: Account) {}";

fn fault(arguments: &str, function: &str) -> String {
    let mut faults = faults(&format!(r#"scope = "account", {arguments}"#), function);
    assert_eq!(faults.len(), 1, "{arguments}: {faults:?}");
    faults.remove(0)
}

#[test]
fn an_operation_is_named() {
    assert!(
        fault(r#"ttl = "48h""#, STEPS).starts_with("a handler with steps must name its operation")
    );
    let named = faults(
        r#"scope = "account", operation = "charges.create", definition = 3"#,
        STEPS,
    );
    assert_eq!(named, [""; 0]);
}

#[test]
fn keys_are_needed_and_expire_for_good() {
    let operation = r#"operation = "charges.create""#;
    for (argument, beginning) in [
        (r#"key = "optional""#, "a handler with steps needs a key"),
        (
            r#"expired = "execute""#,
            "a handler with steps refuses expired keys",
        ),
    ] {
        let fault = fault(&format!("{operation}, {argument}"), STEPS);
        assert!(fault.starts_with(beginning), "{fault}");
    }
    let rejects = format!(
        r#"scope = "account", {operation}, expired = "reject", tombstone = "90d", key = "required""#
    );
    assert_eq!(faults(&rejects, STEPS), [""; 0]);
}

#[test]
fn a_definition_belongs_to_steps_and_is_a_number() {
    let atomic = "async fn f(tx: &mut Tx<Sqlite>, account: Account) {}";
    assert!(fault("definition = 2", atomic).contains("it needs `&mut Steps<DB, E>`"));
    for wrong in ["0", "-1", "70000", "\"2\"", "two"] {
        let fault = fault(&format!(r#"operation = "a", definition = {wrong}"#), STEPS);
        assert!(
            fault.starts_with("`definition` takes a whole number"),
            "{fault}"
        );
    }
}

#[test]
fn steps_have_names_of_their_own() {
    let body = |body: &str| {
        let function =
            format!("async fn f(steps: &mut Steps<Sqlite, Error>, account: Account) {{ {body} }}");
        faults(r#"scope = "account", operation = "a""#, &function)
    };
    for good in [
        r#"steps.atomic("a", async |tx| Ok(())).await; steps.atomic("b", async |tx| Ok(())).await;"#,
        r#"for n in 0..3 { steps.external("a", &client, n).at_most_once().call(f).await; }"#,
        r#"other.atomic("a"); other.atomic("a"); steps.atomic(NAME, f).await; steps.atomic(NAME, f).await;"#,
        r#"fn g() { steps.atomic("a", f); } steps.atomic("a", f).await;"#,
    ] {
        assert_eq!(body(good), [""; 0], "{good}");
    }
    for bad in [
        r#"steps.atomic("a", async |tx| Ok(())).await; steps.atomic("a", async |tx| Ok(())).await;"#,
        r#"if x { steps.external("a", &client, 1).at_most_once().call(f).await } else { steps.atomic("a", f).await }"#,
    ] {
        let faults = body(bad);
        assert_eq!(faults.len(), 1, "{bad}: {faults:?}");
        assert!(
            faults[0].starts_with("two steps are named `a`"),
            "{faults:?}"
        );
    }
}

#[test]
fn a_steps_own_transaction_is_one() {
    let function = r#"async fn f(steps: &mut Steps<Sqlite, Error>, account: Account, State(other): State<Other>) {
        steps.atomic("a", async |tx| {
            sqlx::query("INSERT INTO t VALUES (1)").execute(&mut *tx).await?;
            tx.commit().await
        }).await;
    }"#;
    let faults = faults(r#"scope = "account", operation = "a""#, function);
    assert!(faults.len() <= 1, "{faults:?}");
}

//! What is said depends on what the handler writes through; and clients that are sealed.

use super::{faults_of, tokens};
use syn::parse::Parser;

/// The messages for a body that is given a client and its steps or its transaction.
fn faults(handle: &str, body: &str) -> Vec<String> {
    assert!(
        syn::Block::parse_within.parse2(tokens(body)).is_ok(),
        "{body} is no body"
    );
    faults_of(&format!(
        "async fn pay({handle}, account: Account, State(gateway): State<External<Gateway>>, mailer: External<Mailer>, \
         Extension(idem_runtime::External(sms)): Extension<Sms>, bank: State<idem_runtime::External<dyn Bank>>, \
         ledger: books::External<Ledger>, book: External) -> Result<(), ApiError> {{ {body} }}"
    ))
}

const TX: &str = "tx: &mut Tx<Postgres>";
const STEPS: &str = "steps: &mut Steps<Postgres, ApiError>";

#[test]
fn a_client_that_is_called_where_nothing_opens_it_is_found() {
    for body in [
        "gateway.charge(new).await?;",
        "mailer.send();",
        "bank.transfer();",
        "bank.0.transfer();",
        "gateway.open().charge();",
        "gateway.clone().charge();",
        "let client = &gateway; client.charge();",
        "let request = Request::from(new); gateway.charge(&request).await?;",
        "let client = gateway.clone(); if ready { client.charge(); }",
        "tokio::join!(insert(tx), mailer.send());",
    ] {
        let faults = faults(TX, body);
        assert!(
            faults.len() == 1
                && faults[0].starts_with("`External` is sealed here: only `steps.external(..)`")
                && faults[0].contains("`&mut Steps<DB, E>`")
                && faults[0].ends_with("sent by `tx.outbox()`"),
            "{body}: {faults:?}"
        );
    }
    for (body, name) in [
        ("gateway.charge(new).await?;", "gateway"),
        (
            "steps.external(\"pay\", &gateway, new).at_most_once().call(async |_, key, new| gateway.charge(new).await).await?;",
            "gateway",
        ),
        (
            "steps.atomic(\"pay\", async |_| bank.transfer()).await?;",
            "bank",
        ),
    ] {
        let faults = faults(STEPS, body);
        let opened = if body.contains("atomic") {
            "`External` is sealed here: only `steps.external(..)`".to_owned()
        } else {
            format!("`External` is opened only by `steps.external(\"..\", &{name}, input)`")
        };
        assert!(
            faults.len() == 1 && faults[0].starts_with(&opened),
            "{body}: {faults:?}"
        );
    }
}

#[test]
fn a_client_that_is_only_carried_is_not_called() {
    for body in [
        "let other = gateway.clone(); keep(other, &mailer);",
        "let other: Sealed = mailer.into();",
        "let gateway = state.gateway(); gateway.charge();",
        "let gateway = accounts.clone(); gateway.charge();",
        "gateways.iter().for_each(|gateway| gateway.charge());",
        "if let Some(gateway) = found { gateway.charge(); }",
        "for mailer in mailers { mailer.send(); }",
        "match found { mailer => mailer.send() }",
        "tokio::select! { gateway = next() => gateway.charge(), () = stop() => {} }",
        "tokio::select! { Some(mailer) = Next { of: mailers }, if ready => mailer.send(), else => return Ok(()) }",
        "fn pay(gateway: Gateway) { gateway.charge(); }",
        "state.gateway.charge();",
        "sms.send(); ledger.write(); book.write();",
        "let text = format!(\"{gateway:?}\");",
        "gateway(); gateway::charge();",
        "#[allow(clippy::disallowed_methods, reason = \"a trait of ours\")] gateway.describe();",
    ] {
        assert_eq!(faults(TX, body), [""; 0], "{body}");
    }
    for body in [
        "steps.external(\"pay\", &gateway, new).at_most_once().call(async |gateway, key, new| gateway.charge(new).await).await?;",
        "steps.external(\"pay\", &gateway, new).reconcile(async |gateway, key| gateway.find(key).await).call(pay).await?;",
        // A trait of the user's own on `External`, which is given the steps.
        "gateway.pay(steps, new).await?;",
        "gateway.pay(&mut *steps, new).await?;",
    ] {
        assert_eq!(faults(STEPS, body), [""; 0], "{body}");
    }
}

#[test]
fn a_message_names_what_the_handler_has() {
    let only = |handle: &str, body: &str| {
        let mut faults = faults(handle, body);
        assert_eq!(faults.len(), 1, "{body}: {faults:?}");
        faults.remove(0)
    };
    let spawn = "tokio::spawn(async {});";
    let spawned = only(TX, spawn);
    assert!(spawned.contains("by `tx.outbox()`, call"), "{spawned}");
    assert!(spawned.contains("`&mut Steps<DB, E>`"), "{spawned}");
    let spawned = only(STEPS, spawn);
    assert!(
        spawned.contains(
            "by `tx.outbox()` in `steps.atomic(..)`, call another service by `steps.external(..)`;"
        ),
        "{spawned}"
    );
    let get = "reqwest::get(URL).await?;";
    for handle in [TX, STEPS] {
        for name in ["`tx.outbox()`", "`steps.external(..)`"] {
            assert!(only(handle, get).contains(name), "{handle}");
        }
    }
    let query = r#"sqlx::query("SELECT 1").execute(&account).await?;"#;
    assert!(only(TX, query).ends_with("pass `&mut *tx`"));
    assert!(
        only(STEPS, query)
            .ends_with("pass the transaction that `steps.atomic(..)` gives its closure")
    );
    let inside = format!("steps.atomic(\"read\", async |part| {{ {query} }}).await?;");
    assert!(only(STEPS, &inside).ends_with("pass `&mut *part`"));
}

//! What is refused in a body, and above all what is not.

mod handles;
mod outside;
mod repeats;
mod statements;

use proc_macro2::{Delimiter, Group, TokenTree};
use quote::quote;
use syn::{parse::Parser, visit::Visit};

use super::tokens;
use crate::{handler::Handler, idempotent::idempotent, lints};

/// The messages of the lints for a body, in a handler with these attributes and this database.
fn faults_in(attributes: &str, database: &str, body: &str) -> Vec<String> {
    let function = format!(
        "{attributes} async fn create(tx: &mut Tx<{database}>, account: Account, State(pool): State<Pool>, state: App, \
         Json(new): Json<New>) -> Result<(), ApiError> {{ {body} }}"
    );
    faults_of(&function)
}

fn faults_of(function: &str) -> Vec<String> {
    let handler: Handler = syn::parse2(tokens(function)).expect("a handler");
    lints::body(&handler).messages()
}

fn faults(body: &str) -> Vec<String> {
    faults_in("", "Postgres", body)
}

/// The body has this one fault, as its message begins.
#[track_caller]
fn refused(body: &str, beginning: &str) {
    let faults = faults(body);
    assert!(
        faults.len() == 1 && faults[0].starts_with(beginning),
        "{body}: {faults:?}"
    );
}

#[track_caller]
fn accepted(body: &str) {
    assert!(
        syn::Block::parse_within.parse2(tokens(body)).is_ok(),
        "{body} is no body"
    );
    assert_eq!(faults(body), [""; 0], "{body}");
}

/// All tokens of an expansion, as text.
fn expansion(function: &str) -> String {
    idempotent(tokens(r#"scope = "account""#), tokens(function)).to_string()
}

#[test]
fn a_lint_leaves_the_handler_as_it_is() {
    let function = |body: &str| {
        format!(
            "async fn create(tx: &mut Tx<Postgres>, account: Account) -> StatusCode {{ {body} }}"
        )
    };
    let with = expansion(&function("tokio::spawn(work()); StatusCode::OK"));
    let without = expansion(&function("tokio::spin(work()); StatusCode::OK"));
    let (errors, handler) = with.split_at(with.find("fn create").expect("it is there"));
    assert_eq!(errors.matches("compile_error").count(), 1, "{errors}");
    assert_eq!(handler.replace("tokio :: spawn", "tokio :: spin"), without);
}

#[test]
fn a_wrong_signature_hides_no_lint() {
    let expanded = expansion("fn create(tx: Tx<Postgres>) -> StatusCode { tokio::spawn(work()); }");
    assert!(expanded.contains("a spawned task outlives the transaction"));
    assert!(expanded.contains("must be an `async fn`"));
}

#[test]
fn a_transaction_of_the_wrong_form_is_not_called_something_else() {
    let query = r#"sqlx::query("SELECT 1").execute(&mut *tx).await;"#;
    for parameters in [
        "tx: Tx<Postgres>",
        "mut tx: Tx<Postgres>",
        "tx: &Tx<Postgres>",
        "(tx): (&mut Tx<Postgres>)",
    ] {
        let function = format!("async fn create({parameters}, account: Account) {{ {query} }}");
        let handler: Handler = syn::parse2(tokens(&function)).expect("a handler");
        assert_eq!(lints::body(&handler).messages(), [""; 0], "{parameters}");
    }
}

#[test]
fn a_handler_that_a_macro_makes_has_its_names() {
    let ty = TokenTree::from(Group::new(Delimiter::None, tokens("&mut Tx<MySql>")));
    let query = |on: &str| tokens(&format!(r#"sqlx::query("SELECT 1").execute({on}).await;"#));
    let handler = |on| -> Handler {
        let query = query(on);
        syn::parse2(quote!(async fn create(tx: #ty, account: Account) { #query }))
            .expect("a handler")
    };
    assert_eq!(lints::body(&handler("&mut *tx")).messages(), [""; 0]);
    assert_eq!(lints::body(&handler("&account")).messages().len(), 1);
}

#[test]
fn a_condition_on_an_argument_holds_for_the_lint_too() {
    let expanded = expansion(
        "async fn create(tx: &mut Tx<Postgres>, account: Account, #[cfg(audit)] log: Log) { tokio::spawn(work()); }",
    );
    struct Errors(usize);
    impl Visit<'_> for Errors {
        fn visit_item_macro(&mut self, item: &syn::ItemMacro) {
            assert!(
                item.attrs
                    .iter()
                    .any(|attribute| attribute.path().is_ident("cfg"))
            );
            self.0 += 1;
        }
    }
    let mut errors = Errors(0);
    errors.visit_file(&syn::parse_str(&expanded).expect("items"));
    assert_eq!(errors.0, 2, "one for each outcome: {expanded}");
}

#[test]
fn a_body_that_does_not_parse_has_no_lints() {
    assert_eq!(faults("tokio::spawn(work()); account."), [""; 0]);
}

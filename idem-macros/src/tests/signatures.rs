//! What is refused in a handler's signature, and in which words.

use super::faults as all_faults;

/// The errors of a function under a good attribute.
fn faults(function: &str) -> Vec<String> {
    all_faults(r#"scope = "account""#, function)
}

fn fault(function: &str) -> String {
    let mut faults = faults(function);
    assert_eq!(faults.len(), 1, "{function}: {faults:?}");
    faults.remove(0)
}

/// The error of a function with these parameters.
fn fault_of(parameters: &str) -> String {
    fault(&format!("async fn create({parameters}) -> StatusCode {{}}"))
}

fn accepted(function: &str) {
    assert_eq!(faults(function), [""; 0], "{function}");
}

#[test]
fn good_handlers_are_accepted() {
    for function in [
        "async fn f(tx: &mut Tx<Postgres>, account: Account) {}",
        "pub(crate) async fn f(account: Account, tx: &mut Transaction, body: Bytes) -> impl IntoResponse {}",
        "async fn f(tx: &mut (Tx<Postgres>), Account(mut account): Account, Json(new): Json<New>) -> StatusCode {}",
        "async fn f<'t>(tx: &'t mut Tx<Postgres>, account: Account) -> &'static str {}",
        "async fn f<'t>(tx: &'t mut Tx<Postgres>, account: Account) where 't: 't {}",
        "async fn f<R: Repo>(tx: &mut Tx<R::Db>, account: Account, State(repo): State<R>) -> Json<R::Row> where R: Clone {}",
        "async fn f(tx: &mut Tx<Postgres>, account: Account, s: State<fn(&str) -> &str>) -> StatusCode {}",
        "async fn f(tx: &mut Tx<Postgres>, account: Account, s: State<Arc<dyn Fn(&str) -> bool + Send>>) {}",
        "async fn f(tx: &mut Tx<Postgres>, account: Account) { impl Order { fn new() -> Self { Self } } }",
        "async fn f(tx: &mut Tx<Postgres>, account: Account) { account. }",
    ] {
        accepted(function);
    }
}

#[test]
fn what_async_trait_made_of_a_method_is_one_error() {
    let rewritten = "fn create<'async_trait>(tx: &'async_trait mut Tx<Postgres>, account: Account) \
        -> ::core::pin::Pin<Box<dyn ::core::future::Future<Output = StatusCode> + Send + 'async_trait>> {}";
    let fault = fault(rewritten);
    assert!(
        fault.starts_with("`#[async_trait]` has rewritten this function; `#[idempotent]` goes on"),
        "{fault}"
    );
}

#[test]
fn a_handler_is_a_plain_async_function() {
    let tail = "(tx: &mut Tx<Postgres>, account: Account) {}";
    assert_eq!(
        fault(&format!("fn create{tail}")),
        "an idempotent handler must be an `async fn`"
    );
    assert_eq!(
        fault(&format!("async unsafe fn create{tail}")),
        "an idempotent handler can't be `unsafe`"
    );
    assert_eq!(
        fault(&format!("const async fn create{tail}")),
        "an idempotent handler can't be `const`"
    );
    assert_eq!(
        fault(&format!("async extern \"C\" fn create{tail}")),
        "an idempotent handler can't be `extern`"
    );
    assert_eq!(
        fault("async fn create(tx: &mut Tx<Postgres>, account: Account, ...) {}"),
        "an idempotent handler can't take a variable number of arguments"
    );
}

#[test]
fn only_functions_with_a_body_are_handlers() {
    for item in [
        "struct S;",
        "const X: u8 = 1;",
        "unsafe impl A for B {}",
        "extern crate a;",
        "mod m {}",
        "",
    ] {
        let faults = faults(item);
        assert!(
            faults.len() == 1 && faults[0].contains("`#[idempotent]` goes on an `async fn`"),
            "{item}: {faults:?}"
        );
    }
    assert_eq!(
        fault("async fn create(tx: &mut Tx<Postgres>, account: Account);"),
        "`#[idempotent]` goes on an `async fn` with a body"
    );
}

#[test]
fn a_handler_takes_one_transaction_by_reference() {
    let missing = "an idempotent handler must take its transaction: add `tx: &mut Tx<DB>`";
    let by_value = "take the transaction by reference: `tx: &mut Tx<DB>`; the framework commits it";
    let second = "a handler has one transaction; remove the second";
    assert_eq!(fault_of("account: Account"), missing);
    assert_eq!(fault_of(""), missing);
    assert_eq!(fault_of("tx: Tx<Postgres>, account: Account"), by_value);
    assert_eq!(
        fault_of("tx: &idem_runtime::Tx<Postgres>, account: Account"),
        by_value
    );
    assert_eq!(fault_of("mut tx: Tx<Postgres>, account: Account"), by_value);
    assert_eq!(
        fault_of("a: &mut Tx<Postgres>, b: &mut Tx<Sqlite>, account: Account"),
        second
    );
    // the one that is called so is the transaction, in any place
    assert_eq!(
        fault_of("db: &mut PgConnection, tx: &mut Tx<Postgres>, account: Account"),
        second
    );
}

#[test]
fn another_transaction_is_met_with_the_right_one() {
    let message = "take the framework's transaction: `tx: &mut Tx<DB>`; the key and the answer commit with what is written through it, and it derefs to the connection";
    assert_eq!(
        fault_of("tx: &mut Transaction<'_, Postgres>, account: Account"),
        message
    );
    assert_eq!(fault_of("db: &mut PgConnection, account: Account"), message);
    assert_eq!(
        fault_of("db: &mut PoolConnection<Postgres>, account: Account"),
        message
    );
    assert_eq!(
        fault_of("tx: &mut Db<'_>, account: Account"),
        "the transaction can't borrow: write `tx: &mut Tx<DB>`"
    );
}

#[test]
fn a_method_can_t_be_a_handler() {
    for receiver in ["self", "&self", "&mut self", "self: Arc<Api>"] {
        assert_eq!(
            fault_of(&format!(
                "{receiver}, tx: &mut Tx<Postgres>, account: Account"
            )),
            "an idempotent handler can't take `self`; take what it needs from `State<_>`"
        );
    }
}

#[test]
fn self_does_not_reach_in() {
    let message = "`Self` doesn't reach into an idempotent handler; write the type's name";
    let handle = "tx: &mut Tx<Postgres>, account: Account";
    assert_eq!(
        fault_of(&format!("{handle}, Json(new): Json<Self>")),
        message
    );
    assert_eq!(
        fault(&format!("async fn f({handle}) -> Json<Self> {{}}")),
        message
    );
    assert_eq!(
        fault(&format!(
            "async fn f({handle}) {{ Self::create(tx).await }}"
        )),
        message
    );
    assert_eq!(
        fault(&format!("async fn f({handle}) {{ vec![Self {{}}] }}")),
        message
    );
    assert_eq!(
        fault(&format!("async fn f<T>({handle}) where T: Into<Self> {{}}")),
        message
    );
}

#[test]
fn arguments_are_named_and_owned() {
    assert_eq!(
        fault_of("tx: &mut Tx<Postgres>, account: impl Caller, body: Bytes"),
        "`impl Trait` can't be extracted from a request; name the type"
    );
    assert_eq!(
        fault_of("tx: &mut Tx<Postgres>, account: Account, s: State<Box<impl Caller>>"),
        "`impl Trait` can't be extracted from a request; name the type"
    );
    let borrowed = "an argument can't borrow: it is read from the request and owned by the handler; take it by value";
    for argument in ["&Account", "Account<'_>", "Cow<'a, str>", "State<&'a str>"] {
        let function = format!(
            "async fn f<'a>(tx: &'a mut Tx<Postgres>, account: {argument}, body: Bytes) {{}}"
        );
        assert_eq!(fault(&function), borrowed);
    }
}

#[test]
fn nothing_lives_as_long_as_the_transaction() {
    let answer = "the answer can't borrow: it outlives the handler's arguments; return owned data";
    let handle = "tx: &'a mut Tx<Postgres>, account: Account";
    assert_eq!(
        fault(&format!("async fn f<'a>({handle}) -> &'a str {{}}")),
        answer
    );
    assert_eq!(
        fault(&format!("async fn f<'a>({handle}) -> Cow<'_, str> {{}}")),
        answer
    );
    let types = "a handler's types can't depend on a lifetime of its own; use `'static`, or none";
    assert_eq!(
        fault(&format!("async fn f<'a, T: Foo<'a>>({handle}) {{}}")),
        types
    );
    assert_eq!(
        fault(&format!("async fn f<'a, T>({handle}) where T: 'a {{}}")),
        types
    );
}

#[test]
fn only_the_last_argument_reads_the_body() {
    for reader in [
        "Json<New>",
        "axum::Form<New>",
        "Bytes",
        "String",
        "Option<Json<New>>",
    ] {
        assert_eq!(
            fault_of(&format!(
                "tx: &mut Tx<Postgres>, new: {reader}, account: Account"
            )),
            "this reads the request's body, so it must be the last argument"
        );
    }
}

#[test]
fn sixteen_arguments_are_enough() {
    let arguments = |count| "_: A, ".repeat(count);
    accepted(&format!(
        "async fn f(tx: &mut Tx<Postgres>, account: A, {}) {{}}",
        arguments(15)
    ));
    assert_eq!(
        fault_of(&format!(
            "tx: &mut Tx<Postgres>, account: A, {}",
            arguments(16)
        )),
        "a handler can have at most 16 arguments besides its transaction; gather some in a struct with `#[derive(FromRequestParts)]`"
    );
}

#[test]
fn a_scope_is_among_the_parts() {
    let of = |scope: &str, parameters: &str| {
        let faults = all_faults(
            &format!("scope = {scope:?}"),
            &format!("async fn f({parameters}) {{}}"),
        );
        assert_eq!(faults.len(), 1, "{faults:?}");
        faults[0].clone()
    };
    let parameters = "tx: &mut Tx<Postgres>, account: Account, State(pricing): State<Pricing>, Json(new): Json<New>";
    assert_eq!(
        of("acount", parameters),
        "`scope = \"acount\"` names no parameter; did you mean `account`?"
    );
    assert_eq!(
        of("Account.id", parameters),
        "`scope = \"Account.id\"` names no parameter; did you mean `account`?"
    );
    assert_eq!(
        of("tenant", parameters),
        "`scope = \"tenant\"` names no parameter; there are `account`, `pricing`; name the authenticated caller"
    );
    assert_eq!(
        of("account", "tx: &mut Tx<Postgres>"),
        "`scope = \"account\"` names no parameter; take the caller's identity as an argument, as `account: Account`"
    );
    assert_eq!(
        of("account", "tx: &mut Tx<Postgres>, Json(_): Json<New>"),
        "`scope = \"account\"` names no parameter; take the caller's identity as an argument, as `account: Account`"
    );
    assert_eq!(
        of("tx", parameters),
        "`scope = \"tx\"` names the transaction; name the argument that says whose keys these are, as an authenticated account"
    );
    for reader in [
        "Json(new): Json<New>",
        "new: Bytes",
        "new: Option<Json<New>>",
        "new: axum::extract::Request",
    ] {
        assert_eq!(
            of(
                "new",
                &format!("tx: &mut Tx<Postgres>, account: Account, {reader}")
            ),
            "`scope = \"new\"` is read from the body; the scope must come from the request's parts, as an authenticated account"
        );
    }
}

#[test]
fn attributes_that_can_t_stay_are_named() {
    let below = |attribute: &str| {
        fault(&format!(
            "{attribute} async fn f(tx: &mut Tx<Postgres>, account: Account) {{}}"
        ))
    };
    let debug = "`#[debug_handler]` can't see through `#[idempotent]`; remove it, and say `state = AppState` in the attribute, with your state's type: then it makes the same checks";
    assert_eq!(below("#[debug_handler]"), debug);
    assert_eq!(below("#[axum::debug_handler(state = App)]"), debug);
    assert_eq!(
        below("#[utoipa::path(post, path = \"/\")]"),
        "`#[utoipa::path]` must read the handler's own arguments: move it above `#[idempotent]`"
    );
    assert_eq!(
        below("#[idempotent(scope = \"account\")]"),
        "`#[idempotent]` is given twice; remove one"
    );
}

#[test]
fn all_faults_come_together() {
    let faults = all_faults(
        r#"scope = "acount", ttl = "0s""#,
        "#[debug_handler] fn f(&self, tx: Tx<Postgres>, account: impl Caller, Json(x): Json<A>, last: &str) {}",
    );
    // ttl, debug_handler, async, self, Tx, impl Trait, Json, &str; the scope waits for a right signature
    assert_eq!(faults.len(), 8, "{faults:#?}");
}

#[test]
fn conditions_on_arguments_are_few() {
    let arguments: String = ('a'..='e')
        .map(|name| format!("#[cfg({name})] {name}: A, "))
        .collect();
    let fault = fault_of(&format!("tx: &mut Tx<Postgres>, account: A, {arguments}"));
    assert_eq!(
        fault,
        "a handler's arguments can have at most 4 different `#[cfg]` conditions"
    );
}

//! What handlers expand to, compared with the files in `tests/snapshots`. `IDEM_BLESS=1` writes them anew: read the
//! difference before you commit it.

use std::{fs, path::PathBuf};

use proc_macro2::TokenStream;

use super::tokens;
use crate::idempotent::idempotent;

const README: &str = r#"
    /// Takes an order.
    pub async fn create_order(
        tx: &mut Tx<Postgres>,
        account: Account,
        State(pricing): State<Pricing>,
        Json(new): Json<NewOrder>,
    ) -> Result<(StatusCode, Json<Order>), ApiError> {
        let order = insert_order(tx, &account, &new, &pricing).await?;
        Ok((StatusCode::CREATED, Json(order)))
    }
"#;

/// The lines that are generated for one handler, formatted.
const LONGEST: usize = 60;

/// Who reads what a handler expands to reads all of it. The handler's own function, which stands in it as written, is not
/// generated, nor is its documentation. Errors don't count, and each variant by `#[cfg]` counts by itself.
fn is_short(name: &str, item: &syn::Item) {
    let syn::Item::Fn(function) = item else {
        return;
    };
    let own = function
        .block
        .stmts
        .iter()
        .find_map(|statement| match statement {
            syn::Stmt::Item(item @ syn::Item::Fn(_)) => Some(lines(item)),
            _ => None,
        });
    let documentation = function
        .attrs
        .iter()
        .filter(|attribute| attribute.path().is_ident("doc"));
    let lines = lines(item) - own.unwrap_or(0) - documentation.count();
    assert!(lines <= LONGEST, "{name}: {lines} lines for one handler");
}

fn lines(item: &syn::Item) -> usize {
    let file = syn::File {
        shebang: None,
        attrs: Vec::new(),
        items: vec![item.clone()],
    };
    prettyplease::unparse(&file).lines().count()
}

fn expansion(arguments: &str, function: &str) -> String {
    let expanded = idempotent(tokens(arguments), tokens(function));
    let file = syn::parse2(expanded).expect("an expansion is a list of items");
    prettyplease::unparse(&file)
}

fn matches_snapshot(name: &str, arguments: &str, function: &str) -> String {
    matches(name, idempotent(tokens(arguments), tokens(function)))
}

/// Compares an expansion with the snapshot, and returns its text.
pub(super) fn matches(name: &str, expanded: TokenStream) -> String {
    let file: syn::File = syn::parse2(expanded).expect("an expansion is a list of items");
    for item in &file.items {
        is_short(name, item);
    }
    let expanded = prettyplease::unparse(&file);
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "snapshots", name]
        .iter()
        .collect::<PathBuf>()
        .with_extension("rs");
    if std::env::var_os("IDEM_BLESS").is_some() {
        fs::write(&path, &expanded).expect("the snapshot can be written");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == expanded,
        "{} differs; `IDEM_BLESS=1` accepts:\n{expanded}",
        path.display()
    );
    expanded
}

#[test]
fn a_plain_handler() {
    matches_snapshot("plain", r#"scope = "account", ttl = "48h""#, README);
}

#[test]
fn a_scope_inside_a_pattern() {
    matches_snapshot(
        "destructured_scope",
        r#"scope = "claims.tenant.0""#,
        r"
        async fn transfer(
            State(fees): State<Fees>,
            Token { ref mut claims, issued, .. }: Token,
            tx: &mut Tx<Sqlite>,
            Json(order): Json<Transfer>,
        ) -> Json<Receipt> {
            receipt(order)
        }",
    );
}

#[test]
fn a_scope_in_the_last_argument() {
    matches_snapshot(
        "all_parts",
        r#"scope = "id", authorize = may_close, state = AppState"#,
        r"
        async fn close(tx: &mut Tx<MySql>, Path(shop): Path<Uuid>, Account(id): Account) {
            shop.close(tx).await;
        }",
    );
}

#[test]
fn a_handler_with_steps() {
    matches_snapshot(
        "steps",
        r#"scope = "account", operation = "charges.create", definition = 2"#,
        r#"
        async fn create_charge(
            steps: &mut Steps<Postgres, ApiError>,
            account: Account,
            State(gateway): State<External<Gateway>>,
            Json(new): Json<NewCharge>,
        ) -> Result<Json<Charge>, ApiError> {
            charge(steps, account, &gateway, new).await
        }"#,
    );
}

#[test]
fn a_generic_handler() {
    matches_snapshot(
        "generic",
        r#"scope = "account""#,
        r"
        pub(crate) async fn create<'t, R: Repo + ?Sized, const N: usize>(
            tx: &'t mut Tx<R::Database>,
            account: Account,
            State(repo): State<Arc<R>>,
            Json(new): Json<[New; N]>,
        ) -> Result<Json<R::Row>, R::Error>
        where
            't: 't,
            R::Error: IntoResponse,
        {
            repo.create(tx, account, new).await
        }",
    );
}

#[test]
fn an_answer_without_a_name() {
    matches_snapshot(
        "impl_into_response",
        r#"scope = "account""#,
        r"
        async fn create(tx: &mut Tx<Postgres>, account: Account, body: Bytes) -> impl IntoResponse {
            StatusCode::CREATED
        }",
    );
}

#[test]
fn every_argument() {
    matches_snapshot(
        "every_argument",
        r#"
            scope = "account",
            ttl = "7d",
            errors = "store",
            in_flight = "reject",
            wait = "250ms",
            expired = "reject",
            tombstone = "30d",
            timeout = "2m",
            max_body = "64KiB",
            max_response = 1_000_000,
            fingerprint_headers = ["X-Api-Version"],
            fingerprint_ignore = ["/sent_at", "?utm_source"],
            key_space = "operation",
            authorize = policy::may_create,
            replay_with = rebuild::<Order, Invoice>,
            operation = "orders.create",
            key = "optional",
            crate = "::shop::idem",
            state = AppState<Live, Metrics>,
        "#,
        README,
    );
}

#[test]
fn a_condition_on_an_argument() {
    matches_snapshot(
        "conditional_argument",
        r#"scope = "account""#,
        r#"
        #[cfg(feature = "orders")]
        async fn create(
            tx: &mut Tx<Postgres>,
            /// Whose order it is.
            account: Account,
            #[cfg(feature = "audit")] State(audit): State<Audit>,
            #[allow(unused_variables)] Json(new): Json<New>,
        ) -> StatusCode {
            #[cfg(feature = "audit")]
            audit.note(&account);
            StatusCode::CREATED
        }"#,
    );
}

#[test]
fn other_attributes() {
    matches_snapshot(
        "other_attributes",
        r#"scope = "account""#,
        r#"
        #[tracing::instrument(skip_all)]
        #[must_use]
        #[expect(dead_code)]
        #[allow(clippy::disallowed_methods, reason = "audited")]
        #[deprecated]
        async fn create(tx: &mut Tx<Postgres>, account: Account) -> StatusCode {
            StatusCode::CREATED
        }"#,
    );
}

#[test]
fn wrong_arguments_leave_a_handler() {
    let expanded = matches_snapshot(
        "wrong_arguments",
        r#"scope = "acount", ttl = "48x", retries = 3"#,
        README,
    );
    assert!(expanded.contains("tx: &mut Tx<Postgres>"));
    assert!(expanded.contains("insert_order(tx, &account, &new, &pricing)"));
}

#[test]
fn a_wrong_signature_leaves_a_handler_that_is_never_called() {
    let expanded = matches_snapshot(
        "wrong_signature",
        r#"scope = "account""#,
        r"
        async fn create(tx: Tx<Postgres>, account: Account) -> StatusCode {
            StatusCode::CREATED
        }",
    );
    assert!(expanded.contains("tx: Tx<Postgres>"));
}

#[test]
fn a_method_stays_where_it_is() {
    let expanded = matches_snapshot(
        "method",
        r#"scope = "account""#,
        r"
        async fn create(&self, tx: &mut Tx<Postgres>, account: Account) -> StatusCode {
            self.create(tx, account).await
        }",
    );
    assert!(expanded.contains("async fn create(&self, tx"), "{expanded}");
}

#[test]
fn an_unfinished_body_is_passed_on() {
    for arguments in [r#"scope = "account""#, r#"scop = "account""#] {
        let expanded = idempotent(
            tokens(arguments),
            tokens("async fn create(tx: &mut Tx<Postgres>, account: Account) { account. }"),
        );
        let text = expanded.to_string();
        assert!(text.contains("{ account . }"), "{text}");
        assert!(text.contains("async fn create"), "{text}");
    }
}

#[test]
fn an_item_that_is_no_function_is_passed_on() {
    let text = idempotent(
        tokens(r#"scope = "account""#),
        tokens("struct Order { id: u64 }"),
    );
    let text = text.to_string();
    assert!(text.contains("struct Order { id : u64 }"), "{text}");
    assert!(text.contains("goes on an `async fn`"), "{text}");
}

#[test]
fn a_name_that_the_handler_uses_is_left_to_it() {
    let expanded = expansion(
        r#"scope = "account""#,
        "async fn create(tx: &mut Tx<Postgres>, account: Account, Json(o): Json<CreateOperation>) {}",
    );
    assert!(expanded.contains("struct CreateOperation_;"), "{expanded}");
}

#[test]
fn a_raw_name_is_given_without_its_prefix() {
    let expanded = expansion(
        r#"scope = "type""#,
        "async fn r#move(tx: &mut Tx<Postgres>, r#type: Account, body: Bytes) {}",
    );
    assert!(
        expanded.contains(r#"spec!("move", "type", "r#move")"#),
        "{expanded}"
    );
}

#[test]
fn a_function_named_as_one_of_our_variables_is_still_called() {
    let expanded = expansion(
        r#"scope = "account""#,
        "async fn tx(tx: &mut Tx<Postgres>, account: Account) {}",
    );
    assert!(expanded.contains("tx(tx_, args.0.0)"), "{expanded}");
    let expanded = expansion(
        r#"scope = "account""#,
        "async fn call(tx: &mut Tx<Postgres>, account: Account) {}",
    );
    assert!(
        expanded.contains("run::<CallOperation>(call_)"),
        "{expanded}"
    );
}

#[test]
fn each_argument_is_checked_whatever_else_is_wrong_or_said() {
    let function =
        "async fn create(tx: &mut Tx<Postgres>, account: Account, State(pool): State<PgPool>) {}";
    for arguments in [
        r#"scope = "account""#,
        r#"scope = "account", state = AppState"#,
        r#"scope = "acount", ttl = "48x""#,
    ] {
        let expanded = expansion(arguments, function);
        let state = arguments.contains("state");
        for (ty, takes) in [("Account", "takes_part"), ("State<PgPool>", "takes_last")] {
            let check = match takes {
                _ if !state => format!("vet::<{ty}>().takes::<{ty}>();"),
                "takes_last" => format!("vet::<{ty}>().takes_last::<{ty}, AppState, _>();"),
                _ => format!("vet::<{ty}>().takes_part::<{ty}, AppState>();"),
            };
            assert!(expanded.contains(&check), "{arguments}: {expanded}");
        }
        assert!(!expanded.contains("takes::<Tx"), "{expanded}");
        // the check is rustc's: the function stands, so that an editor knows it and its arguments
        assert!(
            expanded.contains("State(pool): State<PgPool>"),
            "{expanded}"
        );
    }
}

//! What the derives make, and what they refuse.

use super::tokens;
use crate::derive::{disposition, effect_free, scope};

fn pretty(expanded: proc_macro2::TokenStream) -> String {
    let file = syn::parse2(expanded).expect("an expansion is a list of items");
    prettyplease::unparse(&file)
}

/// The message of a single `compile_error!`.
fn fault(expanded: proc_macro2::TokenStream) -> String {
    let text = pretty(expanded);
    assert_eq!(text.matches("compile_error!").count(), 1, "{text}");
    let start = text.find('"').map_or(0, |at| at + 1);
    let end = text.rfind('"').unwrap_or(start);
    text[start..end].replace("\\\"", "\"")
}

#[test]
fn a_newtype_is_the_scope_that_it_holds() {
    for item in [
        "struct Id(Uuid);",
        "struct Id { id: Uuid }",
        "struct Id<T>(Uuid, PhantomData<T>);",
    ] {
        let text = pretty(scope::derive(tokens(item)));
        assert!(text.contains("Scope::write_scope(&self."), "{text}");
        assert!(!text.contains("where"), "{text}");
    }
}

#[test]
fn several_fields_are_a_tuple_in_their_order() {
    let text = pretty(scope::derive(tokens(
        "struct Member { tenant: Tenant, user: u64 }",
    )));
    assert!(
        text.contains("out.tuple(&[&self.tenant, &self.user]);"),
        "{text}"
    );
}

#[test]
fn a_generic_scope_bounds_its_fields() {
    let text = pretty(scope::derive(tokens(
        "struct Pair<A: Copy, B>(A, Arc<B>, u8) where B: Send;",
    )));
    assert!(
        text.contains("impl<A: Copy, B> ::idem_runtime::__private::Scope for Pair<A, B>"),
        "{text}"
    );
    assert!(
        text.contains("A: ::idem_runtime::__private::Scope,"),
        "{text}"
    );
    assert!(
        text.contains("Arc<B>: ::idem_runtime::__private::Scope,"),
        "{text}"
    );
    assert!(!text.contains("u8:"), "{text}");
}

#[test]
fn the_runtime_may_have_another_name() {
    let text = pretty(scope::derive(tokens(
        "#[scope(crate = \"::idem\")] struct Id(Uuid);",
    )));
    assert!(
        text.contains("impl ::idem::__private::Scope for Id"),
        "{text}"
    );
    let text = pretty(disposition::derive(tokens(
        "#[disposition(crate = \"crate::idem\")] enum E { #[disposition(rejection)] A }",
    )));
    assert!(
        text.contains("impl crate::idem::__private::Disposition for E"),
        "{text}"
    );
    let text = pretty(disposition::derive(tokens(
        "#[disposition(crate = \"::idem\")] #[disposition(rejection)] struct E;",
    )));
    assert!(
        text.contains("::idem::__private::ErrorKind::Rejection"),
        "{text}"
    );
}

#[test]
fn a_scope_is_a_struct_with_fields() {
    assert_eq!(
        fault(scope::derive(tokens("enum Caller { User(u64), Guest }"))),
        "`Scope` can't be derived for an enum; implement it by hand, so that no two owners write the same"
    );
    assert_eq!(
        fault(scope::derive(tokens("union U { a: u8 }"))),
        "`Scope` can't be derived for a union; implement it by hand, so that no two owners write the same"
    );
    for item in [
        "struct Nobody;",
        "struct Nobody {}",
        "struct Nobody<T>(PhantomData<T>);",
    ] {
        assert_eq!(
            fault(scope::derive(tokens(item))),
            "`Nobody` has no field that says whose keys these are: all its callers would share them"
        );
    }
    assert_eq!(
        fault(scope::derive(tokens("#[scope(skip)] struct A(u8);"))),
        "`#[scope(..)]` takes only `crate = \"::path\"`"
    );
}

#[test]
fn each_variant_says_what_it_leaves() {
    let text = pretty(disposition::derive(tokens(
        "enum ApiError<E> {
            #[disposition(validation)] Negative,
            #[disposition(rejection)] Declined { code: u16 },
            #[disposition(transient)] Busy(u8, #[from] Timeout),
            #[disposition(source)] Database(sqlx::Error),
            #[disposition(source)] Other(Box<dyn Error + Send + Sync>),
            #[disposition(transparent)] Stock(Stock<E>),
        }",
    )));
    for line in [
        "Stock<E>: ::idem_runtime::__private::Disposition,",
        "Self::Negative { .. } => ::idem_runtime::__private::ErrorKind::Validation,",
        "Self::Declined { .. } => ::idem_runtime::__private::ErrorKind::Rejection,",
        "Self::Busy { .. } => ::idem_runtime::__private::ErrorKind::Transient,",
        "Self::Database { .. } => ::idem_runtime::__private::ErrorKind::Transient,",
        "::idem_runtime::__private::Disposition::disposition(field)",
        "Self::Declined { .. } => ::core::option::Option::None,",
        "Self::Busy { 1: field, .. } => {
                ::core::option::Option::Some(
                    ::idem_runtime::__private::underneath().is(field),
                )",
        "Self::Database { 0: field, .. } => {
                ::core::option::Option::Some(
                    ::idem_runtime::__private::underneath().is(field),
                )",
        "Self::Other { 0: field, .. } => ::core::option::Option::Some(&**field),",
        "::idem_runtime::__private::Disposition::cause(field)",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn a_struct_says_it_once() {
    let text = pretty(disposition::derive(tokens(
        "#[disposition(rejection)] struct Declined;",
    )));
    assert!(
        text.contains("Self { .. } => ::idem_runtime::__private::ErrorKind::Rejection,"),
        "{text}"
    );
    assert!(!text.contains("fn cause"), "{text}");
    assert_eq!(
        fault(disposition::derive(tokens(
            "#[disposition(rejection)] #[disposition(transient)] struct D;"
        ))),
        "`D` has one disposition; remove the second"
    );
}

#[test]
fn a_variant_without_an_attribute_is_told_the_choices() {
    let missing = "say what `Sold` leaves of its key: `#[disposition(validation)]`, `#[disposition(rejection)]` or `#[disposition(transient)]`";
    assert_eq!(
        fault(disposition::derive(tokens("enum E { Sold }"))),
        missing
    );
    assert_eq!(fault(disposition::derive(tokens("struct Sold;"))), missing);
    let several = disposition::derive(tokens("enum E { A, B, #[disposition(rejection)] C }"));
    assert_eq!(several.to_string().matches("compile_error").count(), 2);
}

#[test]
fn wrong_dispositions_are_refused() {
    assert_eq!(
        fault(disposition::derive(tokens(
            "enum E { #[disposition(rejecton)] A }"
        ))),
        "unknown disposition `rejecton`; did you mean `rejection`?"
    );
    assert_eq!(
        fault(disposition::derive(tokens(
            "enum E { #[disposition(store)] A }"
        ))),
        "unknown disposition `store`; write one of `validation`, `rejection`, `transient`, `source`, `transparent`"
    );
    for empty in [
        "#[disposition]",
        "#[disposition()]",
        "#[disposition(a, b)]",
        "#[disposition = \"a\"]",
    ] {
        assert_eq!(
            fault(disposition::derive(tokens(&format!(
                "enum E {{ {empty} A }}"
            )))),
            "write one of `validation`, `rejection`, `transient`, `source`, `transparent`"
        );
    }
    for word in ["source", "transparent"] {
        for fields in ["", "(A, B)"] {
            assert_eq!(
                fault(disposition::derive(tokens(&format!(
                    "enum E {{ #[disposition({word})] A{fields} }}"
                )))),
                format!("`{word}` asks the field, so `A` must have exactly one")
            );
        }
    }
    assert_eq!(
        fault(disposition::derive(tokens(
            "#[disposition(transient)] enum E { #[disposition(rejection)] A }"
        ))),
        "write `#[disposition(..)]` on each variant; variants differ in what they leave of their key"
    );
    assert_eq!(
        fault(disposition::derive(tokens("union U { a: u8 }"))),
        "`Disposition` can't be derived for a union"
    );
}

#[test]
fn an_error_that_can_t_happen_has_no_arms() {
    let text = pretty(disposition::derive(tokens("enum Never {}")));
    assert!(text.contains("match *self {}"), "{text}");
}

#[test]
fn a_type_is_free_of_effects_if_its_fields_are() {
    let text = pretty(effect_free::derive(tokens(
        "struct Pricing { cents: u64, #[effect_free(trust = \"read only\")] rates: Rates, names: Vec<String> }",
    )));
    assert!(
        text.contains("impl ::idem_runtime::__private::EffectFree for Pricing {}"),
        "{text}"
    );
    for ty in ["u64", "Vec<String>"] {
        let check = format!("field().must_be_effect_free::<{ty}>();");
        assert!(text.contains(&check), "{text}");
    }
    assert!(!text.contains("<Rates>"), "{text}");
}

#[test]
fn each_variants_fields_are_checked() {
    let text = pretty(effect_free::derive(tokens(
        "enum Discount { None, Percent(u8), Tiers { from: Instant } }",
    )));
    for ty in ["u8", "Instant"] {
        let check = format!("must_be_effect_free::<{ty}>();");
        assert!(text.contains(&check), "{text}");
    }
}

#[test]
fn a_generic_field_is_a_bound_unless_it_holds_the_type_itself() {
    let text = pretty(effect_free::derive(tokens(
        "struct Tree<T> { value: Option<T>, children: Vec<Tree<T>>, tag: u8 }",
    )));
    assert!(
        text.contains("Option<T>: ::idem_runtime::__private::EffectFree"),
        "{text}"
    );
    assert!(!text.contains("Vec<Tree<T>>: "), "{text}");
    for ty in ["Vec<Tree<T>>", "u8"] {
        let check = format!("must_be_effect_free::<{ty}>();");
        assert!(text.contains(&check), "{text}");
    }
    assert!(!text.contains("must_be_effect_free::<Option<T>>"), "{text}");
}

#[test]
fn a_field_may_call_the_type_itself() {
    let text = pretty(effect_free::derive(tokens(
        "struct Tree<T> { value: T, children: Vec<(u8, Option<Box<Self>>)> }",
    )));
    let check = "must_be_effect_free::<Vec<(u8, Option<Box<Tree<T>>>)>>();";
    assert!(text.contains(check), "{text}");
    assert!(!text.contains("Self"), "{text}");
}

#[test]
fn trust_needs_a_reason_and_stands_on_a_field() {
    for field in [
        "#[effect_free(trust)] a: A",
        "#[effect_free(trust = \" \")] a: A",
        "#[effect_free(trust = 1)] a: A",
        "#[effect_free] a: A",
        "#[effect_free(trust = \"read only\", more)] a: A",
    ] {
        let text = fault(effect_free::derive(tokens(&format!(
            "struct S {{ {field} }}"
        ))));
        assert!(text.contains("say why the field has no effects"), "{text}");
    }
    for item in [
        "#[effect_free(trust = \"all of it\")] struct S(A);",
        "enum E { #[effect_free(trust = \"all of it\")] One(A) }",
    ] {
        let text = fault(effect_free::derive(tokens(item)));
        assert!(text.contains("trust goes on the field"), "{text}");
    }
    assert!(fault(effect_free::derive(tokens("union U { a: u8 }"))).contains("union"));
}

#[test]
fn a_faulty_type_is_effect_free_all_the_same() {
    let text = pretty(effect_free::derive(tokens("struct S(#[effect_free] A);")));
    assert!(text.contains("EffectFree for S {}"), "{text}");
}

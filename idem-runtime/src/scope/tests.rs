#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn text<T: Scope>(owner: T) -> String {
    ScopeKey::of(&owner).as_str().to_owned()
}

fn key(value: &str) -> IdempotencyKey {
    IdempotencyKey::parse(format!("\"{value}\"").as_bytes(), true).unwrap()
}

#[test]
fn the_canonical_text_is_frozen() {
    let uuid = Uuid::from_u128(0x8e03_978e_40d5_43e8_bc93_6894_a57f_9324);
    assert_eq!(text("alice"), "s5:alice");
    assert_eq!(text(""), "s0:");
    assert_eq!(text("ü"), "s2:ü");
    assert_eq!(text(-42_i16), "i-42");
    assert_eq!(text(u128::MAX), format!("i{}", u128::MAX));
    assert_eq!(text(uuid), "u8e03978e-40d5-43e8-bc93-6894a57f9324");
    assert_eq!(text(("a:b", "c")), "(s3:a:bs1:c)");
    assert_eq!(
        text((1, ("x", uuid.to_string()))),
        format!("(i1(s1:xs36:{uuid}))")
    );
    assert_eq!(text((1, 2, 3, 4, 5, 6)), "(i1i2i3i4i5i6)");
}

#[test]
fn an_owner_is_the_same_whatever_holds_it() {
    assert_eq!(text(7_u8), text(7_i64));
    assert_eq!(text(7_usize), text(NonZero::new(7_u32).unwrap()));
    assert_eq!(text("a"), text(String::from("a")));
    assert_eq!(text("a"), text(Cow::Borrowed("a")));
    assert_eq!(text("a"), text(Arc::<str>::from("a")));
    assert_eq!(text("a"), text(Box::new(&"a")));
}

#[test]
fn kinds_and_nesting_count() {
    let texts = [
        text("1"),
        text(1),
        text((1,)),
        text(((1,),)),
        text(("a", "b", "c")),
        text((("a", "b"), "c")),
        text(("a", ("b", "c"))),
        text("(s1:a)"),
        text(("a",)),
    ];
    for (index, one) in texts.iter().enumerate() {
        assert!(!texts[..index].contains(one), "{one}");
    }
}

#[test]
fn an_implementation_that_writes_several_parts_is_one_owner() {
    struct Loose(Vec<&'static str>);
    impl Scope for Loose {
        fn write_scope(&self, out: &mut ScopeBuilder) {
            self.0.iter().for_each(|part| out.string(part));
        }
    }
    assert_ne!(
        text((Loose(vec!["a", "b"]), Loose(vec!["c"]))),
        text((Loose(vec!["a"]), Loose(vec!["b", "c"])))
    );
    assert_ne!(text((Loose(vec![]), "a")), text(("a", Loose(vec![]))));
}

#[test]
fn debug_hides_the_owner() {
    assert_eq!(format!("{:?}", ScopeKey::of("alice")), "ScopeKey(..)");
}

#[test]
fn record_ids_are_frozen() {
    // A change of any of these would orphan every stored record.
    let (alice, key) = (ScopeKey::of("alice"), key("k-1"));
    let plain = RecordId::new(&alice, None, &key);
    let of_operation = RecordId::new(&alice, Some("orders.create"), &key);
    assert_eq!(
        digest::hex(plain.as_bytes()),
        "b289bed60b2b966070fa904702ecd18411e7be838b32c60a53f611e31ea79785"
    );
    assert_eq!(
        digest::hex(of_operation.as_bytes()),
        "ad416fe870ea55a5d0349e17a801a5be8944735b0bf72b3376284662105a9ecf"
    );
    assert_eq!(
        operation_id(&alice, "orders.create", &key).to_string(),
        "d27b30e2-51f5-8dc1-a92a-4faa2e15c725"
    );
    assert_eq!(
        format!("{plain:?}"),
        format!("RecordId({})", digest::hex(plain.as_bytes()))
    );
}

#[test]
fn the_time_of_a_key_leads_its_record() {
    let alice = ScopeKey::of("alice");
    let ids = |value: &str| {
        let key = key(value);
        [
            RecordId::new(&alice, None, &key),
            RecordId::new(&alice, Some("orders.create"), &key),
        ]
    };
    // The examples of RFC 9562 (appendix A.6) and of the ULID specification.
    for (value, time) in [
        ("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "017f22e279b0"),
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "01563e3ab5d3"),
    ] {
        for id in ids(value) {
            let digits = digest::hex(id.as_bytes());
            assert_eq!(&digits[..12], time, "{value}");
        }
    }
    // A change of any of these would orphan every stored record.
    assert_eq!(
        digest::hex(ids("017f22e2-79b0-7cc3-98c4-dc0c0c07398f")[0].as_bytes()),
        "017f22e279b0860903bab9d0bf62af656f1cc613dbb020b73f5b4b6f0147978e"
    );
    assert_eq!(
        digest::hex(ids("01ARZ3NDEKTSV4RRFFQ69G5FAV")[1].as_bytes()),
        "01563e3ab5d37dbf46611821030787bd5b6a50bb09cd1b2638c69634cc774a4f"
    );
    // Keys are compared byte by byte, whatever they have in common.
    let spellings = [
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "017F22E2-79B0-7CC3-98C4-DC0C0C07398F",
        "017f22e279b07cc398c4dc0c0c07398f",
    ];
    let distinct: HashMap<_, _> = spellings
        .map(|spelling| (ids(spelling)[0], spelling))
        .into();
    assert_eq!(distinct.len(), spellings.len());
    // Nor do two that share their time share a lock, a slot or a shard.
    let [one, _] = ids("017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
    let [other, _] = ids("017f22e2-79b0-7cc3-98c4-dc0c0c073990");
    assert_ne!(one.lock_word(), other.lock_word());
    assert_ne!(one.filter_word(), other.filter_word());
    assert_ne!(one.shard(256), other.shard(256));
}

#[test]
fn words_are_bytes_of_the_id() {
    let id = RecordId(std::array::from_fn(|index| 0x80 + index as u8));
    assert_eq!(id.lock_word(), i32::from_be_bytes([0x90, 0x91, 0x92, 0x93]));
    assert_eq!(id.filter_word(), 0x8889_8a8b_8c8d_8e8f);
    assert_eq!(id.shard(64), 0x94 % 64);
}

#[test]
fn an_operation_id_is_a_version_8_uuid() {
    let id = operation_id(&ScopeKey::of(&1), "op", &key("k"));
    assert_eq!(id.get_version_num(), 8);
    assert_eq!(id.get_variant(), uuid::Variant::RFC4122);
}

#[test]
fn owner_operation_and_key_never_run_together() {
    let ids = [
        RecordId::new(&ScopeKey::of("a:b"), None, &key("c")),
        RecordId::new(&ScopeKey::of("a"), None, &key("b:c")),
        RecordId::new(&ScopeKey::of("a"), Some(""), &key("b:c")),
        RecordId::new(&ScopeKey::of("a"), Some("b"), &key("c")),
        RecordId::new(&ScopeKey::of("a"), Some("bc"), &key("d")),
        RecordId::new(&ScopeKey::of("a"), Some("b"), &key("cd")),
    ];
    for (index, id) in ids.iter().enumerate() {
        assert!(!ids[..index].contains(id), "{id:?}");
    }
}

/// Any owner; the tree itself tells whether two are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Owner {
    Text(String),
    Integer(i64),
    Uuid(u128),
    Tuple(Vec<Owner>),
}

impl Scope for Owner {
    fn write_scope(&self, out: &mut ScopeBuilder) {
        match self {
            Owner::Text(text) => out.string(text),
            Owner::Integer(value) => out.signed((*value).into()),
            Owner::Uuid(value) => out.uuid(Uuid::from_u128(*value)),
            Owner::Tuple(members) => {
                let members: Vec<&dyn Scope> =
                    members.iter().map(|member| member as &dyn Scope).collect();
                out.tuple(&members);
            }
        }
    }
}

/// Few and treacherous values, so that different trees come close to each other.
fn any_owner() -> impl Strategy<Value = Owner> {
    let leaf = prop_oneof![
        "[s1:(i)]{0,4}".prop_map(Owner::Text),
        (-2_i64..12).prop_map(Owner::Integer),
        (0_u128..2).prop_map(Owner::Uuid),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        proptest::collection::vec(inner, 0..4).prop_map(Owner::Tuple)
    })
}

/// By which a tenant's rows are found, as the chapter on regions tells.
#[test]
fn a_tenant_is_the_beginning_of_its_users() {
    assert!(text(("acme", "bob")).starts_with("(s4:acme"));
    assert!(text((7, "bob")).starts_with("(i7s"));
    assert!(!text((70, "bob")).starts_with("(i7s"));
    assert!(!text(("7", "bob")).starts_with("(i7s"));
}

proptest! {
    #[test]
    fn no_other_tenant_begins_so(tenant in "[s1:(ab]{0,6}", other in "[s1:(ab]{0,6}", user in "[s1:(ab]{0,4}", number: i64) {
        let begins = format!("(s{}:{tenant}", tenant.len());
        prop_assert!(text((&*tenant, &*user)).starts_with(&begins));
        prop_assert!(text((&*tenant, number)).starts_with(&begins));
        prop_assert_eq!(text((&*other, &*user)).starts_with(&begins), other == tenant);
        prop_assert!(!text((number, &*tenant)).starts_with(&begins));
        prop_assert!(!text(((&*tenant, &*user), number)).starts_with(&begins));
    }

    #[test]
    fn different_owners_have_different_texts(
        owners in proptest::collection::vec(any_owner(), 2..60),
    ) {
        let mut seen = HashMap::<String, Owner>::new();
        for owner in owners {
            let previous = seen.insert(ScopeKey::of(&owner).as_str().to_owned(), owner.clone());
            prop_assert!(previous.is_none_or(|previous| previous == owner));
        }
    }

    #[test]
    fn a_separator_may_stand_anywhere(joined in "[a:]{2,8}", at in 1_usize..8, other in 1_usize..8) {
        let (at, other) = (at.min(joined.len() - 1), other.min(joined.len() - 1));
        let split = |at: usize| text((&joined[..at], &joined[at..]));
        prop_assert_eq!(split(at) == split(other), at == other);
    }
}

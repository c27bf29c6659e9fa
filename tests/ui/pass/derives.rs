//! Scopes of every shape that can be derived.

#[path = "../support.rs"]
mod support;
use support::*;

use idem_runtime::scope::ScopeKey;
use std::marker::PhantomData;

#[derive(Scope)]
struct Newtype(u64);

#[derive(Scope)]
struct Named {
    id: u64,
}

#[derive(Scope)]
struct Member<T> {
    tenant: T,
    user: u64,
    marker: PhantomData<fn() -> T>,
}

#[derive(Scope)]
struct Typed<T>(u64, PhantomData<T>);

#[derive(Scope)]
struct Borrowed<'a>(&'a str);

#[derive(Scope)]
struct Raw {
    r#type: String,
    name: String,
}

struct NoScope;

fn main() {
    assert_eq!(ScopeKey::of(&Newtype(7)), ScopeKey::of(&7_u8));
    assert_eq!(ScopeKey::of(&Named { id: 7 }), ScopeKey::of(&7_u8));
    assert_eq!(ScopeKey::of(&Typed::<NoScope>(7, PhantomData)), ScopeKey::of(&7_u8));
    assert_eq!(ScopeKey::of(&Borrowed("a")), ScopeKey::of("a"));
    let member = Member {
        tenant: "acme",
        user: 3,
        marker: PhantomData,
    };
    assert_eq!(ScopeKey::of(&member), ScopeKey::of(&("acme", 3)));
    let raw = Raw {
        r#type: "a".into(),
        name: "b".into(),
    };
    assert_eq!(ScopeKey::of(&raw), ScopeKey::of(&("a", "b")));
}

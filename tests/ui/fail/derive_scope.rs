#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

#[derive(Scope)]
enum Caller {
    User(u64),
    Guest,
}

#[derive(Scope)]
struct Nobody;

#[derive(Scope)]
struct Session {
    user: u64,
    agent: Option<String>,
}

fn main() {}

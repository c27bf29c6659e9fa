#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

#[derive(Disposition)]
enum Missing {
    #[disposition(rejection)]
    Declined,
    Sold,
    Broken(sqlx::Error),
}

#[derive(Disposition)]
enum Wrong {
    #[disposition(rejecton)]
    Declined,
    #[disposition(transparent)]
    Two(Missing, Missing),
    #[disposition]
    Nothing,
}

#[derive(Disposition)]
enum Fields {
    #[disposition(source)]
    NoError(String),
    #[disposition(transparent)]
    NoDisposition(String),
}

fn main() {}

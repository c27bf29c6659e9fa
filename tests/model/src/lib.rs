//! A model of the protocol for effects outside the database, to be checked exhaustively.
//!
//! One client key, whose handler reserves (an atomic step), charges (an external step) and answers; two workers, each of
//! which serves the client and recovers; a provider of one of four kinds; an operator and a sweeper. [`Protocol`] is a
//! configuration, [`Action`] what can happen in it, [`property`] what is promised, [`Guard`] the rules that a mutant leaves
//! out. `docs/model.md` says what is modelled and what is not.
#![deny(missing_docs)]

mod action;
mod attempt;
mod call;
mod guard;
mod operations;
pub mod property;
mod protocol;
mod provider;
mod state;
mod time;

pub use action::{Action, Reply, Sender};
pub use guard::{Guard, Guards};
pub use protocol::{
    Arrival, IN_FLIGHT_LIMIT, KEY_LIFETIME, MAX_CLAIMS, Operator, Protocol, Provider,
};
pub use state::{
    Event, External, Ledger, Look, Outcome, Phase, Record, Request, State, Status, Worker,
};

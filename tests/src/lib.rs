//! What the black-box tests share: databases of their own, children, a client, and a bad network.
#![allow(clippy::missing_panics_doc)]

pub mod application;
pub mod brokers;
pub mod clock;
pub mod deployment;
pub mod dump;
pub mod galera;
pub mod hammer;
pub mod http;
pub mod matrix;
pub mod planted;
pub mod pooler;
pub mod private;
pub mod process;
pub mod proxy;
pub mod servers;
pub mod wait;

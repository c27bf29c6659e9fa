//! Effects outside the database, over real HTTP: a charge at the fake provider between two steps in the database.

mod answers;
mod clocks;
mod commits;
mod crash;
mod late;
mod lifetime;
mod outage;
mod owners;
mod planted;
mod resume;
mod sealed;
mod setup;

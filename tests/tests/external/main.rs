//! Effects outside the database, over real HTTP: a charge at the fake provider between two steps in the database.

mod answers;
mod crash;
mod lifetime;
mod outage;
mod owners;
mod resume;
mod setup;

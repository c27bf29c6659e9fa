//! Two regions with a database in each, and accounts whose home is one of them.

mod messages;
mod moving;
mod requests;
mod setup;
mod site;

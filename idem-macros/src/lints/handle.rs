//! What a handler writes through, and what a message advises in the place of what leaves it.

/// The handler's first means, by the name that it has in the body.
#[derive(Clone)]
pub(super) enum Handle {
    /// `tx: &mut Tx<DB>`.
    Transaction(String),
    /// `steps: &mut Steps<DB, E>`: transactions are those of its atomic steps.
    Steps(String),
}

impl Handle {
    /// What a write goes through.
    pub(super) fn transaction(&self) -> String {
        match self {
            Handle::Transaction(tx) => format!("`{tx}`"),
            Handle::Steps(steps) => {
                format!("the transaction that `{steps}.atomic(..)` gives its closure")
            }
        }
    }

    /// What a query is run on.
    pub(super) fn runner(&self) -> String {
        match self {
            Handle::Transaction(tx) => format!("`&mut *{tx}`"),
            Handle::Steps(_) => self.transaction(),
        }
    }

    /// Where a part of it is a transaction of its own.
    pub(super) fn part(&self) -> String {
        match self {
            Handle::Transaction(tx) => format!(", and `{tx}.savepoint(..)` for a part of it"),
            Handle::Steps(_) => String::new(),
        }
    }

    /// For what may happen once the commit is certain.
    pub(super) fn after_commit(&self) -> String {
        match self {
            Handle::Transaction(tx) => format!("`{tx}.outbox()`"),
            Handle::Steps(steps) => format!("`tx.outbox()` in `{steps}.atomic(..)`"),
        }
    }

    /// For a call whose result the handler needs.
    pub(super) fn call(&self) -> String {
        match self {
            Handle::Transaction(_) => {
                "`steps.external(..)` in a handler with `&mut Steps<DB, E>`".to_owned()
            }
            Handle::Steps(steps) => format!("`{steps}.external(..)`"),
        }
    }

    /// Why nothing is called on an `External` of this name.
    pub(super) fn sealed(&self, client: &str) -> String {
        match self {
            Handle::Transaction(_) => format!(
                "`External` is sealed here: only {} opens it; what can wait for the commit is sent by {}",
                self.call(),
                self.after_commit()
            ),
            Handle::Steps(steps) => format!(
                "`External` is opened only by `{steps}.external(\"..\", &{client}, input)`, which gives the client to the \
                 closure of its `.call(..)`"
            ),
        }
    }
}

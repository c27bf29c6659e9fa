//! What a handler can't do with its transaction, under the names by which it would try: methods that no type has, so that
//! rustc says what to write instead, in a handler and in the helpers that are given its `tx`.

use futures_util::future::BoxFuture;
use sqlx::{SqlSafeStr, Transaction};

use super::Tx;
use crate::backend::Backend;

/// Never implemented.
#[diagnostic::on_unimplemented(
    message = "the framework ends the transaction, not its handler",
    label = "return `Ok` to commit or `Err` to roll back; for a part of it use `tx.savepoint(..)`"
)]
pub trait HandlerEndsTransaction {}

/// Never implemented.
#[diagnostic::on_unimplemented(
    message = "the framework has begun the transaction already",
    label = "use `tx` as it is; for a part of it use `tx.savepoint(..)`"
)]
pub trait HandlerBeginsTransaction {}

/// No `async fn`: rustc would say the same of the future and of its `await` again.
impl<DB: Backend> Tx<DB> {
    #[doc(hidden)]
    pub fn commit(&mut self) -> BoxFuture<'_, sqlx::Result<()>>
    where
        Self: HandlerEndsTransaction,
    {
        unreachable!("no transaction is `HandlerEndsTransaction`")
    }

    #[doc(hidden)]
    pub fn rollback(&mut self) -> BoxFuture<'_, sqlx::Result<()>>
    where
        Self: HandlerEndsTransaction,
    {
        unreachable!("no transaction is `HandlerEndsTransaction`")
    }

    /// Would otherwise be found behind the transaction, as sqlx's `Connection::begin`.
    #[doc(hidden)]
    pub fn begin(&mut self) -> BoxFuture<'_, sqlx::Result<Transaction<'_, DB>>>
    where
        Self: HandlerBeginsTransaction,
    {
        unreachable!("no transaction is `HandlerBeginsTransaction`")
    }

    /// The same with a statement.
    #[doc(hidden)]
    pub fn begin_with(
        &mut self,
        _statement: impl SqlSafeStr,
    ) -> BoxFuture<'_, sqlx::Result<Transaction<'_, DB>>>
    where
        Self: HandlerBeginsTransaction,
    {
        unreachable!("no transaction is `HandlerBeginsTransaction`")
    }
}

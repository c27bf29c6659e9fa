//! For engines that take several statements where PostgreSQL takes one.

use std::time::Duration;

use sqlx::Database;
use sqlx_core::transaction::TransactionManager;

use super::super::millis;
use super::OperationRow;

impl OperationRow {
    /// The row after a take-over at the moment at which it was read, where the update answers no rows.
    pub(in crate::backend) fn taken_over(self, owner: [u8; 16], lease: Duration) -> OperationRow {
        OperationRow {
            attempt: self.attempt.saturating_add(1),
            tries: self.tries.saturating_add(1),
            owner,
            due_at: Some(self.now.saturating_add(millis(lease))),
            ..self
        }
    }
}

/// Commits a transaction whose statements all succeeded, and rolls back any other.
pub(in crate::backend) async fn end<DB: Database, T>(
    connection: &mut DB::Connection,
    outcome: sqlx::Result<T>,
) -> sqlx::Result<T> {
    match outcome {
        Ok(value) => {
            DB::TransactionManager::commit(connection).await?;
            Ok(value)
        }
        Err(error) => {
            // The first error says more; a connection that can't roll back is closed by whoever has it.
            let _ = DB::TransactionManager::rollback(connection).await;
            Err(error)
        }
    }
}

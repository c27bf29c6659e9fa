//! Records that are read outside any transaction, several in one statement.
//!
//! A replay is one short read. Taken alone it would cost as much again for its connection, which sqlx tests each time
//! it goes back to the pool. So one reader at a time takes what is asked for together, and keeps its
//! connection for a moment, as long as the pool has others to give.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::backend::{Backend, Record};
use crate::idempotency::{Idempotency, StoreError};
use crate::scope::RecordId;

/// Records that one statement reads at most. Answers are of bounded size, and so is what a batch holds.
const BATCH: usize = 32;
/// How long a reader keeps its connection for what comes next.
const LINGER: Duration = Duration::from_millis(2);

/// See the module. One a pool.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    queue: Mutex<Queue>,
    asked: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<Waiting>,
    is_read: bool,
}

#[derive(Debug)]
struct Waiting {
    id: RecordId,
    answer: oneshot::Sender<Option<Record>>,
}

impl Lookups {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a batch; says that nobody reads any more when there is none and `leave` is set.
    fn take(&self, leave: bool) -> Vec<Waiting> {
        let mut queue = self.queue();
        let batch: Vec<Waiting> = if queue.waiting.len() > BATCH {
            queue.waiting.drain(..BATCH).collect()
        } else {
            std::mem::take(&mut queue.waiting)
        };
        if batch.is_empty() && leave {
            queue.is_read = false;
        }
        batch
    }
}

/// Gives the queue up, whatever becomes of the reader: a request whose answer does not come asks by itself.
struct Reader<'a>(&'a Lookups);

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.is_read = false;
        queue.waiting.clear();
    }
}

impl<DB: Backend> Idempotency<DB> {
    /// Reads a key's record, by a statement that is sent after this call.
    ///
    /// Not cancel safe alone: its callers run in tasks that nothing cancels.
    pub(crate) async fn look(
        &self,
        id: &RecordId,
        limit: Instant,
    ) -> Result<Option<Record>, StoreError> {
        if DB::LOOKS_TOGETHER {
            let (answer, answered) = oneshot::channel();
            let starts = {
                let mut queue = self.shared.lookups.queue();
                queue.waiting.push(Waiting { id: *id, answer });
                !std::mem::replace(&mut queue.is_read, true)
            };
            if starts {
                let idempotency = self.clone();
                tokio::spawn(async move { idempotency.read_together().await });
            } else {
                self.shared.lookups.asked.notify_one();
            }
            match timeout_at(limit, answered).await {
                Ok(Ok(record)) => return Ok(record),
                // The reader failed: this request's own statement says why, or succeeds.
                Ok(Err(_)) => {}
                Err(_) => return Err(StoreError::TimedOut("a record")),
            }
        }
        let mut alone = self.reading(limit).await?;
        let look = async |connection: &mut DB::Connection| DB::look(connection, id).await;
        alone.run(limit, look).await
    }

    /// Whether the pool has no connection left to give.
    fn is_exhausted(&self) -> bool {
        let pool = &self.shared.pool;
        pool.num_idle() == 0 && pool.size() >= pool.options().get_max_connections()
    }

    /// Reads until nobody asks.
    async fn read_together(&self) {
        let lookups = &self.shared.lookups;
        let reader = Reader(lookups);
        let limit = || Instant::now() + self.shared.settings.store_timeout;
        let Ok(mut connection) = self.connection(limit()).await else {
            return;
        };
        loop {
            let mut batch = lookups.take(false);
            if batch.is_empty() {
                // Without another idle connection somebody may be waiting for this one.
                let lingers = self.shared.pool.num_idle() > 0;
                if lingers {
                    let asked = lookups.asked.notified();
                    let _ = timeout_at(Instant::now() + LINGER, asked).await;
                }
                batch = lookups.take(true);
                if batch.is_empty() {
                    std::mem::forget(reader);
                    return;
                }
            }
            let ids: Vec<&RecordId> = batch.iter().map(|waiting| &waiting.id).collect();
            let look =
                async |connection: &mut DB::Connection| DB::look_together(connection, &ids).await;
            match timeout_at(limit(), self.apart(&mut connection, look)).await {
                Ok(Ok(records)) => {
                    for Waiting { id, answer } in batch {
                        let found = records.iter().find(|(found, _)| *found == id);
                        let _ = answer.send(found.map(|(_, record)| record.clone()));
                    }
                }
                Ok(Err(_)) | Err(_) => {
                    connection.close_on_drop();
                    return;
                }
            }
            // The pool serves whoever waits in turn; a reader that has always something to read would hold it up.
            if self.is_exhausted() {
                drop(connection);
                connection = match self.connection(limit()).await {
                    Ok(connection) => connection,
                    Err(_) => return,
                };
            }
        }
    }
}

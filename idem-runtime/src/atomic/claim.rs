//! The beginning of an attempt: a transaction with the key in it.

use tokio::time::{Instant, timeout_at};

use super::{Attempt, Step, Unacknowledged};
use crate::backend::{self, Backend, Claim, Claimed, Standing};
use crate::faults::{self, Plant};
use crate::idempotency::StoreError;
use crate::tx::Tx;

/// Where a claim led.
pub(super) enum Begun<DB: Backend> {
    /// The key is this attempt's. `took_over`: from a record past its retention.
    Won { tx: Tx<DB>, took_over: bool },
    /// There is nothing to run now.
    Not(Box<Step>),
}

impl<DB: Backend> Begun<DB> {
    fn not(step: Step) -> Self {
        Self::Not(Box::new(step))
    }
}

impl<DB: Backend> Attempt<DB> {
    /// Begins and claims.
    pub(super) async fn claimed(
        &self,
        claim: &Claim<'_>,
        unacknowledged: &Unacknowledged,
        conflict: bool,
        limit: Instant,
    ) -> Result<Begun<DB>, StoreError> {
        let unclaimed = faults::planted(Plant::NoClaim)
            || faults::planted(Plant::AnswerBefore)
            || faults::planted(Plant::ExpiredNotAtomic) && self.is_expired().await?;
        if faults::planted(Plant::AnswerBefore)
            && let Some(finished) = self.look(limit, unacknowledged, conflict).await?
        {
            return Ok(Begun::not(Step::Finished(finished)));
        }
        if !unclaimed && self.ticket.idempotency.fuses() {
            match self.begin_claimed(claim, limit).await {
                Ok(Some(tx)) => {
                    return Ok(Begun::Won {
                        tx,
                        took_over: false,
                    });
                }
                // Somebody works on the key, or it has a record, perhaps one to be taken over.
                Ok(None) => {
                    if let Some(finished) = self.look(limit, unacknowledged, conflict).await? {
                        return Ok(Begun::not(Step::Finished(finished)));
                    }
                }
                Err(StoreError::Database(error)) if backend::asks_to_run_again(&error) => {
                    return Ok(Begun::not(Step::Again));
                }
                Err(error) => return Err(error),
            }
        }
        faults::point("begin.before");
        let begun = self
            .ticket
            .idempotency
            .begin(
                self.operation_id,
                (!unclaimed).then_some(claim),
                limit,
                self.ticket.patience(),
            )
            .await;
        let mut tx = match begun {
            Err(StoreError::Database(error)) if backend::asks_to_run_again(&error) => {
                return Ok(Begun::not(Step::Again));
            }
            begun => begun?,
        };
        faults::point("begin.after");
        let claimed = if unclaimed {
            Ok(Ok(Claimed::Won { took_over: false }))
        } else {
            let limit = limit + tx.waited();
            let (connection, session) = tx.parts();
            timeout_at(limit, DB::claim(connection, session, claim)).await
        };
        faults::point("claim.after");
        let took_over = match claimed {
            Ok(Ok(Claimed::Won { took_over })) => took_over,
            Ok(Ok(Claimed::InFlight)) => {
                tx.roll_back().await;
                return Ok(Begun::not(Step::InFlight));
            }
            Ok(Ok(Claimed::Held(record))) => {
                tx.roll_back().await;
                let step = match self.judge(&record, unacknowledged, conflict)? {
                    Some(finished) => Step::Finished(finished),
                    None => Step::InFlight,
                };
                return Ok(Begun::not(step));
            }
            Ok(Err(error)) if backend::asks_to_run_again(&error) => {
                tx.roll_back().await;
                return Ok(Begun::not(Step::Again));
            }
            Ok(Err(error)) => {
                tx.abandon();
                if backend::is_stale(&error) {
                    return Ok(Begun::not(Step::Again));
                }
                return Err(StoreError::Database(error));
            }
            Err(_) => {
                tx.abandon();
                return Err(StoreError::TimedOut("the claim of a key"));
            }
        };
        Ok(Begun::Won { tx, took_over })
    }

    async fn begin_claimed(
        &self,
        claim: &Claim<'_>,
        limit: Instant,
    ) -> Result<Option<Tx<DB>>, StoreError> {
        faults::point("begin.before");
        let idempotency = &self.ticket.idempotency;
        let begun = idempotency
            .begin_claimed(self.operation_id, claim, limit)
            .await;
        faults::point("claim.after");
        begun
    }

    /// A look without a claim, for a planted fault.
    async fn is_expired(&self) -> Result<bool, StoreError> {
        let looked = self.ticket.idempotency.look(&self.id, self.limit());
        let record = looked.await?;
        Ok(record.is_some_and(|record| record.standing == Standing::Expired))
    }
}

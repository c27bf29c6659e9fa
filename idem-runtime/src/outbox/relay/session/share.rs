//! The relay's share of the lanes.

use tokio::time::Instant;

use super::{SHARE_AGAIN, Session};
use crate::backend::Backend;
use crate::faults;
use crate::idempotency::StoreError;
use crate::outbox::Lanes;
use crate::outbox::lanes::LANES;

impl<DB: Backend> Session<DB> {
    pub(super) async fn leave(&mut self) -> Result<(), StoreError> {
        let id = self.id;
        self.store
            .write(async |connection: &mut DB::Connection| {
                DB::give_lanes(&mut *connection, &id, Lanes::ALL).await?;
                DB::leave(connection, &id).await
            })
            .await
    }

    /// Renews the lease, and takes or gives lanes until each relay has as many as the others.
    pub(super) async fn share(&mut self) -> Result<(), StoreError> {
        let (id, lease) = (self.id, self.settings.lease);
        // Before the statement: the database's lease begins later, and so ends later.
        let until = Instant::now() + lease;
        faults::point("relay.share");
        let (relays, renewed) = self
            .store
            .write(async |connection: &mut DB::Connection| {
                let relays = DB::enlist(&mut *connection, &id, lease).await?;
                let renewed = DB::renew_lanes(connection, &id, lease).await?;
                Ok((relays, renewed))
            })
            .await?;
        let fair = u32::from(LANES).div_ceil(relays.max(1));
        self.share_at = Instant::now() + lease / 3;
        if renewed.len() > fair {
            // Not those that something is published of.
            let given = renewed.without(self.lanes).first(renewed.len() - fair);
            self.lease.renew(renewed.without(given), until);
            return self
                .store
                .write(async |connection: &mut DB::Connection| {
                    DB::give_lanes(connection, &id, given).await
                })
                .await;
        }
        self.lease.renew(renewed, until);
        if renewed.len() < fair {
            let most = fair - renewed.len();
            let until = Instant::now() + lease;
            let lanes = self
                .store
                .write(async |connection: &mut DB::Connection| {
                    DB::take_lanes(connection, &id, lease, most).await
                })
                .await?;
            if !lanes.without(renewed).is_empty() {
                self.floor.reset();
                self.seen = None;
                self.seen_done = None;
            }
            self.lease.renew(lanes, until);
            if lanes.len() < fair {
                self.share_at = Instant::now() + SHARE_AGAIN.min(lease / 3);
            }
        }
        Ok(())
    }
}

//! For the demo: a process stands still when something has happened, and before anybody hears of it. Then it is killed.
//!
//! A service has nothing of the kind. The wrappers show how a publisher and a source of one's own look, though.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idem_runtime::inbox::{Delivery, Incoming, Redelivery, Source, SourceError};
use idem_runtime::outbox::{OutboxMessage, PublishError, Publisher};

/// What a process prints when it stands still.
pub const STANDS_STILL: &str = "stands still";

static NEXT: AtomicBool = AtomicBool::new(false);

/// Stands still at the next moment.
pub fn stand_still() {
    NEXT.store(true, Ordering::SeqCst);
}

/// The moment. It is over at once, unless the process was told to stand still: then it is never over.
pub async fn pass() {
    if NEXT.swap(false, Ordering::SeqCst) {
        println!("{STANDS_STILL}");
        pending().await
    }
}

/// A publisher whose moment is when the broker has the message, and the relay does not know.
pub struct Published<P>(pub P);

impl<P: Publisher> Publisher for Published<P> {
    async fn publish(&self, message: &OutboxMessage) -> Result<(), PublishError> {
        self.0.publish(message).await?;
        pass().await;
        Ok(())
    }
}

/// A source whose moment is when the consumer has committed, and the broker does not know.
pub struct Committed<T>(pub T);

impl<S: Source> Source for Committed<S> {
    type Delivery = Committed<S::Delivery>;

    async fn start(&mut self) -> Result<Redelivery, SourceError> {
        self.0.start().await
    }

    async fn receive(&mut self, most: usize) -> Result<Vec<Self::Delivery>, SourceError> {
        let deliveries = self.0.receive(most).await?;
        Ok(deliveries.into_iter().map(Committed).collect())
    }
}

impl<D: Delivery> Delivery for Committed<D> {
    fn message(&self) -> &Incoming {
        self.0.message()
    }

    async fn acknowledge(&mut self) -> Result<(), SourceError> {
        pass().await;
        self.0.acknowledge().await
    }

    async fn extend(&mut self) -> Result<(), SourceError> {
        self.0.extend().await
    }

    async fn retry(&mut self, after: Duration) -> Result<(), SourceError> {
        self.0.retry(after).await
    }

    async fn dead_letter(&mut self, reason: &str) -> Result<(), SourceError> {
        self.0.dead_letter(reason).await
    }
}

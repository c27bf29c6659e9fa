//! The consumers of an application: which functions, from which sources, how many at once.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::ConsumerSpec;
use super::consumer::{ConsumerHandler, ConsumesWith, Run};
use super::source::{Horizon, Redelivery, Source, SourceError};
use super::worker::{AnySource, Registered, USABLE, Worker};
use crate::backend::Backend;
use crate::idempotency::Idempotency;

/// Runs consumers for what their sources deliver. Made by [`Idempotency::consumers`].
///
/// A message is acknowledged when all consumers of its source have committed. What fails is delivered again after a pause that
/// doubles with each delivery, and is a dead letter, with the reason, after [`max_deliveries`](Self::max_deliveries) or when its
/// consumer says that it will never do. While the database is out of reach messages wait, and nothing is counted.
#[must_use = "consumers do nothing until they are spawned or run"]
pub struct Consumers<DB: Backend, S> {
    idempotency: Idempotency<DB>,
    state: S,
    consumers: Vec<Registered<DB, S>>,
    sources: Vec<(String, Box<dyn AnySource<DB, S>>)>,
    concurrency: usize,
    max_deliveries: u32,
    retry_pause: (Duration, Duration),
}

impl<DB: Backend> Idempotency<DB> {
    /// Consumers. `state` is what their `State<_>` arguments are taken from.
    pub fn consumers<S: Clone + Send + Sync + 'static>(&self, state: S) -> Consumers<DB, S> {
        Consumers {
            idempotency: self.clone(),
            state,
            consumers: Vec::new(),
            sources: Vec::new(),
            concurrency: 16,
            max_deliveries: 20,
            retry_pause: (Duration::from_secs(1), Duration::from_secs(300)),
        }
    }
}

impl<DB: Backend, S: Clone + Send + Sync + 'static> Consumers<DB, S> {
    /// Registers a consumer: the annotated function itself.
    ///
    /// # Panics
    ///
    /// When another consumer of its name and source is registered already.
    pub fn register<F, C>(mut self, _: F) -> Self
    where
        F: ConsumerHandler<C>,
        C: ConsumesWith<DB, S>,
    {
        let Some((spec, run)): Option<(&'static ConsumerSpec, Run<DB, S>)> =
            <C as ConsumesWith<DB, S>>::RUN
        else {
            return self;
        };
        let same = |other: &Registered<DB, S>| {
            (other.spec.name, other.spec.source) == (spec.name, spec.source)
        };
        assert!(
            !self.consumers.iter().any(same),
            "two consumers of `{}` are named `{}`, and the second would take all messages for processed; give one another name: `name = \"..\"`",
            spec.source,
            spec.name
        );
        self.consumers.push(Registered { spec, run });
        self
    }

    /// Where the messages of the consumers with `source = "name"` come from.
    pub fn source(mut self, name: impl Into<String>, source: impl Source) -> Self {
        self.sources.push((name.into(), Box::new(source)));
        self
    }

    /// How many messages of each source are processed at once: 16 unless said, 1 at least.
    pub fn concurrency(mut self, messages: usize) -> Self {
        self.concurrency = messages.max(1);
        self
    }

    /// How often a message that fails is delivered before it is a dead letter: 20 unless said, 1 at least. Deliveries that failed
    /// because the database was out of reach don't end it.
    ///
    /// One that was delivered more often than that is a poison message, which ends its process each time, or was taken together with
    /// one. It is run while no other message runs in the process then, which is counted in the database, and is a dead letter when
    /// three such runs have not come back; if they do and it fails, when it has had as many deliveries again. A broker that does not
    /// count (RabbitMQ's classic queues) has what it delivers again run like this from the second delivery on, up to `deliveries` times.
    pub fn max_deliveries(mut self, deliveries: u32) -> Self {
        self.max_deliveries = deliveries.max(1);
        self
    }

    /// The pause before a message that failed once is delivered again, and the longest, to which it doubles: 1 second and 5
    /// minutes unless said.
    pub fn retry_pause(mut self, first: Duration, longest: Duration) -> Self {
        self.retry_pause = (first, longest.max(first));
        self
    }

    /// Connects the sources, checks that no message can come again when it is forgotten, and starts in tasks.
    ///
    /// # Errors
    ///
    /// [`ConsumersError`], which says what to do.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing has started then.
    pub async fn spawn(self) -> Result<ConsumersHandle, ConsumersError> {
        let stop = CancellationToken::new();
        let mut workers = self.start(&stop).await?;
        let task = tokio::spawn(async move { while workers.join_next().await.is_some() {} });
        Ok(ConsumersHandle { stop, task })
    }

    /// The same, until `shutdown` is ready and what runs then is finished.
    ///
    /// # Errors
    ///
    /// [`ConsumersError`], at the start.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it stops at once: what runs is rolled back or committed, and delivered again.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<(), ConsumersError> {
        let stop = CancellationToken::new();
        let mut workers = self.start(&stop).await?;
        let mut ended = pin!(async { while workers.join_next().await.is_some() {} });
        tokio::select! {
            () = &mut ended => return Ok(()),
            () = shutdown => stop.cancel(),
        }
        ended.await;
        Ok(())
    }

    async fn start(mut self, stop: &CancellationToken) -> Result<JoinSet<()>, ConsumersError> {
        for consumer in &self.consumers {
            if !self
                .sources
                .iter()
                .any(|(name, _)| name == consumer.spec.source)
            {
                return Err(ConsumersError::NoSource {
                    consumer: consumer.spec.name,
                    name: consumer.spec.source,
                });
            }
        }
        let mut ready = Vec::new();
        for (name, mut source) in std::mem::take(&mut self.sources) {
            let (own, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.consumers)
                .into_iter()
                .partition(|consumer| consumer.spec.source == name);
            self.consumers = others;
            if own.is_empty() {
                return Err(ConsumersError::NoConsumer { name });
            }
            let redelivery = match source.start().await {
                Ok(redelivery) => redelivery,
                Err(error) => return Err(ConsumersError::Source { name, error }),
            };
            self.check(&name, &own, &redelivery)?;
            let worker = Worker {
                idempotency: self.idempotency.clone(),
                state: self.state.clone(),
                source: name,
                consumers: own,
                concurrency: self.concurrency,
                max_deliveries: self.max_deliveries,
                retry_pause: self.retry_pause,
                redelivery,
            };
            ready.push((source, worker));
        }
        let mut workers = JoinSet::new();
        for (source, worker) in ready {
            workers.spawn(source.work(Arc::new(worker), stop.clone()));
        }
        Ok(workers)
    }

    /// Whether a message may come again when its row is gone, or while it is still processed.
    fn check(
        &self,
        name: &str,
        consumers: &[Registered<DB, S>],
        redelivery: &Redelivery,
    ) -> Result<(), ConsumersError> {
        for Registered { spec, .. } in consumers {
            match redelivery.horizon {
                Horizon::Within(horizon) if spec.ttl() < horizon => {
                    return Err(ConsumersError::TtlTooShort {
                        consumer: spec.name,
                        ttl: spec.ttl(),
                        horizon,
                    });
                }
                Horizon::Unlimited => {
                    return Err(ConsumersError::Unlimited {
                        consumer: spec.name,
                        name: name.to_owned(),
                        ttl: spec.ttl(),
                    });
                }
                Horizon::Within(_) => {}
                Horizon::Unknown => tracing::warn!(
                    target: "idem",
                    consumer = spec.name,
                    source = name,
                    ttl_seconds = spec.ttl().as_secs(),
                    "how late this source may deliver a message again is not known: one that comes later than the consumer's \
                     `ttl` runs again"
                ),
            }
        }
        if let (Some(redelivered_after), false) = (redelivery.timeout, redelivery.extends) {
            let default = self.idempotency.shared.settings.timeout;
            let timeouts = consumers
                .iter()
                .map(|consumer| consumer.spec.timeout.unwrap_or(default));
            let timeout = timeouts.sum();
            if timeout >= redelivered_after.mul_f64(USABLE) {
                return Err(ConsumersError::TimeoutTooLong {
                    name: name.to_owned(),
                    timeout,
                    redelivered_after,
                });
            }
        }
        Ok(())
    }
}

impl<DB: Backend, S> fmt::Debug for Consumers<DB, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.consumers.iter().map(|consumer| consumer.spec.name);
        f.debug_struct("Consumers")
            .field("consumers", &names.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// Why consumers can't start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumersError {
    /// A consumer's source is missing.
    #[error(
        "consumer `{consumer}` consumes `{name}`, and there is no such source; add `.source(\"{name}\", ..)`"
    )]
    NoSource {
        /// The consumer.
        consumer: &'static str,
        /// The source that it names.
        name: &'static str,
    },
    /// A source has no consumer: its messages would be acknowledged for nothing.
    #[error(
        "no consumer consumes `{name}`; register one with `#[consumer(source = \"{name}\")]`, or remove the source"
    )]
    NoConsumer {
        /// The source.
        name: String,
    },
    /// A source can't be used.
    #[error("source `{name}` can't start: {error}")]
    Source {
        /// The source.
        name: String,
        /// Why.
        #[source]
        error: SourceError,
    },
    /// A message may be delivered again when its row is gone: it would have a second effect.
    #[error(
        "consumer `{consumer}` remembers a message for {ttl:?}, and it may be delivered again for {horizon:?}; raise its `ttl`, \
         or lower what the broker keeps (JetStream: the stream's `max_age`)"
    )]
    TtlTooShort {
        /// The consumer.
        consumer: &'static str,
        /// Its `ttl`.
        ttl: Duration,
        /// How long after its first delivery a message may come again.
        horizon: Duration,
    },
    /// A message may be delivered again at any time.
    #[error(
        "consumer `{consumer}` remembers a message for {ttl:?}, and source `{name}` may deliver it again at any time; limit that \
         (JetStream: the stream's `max_age`), or say how late it may come, as with `.redelivered_within(..)` of the source"
    )]
    Unlimited {
        /// The consumer.
        consumer: &'static str,
        /// The source.
        name: String,
        /// The consumer's `ttl`.
        ttl: Duration,
    },
    /// A message would be delivered again while it is still processed.
    #[error(
        "the consumers of `{name}` may take {timeout:?} in all, and the broker delivers a message again after \
         {redelivered_after:?}, which can't be extended and of which four fifths are used; give them a shorter `timeout`, or \
         raise the broker's (RabbitMQ: `consumer_timeout`)"
    )]
    TimeoutTooLong {
        /// The source.
        name: String,
        /// The time-outs of its consumers together.
        timeout: Duration,
        /// The broker's.
        redelivered_after: Duration,
    },
}

/// Consumers that run in tasks. Dropping the handle does not stop them.
#[must_use = "dropped, it leaves the consumers running until the runtime ends"]
pub struct ConsumersHandle {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl ConsumersHandle {
    /// Stops them: no message is taken any more, and what runs is finished and acknowledged.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: they stop all the same.
    pub async fn stop(self) {
        self.stop.cancel();
        // It fails only with the runtime, and then they have stopped.
        let _ = self.task.await;
    }
}

impl fmt::Debug for ConsumersHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumersHandle")
            .field("running", &!self.task.is_finished())
            .finish_non_exhaustive()
    }
}

//! Messages from NATS JetStream, by a durable pull consumer.

mod delivery;

use std::fmt;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::{self, Context};
use futures_util::{FutureExt, StreamExt};

pub use self::delivery::JetStreamDelivery;
use super::source::{Horizon, Redelivery, Source, SourceError};

/// How long one request for messages stands. What it is answered with after a shutdown is delivered again.
const REQUEST: Duration = Duration::from_secs(5);

/// A stream's messages, through a durable pull consumer, which is made where there is none: explicit acknowledgements, and
/// deliveries without a limit of the server's. One that is there is used as it is configured.
///
/// * A message is acknowledged after the commit, and the server must confirm that. While it is processed, its `ack_wait` is
///   extended at each third.
/// * How late a message may be delivered again is the stream's `max_age`: a consumer's `ttl` must be as long. The number of
///   deliveries bounds no time, since nothing is delivered while no consumer runs.
/// * A dead letter is published to a subject that a stream must keep, with the headers `Idem-Reason`, `Idem-Subject`, `Idem-Stream`,
///   `Idem-Sequence`, `Idem-Deliveries` and `Idem-Message-Id`; then the message is terminated (`+TERM`). Published to its
///   subject again with its `Idem-Message-Id`, it is the same message for its consumers.
/// * With `id = "broker"` a message is told by stream, sequence number and time of publication.
///
/// Connections are async-nats' to make and to make again.
pub struct JetStream {
    context: Context,
    stream: String,
    durable: String,
    dead_letters: String,
    filter: String,
    ack_wait: Duration,
    redelivered_within: Option<Duration>,
    consumer: Option<PullConsumer>,
    request: Option<pull::Batch>,
}

impl JetStream {
    /// The messages of `stream`, for the durable consumer `durable`. What can't be processed is published to the subject
    /// `dead_letters`.
    #[must_use]
    pub fn new(
        client: async_nats::Client,
        stream: impl Into<String>,
        durable: impl Into<String>,
        dead_letters: impl Into<String>,
    ) -> Self {
        Self {
            context: jetstream::new(client),
            stream: stream.into(),
            durable: durable.into(),
            dead_letters: dead_letters.into(),
            filter: String::new(),
            ack_wait: Duration::from_secs(30),
            redelivered_within: None,
            consumer: None,
            request: None,
        }
    }

    /// Only the messages of this subject, if the durable consumer is made: all of the stream's unless said.
    #[must_use]
    pub fn filter(mut self, subject: impl Into<String>) -> Self {
        self.filter = subject.into();
        self
    }

    /// After how long a message that is neither acknowledged nor extended is delivered again, if the durable consumer is made:
    /// 30 seconds unless said.
    #[must_use]
    pub fn ack_wait(mut self, wait: Duration) -> Self {
        self.ack_wait = wait;
        self
    }

    /// How long after its first delivery a message may come again, in place of the stream's `max_age`: your word, where the
    /// stream keeps messages longer than any outage of its consumers lasts.
    #[must_use]
    pub fn redelivered_within(mut self, horizon: Duration) -> Self {
        self.redelivered_within = Some(horizon);
        self
    }

    /// The durable consumer, as it is or as it is made.
    async fn open(&self) -> Result<PullConsumer, SourceError> {
        let stream = self
            .context
            .get_stream(&self.stream)
            .await
            .map_err(|error| self.no_stream(error))?;
        let wanted = pull::Config {
            durable_name: Some(self.durable.clone()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.ack_wait,
            max_deliver: -1,
            filter_subject: self.filter.clone(),
            ..pull::Config::default()
        };
        let consumer = stream.get_or_create_consumer(&self.durable, wanted).await;
        consumer.map_err(SourceError::unavailable)
    }

    fn no_stream(&self, error: jetstream::context::GetStreamError) -> SourceError {
        use jetstream::context::GetStreamErrorKind::JetStream;
        match error.kind() {
            JetStream(reason) if reason.error_code() == jetstream::ErrorCode::STREAM_NOT_FOUND => {
                SourceError::Misconfigured(format!(
                    "there is no stream `{}`; create it, with a `max_age` of at most the consumers' `ttl`",
                    self.stream
                ))
            }
            _ => SourceError::unavailable(error),
        }
    }

    /// A dead letter that no stream keeps would be lost; one that comes back here would never end.
    async fn check_dead_letters(&self, filter: &str) -> Result<(), SourceError> {
        use jetstream::context::GetStreamByNameErrorKind;
        let subject = &self.dead_letters;
        match self.context.stream_by_subject(subject).await {
            Ok(stream) if stream == self.stream && covers(filter, subject) => {
                Err(SourceError::Misconfigured(format!(
                    "dead letters would come back: `{subject}` is among the subjects that `{}` consumes; use another",
                    self.durable
                )))
            }
            Ok(_) => Ok(()),
            Err(error) => match error.kind() {
                GetStreamByNameErrorKind::NotFound | GetStreamByNameErrorKind::InvalidSubject => {
                    Err(SourceError::Misconfigured(format!(
                        "no stream keeps `{subject}`, and dead letters would be lost; create one with that subject"
                    )))
                }
                _ => Err(SourceError::unavailable(error)),
            },
        }
    }
}

impl Source for JetStream {
    type Delivery = JetStreamDelivery;

    async fn start(&mut self) -> Result<Redelivery, SourceError> {
        let consumer = self.open().await?;
        let config = &consumer.cached_info().config;
        let durable = &self.durable;
        let wrong = |what: &str| {
            Err(SourceError::Misconfigured(format!(
                "the durable consumer `{durable}` {what}"
            )))
        };
        if config.ack_policy != AckPolicy::Explicit {
            return wrong("does not wait for acknowledgements; set its `ack_policy` to `explicit`");
        }
        if config.max_deliver > 0 {
            return wrong(&format!(
                "has `max_deliver` = {}: after as many deliveries the server gives a message up without a word; set -1, and use \
                 `max_deliveries(..)` of the consumers",
                config.max_deliver
            ));
        }
        self.check_dead_letters(&config.filter_subject).await?;
        let ack_wait = config
            .backoff
            .iter()
            .copied()
            .chain([config.ack_wait])
            .min();
        let stream = self.context.get_stream(&self.stream).await;
        let max_age = stream
            .map_err(SourceError::unavailable)?
            .cached_info()
            .config
            .max_age;
        let horizon = match self.redelivered_within {
            Some(horizon) => Horizon::Within(horizon),
            None if max_age.is_zero() => Horizon::Unlimited,
            None => Horizon::Within(max_age),
        };
        let redelivery = Redelivery::after_silence(ack_wait.unwrap_or(self.ack_wait));
        self.consumer = Some(consumer);
        Ok(redelivery.horizon(horizon))
    }

    async fn receive(&mut self, most: usize) -> Result<Vec<JetStreamDelivery>, SourceError> {
        let received = self.next(most).await;
        if received.is_err() {
            // It may be the request that failed, or its consumer that is gone.
            self.request = None;
            self.consumer = None;
        }
        received
    }
}

impl JetStream {
    /// What is requested and has not come is kept between calls: no more than there are places for.
    async fn next(&mut self, most: usize) -> Result<Vec<JetStreamDelivery>, SourceError> {
        if self.consumer.is_none() {
            self.consumer = Some(self.open().await?);
        }
        let Some(consumer) = &self.consumer else {
            return Ok(Vec::new());
        };
        let request = match &mut self.request {
            Some(request) => request,
            none => {
                // Without heartbeats: after one, the client sleeps on whatever comes, and drops it when the request is over.
                let request = consumer.batch().max_messages(most).expires(REQUEST);
                let request = request.messages().await;
                none.insert(request.map_err(SourceError::unavailable)?)
            }
        };
        let mut deliveries = Vec::new();
        let mut next = request.next().await;
        loop {
            match next {
                Some(Ok(message)) => {
                    deliveries.extend(JetStreamDelivery::new(message, &self.dead_letters));
                }
                // What has come by now is not lost with the error.
                Some(Err(_)) if !deliveries.is_empty() => {
                    self.request = None;
                    return Ok(deliveries);
                }
                Some(Err(error)) => return Err(SourceError::Unavailable(error)),
                None => {
                    self.request = None;
                    return Ok(deliveries);
                }
            }
            if deliveries.len() >= most {
                return Ok(deliveries);
            }
            match request.next().now_or_never() {
                Some(more) => next = more,
                None => return Ok(deliveries),
            }
        }
    }
}

impl fmt::Debug for JetStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JetStream")
            .field("stream", &self.stream)
            .field("durable", &self.durable)
            .finish_non_exhaustive()
    }
}

/// Whether a filter, with NATS' wildcards, lets a subject through. An empty one lets all.
fn covers(filter: &str, subject: &str) -> bool {
    if filter.is_empty() {
        return true;
    }
    let mut subject = subject.split('.');
    for token in filter.split('.') {
        match (token, subject.next()) {
            (">", Some(_)) => return true,
            ("*", Some(_)) => {}
            (token, Some(own)) if token == own => {}
            _ => return false,
        }
    }
    subject.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_covers_what_nats_says_it_does() {
        for filter in ["", ">", "a.>", "a.*", "a.b", "*.b"] {
            assert!(covers(filter, "a.b"), "{filter}");
        }
        for filter in ["a", "b.>", "a.b.>", "a.b.c", "*", "a.c"] {
            assert!(!covers(filter, "a.b"), "{filter}");
        }
    }
}

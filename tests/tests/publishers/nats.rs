//! JetStream: what is stored, what a duplicate is worth, and what is refused.

use std::time::Duration;

use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, DiscardPolicy, Stream};
use async_nats::jetstream::{self, Context};
use idem_runtime::outbox::nats::JetStream;
use idem_runtime::outbox::{OutboxMessage, Publisher as _};
use idem_tests::brokers::{Broker, nats_url};
use idem_tests::wait::{PATIENCE, until};
use uuid::Uuid;

use crate::assert_failed;
use crate::setup::{fresh_name, message};

async fn context() -> Context {
    let client = async_nats::connect(nats_url()).await.unwrap();
    ContextBuilder::new()
        .timeout(Duration::from_secs(2))
        .build(client)
}

/// A stream of its own for everything under `name`.
async fn stream(context: &Context, config: Config) -> Stream {
    let subjects = vec![format!("{}.>", config.name)];
    context
        .create_stream(Config { subjects, ..config })
        .await
        .unwrap()
}

fn named(name: &str) -> Config {
    Config {
        name: name.to_owned(),
        ..Config::default()
    }
}

async fn stored(stream: &Stream) -> u64 {
    stream.get_info().await.unwrap().state.messages
}

#[tokio::test]
async fn a_message_is_stored_with_its_id_type_headers_and_payload() {
    let (context, name) = (context().await, fresh_name());
    let config = Config {
        allow_direct: true,
        ..named(&name)
    };
    let stream = stream(&context, config).await;
    let publisher = JetStream::new(context);
    let message = message(&format!("{name}.placed"))
        .with_content_type("application/cloudevents+json")
        .with_header(
            "traceparent",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        )
        .with_header("Nats-Msg-Id", "somebody-elses")
        .with_header("tenant", "a")
        .with_header("tenant", "b");
    publisher.publish(&message).await.unwrap();

    // The other way to ask for a message gives one value a header.
    let there = stream.direct_get(1).await.unwrap();
    assert_eq!(there.subject.as_str(), format!("{name}.placed"));
    assert_eq!(there.payload, *message.payload());
    let values = |header: &str| -> Vec<String> {
        let values = there.headers.get_all(header);
        values.map(ToString::to_string).collect()
    };
    assert_eq!(values("Nats-Msg-Id"), [message.id().to_string()]);
    assert_eq!(values("Content-Type"), ["application/cloudevents+json"]);
    assert_eq!(values("tenant"), ["a", "b"]);
    assert_eq!(values("traceparent").len(), 1);
}

#[tokio::test]
async fn the_subject_is_what_the_application_makes_of_the_message() {
    let (context, name) = (context().await, fresh_name());
    let stream = stream(&context, named(&name)).await;
    let publisher =
        JetStream::new(context).subject(|message| format!("{}.by.hook", message.topic()));
    publisher.publish(&message(&name)).await.unwrap();
    let there = stream.get_raw_message(1).await.unwrap();
    assert_eq!(there.subject.as_str(), format!("{name}.by.hook"));
}

#[tokio::test]
async fn a_redelivery_is_published_and_stored_once() {
    let (context, name) = (context().await, fresh_name());
    let stream = stream(&context, named(&name)).await;
    let publisher = JetStream::new(context);
    let message = message(&format!("{name}.placed"));
    for _ in 0..3 {
        publisher.publish(&message).await.unwrap();
    }
    assert_eq!(stored(&stream).await, 1);
}

#[tokio::test]
async fn a_duplicate_of_another_message_with_the_same_id_is_not_published() {
    let (context, name) = (context().await, fresh_name());
    stream(&context, named(&name)).await;
    let message = message(&format!("{name}.placed"));
    let other = PublishMessage::build()
        .payload("another's".into())
        .message_id(message.id().to_string());
    let sent = context.send_publish(format!("{name}.other"), other).await;
    sent.unwrap().await.unwrap();
    let result = JetStream::new(context).publish(&message).await;
    assert_failed!(result, Failed, "which is another message");
}

#[tokio::test]
async fn a_duplicate_of_a_message_that_is_gone_is_published_again_when_the_window_has_passed() {
    let (context, name) = (context().await, fresh_name());
    let config = Config {
        duplicate_window: Duration::from_secs(1),
        ..named(&name)
    };
    let stream = stream(&context, config).await;
    let publisher = JetStream::new(context);
    let message = message(&format!("{name}.placed"));
    publisher.publish(&message).await.unwrap();
    stream.delete_message(1).await.unwrap();
    assert_eq!(stored(&stream).await, 0);

    let result = publisher.publish(&message).await;
    assert_failed!(result, Failed, "where no message is");
    until("the message is published again", PATIENCE, async || {
        publisher.publish(&message).await.is_ok()
    })
    .await;
    assert_eq!(stored(&stream).await, 1);
    let there = stream.get_raw_message(2).await.unwrap();
    assert_eq!(there.payload, *message.payload());
}

#[tokio::test]
async fn a_subject_without_a_stream_fails_until_there_is_one() {
    let (context, name) = (context().await, fresh_name());
    let publisher = JetStream::new(context.clone());
    let message = message(&format!("{name}.placed"));
    let result = publisher.publish(&message).await;
    assert_failed!(result, Failed, "no stream takes the subject");
    let stream = stream(&context, named(&name)).await;
    publisher.publish(&message).await.unwrap();
    assert_eq!(stored(&stream).await, 1);
}

#[tokio::test]
async fn a_subscriber_that_is_no_stream_confirms_nothing() {
    let (context, name) = (context().await, fresh_name());
    let client = context.client();
    let _subscriber = client.subscribe(format!("{name}.>")).await.unwrap();
    client.flush().await.unwrap();
    let hasty = ContextBuilder::new()
        .timeout(Duration::from_millis(300))
        .build(client);
    let result = JetStream::new(hasty)
        .publish(&message(&format!("{name}.placed")))
        .await;
    assert_failed!(result, Unconfirmed, "timed out");
}

#[tokio::test]
async fn a_full_stream_fails_and_takes_the_message_later() {
    let (context, name) = (context().await, fresh_name());
    let config = Config {
        max_messages: 1,
        discard: DiscardPolicy::New,
        ..named(&name)
    };
    let stream = stream(&context, config).await;
    let publisher = JetStream::new(context);
    let topic = format!("{name}.placed");
    publisher.publish(&message(&topic)).await.unwrap();
    let second = message(&topic);
    let result = publisher.publish(&second).await;
    assert_failed!(result, Failed, "maximum messages exceeded");
    stream.purge().await.unwrap();
    publisher.publish(&second).await.unwrap();
    assert_eq!(stored(&stream).await, 1);
}

#[tokio::test]
async fn what_nats_can_never_carry_is_rejected() {
    let (context, name) = (context().await, fresh_name());
    let config = Config {
        max_message_size: 1024,
        ..named(&name)
    };
    let stream = stream(&context, config).await;
    let largest = context.client().max_payload();
    let publisher = JetStream::new(context);
    let topic = format!("{name}.placed");
    let of_size = |size| OutboxMessage::for_test(Uuid::now_v7(), topic.clone(), vec![b'x'; size]);

    let result = publisher.publish(&of_size(4096)).await;
    assert_failed!(result, Rejected, "exceeds maximum");
    let result = publisher.publish(&of_size(largest)).await;
    assert_failed!(result, Rejected, "max payload size exceeded");
    for (header, value) in [("a b", "x"), ("", "x"), ("a", "x\r\nb: y")] {
        let result = publisher
            .publish(&message(&topic).with_header(header, value))
            .await;
        assert_failed!(result, Rejected, "does not carry the header");
    }
    let result = publisher
        .publish(&message(&topic).with_content_type("a\nb"))
        .await;
    assert_failed!(result, Rejected, "");
    for subject in ["", "a b", "a..b", ".a", "a\r\nPUB x 1", "a.*", "a.>"] {
        let result = publisher.publish(&message(subject)).await;
        assert_failed!(result, Rejected, "");
    }
    assert_eq!(stored(&stream).await, 0);
}

#[tokio::test]
async fn a_server_without_jetstream_is_unavailable() {
    let broker = Broker::nats_without_jetstream().await;
    let client = async_nats::connect(broker.url()).await.unwrap();
    let result = JetStream::new(jetstream::new(client))
        .publish(&message("orders"))
        .await;
    assert_failed!(result, Unavailable, "JetStream unavailable");
}

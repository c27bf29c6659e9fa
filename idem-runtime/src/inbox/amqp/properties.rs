//! A message's properties and headers, as they come and as they are published again.

use std::collections::BTreeMap;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};

use crate::inbox::message::Incoming;

/// How often a message was published to wait for its next delivery.
pub(super) const DELIVERIES: &str = "idem-deliveries";
const EXCHANGE: &str = "idem-exchange";
const ROUTING_KEY: &str = "idem-routing-key";
pub(super) const REASON: &str = "idem-reason";

/// Counted by a quorum queue, for one message that is in it.
const DELIVERY_COUNT: &str = "x-delivery-count";

pub(super) fn incoming(delivery: &lapin::message::Delivery) -> Incoming {
    let headers = delivery.properties.headers().clone().unwrap_or_default();
    let number = |name: &str| headers.inner().get(name).and_then(number).unwrap_or(0);
    let topic = headers.inner().get(ROUTING_KEY).and_then(text);
    let topic = topic.unwrap_or_else(|| delivery.routing_key.to_string());
    let before = number(DELIVERIES).saturating_add(number(DELIVERY_COUNT));
    let deliveries = u32::try_from(before.saturating_add(1)).unwrap_or(u32::MAX);
    let mut incoming = Incoming::new(topic, delivery.data.clone()).with_delivery(deliveries);
    // A classic queue says that it delivered a message before, and no more.
    if delivery.redelivered && !headers.contains_key(DELIVERY_COUNT) {
        incoming = incoming.with_uncounted_deliveries();
    }
    if let Some(id) = delivery.properties.message_id() {
        incoming = incoming.with_message_id(id.as_str());
    }
    for (name, value) in headers.inner() {
        if let Some(value) = text(value) {
            incoming = incoming.with_header(name.as_str(), value);
        }
    }
    incoming
}

/// The properties with which a message is published again: persistent, and without what is true of one publication only.
pub(super) fn again(
    delivery: &lapin::message::Delivery,
    number: (&str, i64),
    reason: Option<&str>,
) -> BasicProperties {
    let known = &delivery.properties;
    let headers = known.headers().clone().unwrap_or_default();
    // Counted already; the message that is published has a count of its own.
    let kept = headers.inner().iter();
    let kept = kept.filter(|(name, _)| name.as_str() != DELIVERY_COUNT);
    let kept: BTreeMap<_, _> = kept
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut headers = FieldTable::from(kept);
    for (name, value) in [
        (EXCHANGE, delivery.exchange.as_str()),
        (ROUTING_KEY, delivery.routing_key.as_str()),
    ] {
        if !headers.contains_key(name) {
            headers.insert(name.into(), AMQPValue::LongString(value.into()));
        }
    }
    headers.insert(number.0.into(), AMQPValue::LongLongInt(number.1));
    if let Some(reason) = reason {
        headers.insert(REASON.into(), AMQPValue::LongString(reason.into()));
    }
    let mut properties = BasicProperties::default()
        .with_headers(headers)
        .with_delivery_mode(2);
    macro_rules! kept {
        ($($get:ident $with:ident),*) => {
            $(if let Some(value) = known.$get() {
                properties = properties.$with(value.clone());
            })*
        };
    }
    kept!(
        content_type with_content_type,
        content_encoding with_content_encoding,
        correlation_id with_correlation_id,
        reply_to with_reply_to,
        message_id with_message_id,
        kind with_type,
        app_id with_app_id
    );
    if let Some(priority) = known.priority() {
        properties = properties.with_priority(*priority);
    }
    if let Some(timestamp) = known.timestamp() {
        properties = properties.with_timestamp(*timestamp);
    }
    properties
}

fn text(value: &AMQPValue) -> Option<String> {
    match value {
        AMQPValue::LongString(text) => Some(String::from_utf8_lossy(text.as_bytes()).into_owned()),
        AMQPValue::ShortString(text) => Some(text.to_string()),
        AMQPValue::Boolean(value) => Some(value.to_string()),
        value => number(value).map(|number| number.to_string()),
    }
}

fn number(value: &AMQPValue) -> Option<i64> {
    match *value {
        AMQPValue::ShortShortInt(number) => Some(number.into()),
        AMQPValue::ShortShortUInt(number) => Some(number.into()),
        AMQPValue::ShortInt(number) => Some(number.into()),
        AMQPValue::ShortUInt(number) => Some(number.into()),
        AMQPValue::LongInt(number) => Some(number.into()),
        AMQPValue::LongUInt(number) => Some(number.into()),
        AMQPValue::LongLongInt(number) => Some(number),
        _ => None,
    }
}

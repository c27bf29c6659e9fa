//! What operators see and do.

use idem_runtime::outbox::{MessageState, MessageSummary, Messages, OutboxError};

use crate::office::{Letter, Tested};
use crate::on_each_database;
use crate::publisher::{Broker, Say};
use crate::setup::{World, letter, postcard};

on_each_database!(
    messages_are_listed_by_what_is_asked,
    a_message_is_shown_with_all_that_is_known,
    a_dead_letter_is_requeued_with_its_id,
    a_failed_message_that_is_requeued_keeps_its_place,
    a_message_is_dropped_and_its_key_goes_on,
    a_decision_is_signed_and_about_something,
);

const WHO: &str = "alice";
const WHY: &str = "ticket 1";

async fn dead<DB: Tested>(letters: Vec<Letter>) -> (World<DB>, Vec<MessageSummary>) {
    let world = World::<DB>::new().await;
    world.stage(letters).await;
    let broker = Broker::new(|_| Say::Reject);
    world.relay(&broker).run_once().await.unwrap();
    let all = Messages::all().state(MessageState::Dead);
    let listed = world.idempotency.outbox().list(&all).await.unwrap();
    (world, listed)
}

async fn messages_are_listed_by_what_is_asked<DB: Tested>() {
    let later = Letter {
        delay_ms: Some(3_600_000),
        ..postcard("users")
    };
    let letters = vec![letter("a", 0), letter("b", 0), postcard("users")];
    let (world, listed) = dead::<DB>(letters).await;
    assert_eq!(listed.len(), 3);
    world.stage(vec![letter("a", 1), later]).await;
    let outbox = world.idempotency.outbox();
    let list = async |messages: Messages| outbox.list(&messages).await.unwrap();
    assert_eq!(list(Messages::all()).await.len(), 5);
    let pending = list(Messages::all().state(MessageState::Pending)).await;
    assert_eq!(pending.len(), 1);
    let delayed = list(Messages::all().state(MessageState::Delayed)).await;
    assert_eq!((delayed.len(), delayed[0].topic.as_str()), (1, "users"));
    let of_a = list(Messages::all().ordering_key("a")).await;
    let states: Vec<_> = of_a.iter().map(|message| message.state).collect();
    assert_eq!(states, [MessageState::Dead, MessageState::Pending]);
    assert_eq!(list(Messages::all().topic("users")).await.len(), 2);
    let page = list(Messages::all().limit(2)).await;
    assert_eq!([page[0].id, page[1].id], [listed[0].id, listed[1].id]);
    let next = list(Messages::all().limit(2).after(&page[1])).await;
    assert_eq!((next.len(), next[0].id), (2, listed[2].id));
    let counts = outbox.counts().await.unwrap();
    assert_eq!((counts.pending, counts.delayed, counts.dead), (1, 1, 3));
    assert_eq!((counts.failed, counts.delivered), (0, 0));
}

async fn a_message_is_shown_with_all_that_is_known<DB: Tested>() {
    let with_header = Letter {
        headers: vec![("X-Tenant".to_owned(), "ü".to_owned())],
        ..letter("a", 7)
    };
    let (world, listed) = dead::<DB>(vec![with_header]).await;
    let outbox = world.idempotency.outbox();
    let detail = outbox.inspect(listed[0].id).await.unwrap().unwrap();
    assert_eq!(detail.content_type, "application/json");
    assert_eq!(detail.headers, [("X-Tenant".to_owned(), "ü".to_owned())]);
    assert_eq!(&detail.payload[..], b"{\"n\":7}");
    let summary = detail.summary;
    assert_eq!((summary.attempts, summary.size), (1, 7));
    assert_eq!(summary.reason.as_deref(), Some("refused: no such exchange"));
    assert!(summary.staged_at <= summary.state_at && summary.state_at <= summary.now);
    assert!(detail.audit.is_empty());
}

async fn a_dead_letter_is_requeued_with_its_id<DB: Tested>() {
    let (world, listed) = dead::<DB>(vec![letter("a", 0)]).await;
    let (outbox, id) = (world.idempotency.outbox(), listed[0].id);
    let broker = Broker::that_confirms();
    world.relay(&broker).run_once().await.unwrap();
    assert!(broker.has().is_empty(), "a dead letter is not tried again");
    outbox.requeue(id, WHO, WHY).await.unwrap();
    world.relay(&broker).run_once().await.unwrap();
    assert_eq!(broker.ids(), [id.to_string()]);
    assert_eq!(broker.has()[0].attempt, 1, "its attempts begin again");
    assert!(outbox.inspect(id).await.unwrap().is_none());
    let audit = outbox.audit(id).await.unwrap();
    assert_eq!(audit.len(), 1);
    let entry = &audit[0];
    let said = (
        entry.actor.as_str(),
        entry.action.as_str(),
        entry.reason.as_str(),
    );
    assert_eq!(said, (WHO, "requeue", WHY));
    let detail = entry.detail.as_ref().unwrap();
    assert_eq!(detail["topic"], "orders.placed");
    assert_eq!(detail["state"], "dead");
}

async fn a_failed_message_that_is_requeued_keeps_its_place<DB: Tested>() {
    let world = World::<DB>::new().await;
    world.stage(vec![letter("a", 0), letter("a", 1)]).await;
    let hour = std::time::Duration::from_secs(3600);
    let failing = Broker::new(|_| Say::Fail);
    let relay = world.relay(&failing).backoff(hour, hour);
    relay.run_once().await.unwrap();
    let outbox = world.idempotency.outbox();
    let failed = Messages::all().state(MessageState::Failed);
    let failed = outbox.list(&failed).await.unwrap();
    assert_eq!(failed.len(), 1);
    outbox.requeue(failed[0].id, WHO, WHY).await.unwrap();
    let broker = Broker::that_confirms();
    world.relay(&broker).run_once().await.unwrap();
    let numbers: Vec<_> = broker.received().iter().map(|letter| letter.n).collect();
    assert_eq!(numbers, [0, 1]);
}

async fn a_message_is_dropped_and_its_key_goes_on<DB: Tested>() {
    let world = World::<DB>::new().await;
    world.stage(vec![letter("a", 0), letter("a", 1)]).await;
    let hour = std::time::Duration::from_secs(3600);
    let failing = Broker::new(|_| Say::Fail);
    let relay = world.relay(&failing).backoff(hour, hour);
    relay.run_once().await.unwrap();
    let outbox = world.idempotency.outbox();
    let failed = Messages::all().state(MessageState::Failed);
    let id = outbox.list(&failed).await.unwrap()[0].id;
    outbox.drop_message(id, WHO, WHY).await.unwrap();
    let broker = Broker::that_confirms();
    world.relay(&broker).run_once().await.unwrap();
    let numbers: Vec<_> = broker.received().iter().map(|letter| letter.n).collect();
    assert_eq!(numbers, [1]);
    assert_eq!(outbox.audit(id).await.unwrap()[0].action, "drop");
}

async fn a_decision_is_signed_and_about_something<DB: Tested>() {
    let (world, listed) = dead::<DB>(vec![letter("a", 0)]).await;
    let ids = world.stage(vec![letter("b", 0)]).await;
    let (outbox, id) = (world.idempotency.outbox(), listed[0].id);
    let pending = ids[0].parse().unwrap();
    let unsigned = outbox.requeue(id, " ", WHY).await;
    assert!(
        matches!(unsigned, Err(OutboxError::Unsigned)),
        "{unsigned:?}"
    );
    let unsigned = outbox.drop_message(id, WHO, "").await;
    assert!(
        matches!(unsigned, Err(OutboxError::Unsigned)),
        "{unsigned:?}"
    );
    let needless = outbox.requeue(pending, WHO, WHY).await;
    assert!(
        matches!(needless, Err(OutboxError::Pending(_))),
        "{needless:?}"
    );
    let keeping = world
        .relay(&Broker::that_confirms())
        .keep_delivered(std::time::Duration::from_secs(3600));
    keeping.run_once().await.unwrap();
    for late in [
        outbox.requeue(pending, WHO, WHY).await,
        outbox.drop_message(pending, WHO, WHY).await,
    ] {
        assert!(matches!(late, Err(OutboxError::NotFound(_))), "{late:?}");
    }
    assert!(outbox.audit(pending).await.unwrap().is_empty());
    assert!(outbox.audit(id).await.unwrap().is_empty());
}

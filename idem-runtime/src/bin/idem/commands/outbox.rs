//! Messages of the outbox.

use idem_runtime::outbox::{
    MessageDetail, MessageId, MessageState, MessageSummary, Messages, OutboxError,
};
use idem_runtime::{Backend, Idempotency};
use serde_json::json;

use super::people::{decisions, pairs};
use crate::Failure;
use crate::arguments::{self, Signed};
use crate::output::Output;
use crate::table::{aligned, plain};
use crate::time::both;

pub(super) async fn run<DB: Backend>(
    idempotency: &Idempotency<DB>,
    command: arguments::Outbox,
    output: &mut Output,
) -> Result<(), Failure> {
    let outbox = idempotency.outbox();
    match command {
        arguments::Outbox::List(which) => list(idempotency, which, output).await,
        arguments::Outbox::Show { id } => show(idempotency, id, output).await,
        arguments::Outbox::Requeue { id, signed } => {
            let requeued = outbox.requeue(id, &signed.by, &signed.why).await;
            requeued.map_err(failure)?;
            output.message("requeued; a relay of the application publishes it");
            handled(id, "requeue", &signed, output);
            Ok(())
        }
        arguments::Outbox::Drop { id, signed } => {
            let dropped = outbox.drop_message(id, &signed.by, &signed.why).await;
            dropped.map_err(failure)?;
            output.message("dropped; what was decided about it is kept");
            handled(id, "drop", &signed, output);
            Ok(())
        }
    }
}

fn handled(id: MessageId, action: &str, signed: &Signed, output: &mut Output) {
    let decision = json!({ "id": id, "action": action, "actor": signed.by, "reason": signed.why });
    output.data(&decision, String::new);
}

async fn list<DB: Backend>(
    idempotency: &Idempotency<DB>,
    which: arguments::Messages,
    output: &mut Output,
) -> Result<(), Failure> {
    // One more tells whether there are more.
    let mut messages = Messages::all().limit(which.limit.saturating_add(1));
    if let Some(state) = which.state {
        messages = messages.state(state.into());
    }
    if let Some(topic) = which.topic {
        messages = messages.topic(topic);
    }
    if let Some(key) = which.key {
        messages = messages.ordering_key(key);
    }
    let listed = idempotency.outbox().list(&messages).await;
    let mut listed = listed.map_err(failure)?;
    let limit = usize::try_from(which.limit).unwrap_or(usize::MAX);
    if listed.len() > limit {
        listed.truncate(limit);
        output.message(&format!(
            "there are more than {limit}: raise --limit, or say which with --state, --topic or --key"
        ));
    }
    if listed.is_empty() {
        output.message("there is no message, of those that were asked for");
    }
    output.data(&listed, || table(&listed));
    Ok(())
}

async fn show<DB: Backend>(
    idempotency: &Idempotency<DB>,
    id: MessageId,
    output: &mut Output,
) -> Result<(), Failure> {
    let outbox = idempotency.outbox();
    if let Some(detail) = outbox.inspect(id).await.map_err(failure)? {
        output.data(&detail, || shown(&detail));
        return Ok(());
    }
    let audit = outbox.audit(id).await.map_err(failure)?;
    if audit.is_empty() {
        return Err(failure(OutboxError::NotFound(id)));
    }
    output.message("it is gone: this is what operators decided about it");
    let left = json!({ "id": id, "state": "gone", "audit": audit });
    let now = audit.last().map_or(0, |entry| entry.at);
    output.data(&left, || {
        let lines = vec![("id", id.to_string()), ("state", "gone".to_owned())];
        format!(
            "{}\ndecisions\n{}",
            pairs("", lines),
            decisions(now, &audit)
        )
    });
    Ok(())
}

fn table(messages: &[MessageSummary]) -> String {
    if messages.is_empty() {
        return String::new();
    }
    let titles = ["ID", "TOPIC", "KEY", "STATE", "ATTEMPTS", "STAGED", "WHY"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    rows.extend(messages.iter().map(|message| {
        vec![
            message.id.to_string(),
            plain(&message.topic),
            plain(message.ordering_key.as_deref().unwrap_or("-")),
            message.state.as_str().to_owned(),
            message.attempts.to_string(),
            both(message.now, message.staged_at),
            plain(message.reason.as_deref().unwrap_or_default()),
        ]
    }));
    aligned(&rows)
}

fn shown(detail: &MessageDetail) -> String {
    let summary = &detail.summary;
    let now = summary.now;
    let mut lines = vec![
        ("id", summary.id.to_string()),
        ("topic", plain(&summary.topic)),
    ];
    if let Some(key) = &summary.ordering_key {
        lines.push(("key", plain(key)));
    }
    lines.push(("state", summary.state.as_str().to_owned()));
    lines.push(("attempts", summary.attempts.to_string()));
    if let Some(reason) = &summary.reason {
        lines.push(("why", plain(reason)));
    }
    lines.push(("staged", both(now, summary.staged_at)));
    match summary.state {
        MessageState::Pending => {}
        MessageState::Delayed | MessageState::Failed => {
            lines.push(("due", both(now, summary.state_at)));
        }
        MessageState::Delivered | MessageState::Dead => {
            lines.push(("since", both(now, summary.state_at)));
        }
    }
    lines.push(("content type", plain(&detail.content_type)));
    for (name, value) in &detail.headers {
        lines.push(("header", format!("{}: {}", plain(name), plain(value))));
    }
    lines.push(("payload", plain(&String::from_utf8_lossy(&detail.payload))));
    let mut text = pairs("", lines);
    if !detail.audit.is_empty() {
        text.push_str("\ndecisions\n");
        text.push_str(&decisions(now, &detail.audit));
    }
    text
}

fn failure(error: OutboxError) -> Failure {
    let next = match &error {
        OutboxError::Unsigned => return Failure::Usage(error.to_string()),
        OutboxError::NotFound(_) => "; `idem outbox list` shows those that there are",
        _ => "",
    };
    Failure::Failed(format!("{error}{next}"))
}

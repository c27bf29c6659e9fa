//! Operations as people read them.

use idem_runtime::operations::{
    AuditEntry, OperationDetail, OperationId, OperationState, OperationSummary, StepView,
};

use crate::table::{aligned, plain};
use crate::time::{age, both};

pub(super) fn list(operations: &[OperationSummary]) -> String {
    if operations.is_empty() {
        return String::new();
    }
    let titles = [
        "ID",
        "OPERATION",
        "SCOPE",
        "STATE",
        "ATTEMPT",
        "BEGAN",
        "WHY, OR WHEN IT GOES ON",
    ];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    rows.extend(operations.iter().map(|operation| {
        vec![
            operation.id.to_string(),
            plain(&operation.operation),
            plain(&operation.scope),
            state(operation.state).to_owned(),
            operation.attempt.to_string(),
            both(operation.now, operation.created_at),
            match (&operation.reason, operation.due_at) {
                (Some(reason), _) => plain(reason),
                (None, Some(due)) => due_at(operation.now, due),
                (None, None) => String::new(),
            },
        ]
    }));
    aligned(&rows)
}

pub(super) fn detail(detail: &OperationDetail) -> String {
    let summary = &detail.summary;
    let now = summary.now;
    let mut lines = vec![
        ("id", summary.id.to_string()),
        ("seen", summary.seen.to_string()),
        ("operation", plain(&summary.operation)),
        ("scope", plain(&summary.scope)),
        ("state", state(summary.state).to_owned()),
    ];
    if let Some(reason) = &summary.reason {
        lines.push(("why", plain(reason)));
    }
    if let Some(at) = summary.parked_at {
        lines.push(("since", both(now, at)));
    }
    lines.push(("began", both(now, summary.created_at)));
    lines.push(("recorded", both(now, summary.recorded_at)));
    if let Some(at) = summary.due_at {
        lines.push(("goes on", due_at(now, at)));
    }
    lines.push((
        "attempt",
        format!("{}, {} not ended in order", summary.attempt, summary.tries),
    ));
    lines.push(("operation id", detail.operation_id.to_string()));
    lines.push(("definition", detail.definition.to_string()));
    for (kind, id) in &detail.resources {
        lines.push(("resource", format!("{} {}", plain(kind), plain(id))));
    }
    if let Some(why) = &detail.unreadable {
        lines.push(("steps", format!("not shown: {}", plain(why))));
    }
    let mut text = pairs("", lines);
    for (number, step) in (1..).zip(&detail.steps) {
        text.push_str(&format!(
            "\nstep {number}: {} ({}) {}\n",
            plain(&step.name),
            step.kind,
            step.state
        ));
        text.push_str(&pairs("  ", of_step(now, step)));
    }
    if !detail.audit.is_empty() {
        text.push_str("\ndecisions\n");
        text.push_str(&decisions(now, &detail.audit));
    }
    text
}

fn of_step(now: i64, step: &StepView) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(key) = step.key {
        lines.push(("key", key.to_string()));
    }
    if let Some(at) = step.first_at {
        lines.push(("first sent", both(now, at)));
    }
    if let Some(at) = step.last_at.filter(|at| Some(*at) != step.first_at) {
        lines.push(("last sent", both(now, at)));
    }
    if let Some(until) = in_flight(now, step) {
        lines.push(("may arrive", format!("until {}", both(now, until))));
    }
    if let Some(input) = &step.input {
        lines.push(("input", plain(&input.to_string())));
    }
    if let Some(value) = &step.value {
        let name = if step.state == "refused" {
            "refusal"
        } else {
            "result"
        };
        lines.push((name, plain(&value.to_string())));
    }
    lines
}

fn in_flight(now: i64, step: &StepView) -> Option<i64> {
    step.in_flight_until
        .filter(|until| step.state == "begun" && *until > now)
}

/// What may be done with it.
pub(super) fn next(detail: &OperationDetail) -> Option<String> {
    let summary = &detail.summary;
    if summary.state != OperationState::Unknown {
        return None;
    }
    let seen = summary.seen;
    let open = |step: &&StepView| step.state == "begun" || step.decided;
    let Some(step) = detail.steps.last().filter(open) else {
        return Some(format!(
            "correct what its reason says, then: idem resume {seen} --by NAME --why TEXT"
        ));
    };
    let name = plain(&step.name);
    let wait = in_flight(summary.now, step).map_or_else(String::new, |until| {
        format!(
            "\n  (not before its request can't arrive any more, {})",
            age(summary.now, until)
        )
    });
    Some(format!(
        "look for the key of step `{name}` at its service, then one of:\n  \
         idem resolve {seen} --done JSON --by NAME --why TEXT\n  \
         idem resolve {seen} --refused JSON --by NAME --why TEXT{wait}\n  \
         idem resume {seen} --by NAME --why TEXT"
    ))
}

pub(super) fn ended(id: OperationId, audit: &[AuditEntry]) -> String {
    let now = audit.last().map_or(0, |entry| entry.at);
    let lines = vec![("id", id.to_string()), ("state", "ended".to_owned())];
    format!("{}\ndecisions\n{}", pairs("", lines), decisions(now, audit))
}

pub(super) fn decisions(now: i64, audit: &[AuditEntry]) -> String {
    let mut rows = Vec::new();
    for entry in audit {
        let detail = entry.detail.as_ref().map(ToString::to_string);
        rows.push(vec![
            format!("  {}", both(now, entry.at)),
            plain(&entry.actor),
            plain(&entry.action),
            plain(&entry.reason),
            plain(&detail.unwrap_or_default()),
        ]);
    }
    aligned(&rows)
}

pub(super) fn pairs(indent: &str, lines: Vec<(&'static str, String)>) -> String {
    let rows: Vec<_> = lines
        .into_iter()
        .map(|(name, value)| vec![format!("{indent}{name}"), value])
        .collect();
    aligned(&rows)
}

fn state(state: OperationState) -> &'static str {
    match state {
        OperationState::Started => "started",
        OperationState::Unknown => "unknown",
    }
}

/// A lease that ends or a try that comes; one that is over waits for a worker.
fn due_at(now: i64, at: i64) -> String {
    if at > now {
        format!("due {}", age(now, at))
    } else {
        format!(
            "due since {}: a recovery worker takes it, if one runs",
            age(now, at).replace(" ago", "")
        )
    }
}

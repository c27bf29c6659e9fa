//! What each command does.

mod outbox;
mod people;

use idem_runtime::operations::{AuditEntry, Decision, List, OperationId, OperationsError, Seen};
use idem_runtime::scope::ScopeKey;
use idem_runtime::{Backend, Idempotency, RetentionError};
use serde_json::json;

use crate::Failure;
use crate::arguments::{self, Command, Outcome, Resolve, Signed};
use crate::output::Output;

/// Prints the tables.
pub(crate) fn schema<DB: Backend>(output: &mut Output) {
    let schema = Idempotency::<DB>::schema();
    output.data(&json!({ "schema": schema }), || schema.clone());
}

pub(crate) async fn run<DB: Backend>(
    idempotency: &Idempotency<DB>,
    command: Command,
    output: &mut Output,
) -> Result<(), Failure> {
    match command {
        Command::List(which) => list(idempotency, which, output).await,
        Command::Show { id } => show(idempotency, id, output).await,
        Command::Resolve(resolve) => {
            let Resolve {
                seen,
                outcome,
                signed,
            } = resolve;
            let decision = match outcome {
                Outcome {
                    done: Some(value), ..
                } => Decision::Done(value),
                Outcome { refused, .. } => Decision::Refused(refused.unwrap_or_default()),
            };
            let action = match decision {
                Decision::Done(_) => "done",
                Decision::Refused(_) => "refused",
            };
            let operations = idempotency.operations();
            let decided = operations.resolve(seen, decision, &signed.by, &signed.why);
            decided.await.map_err(failure)?;
            recorded(seen, action, &signed, output);
            Ok(())
        }
        Command::Resume { seen, signed } => {
            let operations = idempotency.operations();
            let decided = operations.resume(seen, &signed.by, &signed.why).await;
            decided.map_err(failure)?;
            recorded(seen, "resume", &signed, output);
            Ok(())
        }
        Command::Outbox(command) => outbox::run(idempotency, command, output).await,
        Command::Erase { scope } => erase(idempotency, &scope, output).await,
        Command::Sweep => sweep(idempotency, output).await,
        Command::Schema => {
            schema::<DB>(output);
            Ok(())
        }
    }
}

async fn list<DB: Backend>(
    idempotency: &Idempotency<DB>,
    which: arguments::List,
    output: &mut Output,
) -> Result<(), Failure> {
    // One more tells whether there are more.
    let asked = which.limit.saturating_add(1);
    let mut list = List::all().older_than(which.older_than).limit(asked);
    if let Some(name) = which.operation {
        list = list.operation(name);
    }
    if let Some(scope) = &which.scope {
        list = list.scope(scope);
    }
    if let Some(state) = which.state {
        list = list.state(state.into());
    }
    let operations = idempotency.operations();
    let mut listed = operations.list(&list).await.map_err(failure)?;
    let limit = usize::try_from(which.limit).unwrap_or(usize::MAX);
    if listed.len() > limit {
        listed.truncate(limit);
        output.message(&format!(
            "there are more than {limit}: raise --limit, or say which with --operation, --scope, --state or --older-than"
        ));
    }
    if listed.is_empty() {
        output.message("no operation is unresolved, of those that were asked for");
    }
    output.data(&listed, || people::list(&listed));
    Ok(())
}

async fn show<DB: Backend>(
    idempotency: &Idempotency<DB>,
    id: OperationId,
    output: &mut Output,
) -> Result<(), Failure> {
    let operations = idempotency.operations();
    let Some(detail) = operations.inspect(id).await.map_err(failure)? else {
        let audit = operations.audit(id).await.map_err(failure)?;
        return ended(id, &audit, output);
    };
    if let Some(next) = people::next(&detail) {
        output.message(&next);
    }
    output.data(&detail, || people::detail(&detail));
    Ok(())
}

/// What is left of an operation is what operators decided about it.
fn ended(id: OperationId, audit: &[AuditEntry], output: &mut Output) -> Result<(), Failure> {
    if audit.is_empty() {
        return Err(failure(OperationsError::NotFound(id)));
    }
    output.message("it is not unresolved any more: this is what operators decided about it");
    let left = json!({ "id": id, "state": "ended", "audit": audit });
    output.data(&left, || people::ended(id, audit));
    Ok(())
}

fn recorded(seen: Seen, action: &str, signed: &Signed, output: &mut Output) {
    let id = seen.id();
    output.message(&format!(
        "recorded; the application's recovery worker goes on with it: see `idem show {id}`"
    ));
    let decision = json!({ "id": id, "action": action, "actor": signed.by, "reason": signed.why });
    output.data(&decision, String::new);
}

async fn erase<DB: Backend>(
    idempotency: &Idempotency<DB>,
    scope: &ScopeKey,
    output: &mut Output,
) -> Result<(), Failure> {
    let erased = idempotency.erase(scope).await.map_err(again)?;
    if erased.kept > 0 {
        output.message(&format!(
            "{} skipped: what is not resolved (`idem list --scope '{scope}'`), keys that are kept as unknown, and what a \
             request was replacing; resolve it, or let the requests end, and erase again",
            erased.kept,
            scope = scope.as_str(),
        ));
    }
    output.data(
        &json!({ "erased": erased.erased, "skipped": erased.kept }),
        || format!("{} erased, {} skipped\n", erased.erased, erased.kept),
    );
    Ok(())
}

async fn sweep<DB: Backend>(
    idempotency: &Idempotency<DB>,
    output: &mut Output,
) -> Result<(), Failure> {
    let swept = idempotency.sweeper().sweep_once().await.map_err(again)?;
    output.data(
        &json!({ "answers": swept.answers, "records": swept.records, "messages": swept.messages }),
        || {
            format!(
                "{} records deleted, {} answers erased whose keys stay refused, {} processed messages forgotten\n",
                swept.records, swept.answers, swept.messages
            )
        },
    );
    Ok(())
}

fn again(error: RetentionError) -> Failure {
    Failure::Failed(format!(
        "{error}; what was done by then stays done: run it again"
    ))
}

fn failure(error: OperationsError) -> Failure {
    let next = match &error {
        OperationsError::Unsigned => return Failure::Usage(error.to_string()),
        OperationsError::NotFound(_) => "; `idem list` shows those that are unresolved".to_owned(),
        OperationsError::Changed(id) | OperationsError::NotUnknown(id) => {
            format!(": `idem show {id}`")
        }
        OperationsError::NothingBegun(_) => ": `idem resume SEEN --by NAME --why TEXT`".to_owned(),
        _ => String::new(),
    };
    Failure::Failed(format!("{error}{next}"))
}

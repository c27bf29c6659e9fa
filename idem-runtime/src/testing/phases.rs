//! What is sent, and what is wanted.

use http::StatusCode;
use uuid::Uuid;

use super::answer::Answer;
use super::client::Client;
use super::contract::{Given, PhaseReport};
use super::violation::{Phase, Violation};
use crate::response::HeaderPolicy;

/// The request, and the same again.
pub(super) async fn sequence(given: &Given<'_>) -> Result<PhaseReport, Violation> {
    let phase = Phase::Sequence;
    let mut client = given.client(phase);
    let key = new_key();
    let before = given.count(phase).await?;
    let first = first_use(&mut client, given, &key).await?;
    given.counted(phase, 1, before, 1).await?;
    let second = client.send_until_answered(|| given.request(&key)).await?;
    given.counted(phase, client.sent, before, 1).await?;
    same(given.policy(), phase, &first, &second)?;
    replayed(phase, second)?;
    Ok(report(&client, 1))
}

/// Many at once, over all instances.
pub(super) async fn concurrent(given: &Given<'_>) -> Result<PhaseReport, Violation> {
    let phase = Phase::Concurrent;
    let mut client = given.client(phase);
    let key = new_key();
    let before = given.count(phase).await?;
    let requests = std::iter::repeat_with(|| given.request(&key)).take(given.concurrency());
    let answers = client.send_at_once(requests.collect::<Vec<_>>()).await?;
    // Effects first: that is the promise, and answers that differ are its symptom.
    if answers.iter().any(Answer::succeeded) {
        given.counted(phase, client.sent, before, 1).await?;
    }
    let last = client.send_until_answered(|| given.request(&key)).await?;
    given.counted(phase, client.sent, before, 1).await?;
    if !last.succeeded() {
        return Err(Violation::FirstUse {
            phase,
            answer: Box::new(last),
        });
    }
    for answer in answers {
        if !answer.puts_off() {
            same(given.policy(), phase, &last, &answer)?;
        } else if !answer.has_retry_after() {
            return Err(Violation::NoRetryAfter {
                phase,
                answer: Box::new(answer),
            });
        }
    }
    let again = client.send_until_answered(|| given.request(&key)).await?;
    same(given.policy(), phase, &last, &again)?;
    replayed(phase, again)?;
    given.counted(phase, client.sent, before, 1).await?;
    Ok(report(&client, 1))
}

/// The key again, with another request.
pub(super) async fn changed(given: &Given<'_>) -> Result<PhaseReport, Violation> {
    let phase = Phase::Changed;
    let mut client = given.client(phase);
    let before = given.count(phase).await?;
    // Alone it must succeed, or its refusal below proves nothing.
    let alone = client.send(given.changed(&new_key())).await?;
    succeeded(phase, alone)?;
    given.counted(phase, client.sent, before, 1).await?;
    let key = new_key();
    let first = first_use(&mut client, given, &key).await?;
    let refused = client.send_until_answered(|| given.changed(&key)).await?;
    given.counted(phase, client.sent, before, 2).await?;
    if refused.status != StatusCode::UNPROCESSABLE_ENTITY {
        return Err(Violation::NotRefused {
            phase,
            answer: Box::new(refused),
        });
    }
    let again = client.send_until_answered(|| given.request(&key)).await?;
    same(given.policy(), phase, &first, &again)?;
    given.counted(phase, client.sent, before, 2).await?;
    Ok(report(&client, 2))
}

/// The answer is lost at several moments.
pub(super) async fn lost_answer(given: &Given<'_>) -> Result<PhaseReport, Violation> {
    let phase = Phase::LostAnswer;
    let mut client = given.client(phase);
    let mut effects = 0;
    for polls in 1..=given.losses() {
        let key = new_key();
        let before = given.count(phase).await?;
        let sent = client.sent;
        client.send_and_lose(given.request(&key), polls).await?;
        let answer = client.send_until_answered(|| given.request(&key)).await?;
        let answer = succeeded(phase, answer)?;
        given.counted(phase, client.sent - sent, before, 1).await?;
        let again = client.send_until_answered(|| given.request(&key)).await?;
        same(given.policy(), phase, &answer, &again)?;
        replayed(phase, again)?;
        given.counted(phase, client.sent - sent, before, 1).await?;
        effects += 1;
    }
    Ok(report(&client, effects))
}

async fn first_use(
    client: &mut Client<'_>,
    given: &Given<'_>,
    key: &str,
) -> Result<Answer, Violation> {
    let phase = client.phase;
    let first = client.send(given.request(key)).await?;
    let first = succeeded(phase, first)?;
    if first.is_replay() {
        return Err(Violation::ReplayedAtOnce {
            phase,
            answer: Box::new(first),
        });
    }
    Ok(first)
}

/// A first use must succeed.
pub(super) fn succeeded(phase: Phase, answer: Answer) -> Result<Answer, Violation> {
    if answer.succeeded() {
        return Ok(answer);
    }
    Err(Violation::FirstUse {
        phase,
        answer: Box::new(answer),
    })
}

/// A later answer must be the first.
pub(super) fn same(
    policy: &HeaderPolicy,
    phase: Phase,
    first: &Answer,
    later: &Answer,
) -> Result<(), Violation> {
    match first.difference(later, policy) {
        None => Ok(()),
        Some(what) => Err(Violation::Differs {
            phase,
            what,
            first: Box::new(first.clone()),
            later: Box::new(later.clone()),
        }),
    }
}

/// A repeated request's answer must say so.
pub(super) fn replayed(phase: Phase, answer: Answer) -> Result<(), Violation> {
    if answer.is_replay() {
        return Ok(());
    }
    Err(Violation::NotMarked {
        phase,
        answer: Box::new(answer),
    })
}

fn report(client: &Client<'_>, effects: u64) -> PhaseReport {
    PhaseReport {
        phase: client.phase,
        requests: client.sent,
        effects,
    }
}

pub(super) fn new_key() -> String {
    let bytes = fastrand::u128(..).to_be_bytes();
    let key: Uuid = uuid::Builder::from_random_bytes(bytes).into_uuid();
    key.to_string()
}

//! What can happen next.

use crate::state::{Phase, State, Status, Worker};

/// One step of somebody: a worker, the network, the provider, an operator, the sweeper, or time.
///
/// The number is a worker's place in [`State::workers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The client's request, or its retry, finds no row and claims the key.
    Claim(usize),
    /// Recovery takes the operation over, since its lease expired: because its owner died, or froze.
    TakeOver(usize),
    /// The worker's process dies. Also what becomes of an attempt whose commit took place but was never acknowledged.
    Crash(usize),
    /// The worker commits what its phase says.
    Commit(usize),
    /// The handler returns an error.
    Fail(usize),
    /// The attempt commits the intent of one more call.
    CallAgain(usize),
    /// The attempt asks the provider what became of the calls, and acts on `Found`, or means to act on `Absent`.
    LookUp(usize),
    /// The attempt parks the operation: it can't tell, or the handler's steps aren't the recorded ones.
    Park(usize),
    /// The request leaves the worker.
    Send(usize),
    /// The worker gives up the call, whose outcome it doesn't know.
    TimeOut(usize),
    /// The provider handles a request.
    Arrive(Sender, Reply),
    /// The network loses a request.
    Lose(Sender),
    /// Recovery parks an operation whose attempts are used up.
    ParkExhausted,
    /// An operator looks at an `unknown` outcome and at the provider's books.
    Look,
    /// The operator resolves it by what was seen.
    Resolve,
    /// An operator lets recovery try once more, by the same rules.
    Resume,
    /// The sweeper takes a row.
    Sweep,
    /// A unit of time passes.
    Tick,
}

/// Whose request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A worker that waits for the answer.
    Waiting(usize),
    /// Nobody waits any more: a place in [`State::strays`].
    Gone(usize),
}

/// What the provider does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done, and the sender learns of it.
    Done,
    /// Done, and the answer is lost.
    Lost,
    /// Refused before the key was looked at: a lost connection before the first byte, or a rate limit.
    Refused,
}

/// Adds what may be possible in `state`; some of it turns out not to be.
pub(crate) fn candidates(state: &State, actions: &mut Vec<Action>) {
    let idle = state
        .workers
        .iter()
        .position(|worker| *worker == Worker::Idle);
    match (&state.record, idle) {
        (None, Some(worker)) => actions.push(Action::Claim(worker)),
        (Some(record), Some(worker)) if record.status == Status::Started => {
            actions.push(Action::TakeOver(worker));
        }
        _ => {}
    }
    for (place, worker) in state.workers.iter().enumerate() {
        if let Worker::Running { phase, .. } = worker {
            of_attempt(place, *phase, actions);
        }
    }
    for place in 0..state.strays.len() {
        // The same request twice is one choice.
        if place > 0 && state.strays[place] == state.strays[place - 1] {
            continue;
        }
        // Nobody hears the reply, and a refusal that nobody hears is a loss.
        actions.push(Action::Arrive(Sender::Gone(place), Reply::Lost));
        actions.push(Action::Lose(Sender::Gone(place)));
    }
    if let Some(status) = state.status() {
        match status {
            Status::Started => actions.extend([Action::ParkExhausted, Action::Sweep]),
            Status::Unknown => actions.extend([Action::Look, Action::Resolve, Action::Resume]),
            Status::Completed(_) => actions.push(Action::Sweep),
            Status::Tombstone => {}
        }
    }
    actions.push(Action::Tick);
}

fn of_attempt(worker: usize, phase: Phase, actions: &mut Vec<Action>) {
    actions.push(Action::Crash(worker));
    match phase {
        Phase::Reserve | Phase::Intend => {
            actions.extend([Action::Commit(worker), Action::Fail(worker)])
        }
        Phase::StoreResult | Phase::StoreDone | Phase::StoreRefused => {
            actions.push(Action::Commit(worker))
        }
        Phase::Finish(_) => actions.extend([Action::Commit(worker), Action::Park(worker)]),
        Phase::Resume => actions.extend([
            Action::CallAgain(worker),
            Action::LookUp(worker),
            Action::Park(worker),
        ]),
        Phase::ActOnAbsent => actions.extend([Action::CallAgain(worker), Action::TimeOut(worker)]),
        Phase::Send { .. } => actions.extend([Action::Send(worker), Action::TimeOut(worker)]),
        Phase::Await { under_way, .. } => {
            actions.push(Action::TimeOut(worker));
            if under_way {
                let sender = Sender::Waiting(worker);
                actions.extend(
                    [Reply::Done, Reply::Lost, Reply::Refused]
                        .map(|reply| Action::Arrive(sender, reply)),
                );
                actions.push(Action::Lose(sender));
            }
        }
    }
}

//! What is durable, what each worker remembers, and what is under way.

/// One moment of one key's life.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The key's row, if there is one.
    pub record: Option<Record>,
    /// How often the key was claimed.
    pub claims: u8,
    /// How often the atomic step's writes were committed.
    pub reservations: u8,
    /// The processes, without an order: equal states with workers exchanged are one state.
    pub workers: Vec<Worker>,
    /// Requests under way whose sender no longer waits for an answer, in their order.
    pub strays: Vec<Request>,
    /// What the provider did and remembers.
    pub ledger: Ledger,
    /// What an operator saw, and has yet to act on.
    pub look: Option<Look>,
    /// What the last action brought about.
    pub event: Event,
}

/// What an operator saw of an `unknown` outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Look {
    /// The record's claim.
    pub claim: u8,
    /// The record's attempt.
    pub attempt: u8,
    /// The effect was in the provider's books.
    pub found: bool,
}

/// The key's row with its steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Which claim made the row.
    pub claim: u8,
    /// Grows with each take-over and each parking.
    pub attempt: u8,
    /// How many more attempts there may be.
    pub take_overs_left: u8,
    /// An operator had it tried again, which the model permits once.
    pub resumed: bool,
    /// Whether the atomic step's result is stored.
    pub reserved: bool,
    /// The external step.
    pub external: External,
    /// How far the operation is.
    pub status: Status,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Claimed; an attempt runs, or recovery will take it over.
    Started,
    /// The answer is stored.
    Completed(Outcome),
    /// Parked and listed: nothing goes on until somebody resolves it.
    Unknown,
    /// The answer is gone; the key is still refused.
    Tombstone,
}

/// What a stored answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The effect took place.
    Done,
    /// The provider refused; nothing took place.
    Refused,
    /// The handler failed before the call; nothing took place.
    Failed,
}

/// What is durable of the external step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum External {
    /// No intent.
    Untouched,
    /// An intent without an outcome.
    Unfinished {
        /// Ticks since the first intent.
        first: u8,
        /// Ticks since the intent of the last call.
        last: u8,
        /// An earlier call than the last may have taken effect.
        undetermined: bool,
    },
    /// The result is stored.
    Done {
        /// Ticks since the intent of the last call: another attempt's may still be under way.
        last: u8,
    },
    /// The refusal is stored.
    Refused {
        /// Ticks since the intent of the last call.
        last: u8,
    },
}

/// A process that serves requests and recovers operations. One that does not act for a while is frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Worker {
    /// Nothing to do, or just started again after a crash.
    Idle,
    /// It runs an attempt.
    Running {
        /// The claim that it believes in.
        claim: u8,
        /// Its attempt.
        attempt: u8,
        /// What it does next.
        phase: Phase,
    },
}

/// What an attempt does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Commit the atomic step.
    Reserve,
    /// Store the atomic step's result: a phase of its own only where that guard is left out.
    StoreResult,
    /// Commit the first intent.
    Intend,
    /// Decide what follows the unfinished external step that an earlier attempt left.
    Resume,
    /// The provider said `Absent`: commit the intent of another call.
    ActOnAbsent,
    /// Send the request whose intent is committed.
    Send {
        /// Ticks since that intent.
        age: u8,
    },
    /// Wait for the answer.
    Await {
        /// Ticks since the intent.
        age: u8,
        /// The request has not yet arrived or been lost.
        under_way: bool,
    },
    /// Store that the call is done.
    StoreDone,
    /// Store that the call was refused.
    StoreRefused,
    /// Store the answer.
    Finish(Outcome),
}

/// A request on its way to the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// Which downstream key it bears.
    pub key: u8,
    /// Ticks since its intent.
    pub age: u8,
}

/// The provider's side, for each downstream key. The protocol uses the first only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ledger {
    /// Effects that took place.
    pub effects: [u8; 3],
    /// Ticks since the provider saw a key first, until it forgets it.
    pub remembered: [Option<u8>; 3],
}

impl Ledger {
    /// Effects under all keys.
    pub fn total(&self) -> u8 {
        self.effects.iter().sum()
    }
}

/// What the last action brought about, for the properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Nothing that a property looks at.
    None,
    /// A worker took an attempt over from another that still runs.
    TakenOverAlive,
    /// A write was refused by the fence.
    FencedOut,
    /// A call was made again.
    CalledAgain,
    /// A lookup told that the effect had taken place.
    Found,
    /// A request arrived that its sender no longer waited for.
    LateArrival,
    /// An operator resolved the outcome.
    Resolved,
    /// An operator had the rules applied again.
    Resumed,
    /// A released key was claimed again.
    ClaimedAgain,
    /// A request left a worker while the outcome was `unknown`.
    SentWhileUnknown,
    /// An effect took place while the outcome was `unknown`.
    EffectWhileUnknown,
}

impl State {
    /// Before the client's first request.
    pub fn initial(workers: usize) -> Self {
        Self {
            record: None,
            claims: 0,
            reservations: 0,
            workers: vec![Worker::Idle; workers],
            strays: Vec::new(),
            ledger: Ledger::default(),
            look: None,
            event: Event::None,
        }
    }

    /// Brings equal states to one form.
    pub(crate) fn normalize(&mut self) {
        self.workers.sort_unstable();
        self.strays.sort_unstable();
    }

    /// Whether the outcome is `unknown`.
    pub fn is_unknown(&self) -> bool {
        self.status() == Some(Status::Unknown)
    }

    /// The record's status.
    pub fn status(&self) -> Option<Status> {
        self.record.as_ref().map(|record| record.status)
    }

    /// Whether a request is on its way.
    pub fn has_request_under_way(&self) -> bool {
        let awaited = |worker: &Worker| {
            matches!(
                worker,
                Worker::Running {
                    phase: Phase::Await {
                        under_way: true,
                        ..
                    },
                    ..
                }
            )
        };
        !self.strays.is_empty() || self.workers.iter().any(awaited)
    }

    /// Whether the attempt that the record names is some worker's.
    pub fn owner_is_alive(&self) -> bool {
        let Some(record) = &self.record else {
            return false;
        };
        self.workers.iter().any(|worker| {
            matches!(worker, Worker::Running { claim, attempt, .. }
                if (*claim, *attempt) == (record.claim, record.attempt))
        })
    }
}

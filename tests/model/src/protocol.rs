//! A configuration of the model, and how `stateright` walks through it.

use stateright::{Model, Property};

use crate::action::{self, Action};
use crate::guard::{Guard, Guards};
use crate::property;
use crate::state::{Event, State};

/// `in_flight_limit`, in ticks after an intent: its request arrives within it or never.
pub const IN_FLIGHT_LIMIT: u8 = 1;
/// `key_lifetime`, in ticks: how long the provider remembers a key that it has seen.
pub const KEY_LIFETIME: u8 = 2;
/// How often a key may be claimed; a bound of the model, not a rule of the protocol.
pub const MAX_CLAIMS: u8 = 2;

/// What the provider offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// It honours keys, for [`KEY_LIFETIME`].
    Keys,
    /// It honours keys for ever.
    LastingKeys,
    /// It can be asked, and does not know keys.
    Lookup,
    /// It honours keys and can be asked.
    KeysAndLookup,
    /// Neither.
    Neither,
}

impl Provider {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Keys,
        Self::LastingKeys,
        Self::Lookup,
        Self::KeysAndLookup,
        Self::Neither,
    ];

    pub(crate) fn honours_keys(self) -> bool {
        matches!(self, Self::Keys | Self::LastingKeys | Self::KeysAndLookup)
    }

    pub(crate) fn can_be_asked(self) -> bool {
        matches!(self, Self::Lookup | Self::KeysAndLookup)
    }
}

/// When requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Within [`IN_FLIGHT_LIMIT`] of their intent, or never: nothing is sent after it, and the network keeps nothing
    /// for longer.
    InTime,
    /// At any time: a process freezes between its last look at the clock and the network, or the network is slower
    /// than the limit says.
    Late,
}

/// When an operator resolves an `unknown` outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Whenever it is listed.
    AtOnce,
    /// Only [`IN_FLIGHT_LIMIT`] after the last call.
    AfterLimit,
}

/// The protocol, at a kind of provider.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// What the provider offers.
    pub provider: Provider,
    /// When requests arrive.
    pub arrival: Arrival,
    /// When operators resolve.
    pub operator: Operator,
    /// The rules that are kept.
    pub guards: Guards,
    /// How many processes there are.
    pub workers: usize,
    /// `max_attempts`.
    pub max_attempts: u8,
}

impl Protocol {
    /// The protocol with all of its guards, two workers and three attempts, where requests arrive in time.
    pub fn at(provider: Provider) -> Self {
        Self {
            provider,
            arrival: Arrival::InTime,
            operator: Operator::AtOnce,
            guards: Guards::all(),
            workers: 2,
            max_attempts: 3,
        }
    }

    /// The mutant without this guard.
    #[must_use]
    pub fn without(mut self, guard: Guard) -> Self {
        self.guards = self.guards.without(guard);
        self
    }

    /// Requests may arrive after the limit.
    #[must_use]
    pub fn with_late_requests(mut self) -> Self {
        self.arrival = Arrival::Late;
        self
    }

    /// Operators wait for the limit before they resolve.
    #[must_use]
    pub fn with_patient_operators(mut self) -> Self {
        self.operator = Operator::AfterLimit;
        self
    }

    /// Three workers and four attempts.
    #[must_use]
    pub fn at_full_size(mut self) -> Self {
        self.workers = 3;
        self.max_attempts = 4;
        self
    }

    pub(crate) fn keeps(&self, guard: Guard) -> bool {
        self.guards.keep(guard)
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::initial(self.workers)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        action::candidates(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        next.event = Event::None;
        match action {
            Action::Claim(worker) => self.claim(&mut next, worker)?,
            Action::TakeOver(worker) => self.take_over(&mut next, worker)?,
            Action::Crash(worker) => self.abandon(&mut next, worker),
            Action::Commit(worker) => self.commit(&mut next, worker)?,
            Action::Fail(worker) => self.fail(&mut next, worker)?,
            Action::CallAgain(worker) => self.call_again(&mut next, worker)?,
            Action::LookUp(worker) => self.look_up(&mut next, worker)?,
            Action::Park(worker) => self.park_attempt(&mut next, worker)?,
            Action::Send(worker) => self.send(&mut next, worker)?,
            Action::TimeOut(worker) => self.time_out(&mut next, worker)?,
            Action::Arrive(sender, reply) => self.arrive(&mut next, sender, reply)?,
            Action::Lose(sender) => self.lose(&mut next, sender)?,
            Action::ParkExhausted => self.park_exhausted(&mut next)?,
            Action::Look => self.look(&mut next)?,
            Action::Resolve => self.resolve(&mut next)?,
            Action::Resume => self.resume(&mut next)?,
            Action::Sweep => self.sweep(&mut next)?,
            Action::Tick => self.tick(&mut next, last)?,
        }
        next.normalize();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        property::all(self)
    }
}

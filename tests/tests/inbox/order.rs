//! The messages of these tests.

use idem_runtime::inbox::Incoming;
use serde::{Deserialize, Serialize};

/// What a message tells its consumer to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Behaviour {
    #[default]
    Work,
    /// Fails, for good.
    Reject,
    /// Fails, and may work later: until [`Probe::allow_retries`].
    Retry,
    Panic,
    /// Says that the database is out of reach.
    Disconnect,
    /// Takes so many milliseconds after its effect.
    Slow(u64),
    /// Waits for a permit of [`Probe::gate`] after its effect.
    Wait,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) event_id: String,
    #[serde(default)]
    pub(crate) behaviour: Behaviour,
}

impl Order {
    pub(crate) fn new(event_id: &str, behaviour: Behaviour) -> Self {
        Self {
            event_id: event_id.to_owned(),
            behaviour,
        }
    }

    pub(crate) fn payload(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap()
    }

    /// As it is delivered first.
    pub(crate) fn delivered(event_id: &str, behaviour: Behaviour) -> Incoming {
        Incoming::new("orders.placed", Self::new(event_id, behaviour).payload())
            .with_message_id(event_id)
    }
}

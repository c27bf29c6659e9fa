//! Where a message stands.

use serde::Serialize;

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[repr(i16)]
pub enum MessageState {
    /// It is published as soon as a relay comes to it.
    Pending = 0,
    /// It was staged with a delay, or put back by an operator: it is published when its time comes.
    Delayed = 1,
    /// An attempt to publish it failed, and there will be another. Messages of its ordering key wait for it.
    Failed = 2,
    /// Its publisher confirmed it, and it is kept for a while.
    Delivered = 3,
    /// A dead letter: it is not tried again, until an operator requeues it.
    Dead = 4,
}

impl MessageState {
    pub(crate) fn from_sql(state: i16) -> Self {
        match state {
            0 => Self::Pending,
            1 => Self::Delayed,
            2 => Self::Failed,
            3 => Self::Delivered,
            _ => Self::Dead,
        }
    }

    /// As it is listed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delayed => "delayed",
            Self::Failed => "failed",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
        }
    }
}

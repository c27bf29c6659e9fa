//! What a `replay_with` function is given.

use http::StatusCode;

/// A completed operation whose answer is to be rebuilt: its status, and the resources that the
/// handler named with [`Tx::resource`](crate::Tx::resource).
#[derive(Clone, Debug)]
pub struct Replay {
    status: StatusCode,
    resources: Vec<(String, String)>,
}

impl Replay {
    pub(crate) fn new(status: StatusCode, resources: Vec<(String, String)>) -> Self {
        Self { status, resources }
    }

    /// The status of the first answer. The rebuilt answer gets it whatever the function returns.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The id of the first resource of this kind.
    #[must_use]
    pub fn resource(&self, kind: &str) -> Option<&str> {
        self.resources
            .iter()
            .find(|(name, _)| name == kind)
            .map(|(_, id)| id.as_str())
    }

    /// All resources, as (kind, id), in the order in which the handler named them.
    pub fn resources(&self) -> impl Iterator<Item = (&str, &str)> {
        self.resources
            .iter()
            .map(|(kind, id)| (kind.as_str(), id.as_str()))
    }
}

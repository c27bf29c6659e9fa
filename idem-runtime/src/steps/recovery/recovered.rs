//! What became of an operation that a worker took over.

/// What became of one operation that was taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovered {
    /// Its answer is stored.
    Completed,
    /// It left nothing behind, and its key is free.
    Released,
    /// It goes on later.
    Later,
    /// Its outcome is unknown until an operator resolves it.
    Unknown,
    /// Another worker has it.
    Elsewhere,
}

impl Recovered {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Released => "released",
            Self::Later => "later",
            Self::Unknown => "unknown",
            Self::Elsewhere => "elsewhere",
        }
    }
}

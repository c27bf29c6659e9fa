//! What the pass knows of the arrays and objects that it is in.

use super::{draft::Mark, members::First, pointer::NOWHERE, template::Last};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Around the document.
    Root,
    Array,
    Object,
}

/// An array or object whose end has not been read yet.
pub(super) struct Frame {
    pub(super) kind: Kind,
    /// Where this value begins in the body.
    pub(super) source: u32,
    /// What had been written before it.
    pub(super) mark: Mark,
    /// Of an object.
    pub(super) first: First,
    /// Where the value of an object's current member begins in the body, or an array's current element's index.
    pub(super) current: u32,
    /// Where this value stands among the ignore pointers, and where the current child does.
    pub(super) pointer: u32,
    pub(super) child: u32,
    /// What to take back when the current child, which is ignored, is over.
    pub(super) ignoring: Option<Mark>,
    /// Of an array.
    pub(super) last: Last,
}

impl Frame {
    #[inline(always)]
    pub(super) fn new(kind: Kind, source: usize, mark: Mark, pointer: u32) -> Frame {
        Frame {
            kind,
            source: source as u32,
            mark,
            first: First::default(),
            current: 0,
            pointer,
            child: NOWHERE,
            ignoring: None,
            last: None,
        }
    }
}

//! What the pass knows of the arrays and objects that it is in.

use super::{names::NO_LAYOUT, output::Start, pointer::NOWHERE, rows::NO_PATTERN};

/// How many objects of an array are alike before a pattern is looked for.
const PATIENCE: u32 = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Around the document.
    Root,
    Array,
    Object,
}

/// An array or object whose end has not been read yet.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    /// Of an object: the layout that it is expected to have, as long as its names bear it out. Of an array: the layout
    /// of the last object in it, which the next is expected to have.
    pub(super) layout: u32,
    /// Of an object: the slot of the layout that the next name should match. Of an array: the next element's index.
    pub(super) next: u32,
    /// The end of the layout's slots.
    pub(super) last: u32,
    pub(super) open_members: u32,
    pub(super) open_names: u32,
    pub(super) object: u32,
    /// Where this value stands among the ignore pointers, and where the current child does.
    pub(super) pointer: u32,
    pub(super) child: u32,
    /// Where an object begins in the body.
    pub(super) start: u32,
    /// Of an array: the pattern that its elements follow, how many objects of one layout were the last in it, and how
    /// many of them a pattern is learnt from.
    pub(super) pattern: u32,
    pub(super) alike: u32,
    pub(super) patience: u32,
    /// What to take back when the current child, which is ignored, is over.
    pub(super) ignoring: Option<Start>,
}

impl Frame {
    /// Around a document at a place among the ignore pointers.
    pub(super) fn root(child: u32) -> Frame {
        Frame {
            kind: Kind::Root,
            child,
            ..Frame::array(NO_LAYOUT, NOWHERE)
        }
    }

    #[inline(always)]
    pub(super) fn array(layout: u32, pointer: u32) -> Frame {
        Frame {
            kind: Kind::Array,
            layout,
            next: 0,
            last: 0,
            open_members: 0,
            open_names: 0,
            object: 0,
            pointer,
            child: NOWHERE,
            start: 0,
            pattern: NO_PATTERN,
            alike: 0,
            patience: PATIENCE,
            ignoring: None,
        }
    }
}

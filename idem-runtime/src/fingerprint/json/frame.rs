//! What the pass knows of the arrays and objects that it is in.

use super::{draft::Mark, members::First, pointer::NOWHERE, template::Template};

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
    pub(super) list: List,
}

/// What the elements of an array have been like.
pub(super) struct List {
    pub(super) template: Option<Box<Template>>,
    /// How many more elements must have the shape of the one before them until a template is learnt.
    wait: u32,
    patience: u32,
}

impl List {
    const fn new() -> List {
        List {
            template: None,
            wait: 1,
            patience: 1,
        }
    }

    /// Takes note of an element that followed no template; says whether it is time to learn one.
    pub(super) fn element(&mut self, is_as_before: bool) -> bool {
        if !is_as_before {
            self.wait = self.patience;
            return false;
        }
        self.wait = self.wait.saturating_sub(1);
        self.wait == 0
    }

    /// Gives up a template and waits longer for the next, so that a list without one costs little more for it.
    #[cold]
    pub(super) fn give_up(&mut self) {
        self.template = None;
        self.patience = self.patience.saturating_mul(2);
        self.wait = self.patience;
    }
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
            list: List::new(),
        }
    }
}

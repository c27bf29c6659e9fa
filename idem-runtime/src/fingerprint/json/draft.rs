//! What the pass writes: values in the order of the document, and of each open object its shape and its leaves.
//!
//! An object's *shape* is its names with the shapes of the objects in it; its *leaves* are all other values, and those of
//! the objects in it. Shapes and leaves are sorted by name, object by object; the leaves' values are not moved before the
//! outermost object ends.

use std::cell::Cell;

use super::{
    buffer::Buffer,
    members::{Members, Sorted},
    tag,
};
use crate::fingerprint::sink::Sink;

/// A leaf: where its value begins, encoded and in the body.
#[derive(Clone, Copy)]
pub(super) struct Leaf {
    pub(super) value: u32,
    pub(super) source: u32,
}

/// How much has been written.
#[derive(Clone, Copy, Default)]
pub(super) struct Mark {
    pub(super) value: u32,
    pub(super) leaf: u32,
    pub(super) shape: u32,
}

pub(in super::super) struct Draft {
    pub(super) values: Buffer,
    /// The leaves of open objects in the order of the document; they fill the values without a gap.
    leaves: Vec<Leaf>,
    /// For each of the leaves the one that comes there once the names are sorted.
    sequence: Vec<u32>,
    /// The shapes of closed objects in open ones, and of the last object in each open array.
    shapes: Buffer,
    spare: Buffer,
    spare_sequence: Vec<u32>,
}

thread_local! {
    /// The room of the last draft on this thread. To make it anew costs a tenth of a fingerprint.
    static SPARE: Cell<Option<Draft>> = const { Cell::new(None) };
}

/// The longest body that finds such room. Left is what is up to twice as long, so that a thread keeps that, with what was
/// written there last, and some bytes for each leaf.
const LONGEST_SPARE: usize = 32 * 1024;

impl Draft {
    /// Room for what a body of this length usually comes to.
    pub(super) fn for_body(length: usize) -> Draft {
        if length <= LONGEST_SPARE
            && let Some(mut draft) = SPARE.take()
        {
            draft.take_back(Mark::default());
            draft.values.reserve(64 + length);
            return draft;
        }
        let leaves = 16 + length / 256;
        Draft {
            values: Buffer::with_room(64 + length),
            leaves: Vec::with_capacity(leaves),
            sequence: Vec::with_capacity(leaves),
            shapes: Buffer::with_room(64 + length / 16),
            spare: Buffer::with_room(0),
            spare_sequence: Vec::new(),
        }
    }

    /// A body has at most 2^30 bytes and encodes to no more than twice as many.
    #[inline(always)]
    pub(super) fn mark(&self) -> Mark {
        Mark {
            value: self.values.len() as u32,
            leaf: self.leaves.len() as u32,
            shape: self.shapes.len() as u32,
        }
    }

    /// Forgets what was written behind a mark.
    pub(super) fn take_back(&mut self, mark: Mark) {
        self.values.truncate(mark.value as usize);
        self.forget_leaves(mark);
        self.forget_shapes(mark.shape);
    }

    /// Adds a leaf whose value has been written from `value` on.
    #[inline(always)]
    pub(super) fn leaf(&mut self, value: u32, source: usize) {
        self.sequence.push(self.leaves.len() as u32);
        self.leaves.push(Leaf {
            value,
            source: source as u32,
        });
    }

    /// Ends the object that begins at a mark: its shape takes the place of those in it, and its leaves are sorted.
    pub(super) fn close_object(&mut self, from: Mark, members: &Members<'_>, sorted: &Sorted<'_>) {
        if self.mark().shape != from.shape {
            return self.close_nested(from, members, sorted);
        }
        self.sequence.truncate(from.leaf as usize);
        self.shapes.byte(tag::SHAPE);
        for place in sorted.order {
            let member = &sorted.members[place.index as usize];
            members.write_name(member, &mut self.shapes);
            self.sequence.push(member.leaf);
        }
        self.shapes.byte(tag::SHAPE_END);
    }

    /// Ends an object with objects in it.
    fn close_nested(&mut self, from: Mark, members: &Members<'_>, sorted: &Sorted<'_>) {
        let end = self.mark();
        self.spare.truncate(0);
        self.spare_sequence.clear();
        self.spare.byte(tag::SHAPE);
        for place in sorted.order {
            members.write_name(&sorted.members[place.index as usize], &mut self.spare);
            let (start, stop) = extent(sorted, place.index, |member| member.shape, end.shape);
            self.spare.piece(self.shapes.storage(), start, stop);
            let (start, stop) = extent(sorted, place.index, |member| member.leaf, end.leaf);
            self.spare_sequence
                .extend_from_slice(&self.sequence[start..stop]);
        }
        self.spare.byte(tag::SHAPE_END);
        self.shapes.truncate(from.shape as usize);
        self.shapes.bytes(self.spare.written());
        self.sequence.truncate(from.leaf as usize);
        self.sequence.extend_from_slice(&self.spare_sequence);
    }

    /// Ends an array's element, an object that begins at a mark; `last_shape` is where the shape of the object before it
    /// begins, if there is one. Says whether the two shapes are one.
    pub(super) fn close_element(&mut self, from: Mark, last_shape: u32) -> bool {
        let leaves = from.leaf as usize..self.leaves.len();
        if !self.sequence[leaves.clone()].is_sorted() {
            self.spare.truncate(0);
            for leaf in &self.sequence[leaves] {
                let (start, end) = self.value(*leaf);
                self.spare.piece(self.values.storage(), start, end);
            }
            // Behind the tag.
            self.values.truncate(from.value as usize + 1);
            self.values.bytes(self.spare.written());
        }
        let (last, shape) = self.shapes.written()[last_shape as usize..]
            .split_at((from.shape - last_shape) as usize);
        let is_as_before = last == shape;
        if is_as_before {
            self.values
                .replace(from.value as usize, tag::OBJECT_AS_BEFORE);
            self.shapes.truncate(from.shape as usize);
        } else {
            self.values.bytes(shape);
            self.shapes.remove(last_shape as usize, from.shape as usize);
        }
        is_as_before
    }

    /// Ends an array's element that has a known shape and was written from `value` on.
    pub(super) fn close_known(&mut self, value: usize, last_shape: u32, shape: &[u8]) {
        if &self.shapes.written()[last_shape as usize..] == shape {
            self.values.replace(value, tag::OBJECT_AS_BEFORE);
        } else {
            self.values.bytes(shape);
            self.shapes.truncate(last_shape as usize);
            self.shapes.bytes(shape);
        }
    }

    /// The shapes from a position on.
    pub(super) fn shape(&self, from: u32) -> &[u8] {
        &self.shapes.written()[from as usize..]
    }

    /// Forgets the leaves behind a mark.
    pub(super) fn forget_leaves(&mut self, from: Mark) {
        self.leaves.truncate(from.leaf as usize);
        self.sequence.truncate(from.leaf as usize);
    }

    /// Forgets the shapes from a position on.
    pub(super) fn forget_shapes(&mut self, from: u32) {
        self.shapes.truncate(from as usize);
    }

    /// Leaves its room to the next draft of this thread.
    pub(in super::super) fn leave_room(self) {
        if self.values.storage().len() <= 2 * LONGEST_SPARE {
            SPARE.set(Some(self));
        }
    }

    /// Writes the whole document.
    pub(in super::super) fn write(&self, sink: &mut Sink) {
        let first = self
            .leaves
            .first()
            .map_or(self.values.len(), |leaf| leaf.value as usize);
        sink.bytes(&self.values.written()[..first]);
        for leaf in &self.sequence {
            let (start, end) = self.value(*leaf);
            sink.piece(self.values.storage(), start, end);
        }
        // Only a document that is an object has left its shape here.
        sink.bytes(self.shapes.written());
    }

    /// Where a leaf's value begins and ends.
    fn value(&self, leaf: u32) -> (usize, usize) {
        let start = self.leaves[leaf as usize].value as usize;
        let end = self.leaves.get(leaf as usize + 1);
        (
            start,
            end.map_or(self.values.len(), |next| next.value as usize),
        )
    }

    /// The leaves of the object that begins at a mark, in the order of the document, and their sequence by name.
    pub(super) fn leaves(&self, from: Mark) -> (&[Leaf], impl Iterator<Item = u32>) {
        let first = from.leaf;
        let sequence = &self.sequence[first as usize..];
        (
            &self.leaves[first as usize..],
            sequence.iter().map(move |leaf| leaf - first),
        )
    }
}

/// What a member wrote of something: from its own position to the next member's, or to `end`.
fn extent(
    sorted: &Sorted<'_>,
    index: u32,
    position: impl Fn(&super::members::Member) -> u32,
    end: u32,
) -> (usize, usize) {
    let start = position(&sorted.members[index as usize]) as usize;
    let next = sorted.members.get(index as usize + 1);
    (start, next.map_or(end, &position) as usize)
}

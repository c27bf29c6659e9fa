//! The end of the pass: the values in document order become the canonical form, each object's members sorted by name.

use super::{names::Names, rows::Rows, values::Values};
use crate::fingerprint::sink::Sink;

/// Where a value begins, and which object is the first not before it.
#[derive(Clone, Copy)]
pub(super) struct Start {
    pub(super) value: u32,
    pub(super) object: u32,
}

impl Start {
    #[inline(always)]
    pub(super) fn new(values: &Values, objects: &[Object]) -> Start {
        Start {
            value: values.position(),
            object: objects.len() as u32,
        }
    }
}

/// An object of the document, or an array's element that followed a pattern: the stretch of values that it fills.
#[derive(Clone, Copy)]
pub(super) struct Object {
    start: u32,
    end: u32,
    /// Of an object: its layout. Of an element: its pattern, and the highest bit.
    layout: u32,
    /// Its first member's start; the others follow, and then the end of the last one. Of an element: its first scalar's.
    members: u32,
    /// The first object behind it.
    next: u32,
}

impl Object {
    #[inline(always)]
    pub(super) fn open(values: &Values) -> Object {
        let start = values.position();
        Object {
            start,
            end: start,
            layout: 0,
            members: 0,
            next: 0,
        }
    }

    #[inline(always)]
    pub(super) fn close(&mut self, values: &Values, layout: u32, members: u32, next: u32) {
        self.end = values.position();
        (self.layout, self.members, self.next) = (layout, members, next);
    }

    /// An element that followed a pattern and fills the values from `start` on.
    #[inline(always)]
    pub(super) fn row(
        start: u32,
        values: &Values,
        pattern: u32,
        scalars: u32,
        next: u32,
    ) -> Object {
        Object {
            start,
            end: values.position(),
            layout: pattern | ROW,
            members: scalars,
            next,
        }
    }

    pub(super) fn layout(&self) -> u32 {
        self.layout
    }

    /// Where one of its members begins and ends.
    pub(super) fn member(&self, index: u32, members: &[Start]) -> (Start, Start) {
        let index = (self.members + index) as usize;
        (members[index], members[index + 1])
    }

    /// All of its members, in the order of the document.
    pub(super) fn members(
        &self,
        count: u32,
        members: &[Start],
    ) -> impl Iterator<Item = (Start, Start)> {
        (0..count).map(move |index| self.member(index, members))
    }
}

/// A mark on the layout of what followed a pattern.
const ROW: u32 = 1 << 31;

/// A document that has been read, ready to be written.
pub(in super::super) struct Canonical<'a> {
    values: Vec<u8>,
    length: usize,
    names: Names<'a>,
    objects: Vec<Object>,
    members: Vec<Start>,
    rows: Rows,
}

/// What is still to be written, the next thing last.
enum Step {
    /// Values in document order, with the objects among them.
    Stretch { from: Start, to: Start },
    /// An object's members: from one slot to another, and where the members' starts are.
    Members { slot: u32, last: u32, members: u32 },
}

impl<'a> Canonical<'a> {
    pub(super) fn new(
        values: Values,
        names: Names<'a>,
        objects: Vec<Object>,
        members: Vec<Start>,
        rows: Rows,
    ) -> Canonical<'a> {
        let (values, length) = values.into_buffer();
        Canonical {
            values,
            length,
            names,
            objects,
            members,
            rows,
        }
    }

    /// Writes the canonical form: a walk over the objects with a stack of its own, at most two steps a level.
    pub(in super::super) fn write(mut self, sink: &mut Sink) {
        let mut steps = vec![Step::Stretch {
            from: Start {
                value: 0,
                object: 0,
            },
            to: Start {
                value: self.length as u32,
                object: self.objects.len() as u32,
            },
        }];
        while let Some(step) = steps.pop() {
            match step {
                Step::Stretch { from, to } => self.stretch(sink, &mut steps, from, to),
                Step::Members {
                    slot,
                    last,
                    members,
                } => self.members(sink, &mut steps, slot, last, members),
            }
        }
    }

    fn stretch(&mut self, sink: &mut Sink, steps: &mut Vec<Step>, mut from: Start, to: Start) {
        while from.object < to.object {
            let object = self.objects[from.object as usize];
            self.piece(sink, from.value, object.start);
            if object.layout & ROW != 0 {
                let pattern = object.layout & !ROW;
                let (values, names) = (&self.values, &mut self.names);
                self.rows
                    .write(pattern, object.members, values, names, sink);
                from = Start {
                    value: object.end,
                    object: object.next,
                };
                continue;
            }
            let layout = self.names.layout(object.layout);
            self.names.write(sink, layout);
            if layout.is_sorted {
                from = Start {
                    value: object.start,
                    object: from.object + 1,
                };
                continue;
            }
            let is_leaf = object.next == from.object + 1;
            from = Start {
                value: object.end,
                object: object.next,
            };
            let (slot, last, members) = (layout.first, layout.first + layout.count, object.members);
            if is_leaf {
                self.leaf(sink, slot, last, members);
            } else {
                steps.push(Step::Stretch { from, to });
                return self.members(sink, steps, slot, last, members);
            }
        }
        self.piece(sink, from.value, to.value);
    }

    /// Writes the members of an object without objects in it.
    #[inline(always)]
    fn leaf(&self, sink: &mut Sink, slot: u32, last: u32, members: u32) {
        let starts = &self.members[members as usize..];
        let slots = self.names.slots(slot, last);
        sink.pieces(
            &self.values,
            slots.iter().map(|slot| {
                let member = slot.sorted as usize;
                (
                    starts[member].value as usize,
                    starts[member + 1].value as usize,
                )
            }),
        );
    }

    /// Writes an object's members from a slot on, until one needs steps of its own.
    fn members(
        &mut self,
        sink: &mut Sink,
        steps: &mut Vec<Step>,
        slot: u32,
        last: u32,
        members: u32,
    ) {
        for slot in slot..last {
            let member = (members + self.names.slot(slot).sorted) as usize;
            let (from, to) = (self.members[member], self.members[member + 1]);
            match to.object - from.object {
                0 => self.piece(sink, from.value, to.value),
                1 => self.stretch(sink, steps, from, to),
                _ => {
                    steps.push(Step::Members {
                        slot: slot + 1,
                        last,
                        members,
                    });
                    steps.push(Step::Stretch { from, to });
                    return;
                }
            }
        }
    }

    #[inline(always)]
    fn piece(&self, sink: &mut Sink, from: u32, to: u32) {
        sink.piece(&self.values, from as usize, to as usize);
    }
}

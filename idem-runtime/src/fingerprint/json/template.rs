//! Templates: elements of an array that are all written alike but for their leaves.
//!
//! What a program writes as a list is mostly one text with different values in it. From two elements of one shape a
//! template is learnt, the text between the leaves; as long as the following elements repeat it, byte by byte, their
//! shape is known without being read. A template is only a short cut: an element that breaks it is read anew as any other
//! value, and the canonical form is the same either way.

use std::ops::Range;

use super::{
    block::{Beginning, Block},
    buffer::Buffer,
    draft::Leaf,
    scalar,
    values::tag,
};

/// Some of the body that is expected again.
struct Repeated {
    beginning: Beginning,
    /// The last block of what is longer than one.
    ending: Beginning,
    length: usize,
    start: usize,
}

impl Repeated {
    fn new(body: &[u8], start: usize, end: usize) -> Repeated {
        let block = end - Block::SIZE.min(end - start);
        Repeated {
            beginning: Block::at(body, start).beginning((end - start).min(Block::SIZE)),
            ending: Block::at(body, block).beginning(end - block),
            length: end - start,
            start,
        }
    }

    /// Where the text ends, if it stands at a position.
    #[inline(always)]
    fn end(&self, body: &[u8], at: usize) -> Option<usize> {
        let end = at + self.length;
        let same = Block::at(body, at).begins_with(&self.beginning)
            && (self.length <= Block::SIZE
                || Block::at(body, end - Block::SIZE).begins_with(&self.ending))
            && (self.length <= 2 * Block::SIZE || self.middle_is_same(body, at));
        same.then_some(end)
    }

    #[inline(never)]
    fn middle_is_same(&self, body: &[u8], at: usize) -> bool {
        let middle = |at: usize| body.get(at + Block::SIZE..at + self.length - Block::SIZE);
        middle(at) == middle(self.start)
    }
}

pub(super) struct Template {
    /// The text before each leaf.
    before: Vec<Repeated>,
    /// The text behind the last one.
    after: Repeated,
    /// The leaves sorted by name, as stretches of those in the order of the document; none if that is the order.
    runs: Vec<Range<u32>>,
    /// The leaves of one element in the order of the document, and where each ends.
    values: Buffer,
    ends: Vec<u32>,
}

impl Template {
    /// Learns from an element that stands in `body[start..end]`; `None` if one of its leaves has an object in it.
    pub(super) fn learn(
        body: &[u8],
        (start, end): (usize, usize),
        (leaves, sequence): (&[Leaf], impl Iterator<Item = u32>),
    ) -> Option<Template> {
        let mut values = Buffer::with_room(256);
        let mut before = Vec::with_capacity(leaves.len());
        let mut from = start;
        for leaf in leaves {
            let at = leaf.source as usize;
            before.push(Repeated::new(body, from, at));
            from = scalar::read_leaf(body, at, &mut values)?;
        }
        let mut runs: Vec<Range<u32>> = Vec::with_capacity(leaves.len());
        for leaf in sequence {
            match runs.last_mut() {
                Some(run) if run.end == leaf => run.end += 1,
                _ => runs.push(leaf..leaf + 1),
            }
        }
        if runs.len() < 2 {
            runs.clear();
        }
        Some(Template {
            before,
            after: Repeated::new(body, from, end),
            runs,
            values,
            ends: vec![0; leaves.len()],
        })
    }

    /// Reads and writes the element at a position, and those behind it, as long as they are as the template has them. Says
    /// where the last one ends; `None`, and nothing is written, if there is none.
    pub(super) fn read(
        &mut self,
        body: &[u8],
        mut at: usize,
        values: &mut Buffer,
    ) -> Option<usize> {
        let mut last_end = None;
        loop {
            let first = values.len();
            values.byte(tag::OBJECT);
            let end = if self.runs.is_empty() {
                self.read_leaves(body, at, values)
            } else {
                self.read_and_sort(body, at, values)
            };
            let Some(end) = end else {
                values.truncate(first);
                return last_end;
            };
            values.byte(tag::SHAPE_AS_BEFORE);
            last_end = Some(end);
            match next_object(body, end) {
                Some(next) => at = next,
                None => return last_end,
            }
        }
    }

    #[inline(always)]
    fn read_leaves(&self, body: &[u8], mut at: usize, values: &mut Buffer) -> Option<usize> {
        for before in &self.before {
            at = before.end(body, at)?;
            at = scalar::read_leaf(body, at, values)?;
        }
        self.after.end(body, at)
    }

    #[inline(always)]
    fn read_and_sort(&mut self, body: &[u8], mut at: usize, values: &mut Buffer) -> Option<usize> {
        self.values.truncate(0);
        for (before, leaf_end) in self.before.iter().zip(&mut self.ends) {
            at = before.end(body, at)?;
            at = scalar::read_leaf(body, at, &mut self.values)?;
            *leaf_end = self.values.len() as u32;
        }
        let runs = self.runs.iter().map(|run| {
            let start = run
                .start
                .checked_sub(1)
                .map_or(0, |last| self.ends[last as usize]);
            (start as usize, self.ends[run.end as usize - 1] as usize)
        });
        values.pieces(self.values.storage(), runs);
        self.after.end(body, at)
    }
}

/// Where the object begins that comes next in an array, if one does.
#[inline(always)]
fn next_object(body: &[u8], end: usize) -> Option<usize> {
    let at = scalar::skip_blanks(body, end);
    if scalar::peek(body, at) != b',' {
        return None;
    }
    let at = scalar::skip_blanks(body, at + 1);
    (scalar::peek(body, at) == b'{').then_some(at)
}

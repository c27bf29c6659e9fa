//! Templates: elements of arrays that are all written alike but for their leaves.
//!
//! What a program writes as a list is mostly a few texts with different values in them. From some elements templates are
//! learnt, the text between the leaves; as long as other elements repeat one of them, byte by byte, their shape is known
//! without being read. A template is only a short cut: an element that follows none is read as any other value, and the
//! canonical form is the same either way.

use std::ops::Range;

use super::{
    block::{Beginning, Block},
    buffer::Buffer,
    draft::{Draft, Leaf},
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

/// How many elements are read before one is worth a template, how often one is tried for, and how many are kept.
const PATIENCE: u32 = 3;
const ATTEMPTS: u32 = 16;
const MOST: usize = 8;

/// The templates of a document.
#[derive(Default)]
pub(super) struct Templates {
    known: Vec<Template>,
    /// No element that follows one is nested deeper.
    depth: usize,
    /// How many elements followed no template, and which was the last.
    others: u32,
    last_other: usize,
    /// How often a template was followed, and how often not.
    hits: u32,
    misses: u32,
}

/// Which template has the shape of the last object in an array, if that is known.
pub(super) type Last = Option<u8>;

impl Templates {
    /// Reads the element at a position, and those behind it, as long as they follow templates. Says where the last one
    /// ends; `None`, and nothing is written, if there is none. The array's shapes begin at `shapes`; `depth` is how deep an
    /// element may be nested.
    #[inline(always)]
    pub(super) fn read(
        &mut self,
        body: &[u8],
        mut at: usize,
        depth: usize,
        draft: &mut Draft,
        (shapes, last): (u32, &mut Last),
    ) -> Option<usize> {
        if self.known.is_empty() || at == self.last_other || depth < self.depth {
            return None;
        }
        let mut last_end = None;
        loop {
            let expected = last.and_then(|last| self.known.get_mut(usize::from(last)));
            let mut end = expected.and_then(|template| template.read(body, at, &mut draft.values));
            if end.is_some() {
                self.hits += 1;
                draft.values.byte(tag::SHAPE_AS_BEFORE);
            } else {
                let other;
                (end, other) = self.other(body, at, draft, *last);
                if end.is_none() {
                    self.last_other = at;
                    return last_end;
                }
                draft.close_known(shapes, &self.known[usize::from(other)].shape);
                *last = Some(other);
            }
            last_end = end;
            match end.and_then(|end| next_object(body, end)) {
                Some(next) => at = next,
                None => return last_end,
            }
        }
    }

    /// Reads the element at a position if it follows another template than the expected one.
    #[inline(never)]
    fn other(
        &mut self,
        body: &[u8],
        at: usize,
        draft: &mut Draft,
        expected: Last,
    ) -> (Option<usize>, u8) {
        // A document that keeps to no template is not compared with all of them again and again.
        if self.misses <= 32 + 4 * self.hits {
            for (template, index) in self.known.iter_mut().zip(0..) {
                if Some(index) == expected {
                    continue;
                }
                if let Some(end) = template.read(body, at, &mut draft.values) {
                    self.hits += 1;
                    return (Some(end), index);
                }
                self.misses += 1;
            }
        }
        (None, 0)
    }

    /// Whether the element that has just been read without a template is worth one.
    pub(super) fn is_wanted(&mut self) -> bool {
        self.others += 1;
        self.others >= PATIENCE && self.others < PATIENCE + ATTEMPTS && self.known.len() < MOST
    }

    /// Learns from an element that stands in a stretch of the body.
    #[inline(never)]
    pub(super) fn learn(
        &mut self,
        body: &[u8],
        stretch: Range<usize>,
        leaves: (&[Leaf], impl Iterator<Item = u32>),
        shape: &[u8],
    ) -> Last {
        // At most one level for each brace, and an array as a leaf.
        let braces = memchr::memchr_iter(b'{', &body[stretch.clone()]).count();
        let template = Template::learn(body, stretch, leaves, shape)?;
        self.depth = self.depth.max(braces + 1);
        self.known.push(template);
        Some(self.known.len() as u8 - 1)
    }
}

struct Template {
    /// The text before each leaf.
    before: Vec<Repeated>,
    /// The text behind the last one.
    after: Repeated,
    /// The leaves sorted by name, as stretches of those in the order of the document; none if that is the order.
    runs: Vec<Range<u32>>,
    /// The leaves of one element in the order of the document, and where each ends.
    values: Buffer,
    ends: Vec<u32>,
    shape: Vec<u8>,
}

impl Template {
    /// `None` if one of the leaves has an object in it.
    fn learn(
        body: &[u8],
        stretch: Range<usize>,
        (leaves, sequence): (&[Leaf], impl Iterator<Item = u32>),
        shape: &[u8],
    ) -> Option<Template> {
        let mut values = Buffer::with_room(256);
        let mut before = Vec::with_capacity(leaves.len());
        let mut from = stretch.start;
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
            after: Repeated::new(body, from, stretch.end),
            runs,
            values,
            ends: vec![0; leaves.len()],
            shape: shape.to_vec(),
        })
    }

    /// Reads and writes the element at a position but for its shape, and says where it ends; `None`, and nothing is
    /// written, if it is not as the template has it.
    #[inline(always)]
    fn read(&mut self, body: &[u8], at: usize, values: &mut Buffer) -> Option<usize> {
        let first = values.len();
        values.byte(tag::OBJECT);
        let end = if self.runs.is_empty() {
            self.read_leaves(body, at, values)
        } else {
            self.read_and_sort(body, at, values)
        };
        if end.is_none() {
            values.truncate(first);
        }
        end
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

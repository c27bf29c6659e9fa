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
    scalar::{self, Plain},
    tag,
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

/// How often a template is tried for, and how many are kept.
const ATTEMPTS: u32 = 16;
const MOST: usize = 8;

/// The templates of a document.
#[derive(Default)]
pub(super) struct Templates {
    known: Vec<Template>,
    /// No element that follows one is nested deeper.
    depth: usize,
    attempts: u32,
    /// The last element that followed no template.
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
            if let Some(expected) = last.and_then(|last| self.known.get_mut(usize::from(last))) {
                let followed = expected.follow(body, at, &mut draft.values, &mut self.hits);
                last_end = followed.last_end.or(last_end);
                at = match followed.next {
                    Some(next) => next,
                    None => return last_end,
                };
            }
            let value = draft.values.len();
            let Some((end, other)) = self.other(body, at, draft, *last) else {
                self.last_other = at;
                return last_end;
            };
            self.hits += 1;
            draft.close_known(value, shapes, &self.known[usize::from(other)].shape);
            *last = Some(other);
            last_end = Some(end);
            at = match next_object(body, end) {
                Some(next) => next,
                None => return last_end,
            };
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
    ) -> Option<(usize, u8)> {
        // A document that keeps to no template is not compared with all of them again and again.
        if self.misses <= 32 + 4 * self.hits {
            for (template, index) in self.known.iter_mut().zip(0..) {
                if Some(index) == expected {
                    continue;
                }
                if let Some(end) = template.read(body, at, tag::OBJECT, &mut draft.values) {
                    return Some((end, index));
                }
                self.misses += 1;
            }
        }
        None
    }

    /// Whether an element that follows no template is worth one.
    pub(super) fn is_wanted(&mut self) -> bool {
        self.attempts += 1;
        self.attempts <= ATTEMPTS && self.known.len() < MOST
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
    /// In the order of the document.
    fields: Vec<Field>,
    /// The text behind the last leaf.
    after: Repeated,
    /// The leaves of one element, sorted by name.
    leaves: Vec<Plain>,
    /// Those of them that are not plain, encoded; their positions are counted from the end of the body.
    others: Buffer,
    shape: Vec<u8>,
}

/// How far some elements follow a template.
struct Followed {
    last_end: Option<usize>,
    /// The next object in the array, which does not.
    next: Option<usize>,
}

struct Field {
    /// The text before the leaf.
    before: Repeated,
    /// How many names sort before the leaf's.
    place: u32,
}

impl Template {
    /// `None` if one of the leaves has an object in it.
    fn learn(
        body: &[u8],
        stretch: Range<usize>,
        (leaves, sequence): (&[Leaf], impl Iterator<Item = u32>),
        shape: &[u8],
    ) -> Option<Template> {
        let mut others = Buffer::with_room(0);
        let mut fields = Vec::with_capacity(leaves.len());
        let mut from = stretch.start;
        for leaf in leaves {
            let at = leaf.source as usize;
            let before = Repeated::new(body, from, at);
            fields.push(Field { before, place: 0 });
            (_, from) = read_leaf(body, at, &mut others)?;
        }
        for (leaf, place) in sequence.zip(0..) {
            fields[leaf as usize].place = place;
        }
        Some(Template {
            fields,
            after: Repeated::new(body, from, stretch.end),
            leaves: vec![Plain::default(); leaves.len()],
            others,
            shape: shape.to_vec(),
        })
    }

    /// Reads and writes the element at a position and those behind it, as long as they are as the template has it.
    #[inline(never)]
    fn follow(
        &mut self,
        body: &[u8],
        mut at: usize,
        values: &mut Buffer,
        hits: &mut u32,
    ) -> Followed {
        let mut last_end = None;
        while let Some(end) = self.read(body, at, tag::OBJECT_AS_BEFORE, values) {
            *hits += 1;
            last_end = Some(end);
            match next_object(body, end) {
                Some(next) => at = next,
                None => {
                    return Followed {
                        last_end,
                        next: None,
                    };
                }
            }
        }
        Followed {
            last_end,
            next: Some(at),
        }
    }

    /// Reads and writes the element at a position, with its tag but without its shape, and says where it ends; `None`, and nothing is
    /// written, if it is not as the template has it.
    #[inline(always)]
    fn read(&mut self, body: &[u8], mut at: usize, tag: u8, values: &mut Buffer) -> Option<usize> {
        self.others.truncate(0);
        let leaves = &mut self.leaves[..];
        for field in &self.fields {
            at = field.before.end(body, at)?;
            (leaves[field.place as usize], at) = read_leaf(body, at, &mut self.others)?;
        }
        let end = self.after.end(body, at)?;
        values.byte(tag);
        for leaf in &self.leaves {
            let start = leaf.start as usize;
            match start.checked_sub(body.len()) {
                None => leaf.write(body, start, values),
                Some(start) => leaf.write(self.others.storage(), start, values),
            }
        }
        Some(end)
    }
}

/// Reads a leaf that has no object in it.
#[inline(always)]
fn read_leaf(body: &[u8], at: usize, others: &mut Buffer) -> Option<(Plain, usize)> {
    scalar::plain(body, at).or_else(|| {
        let first = others.len();
        let end = scalar::read_other_leaf(body, at, others)?;
        let tag = others.written()[first];
        let behind = body.len() + 1;
        let leaf = Plain::new(tag, behind + first, behind + others.len() - 1);
        Some((leaf, end))
    })
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

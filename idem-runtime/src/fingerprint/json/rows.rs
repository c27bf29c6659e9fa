//! Records: an array's elements that are all written alike but for their scalars.
//!
//! What a program writes as a list is mostly one text with different values in it. From a few elements that had one
//! layout a pattern is learnt, the text between the scalars; as long as the following elements repeat it, byte by byte,
//! their objects are known without being read. A pattern is only a short cut: an element that breaks it is read anew as
//! any other value, and the canonical form is the same either way.

use super::{
    block::{Beginning, Block},
    names::Names,
    output::{Object, Start},
    scalar, text,
    values::{Values, tag},
};
use crate::fingerprint::sink::Sink;

/// In place of a pattern's index: none has been learnt.
pub(super) const NO_PATTERN: u32 = u32::MAX;

/// Some of the body that is expected again.
struct Repeated {
    beginning: Beginning,
    length: usize,
    start: usize,
}

impl Repeated {
    fn new(body: &[u8], start: usize, end: usize) -> Repeated {
        Repeated {
            beginning: Block::at(body, start).beginning((end - start).min(Block::SIZE)),
            length: end - start,
            start,
        }
    }

    /// Where the text ends, if it stands at a position.
    #[inline(always)]
    fn end(&self, body: &[u8], at: usize) -> Option<usize> {
        let same = Block::at(body, at).begins_with(&self.beginning)
            && (self.length <= Block::SIZE || self.rest_is_same(body, at));
        same.then_some(at + self.length)
    }

    #[inline(never)]
    fn rest_is_same(&self, body: &[u8], at: usize) -> bool {
        let rest = |start: usize| body.get(start + Block::SIZE..start + self.length);
        rest(at) == rest(self.start)
    }
}

/// How the canonical form of an element is put together.
enum Step {
    /// The names of an object with this layout.
    Names(u32),
    /// The number of a set of names that has been written.
    NamesLike(u32),
    /// The scalars from one to before another, in the order of the body.
    Scalars(u32, u32),
}

struct Pattern {
    /// The text before each scalar.
    before: Vec<Repeated>,
    /// The text behind the last one.
    after: Repeated,
    steps: Vec<Step>,
}

/// The patterns of a document and where the scalars of the elements that followed one begin.
#[derive(Default)]
pub(super) struct Rows {
    patterns: Vec<Pattern>,
    starts: Vec<u32>,
}

impl Rows {
    /// The index of the next element's first start.
    #[inline(always)]
    pub(super) fn position(&self) -> u32 {
        self.starts.len() as u32
    }

    /// Reads the element at a position and says where it ends; `None`, and nothing is written, if it breaks the pattern.
    #[inline(always)]
    pub(super) fn read(
        &mut self,
        pattern: u32,
        body: &[u8],
        mut at: usize,
        values: &mut Values,
        unescaped: &mut Vec<u8>,
    ) -> Option<usize> {
        let (first_start, first_value) = (self.starts.len(), values.position());
        let pattern = &self.patterns[pattern as usize];
        let starts = &mut self.starts;
        starts.reserve(pattern.before.len() + 1);
        let mut read = || {
            for before in &pattern.before {
                at = before.end(body, at)?;
                starts.push(values.position());
                at = scalar::read(body, at, values, unescaped)?;
            }
            starts.push(values.position());
            pattern.after.end(body, at)
        };
        let end = read();
        if end.is_none() {
            self.starts.truncate(first_start);
            values.truncate(first_value);
        }
        end
    }

    /// Writes the canonical form of an element that followed a pattern.
    #[inline(always)]
    pub(super) fn write(
        &mut self,
        pattern: u32,
        first_start: u32,
        values: &[u8],
        names: &mut Names<'_>,
        sink: &mut Sink,
    ) {
        let starts = &self.starts[first_start as usize..];
        for step in &mut self.patterns[pattern as usize].steps {
            match *step {
                Step::Scalars(from, to) => {
                    let (from, to) = (starts[from as usize], starts[to as usize]);
                    sink.piece(values, from as usize, to as usize);
                }
                Step::NamesLike(number) => sink.tagged_number(tag::OBJECT_LIKE, number.into()),
                Step::Names(layout) => {
                    let layout = names.layout(layout);
                    names.write(sink, layout);
                    *step = Step::NamesLike(names.number(layout));
                }
            }
        }
    }

    /// Learns the pattern of an element that has been read and stands in `body[start..end]`; `NO_PATTERN` if it has an
    /// array in it or no scalar.
    pub(super) fn learn(
        &mut self,
        body: &[u8],
        (start, end): (usize, usize),
        (objects, first): (&[Object], u32),
        members: &[Start],
        names: &Names<'_>,
    ) -> u32 {
        let Some((before, after)) = texts_between(body, start, end) else {
            return NO_PATTERN;
        };
        let steps = steps(objects, first, members, names);
        self.patterns.push(Pattern {
            before,
            after,
            steps,
        });
        self.patterns.len() as u32 - 1
    }
}

/// The texts before each scalar of an element and behind the last; `None` if the element has arrays or no scalars.
fn texts_between(body: &[u8], start: usize, end: usize) -> Option<(Vec<Repeated>, Repeated)> {
    let mut before = Vec::new();
    let mut at = start;
    let mut from = start;
    while at < end {
        match body[at] {
            b'[' => return None,
            b'{' | b'}' | b':' | b',' | b' ' | b'\t' | b'\n' | b'\r' => at += 1,
            byte => {
                let begin = at;
                at = match byte {
                    b'"' => string_end(body, at + 1)?,
                    _ => at + bare_length(&body[at..end]),
                };
                let is_name = body[scalar::skip_blanks(body, at)] == b':';
                if !is_name {
                    before.push(Repeated::new(body, from, begin));
                    from = at;
                }
            }
        }
    }
    (!before.is_empty()).then(|| (before, Repeated::new(body, from, end)))
}

fn string_end(body: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = text::plain_end(body, at)?;
        match body.get(at)? {
            b'\\' => at += 2,
            _ => return Some(at + 1),
        }
    }
}

fn bare_length(rest: &[u8]) -> usize {
    let is_bare = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    rest.iter().take_while(is_bare).count()
}

/// Walks the objects of an element, the first of which is itself, as its canonical form has them.
fn steps(objects: &[Object], first: u32, members: &[Start], names: &Names<'_>) -> Vec<Step> {
    let count = |object: &Object| names.layout(object.layout()).count;
    let mut scalars: Vec<u32> = objects[first as usize..]
        .iter()
        .flat_map(|object| object.members(count(object), members))
        .filter(|(from, to)| from.object == to.object)
        .map(|(from, _)| from.value)
        .collect();
    scalars.sort_unstable();

    let mut steps = Vec::new();
    let mut open = vec![(first, 0)];
    while let Some((object, member)) = open.pop() {
        let layout = objects[object as usize].layout();
        if member == 0 {
            steps.push(Step::Names(layout));
        }
        let layout = names.layout(layout);
        if member == layout.count {
            continue;
        }
        open.push((object, member + 1));
        let index = names.slot(layout.first + member).sorted;
        let (from, to) = objects[object as usize].member(index, members);
        if from.object != to.object {
            open.push((from.object, 0));
            continue;
        }
        let scalar = scalars.partition_point(|start| *start < from.value) as u32;
        match steps.last_mut() {
            Some(Step::Scalars(_, to)) if *to == scalar => *to += 1,
            _ => steps.push(Step::Scalars(scalar, scalar + 1)),
        }
    }
    steps
}

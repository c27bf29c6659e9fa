//! JSON (RFC 8259) in one pass: validated, and brought to a form that equal values share and different ones do not.
//!
//! Not RFC 8785, whose numbers pass through doubles. No tree is built and nothing recurses. The pass leaves two things:
//! the scalars and arrays, encoded in document order, and a list of the objects among them. At the end the two are
//! written out with each object's members sorted by name, every byte moved once.
//!
//! # The canonical form
//!
//! A value's encoding says where it ends, so a sequence of values can be read back in one way only:
//!
//! | value | encoding |
//! |---|---|
//! | `null`, `false`, `true` | a tag |
//! | number | sign, decimal exponent, significant digits without zeros at either end |
//! | string | length, then the decoded text in UTF-8 |
//! | array | a tag, the elements, a closing tag |
//! | object | its set of names, then the members' values, sorted by their names' bytes |
//! | ignored element | a tag |
//!
//! A set of names is written out once in a document, sorted, and by its number from then on: a list of a hundred
//! records hashes their names once. Numbers are given in the order of writing, so a reader could follow.

mod block;
mod names;
mod number;
mod output;
mod pointer;
mod text;
mod values;

use block::Block;
use names::{Layout, NO_LAYOUT, Name, Names};
use output::{Object, Start};
use pointer::NOWHERE;
use values::{Values, tag};

pub(super) use output::Canonical;
pub(super) use pointer::Pointers;

/// The deepest nesting that is read (that of `serde_json`); deeper bodies are compared as bytes.
const MAX_DEPTH: usize = 128;
/// Positions are kept in 32 bits, and what the pass writes may be twice what it reads; longer bodies are compared as bytes.
const MAX_LENGTH: usize = 1 << 30;

/// Reads a body; `None` if it is not plain I-JSON (RFC 7493) in UTF-8 or passes a limit of this module.
pub(super) fn scan<'a>(body: &'a [u8], ignore: &'a Pointers) -> Option<Canonical<'a>> {
    if body.is_empty() || body.len() > MAX_LENGTH {
        return None;
    }
    let mut scan = Scan {
        body,
        values: Values::for_body(body.len()),
        names: Names::new(body),
        objects: Vec::with_capacity(16),
        members: Vec::with_capacity(64),
        frames: Vec::with_capacity(16),
        open_members: Vec::with_capacity(64),
        open_names: Vec::with_capacity(16),
        unescaped: Vec::new(),
        ignore,
        beyond_ascii: 0,
    };
    scan.run()?;
    if scan.beyond_ascii != 0 && std::str::from_utf8(body).is_err() {
        return None;
    }
    if ignore.is_end(ignore.root()) {
        // The pointer to the whole document.
        scan.objects.clear();
        scan.values.truncate(0);
        scan.values.tag(tag::IGNORED);
    }
    Some(Canonical::new(
        scan.values,
        scan.names,
        scan.objects,
        scan.members,
    ))
}

/// An array or object whose end has not been read yet.
struct Frame {
    is_array: bool,
    /// Of an object: the layout that it is expected to have, as long as its names bear it out. Of an array: the layout
    /// of the last object in it, which the next is expected to have.
    layout: u32,
    /// Of an object: the slot of the layout that the next name should match. Of an array: the next element's index.
    next: u32,
    /// The end of the layout's slots.
    last: u32,
    open_members: usize,
    open_names: usize,
    object: u32,
    /// Where this value stands among the ignore pointers, and where the current child does.
    pointer: u32,
    child: u32,
    /// What to take back when the current child, which is ignored, is over.
    ignoring: Option<Start>,
}

struct Scan<'a> {
    body: &'a [u8],
    values: Values,
    names: Names<'a>,
    /// The objects in the order of their openings.
    objects: Vec<Object>,
    /// The members of closed objects, each object's together and behind them where the last one ends.
    members: Vec<Start>,
    frames: Vec<Frame>,
    open_members: Vec<Start>,
    open_names: Vec<Name>,
    unescaped: Vec<u8>,
    ignore: &'a Pointers,
    beyond_ascii: u64,
}

impl Scan<'_> {
    fn run(&mut self) -> Option<()> {
        let mut at = self.skip_blanks(0);
        'value: loop {
            match self.peek(at) {
                b'"' => at = self.string(at + 1)?,
                b'-' | b'0'..=b'9' => at = number::encode(self.body, at, &mut self.values)?,
                b'{' => {
                    self.open(false)?;
                    at = self.skip_blanks(at + 1);
                    if self.peek(at) != b'}' {
                        at = self.name(at)?;
                        continue 'value;
                    }
                    self.close_object()?;
                    at += 1;
                }
                b'[' => {
                    self.open(true)?;
                    at = self.skip_blanks(at + 1);
                    if self.peek(at) != b']' {
                        self.element();
                        continue 'value;
                    }
                    self.close_array();
                    at += 1;
                }
                b't' => at = self.literal(at, b"true", tag::TRUE)?,
                b'f' => at = self.literal(at, b"false", tag::FALSE)?,
                b'n' => at = self.literal(at, b"null", tag::NULL)?,
                _ => return None,
            }
            loop {
                at = self.skip_blanks(at);
                let Some(frame) = self.frames.last() else {
                    return (at == self.body.len()).then_some(());
                };
                let is_array = frame.is_array;
                if frame.ignoring.is_some() {
                    self.take_back();
                }
                match (self.peek(at), is_array) {
                    (b',', false) => {
                        at = self.skip_blanks(at + 1);
                        at = self.name(at)?;
                        continue 'value;
                    }
                    (b',', true) => {
                        at = self.skip_blanks(at + 1);
                        self.element();
                        continue 'value;
                    }
                    (b'}', false) => self.close_object()?,
                    (b']', true) => self.close_array(),
                    _ => return None,
                }
                at += 1;
            }
        }
    }

    /// The byte at a position; behind the end a NUL, which no JSON has outside of strings or within.
    #[inline(always)]
    fn peek(&self, at: usize) -> u8 {
        self.body.get(at).copied().unwrap_or(0)
    }

    #[inline(always)]
    fn skip_blanks(&self, at: usize) -> usize {
        if self.peek(at) > b' ' {
            at
        } else {
            self.skip_run(at)
        }
    }

    #[inline]
    fn skip_run(&self, mut at: usize) -> usize {
        loop {
            at += match self.peek(at) {
                b' ' => Block::at(self.body, at).spaces(),
                b'\n' | b'\r' | b'\t' => 1,
                _ => return at,
            };
        }
    }

    fn literal(&mut self, at: usize, spelling: &[u8], tag: u8) -> Option<usize> {
        let end = at + spelling.len();
        (self.body.get(at..end)? == spelling).then(|| self.values.tag(tag))?;
        Some(end)
    }

    /// Reads a string value from behind its opening quote to behind its closing one.
    #[inline(always)]
    fn string(&mut self, start: usize) -> Option<usize> {
        let block = Block::at(self.body, start);
        self.beyond_ascii |= block.beyond_ascii();
        let length = block.stop();
        if length < Block::SIZE && self.peek(start + length) == b'"' {
            self.values.short_string(block, length);
            return Some(start + length + 1);
        }
        self.long_string(start)
    }

    fn long_string(&mut self, start: usize) -> Option<usize> {
        let end = text::plain_end(self.body, start, &mut self.beyond_ascii);
        if self.peek(end) == b'"' {
            self.values.string(self.body, start, end);
            return Some(end + 1);
        }
        self.unescaped.clear();
        let end = text::unescape(
            self.body,
            start,
            end,
            &mut self.unescaped,
            &mut self.beyond_ascii,
        )?;
        self.values.string(&self.unescaped, 0, self.unescaped.len());
        Some(end + 1)
    }

    /// Reads a member's name and its colon, up to its value.
    #[inline(always)]
    fn name(&mut self, at: usize) -> Option<usize> {
        let frame = self.frames.last_mut()?;
        let end = match self.names.expected(at, frame.next, frame.last) {
            Some(end) => {
                frame.next += 1;
                end
            }
            None => self.other_name(at)?,
        };
        let at = self.skip_blanks(end);
        if self.peek(at) != b':' {
            return None;
        }
        self.open_members
            .push(Start::new(&self.values, &self.objects));
        Some(self.skip_blanks(at + 1))
    }

    /// Reads a name that no layout foretold.
    fn other_name(&mut self, at: usize) -> Option<usize> {
        self.give_up_layout();
        if self.peek(at) != b'"' {
            return None;
        }
        let start = at + 1;
        let mut end = text::plain_end(self.body, start, &mut self.beyond_ascii);
        let name = if self.peek(end) == b'"' {
            Name::plain(start, end)
        } else {
            let arena = self.names.arena();
            let text = arena.len();
            end = text::unescape(self.body, start, end, arena, &mut self.beyond_ascii)?;
            self.names.escaped(start, end, text)
        };
        self.open_names.push(name);
        let frame = self.frames.last_mut()?;
        if frame.pointer != NOWHERE {
            frame.child = self.ignore.member(frame.pointer, self.names.text(&name));
            if self.ignore.is_end(frame.child) {
                frame.ignoring = Some(Start::new(&self.values, &self.objects));
                self.open_names.last_mut()?.ignore();
            }
        }
        Some(end + 1)
    }

    /// Lists the names that matched so far: from here on this object's names are read one by one.
    fn give_up_layout(&mut self) {
        let Some(frame) = self.frames.last_mut() else {
            return;
        };
        if frame.layout != NO_LAYOUT {
            let Layout { first, .. } = self.names.layout(frame.layout);
            self.open_names.extend(
                self.names
                    .slots(first, frame.next)
                    .iter()
                    .map(|slot| slot.name),
            );
            (frame.layout, frame.next, frame.last) = (NO_LAYOUT, 0, 0);
        }
    }

    /// Counts an array's element, which begins here.
    #[inline(always)]
    fn element(&mut self) {
        if let Some(frame) = self.frames.last_mut()
            && frame.pointer != NOWHERE
        {
            frame.child = self.ignore.element(frame.pointer, frame.next);
            frame.next += 1;
            if self.ignore.is_end(frame.child) {
                frame.ignoring = Some(Start::new(&self.values, &self.objects));
            }
        }
    }

    /// Takes back an ignored value; an array keeps its place.
    #[cold]
    fn take_back(&mut self) {
        let Some(frame) = self.frames.last_mut() else {
            return;
        };
        if let Some(start) = frame.ignoring.take() {
            self.values.truncate(start.value);
            self.objects.truncate(start.object as usize);
            if frame.is_array {
                self.values.tag(tag::IGNORED);
            }
        }
    }

    #[inline(always)]
    fn open(&mut self, is_array: bool) -> Option<()> {
        let (expected, pointer) = match self.frames.last() {
            None => (NO_LAYOUT, self.ignore.root()),
            Some(frame) if frame.is_array => (frame.layout, frame.child),
            Some(frame) if frame.layout != NO_LAYOUT => {
                (self.names.expected_within(frame.next - 1), frame.child)
            }
            Some(frame) => (NO_LAYOUT, frame.child),
        };
        if self.frames.len() == MAX_DEPTH {
            return None;
        }
        let mut frame = Frame {
            is_array,
            layout: expected,
            next: 0,
            last: 0,
            open_members: self.open_members.len(),
            open_names: self.open_names.len(),
            object: self.objects.len() as u32,
            pointer,
            child: NOWHERE,
            ignoring: None,
        };
        if is_array {
            self.values.tag(tag::ARRAY);
        } else {
            self.objects.push(Object::open(&self.values));
            if pointer != NOWHERE {
                // Each name has to be looked up.
                frame.layout = NO_LAYOUT;
            } else if expected != NO_LAYOUT {
                let Layout { first, count, .. } = self.names.layout(expected);
                (frame.next, frame.last) = (first, first + count);
            }
        }
        self.frames.push(frame);
        Some(())
    }

    #[inline(always)]
    fn close_array(&mut self) {
        self.values.tag(tag::ARRAY_END);
        if let Some(frame) = self.frames.pop() {
            self.expect_again(frame.layout);
        }
    }

    #[inline(always)]
    fn close_object(&mut self) -> Option<()> {
        let frame = self.frames.last()?;
        if frame.layout == NO_LAYOUT || frame.next != frame.last {
            self.settle_layout()?;
        }
        let frame = self.frames.pop()?;
        let first = self.members.len() as u32;
        self.members
            .extend_from_slice(&self.open_members[frame.open_members..]);
        self.members.push(Start::new(&self.values, &self.objects));
        self.open_members.truncate(frame.open_members);
        let next = self.objects.len() as u32;
        self.objects[frame.object as usize].close(&self.values, frame.layout, first, next);
        self.expect_again(frame.layout);
        Some(())
    }

    /// Finds the layout of an object that kept to none; `None` if two of its names are equal.
    #[cold]
    fn settle_layout(&mut self) -> Option<()> {
        self.give_up_layout();
        let frame = self.frames.last_mut()?;
        frame.layout = self.names.settle(
            &self.open_names[frame.open_names..],
            frame.open_members,
            &mut self.open_members,
        )?;
        self.open_names.truncate(frame.open_names);
        Some(())
    }

    /// A hint only: the next object in this place will probably have the layout of this one.
    #[inline(always)]
    fn expect_again(&mut self, layout: u32) {
        match self.frames.last_mut() {
            Some(frame) if frame.is_array => frame.layout = layout,
            Some(frame) if frame.layout != NO_LAYOUT => {
                self.names.expect_within(frame.next - 1, layout)
            }
            _ => {}
        }
    }
}

//! The pass over the bytes.

use super::{
    block::Block,
    names::{Layout, NO_LAYOUT, Name, Names},
    number,
    output::{Canonical, Object, Start},
    pointer::{NOWHERE, Pointers},
    text,
    values::{Values, tag},
};

/// The deepest nesting that is read (that of `serde_json`); deeper bodies are compared as bytes.
const MAX_DEPTH: usize = 128;
/// Positions are kept in 32 bits, and what the pass writes may be twice what it reads; longer bodies are compared as bytes.
const MAX_LENGTH: usize = 1 << 30;

/// Reads a body; `None` if it is not plain I-JSON (RFC 7493) in UTF-8 or passes a limit of this module.
pub(in super::super) fn scan<'a>(body: &'a [u8], ignore: &'a Pointers) -> Option<Canonical<'a>> {
    if body.is_empty() || body.len() > MAX_LENGTH {
        return None;
    }
    let mut scan = Scan {
        body,
        values: Values::for_body(body.len()),
        names: Names::new(body),
        objects: Vec::with_capacity(16),
        members: Vec::with_capacity(64),
        top: Frame::root(ignore),
        frames: Vec::with_capacity(16),
        open_members: Vec::with_capacity(64),
        open_names: Vec::with_capacity(16),
        unescaped: Vec::new(),
        ignore,
    };
    scan.run()?;
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Around the document.
    Root,
    Array,
    Object,
}

/// An array or object whose end has not been read yet.
#[derive(Clone, Copy)]
struct Frame {
    kind: Kind,
    /// Of an object: the layout that it is expected to have, as long as its names bear it out. Of an array: the layout
    /// of the last object in it, which the next is expected to have.
    layout: u32,
    /// Of an object: the slot of the layout that the next name should match. Of an array: the next element's index.
    next: u32,
    /// The end of the layout's slots.
    last: u32,
    open_members: u32,
    open_names: u32,
    object: u32,
    /// Where this value stands among the ignore pointers, and where the current child does.
    pointer: u32,
    child: u32,
    /// What to take back when the current child, which is ignored, is over.
    ignoring: Option<Start>,
}

impl Frame {
    fn root(ignore: &Pointers) -> Frame {
        Frame {
            kind: Kind::Root,
            layout: NO_LAYOUT,
            next: 0,
            last: 0,
            open_members: 0,
            open_names: 0,
            object: 0,
            pointer: NOWHERE,
            child: ignore.root(),
            ignoring: None,
        }
    }
}

struct Scan<'a> {
    body: &'a [u8],
    values: Values,
    names: Names<'a>,
    /// The objects in the order of their openings.
    objects: Vec<Object>,
    /// The members of closed objects, each object's together and behind them where the last one ends.
    members: Vec<Start>,
    top: Frame,
    /// What is around the top frame.
    frames: Vec<Frame>,
    open_members: Vec<Start>,
    open_names: Vec<Name>,
    unescaped: Vec<u8>,
    ignore: &'a Pointers,
}

impl Scan<'_> {
    fn run(&mut self) -> Option<()> {
        let mut at = self.skip_blanks(0);
        'value: loop {
            match self.peek(at) {
                b'"' => at = self.string(at + 1)?,
                b'-' | b'0'..=b'9' => at = number::encode(self.body, at, &mut self.values)?,
                b'{' => {
                    self.open_object()?;
                    at += 1;
                    if let Some(value) = self.expected_member(at) {
                        at = value;
                        continue 'value;
                    }
                    let from = at;
                    at = self.skip_blanks(at);
                    if self.peek(at) != b'}' {
                        at = self.other_member(from, at)?;
                        continue 'value;
                    }
                    self.close_object()?;
                    at += 1;
                }
                b'[' => {
                    self.open_array()?;
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
                if self.top.ignoring.is_some() {
                    self.take_back();
                }
                if let Some(value) = self.expected_member(at) {
                    at = value;
                    continue 'value;
                }
                let from = at;
                at = self.skip_blanks(at);
                match (self.peek(at), self.top.kind) {
                    (b',', Kind::Object) => {
                        at = self.skip_blanks(at + 1);
                        at = self.other_member(from, at)?;
                        continue 'value;
                    }
                    (b',', Kind::Array) => {
                        at = self.skip_blanks(at + 1);
                        self.element();
                        continue 'value;
                    }
                    (b'}', Kind::Object) => self.close_object()?,
                    (b']', Kind::Array) => self.close_array(),
                    (_, Kind::Root) => return (at == self.body.len()).then_some(()),
                    _ => return None,
                }
                at += 1;
            }
        }
    }

    /// The byte at a position; behind the end a NUL, which JSON has nowhere.
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

    #[inline(never)]
    fn skip_run(&self, mut at: usize) -> usize {
        loop {
            at += match self.peek(at) {
                b' ' => Block::at(self.body, at).spaces(),
                b'\n' | b'\r' | b'\t' => 1,
                _ => return at,
            };
        }
    }

    #[inline(always)]
    fn literal(&mut self, at: usize, spelling: &[u8], tag: u8) -> Option<usize> {
        let end = at + spelling.len();
        (self.body.get(at..end)? == spelling).then(|| self.values.tag(tag))?;
        Some(end)
    }

    /// Reads a string value from behind its opening quote to behind its closing one.
    #[inline(always)]
    fn string(&mut self, start: usize) -> Option<usize> {
        let block = Block::at(self.body, start);
        let length = block.stop();
        if length < Block::SIZE && self.peek(start + length) == b'"' && block.is_ascii(length) {
            self.values.short_string(block, length);
            return Some(start + length + 1);
        }
        self.long_string(start)
    }

    #[inline(never)]
    fn long_string(&mut self, start: usize) -> Option<usize> {
        let end = text::plain_end(self.body, start)?;
        if self.peek(end) == b'"' {
            self.values.string(self.body, start, end);
            return Some(end + 1);
        }
        self.unescaped.clear();
        let end = text::unescape(self.body, start, end, &mut self.unescaped)?;
        self.values.string(&self.unescaped, 0, self.unescaped.len());
        Some(end + 1)
    }

    /// Where the next member's value begins, if all that stands before it is as the expected layout has it.
    #[inline(always)]
    fn expected_member(&mut self, from: usize) -> Option<usize> {
        let end = self.names.expected(from, self.top.next, self.top.last)?;
        self.top.next += 1;
        self.open_members
            .push(Start::new(&self.values, &self.objects));
        Some(self.skip_blanks(end))
    }

    /// Reads the name at a position, its colon, and up to its value; `from` is the end of what came before.
    #[inline(never)]
    fn other_member(&mut self, from: usize, at: usize) -> Option<usize> {
        self.give_up_layout();
        if self.peek(at) != b'"' {
            return None;
        }
        let start = at + 1;
        let mut end = text::plain_end(self.body, start)?;
        let mut name = Name::plain(start, end);
        if self.peek(end) != b'"' {
            let arena = self.names.arena();
            let text = arena.len();
            end = text::unescape(self.body, start, end, arena)?;
            name = self.names.escaped(text);
        }
        let colon = self.skip_blanks(end + 1);
        if self.peek(colon) != b':' {
            return None;
        }
        let value = self.skip_blanks(colon + 1);
        name.written_at(from, value);
        let start = Start::new(&self.values, &self.objects);
        if self.top.pointer != NOWHERE {
            self.top.child = self.ignore.member(self.top.pointer, self.names.text(&name));
            if self.ignore.is_end(self.top.child) {
                self.top.ignoring = Some(start);
                name.ignore();
            }
        }
        self.open_names.push(name);
        self.open_members.push(start);
        Some(value)
    }

    /// Lists the names that matched so far: from here on this object's names are read one by one.
    fn give_up_layout(&mut self) {
        if self.top.layout != NO_LAYOUT {
            let Layout { first, .. } = self.names.layout(self.top.layout);
            let matched = self.names.slots(first, self.top.next);
            self.open_names.extend(matched.iter().map(|slot| slot.name));
            (self.top.layout, self.top.next, self.top.last) = (NO_LAYOUT, 0, 0);
        }
    }

    /// Counts an array's element, which begins here.
    #[inline(always)]
    fn element(&mut self) {
        if self.top.pointer != NOWHERE {
            self.top.child = self.ignore.element(self.top.pointer, self.top.next);
            self.top.next += 1;
            if self.ignore.is_end(self.top.child) {
                self.top.ignoring = Some(Start::new(&self.values, &self.objects));
            }
        }
    }

    /// Takes back an ignored value; an array keeps its place.
    #[cold]
    fn take_back(&mut self) {
        if let Some(start) = self.top.ignoring.take() {
            self.values.truncate(start.value);
            self.objects.truncate(start.object as usize);
            if self.top.kind == Kind::Array {
                self.values.tag(tag::IGNORED);
            }
        }
    }

    #[inline(always)]
    fn open_array(&mut self) -> Option<()> {
        self.open(Frame {
            kind: Kind::Array,
            layout: self.expected_layout(),
            next: 0,
            last: 0,
            pointer: self.top.child,
            child: NOWHERE,
            ..self.top
        })?;
        self.values.tag(tag::ARRAY);
        Some(())
    }

    #[inline(always)]
    fn open_object(&mut self) -> Option<()> {
        let pointer = self.top.child;
        // Among pointers each name has to be looked up.
        let layout = if pointer == NOWHERE {
            self.expected_layout()
        } else {
            NO_LAYOUT
        };
        let (next, last) = match layout {
            NO_LAYOUT => (0, 0),
            known => {
                let Layout { first, count, .. } = self.names.layout(known);
                (first, first + count)
            }
        };
        self.open(Frame {
            kind: Kind::Object,
            layout,
            next,
            last,
            open_members: self.open_members.len() as u32,
            open_names: self.open_names.len() as u32,
            object: self.objects.len() as u32,
            pointer,
            child: NOWHERE,
            ignoring: None,
        })?;
        self.objects.push(Object::open(&self.values));
        Some(())
    }

    #[inline(always)]
    fn open(&mut self, frame: Frame) -> Option<()> {
        if self.frames.len() == MAX_DEPTH {
            return None;
        }
        self.frames.push(self.top);
        self.top = Frame {
            ignoring: None,
            ..frame
        };
        Some(())
    }

    /// The layout that the object in this place had the last time.
    #[inline(always)]
    fn expected_layout(&self) -> u32 {
        match self.top.kind {
            Kind::Object if self.top.layout != NO_LAYOUT => {
                self.names.expected_within(self.top.next - 1)
            }
            Kind::Array => self.top.layout,
            _ => NO_LAYOUT,
        }
    }

    #[inline(always)]
    fn close_array(&mut self) {
        self.values.tag(tag::ARRAY_END);
        self.close();
    }

    #[inline(always)]
    fn close_object(&mut self) -> Option<()> {
        if self.top.layout == NO_LAYOUT || self.top.next != self.top.last {
            self.settle_layout()?;
        }
        let members = self.members.len() as u32;
        let own = self.top.open_members as usize;
        self.members.extend_from_slice(&self.open_members[own..]);
        self.members.push(Start::new(&self.values, &self.objects));
        self.open_members.truncate(own);
        let next = self.objects.len() as u32;
        self.objects[self.top.object as usize].close(&self.values, self.top.layout, members, next);
        self.close();
        Some(())
    }

    /// Finds the layout of an object that kept to none; `None` if two of its names are equal.
    #[inline(never)]
    fn settle_layout(&mut self) -> Option<()> {
        self.give_up_layout();
        let own = self.top.open_names as usize;
        self.top.layout = self.names.settle(
            &self.open_names[own..],
            self.top.open_members as usize,
            &mut self.open_members,
        )?;
        self.open_names.truncate(own);
        Some(())
    }

    /// Returns to what is around; the next object in this place will probably have the layout of this one.
    #[inline(always)]
    fn close(&mut self) {
        let layout = self.top.layout;
        if let Some(around) = self.frames.pop() {
            self.top = around;
        }
        match self.top.kind {
            Kind::Array => self.top.layout = layout,
            Kind::Object if self.top.layout != NO_LAYOUT => {
                self.names.expect_within(self.top.next - 1, layout)
            }
            _ => {}
        }
    }
}

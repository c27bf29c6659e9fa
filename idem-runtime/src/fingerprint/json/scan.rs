//! The pass over the bytes.

use super::{
    frame::{Frame, Kind},
    names::{Layout, NO_LAYOUT, Name, Names},
    output::{Canonical, Object, Start},
    pointer::{NOWHERE, Pointers},
    rows::{NO_PATTERN, Rows},
    scalar, text,
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
        top: Frame::root(ignore.root()),
        frames: Vec::with_capacity(16),
        open_members: Vec::with_capacity(64),
        open_names: Vec::with_capacity(16),
        rows: Rows::default(),
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
        scan.rows,
    ))
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
    rows: Rows,
    unescaped: Vec<u8>,
    ignore: &'a Pointers,
}

impl Scan<'_> {
    fn run(&mut self) -> Option<()> {
        let mut at = self.skip_blanks(0);
        'value: loop {
            match self.peek(at) {
                b'{' if let Some(end) = self.row(at) => at = end,
                b'{' => {
                    self.open_object(at)?;
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
                    at += 1;
                    self.close_object(at)?;
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
                _ => at = scalar::read(self.body, at, &mut self.values, &mut self.unescaped)?,
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
                    (b'}', Kind::Object) => self.close_object(at + 1)?,
                    (b']', Kind::Array) => self.close_array(),
                    (_, Kind::Root) => return (at == self.body.len()).then_some(()),
                    _ => return None,
                }
                at += 1;
            }
        }
    }

    #[inline(always)]
    fn peek(&self, at: usize) -> u8 {
        scalar::peek(self.body, at)
    }

    #[inline(always)]
    fn skip_blanks(&self, at: usize) -> usize {
        scalar::skip_blanks(self.body, at)
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
        self.open(Frame::array(self.expected_layout(), self.top.child))?;
        self.values.tag(tag::ARRAY);
        Some(())
    }

    #[inline(always)]
    fn open_object(&mut self, at: usize) -> Option<()> {
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
            start: at as u32,
            ..Frame::array(NO_LAYOUT, pointer)
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
        self.top = frame;
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
    fn close_object(&mut self, end: usize) -> Option<()> {
        if self.top.layout == NO_LAYOUT || self.top.next != self.top.last {
            self.settle_layout()?;
        }
        let members = self.members.len() as u32;
        let own = self.top.open_members as usize;
        self.members.extend_from_slice(&self.open_members[own..]);
        self.members.push(Start::new(&self.values, &self.objects));
        self.open_members.truncate(own);
        let next = self.objects.len() as u32;
        let Frame {
            object,
            layout,
            start,
            ..
        } = self.top;
        self.objects[object as usize].close(&self.values, layout, members, next);
        let expected = self.frames.last().map_or(NO_LAYOUT, |around| around.layout);
        self.close();
        if self.top.kind == Kind::Array && self.top.pointer == NOWHERE {
            self.top.alike = if layout == expected {
                self.top.alike + 1
            } else {
                0
            };
            if self.top.alike == self.top.patience {
                self.learn(start as usize, end, object);
            }
        }
        Some(())
    }

    /// Learns the pattern of the array's elements from the one that was just closed.
    #[cold]
    fn learn(&mut self, start: usize, end: usize, object: u32) {
        let objects = (&self.objects[..], object);
        self.top.pattern =
            self.rows
                .learn(self.body, (start, end), objects, &self.members, &self.names);
    }

    /// Reads the array's next element if it follows the pattern of those before it.
    #[inline(always)]
    fn row(&mut self, at: usize) -> Option<usize> {
        let pattern = self.top.pattern;
        if pattern == NO_PATTERN {
            return None;
        }
        let (start, scalars) = (self.values.position(), self.rows.position());
        let Some(end) = self.rows.read(
            pattern,
            self.body,
            at,
            &mut self.values,
            &mut self.unescaped,
        ) else {
            self.give_up_pattern();
            return None;
        };
        let next = self.objects.len() as u32 + 1;
        self.objects
            .push(Object::row(start, &self.values, pattern, scalars, next));
        Some(end)
    }

    /// Looks for another pattern, later and later, so that an array without one costs little more for it.
    #[cold]
    fn give_up_pattern(&mut self) {
        self.top.pattern = NO_PATTERN;
        self.top.alike = 0;
        self.top.patience = self.top.patience.saturating_mul(4);
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

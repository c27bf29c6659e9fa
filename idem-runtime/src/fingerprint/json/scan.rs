//! The pass over the bytes.

use super::{
    draft::Draft,
    frame::{Frame, Kind},
    members::Members,
    pointer::{NOWHERE, Pointers},
    scalar, tag,
    template::Templates,
    text,
    utf8::is_utf8,
};

/// The deepest nesting that is read (that of `serde_json`); deeper bodies are compared as bytes.
const MAX_DEPTH: usize = 128;
/// Positions are kept in 32 bits, and what the pass writes may be twice what it reads; longer bodies are compared as bytes.
const MAX_LENGTH: usize = 1 << 30;

/// Reads a body; `None` if it is not plain I-JSON (RFC 7493) in UTF-8 or passes a limit of this module.
pub(in super::super) fn scan(body: &[u8], ignore: &Pointers) -> Option<Draft> {
    if body.len() > MAX_LENGTH || !is_utf8(body) {
        return None;
    }
    let mut scan = Scan {
        body,
        draft: Draft::for_body(body.len()),
        members: Members::new(body),
        top: Frame {
            child: ignore.root(),
            ..Frame::new(Kind::Root, 0, Default::default(), NOWHERE)
        },
        frames: Vec::with_capacity(8),
        templates: Templates::default(),
        ignore,
    };
    scan.run()?;
    let mut draft = scan.draft;
    if ignore.is_end(ignore.root()) {
        // The pointer to the whole document.
        draft.take_back(Default::default());
        draft.values.byte(tag::IGNORED);
    }
    Some(draft)
}

struct Scan<'a> {
    body: &'a [u8],
    draft: Draft,
    members: Members<'a>,
    top: Frame,
    /// What is around the top frame.
    frames: Vec<Frame>,
    templates: Templates,
    ignore: &'a Pointers,
}

impl Scan<'_> {
    fn run(&mut self) -> Option<()> {
        let mut at = self.skip_blanks(0);
        'value: loop {
            match self.peek(at) {
                b'{' if let Some(end) = self.by_template(at) => at = end,
                b'{' => {
                    self.open(Kind::Object, at)?;
                    at = self.skip_blanks(at + 1);
                    if self.peek(at) != b'}' {
                        at = self.member(at)?;
                        continue 'value;
                    }
                    at += 1;
                    self.close_object(at)?;
                }
                b'[' => {
                    self.open(Kind::Array, at)?;
                    at = self.skip_blanks(at + 1);
                    if self.peek(at) != b']' {
                        self.element();
                        continue 'value;
                    }
                    self.close_array();
                    at += 1;
                }
                _ => {
                    let value = self.draft.values.len() as u32;
                    at = scalar::read(self.body, at, &mut self.draft.values)?;
                    self.leaf(value);
                }
            }
            loop {
                self.take_back();
                at = self.skip_blanks(at);
                match (self.peek(at), self.top.kind) {
                    (b',', Kind::Object) => {
                        at = self.skip_blanks(at + 1);
                        at = self.member(at)?;
                        continue 'value;
                    }
                    (b',', Kind::Array) => {
                        at = self.skip_blanks(at + 1);
                        self.top.current += 1;
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

    /// Reads the name at a position, its colon, and up to its value.
    #[inline(always)]
    fn member(&mut self, at: usize) -> Option<usize> {
        if self.peek(at) != b'"' {
            return None;
        }
        let mark = self.draft.mark();
        let start = at + 1;
        let plain = text::plain_end(self.body, start);
        let end = if let Some(end) = text::canonical_end(self.body, plain) {
            self.members.push(start, end, mark);
            end
        } else {
            let arena = self.members.arena();
            let text = arena.len();
            let end = text::write_canonical(self.body, start, arena)?;
            self.members.push_rewritten(text, mark);
            end
        };
        let colon = self.skip_blanks(end + 1);
        if self.peek(colon) != b':' {
            return None;
        }
        let value = self.skip_blanks(colon + 1);
        self.top.current = value as u32;
        if self.top.pointer != NOWHERE {
            self.top.child = self
                .ignore
                .member(self.top.pointer, self.members.last_name());
            if self.ignore.is_end(self.top.child) {
                self.top.ignoring = Some(mark);
                self.members.ignore_last();
            }
        }
        Some(value)
    }

    /// Takes note that an array's element begins here.
    #[inline(always)]
    fn element(&mut self) {
        if self.top.pointer != NOWHERE {
            self.top.child = self.ignore.element(self.top.pointer, self.top.current);
            if self.ignore.is_end(self.top.child) {
                self.top.ignoring = Some(self.draft.mark());
            }
        }
    }

    /// Takes note of a value that is no object and was written from a position on.
    #[inline(always)]
    fn leaf(&mut self, value: u32) {
        if self.top.kind == Kind::Object {
            self.draft.leaf(value, self.top.current as usize);
        }
    }

    /// Takes back the value that was just read if it is ignored; an array keeps its place.
    #[inline(always)]
    fn take_back(&mut self) {
        if let Some(mark) = self.top.ignoring.take() {
            self.draft.take_back(mark);
            if self.top.kind == Kind::Array {
                self.draft.values.byte(tag::IGNORED);
            }
        }
    }

    #[inline(always)]
    fn open(&mut self, kind: Kind, at: usize) -> Option<()> {
        if self.frames.len() == MAX_DEPTH {
            return None;
        }
        let is_nested = kind == Kind::Object && self.top.kind == Kind::Object;
        let frame = Frame {
            first: self.members.first(),
            ..Frame::new(kind, at, self.draft.mark(), self.top.child)
        };
        self.frames.push(std::mem::replace(&mut self.top, frame));
        match kind {
            Kind::Array => self.draft.values.byte(tag::ARRAY),
            // An object in an object is a part of its shape.
            _ if !is_nested => self.draft.values.byte(tag::OBJECT),
            _ => {}
        }
        Some(())
    }

    /// Ends the innermost array or object.
    #[inline(always)]
    fn close(&mut self) -> Frame {
        let around = self
            .frames
            .pop()
            .expect("an open value is in another or in the root");
        std::mem::replace(&mut self.top, around)
    }

    fn close_array(&mut self) {
        self.draft.values.byte(tag::ARRAY_END);
        let array = self.close();
        self.draft.forget_shapes(array.mark.shape);
        self.leaf(array.mark.value);
    }

    fn close_object(&mut self, end: usize) -> Option<()> {
        let first = self.top.first;
        self.members.sort(first)?;
        self.draft
            .close_object(self.top.mark, &self.members, &self.members.sorted(first));
        self.members.close(first);
        let object = self.close();
        if self.top.kind == Kind::Array && self.top.ignoring.is_none() {
            self.close_element(&object, end);
        }
        Some(())
    }

    fn close_element(&mut self, object: &Frame, end: usize) {
        let shapes = self.top.mark.shape;
        if !self.draft.close_element(object.mark, shapes) {
            self.top.last = None;
        }
        // Among pointers each name has to be looked up.
        let is_last = self.peek(self.skip_blanks(end)) != b',';
        if self.top.pointer == NOWHERE && !is_last && self.templates.is_wanted() {
            self.top.last = self.templates.learn(
                self.body,
                object.source as usize..end,
                self.draft.leaves(object.mark),
                self.draft.shape(shapes),
            );
        }
        self.draft.forget_leaves(object.mark);
    }

    /// Reads an array's element, and those behind it, if they follow templates.
    #[inline(always)]
    fn by_template(&mut self, at: usize) -> Option<usize> {
        if self.top.kind != Kind::Array || self.top.pointer != NOWHERE {
            return None;
        }
        let depth = MAX_DEPTH - self.frames.len();
        let array = (self.top.mark.shape, &mut self.top.last);
        self.templates
            .read(self.body, at, depth, &mut self.draft, array)
    }
}

//! Strings, numbers and literals, and the blanks between them.

use super::{block::Block, buffer::Buffer, number, tag, text};

/// The byte at a position; behind the end a NUL, which JSON has nowhere.
#[inline(always)]
pub(super) fn peek(body: &[u8], at: usize) -> u8 {
    body.get(at).copied().unwrap_or(0)
}

/// The first position from `at` on that is no white space.
#[inline(always)]
pub(super) fn skip_blanks(body: &[u8], at: usize) -> usize {
    if peek(body, at) > b' ' {
        at
    } else {
        skip_run(body, at)
    }
}

#[inline(never)]
fn skip_run(body: &[u8], mut at: usize) -> usize {
    loop {
        at += match peek(body, at) {
            b' ' => Block::at(body, at).spaces(),
            b'\n' | b'\r' | b'\t' => 1,
            _ => return at,
        };
    }
}

/// A scalar whose encoding is a tag and some of the body, as that of nearly every scalar is.
#[derive(Clone, Copy, Default)]
pub(super) struct Plain {
    /// A byte; wider, because padding is slow to copy.
    tag: u32,
    pub(super) start: u32,
    pub(super) length: u32,
}

impl Plain {
    #[inline(always)]
    pub(super) fn new(tag: u8, start: usize, end: usize) -> Plain {
        Plain {
            tag: tag.into(),
            start: start as u32,
            length: (end - start) as u32,
        }
    }

    /// Writes this scalar, whose text is at `start` in `source`.
    #[inline(always)]
    pub(super) fn write(self, source: &[u8], start: usize, values: &mut Buffer) {
        values.tagged(self.tag as u8, source, start, self.length as usize);
    }
}

/// Reads the scalar at a position and says where it ends; `None` says nothing.
#[inline(always)]
pub(super) fn plain(body: &[u8], at: usize) -> Option<(Plain, usize)> {
    let block = Block::at(body, at);
    match block.first_byte() {
        b'"' => {
            let mut end = at + block.quoted();
            if end == at + Block::SIZE {
                end = text::plain_end(body, end);
            }
            let end = text::canonical_end(body, end)?;
            Some((Plain::new(tag::STRING, at + 1, end), end + 1))
        }
        b'0'..=b'9' => {
            let (brief, length) = block.plain_number()?;
            let number = Plain::new(tag::NUMBER, at, at + brief);
            Some((number, at + length))
        }
        b'-' => {
            let block = Block::at(body, at + 1);
            let (brief, length) = block.plain_number()?;
            let number = Plain::new(tag::NUMBER, at, at + 1 + brief);
            // Zero has no sign.
            (block.first_byte() != b'0').then_some((number, at + 1 + length))
        }
        _ => {
            let (is_null, is_true) = (block.begins(b"null"), block.begins(b"true"));
            let is_false = block.begins(b"false");
            // Looked up and not branched upon, since which one comes is anyone's guess.
            let tag = [0, tag::NULL, tag::TRUE, tag::FALSE]
                [usize::from(is_null) + 2 * usize::from(is_true) + 3 * usize::from(is_false)];
            let end = at + 4 + usize::from(is_false);
            (tag != 0).then_some((Plain::new(tag, at, at), end))
        }
    }
}

/// Reads the scalar at a position, writes it, and says where it ends; `None` if there is none.
#[inline(always)]
pub(super) fn read(body: &[u8], at: usize, values: &mut Buffer) -> Option<usize> {
    match plain(body, at) {
        Some((plain, end)) => {
            plain.write(body, plain.start as usize, values);
            Some(end)
        }
        None => read_other(body, at, values),
    }
}

#[inline(never)]
fn read_other(body: &[u8], at: usize, values: &mut Buffer) -> Option<usize> {
    match peek(body, at) {
        b'"' => {
            values.byte(tag::STRING);
            text::write_canonical(body, at + 1, values).map(|end| end + 1)
        }
        b'-' | b'0'..=b'9' => number::encode(body, at, values),
        _ => None,
    }
}

/// Reads what is no plain scalar but another one or an array of scalars in the same way.
#[inline(never)]
pub(super) fn read_other_leaf(body: &[u8], at: usize, values: &mut Buffer) -> Option<usize> {
    if peek(body, at) != b'[' {
        return read_other(body, at, values);
    }
    values.byte(tag::ARRAY);
    let mut at = skip_blanks(body, at + 1);
    if peek(body, at) != b']' {
        loop {
            at = skip_blanks(body, read(body, at, values)?);
            match peek(body, at) {
                b',' => at = skip_blanks(body, at + 1),
                b']' => break,
                _ => return None,
            }
        }
    }
    values.byte(tag::ARRAY_END);
    Some(at + 1)
}

//! Strings, numbers and literals, and the blanks between them.

use super::{
    block::Block,
    buffer::Buffer,
    number, text,
    values::{self, tag},
};

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

/// Reads the scalar at a position, writes it, and says where it ends; `None` if there is none.
#[inline(always)]
pub(super) fn read(body: &[u8], at: usize, values: &mut Buffer) -> Option<usize> {
    match peek(body, at) {
        b'"' => string(body, at + 1, values),
        b'-' | b'0'..=b'9' => number::encode(body, at, values),
        b't' => literal(body, at, b"true", tag::TRUE, values),
        b'f' => literal(body, at, b"false", tag::FALSE, values),
        b'n' => literal(body, at, b"null", tag::NULL, values),
        _ => None,
    }
}

/// Reads a scalar or an array of scalars in the same way.
#[inline(always)]
pub(super) fn read_leaf(body: &[u8], at: usize, values: &mut Buffer) -> Option<usize> {
    if peek(body, at) == b'[' {
        read_scalars(body, at + 1, values)
    } else {
        read(body, at, values)
    }
}

#[inline(never)]
fn read_scalars(body: &[u8], at: usize, values: &mut Buffer) -> Option<usize> {
    values.byte(tag::ARRAY);
    let mut at = skip_blanks(body, at);
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

#[inline(always)]
fn literal(body: &[u8], at: usize, spelling: &[u8], tag: u8, values: &mut Buffer) -> Option<usize> {
    let end = at + spelling.len();
    if body.get(at..end)? != spelling {
        return None;
    }
    values.byte(tag);
    Some(end)
}

/// Reads a string value from behind its opening quote to behind its closing one.
#[inline(always)]
fn string(body: &[u8], start: usize, values: &mut Buffer) -> Option<usize> {
    let block = Block::at(body, start);
    let length = block.stop();
    if length < Block::SIZE && peek(body, start + length) == b'"' {
        values::short_string(values, block, length);
        return Some(start + length + 1);
    }
    other_string(body, start, start + length, values)
}

/// Reads a string that is plain up to a position.
#[inline(never)]
fn other_string(body: &[u8], start: usize, plain: usize, values: &mut Buffer) -> Option<usize> {
    let end = text::plain_end(body, plain);
    let end = if peek(body, end) == b'"' {
        values::string(values, body, start, end);
        end
    } else {
        values::string_with(values, |values| text::unescape(body, start, end, values))?
    };
    Some(end + 1)
}

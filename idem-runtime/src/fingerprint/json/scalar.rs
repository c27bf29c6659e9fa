//! Strings, numbers and literals, and the blanks between them.

use super::{
    block::Block,
    number, text,
    values::{Values, tag},
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
pub(super) fn read(
    body: &[u8],
    at: usize,
    values: &mut Values,
    unescaped: &mut Vec<u8>,
) -> Option<usize> {
    match peek(body, at) {
        b'"' => string(body, at + 1, values, unescaped),
        b'-' | b'0'..=b'9' => number::encode(body, at, values),
        b't' => literal(body, at, b"true", tag::TRUE, values),
        b'f' => literal(body, at, b"false", tag::FALSE, values),
        b'n' => literal(body, at, b"null", tag::NULL, values),
        _ => None,
    }
}

#[inline(always)]
fn literal(body: &[u8], at: usize, spelling: &[u8], tag: u8, values: &mut Values) -> Option<usize> {
    let end = at + spelling.len();
    if body.get(at..end)? != spelling {
        return None;
    }
    values.tag(tag);
    Some(end)
}

/// Reads a string value from behind its opening quote to behind its closing one.
#[inline(always)]
fn string(
    body: &[u8],
    start: usize,
    values: &mut Values,
    unescaped: &mut Vec<u8>,
) -> Option<usize> {
    let block = Block::at(body, start);
    let length = block.stop();
    if length < Block::SIZE && peek(body, start + length) == b'"' && block.is_ascii() {
        values.short_string(block, length);
        return Some(start + length + 1);
    }
    long_string(body, start, values, unescaped)
}

#[inline(never)]
fn long_string(
    body: &[u8],
    start: usize,
    values: &mut Values,
    unescaped: &mut Vec<u8>,
) -> Option<usize> {
    let end = text::plain_end(body, start)?;
    if peek(body, end) == b'"' {
        values.string(body, start, end);
        return Some(end + 1);
    }
    unescaped.clear();
    let end = text::unescape(body, start, end, unescaped)?;
    values.string(unescaped, 0, unescaped.len());
    Some(end + 1)
}

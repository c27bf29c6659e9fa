//! The inside of JSON strings, in a body that is known to be UTF-8.
//!
//! The canonical text of a string keeps its escapes of two bytes (but for `\/`), since that is how nearly every writer
//! spells those characters, as RFC 8785 has it, too; all others are decoded.

use super::{block::Block, buffer::Buffer, scalar::peek};

/// The first position from `start` on that is a quote, a backslash, a control character, or the end of the body.
#[inline(always)]
pub(super) fn plain_end(body: &[u8], start: usize) -> usize {
    let stop = Block::at(body, start).stop();
    if stop < Block::SIZE {
        start + stop
    } else {
        long_plain_end(body, start + Block::SIZE)
    }
}

#[inline(never)]
fn long_plain_end(body: &[u8], mut at: usize) -> usize {
    for _ in 0..2 {
        let stop = Block::at(body, at).stop();
        at += stop;
        if stop < Block::SIZE {
            return at;
        }
    }
    let rest = body.get(at..).unwrap_or_default();
    let length = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
    // A fold, so that the compiler makes vector instructions of it.
    let has_control = |text: &[u8]| {
        text.iter()
            .fold(false, |found, byte| found | (*byte < 0x20))
    };
    if !has_control(&rest[..length]) {
        return at + length;
    }
    let control = rest.iter().position(|byte| *byte < 0x20);
    at + control.unwrap_or(length)
}

/// Where the closing quote of a string is that is plain up to `at` and spelt canonically; `None` says nothing.
#[inline(always)]
pub(super) fn canonical_end(body: &[u8], at: usize) -> Option<usize> {
    if peek(body, at) == b'"' {
        Some(at)
    } else {
        escaped_end(body, at)
    }
}

#[inline(never)]
fn escaped_end(body: &[u8], mut at: usize) -> Option<usize> {
    while peek(body, at) == b'\\' && LETTERS.contains(&peek(body, at + 1)) {
        at = plain_end(body, at + 2);
    }
    (peek(body, at) == b'"').then_some(at)
}

/// Appends the canonical text of the string that begins at `start`, and says where its closing quote is; `None` if it has
/// none or says what I-JSON forbids.
pub(super) fn write_canonical(body: &[u8], start: usize, into: &mut Buffer) -> Option<usize> {
    let mut at = start;
    loop {
        let end = plain_end(body, at);
        into.piece(body, at, end);
        match body.get(end)? {
            b'"' => return Some(end),
            b'\\' => at = escape(body, end + 1, into)?,
            _ => return None,
        }
    }
}

/// Reads the escape whose backslash stands before `at`.
fn escape(body: &[u8], at: usize, into: &mut Buffer) -> Option<usize> {
    match *body.get(at)? {
        b'u' => return unicode_escape(body, at + 1, into),
        b'/' => into.byte(b'/'),
        letter if LETTERS.contains(&letter) => into.bytes(&[b'\\', letter]),
        _ => return None,
    }
    Some(at + 1)
}

/// What may stand behind a backslash in canonical text, and what it stands for there.
const LETTERS: [u8; 7] = *b"\"\\bfnrt";
const MEANINGS: [char; 7] = ['"', '\\', '\u{8}', '\u{c}', '\n', '\r', '\t'];

/// Appends a character as canonical text.
pub(super) fn write_character(character: char, into: &mut Buffer) {
    match MEANINGS.iter().position(|meaning| *meaning == character) {
        Some(at) => into.bytes(&[b'\\', LETTERS[at]]),
        None => into.bytes(character.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

#[inline(never)]
fn unicode_escape(body: &[u8], at: usize, into: &mut Buffer) -> Option<usize> {
    let first = code_unit(body, at)?;
    let (character, end) = match first {
        0xd800..=0xdbff => {
            let second = body
                .get(at + 4..)?
                .starts_with(b"\\u")
                .then(|| code_unit(body, at + 6))??;
            if !(0xdc00..=0xdfff).contains(&second) {
                return None;
            }
            (
                0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00),
                at + 10,
            )
        }
        _ => (first, at + 4),
    };
    // A lone low surrogate is no character.
    write_character(char::from_u32(character)?, into);
    Some(end)
}

fn code_unit(body: &[u8], at: usize) -> Option<u32> {
    let digits = body.get(at..)?.first_chunk::<4>()?;
    digits.iter().try_fold(0, |unit, digit| {
        Some(unit << 4 | char::from(*digit).to_digit(16)?)
    })
}

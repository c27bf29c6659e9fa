//! The inside of JSON strings, in a body that is known to be UTF-8.

use super::{block::Block, buffer::Buffer};

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

/// Appends the decoded text of the string that begins at `start` and is plain up to `plain`, and says where its closing
/// quote is; `None` if it has none or says what I-JSON forbids.
pub(super) fn unescape(
    body: &[u8],
    start: usize,
    plain: usize,
    into: &mut Buffer,
) -> Option<usize> {
    into.piece(body, start, plain);
    let mut at = plain;
    loop {
        match body.get(at)? {
            b'"' => return Some(at),
            b'\\' => at = escape(body, at + 1, into)?,
            _ => return None,
        }
        let block = Block::at(body, at);
        let mut stop = block.stop();
        into.beginning(&block.bytes(), stop);
        at += stop;
        if stop == Block::SIZE {
            stop = plain_end(body, at) - at;
            into.piece(body, at, at + stop);
            at += stop;
        }
    }
}

/// Decodes the escape whose backslash stands before `at`.
#[inline(always)]
fn escape(body: &[u8], at: usize, into: &mut Buffer) -> Option<usize> {
    let letter = *body.get(at)?;
    match ESCAPED[usize::from(letter)] {
        0 if letter == b'u' => unicode_escape(body, at + 1, into),
        0 => None,
        plain => {
            into.byte(plain);
            Some(at + 1)
        }
    }
}

/// What a letter stands for behind a backslash; 0 for nothing of one byte.
static ESCAPED: [u8; 256] = {
    let mut escaped = [0; 256];
    let pairs = *b"\"\"\\\\//b\x08f\x0cn\nr\rt\t";
    let mut at = 0;
    while at < pairs.len() {
        escaped[pairs[at] as usize] = pairs[at + 1];
        at += 2;
    }
    escaped
};

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
    let character = char::from_u32(character)?;
    into.bytes(character.encode_utf8(&mut [0; 4]).as_bytes());
    Some(end)
}

fn code_unit(body: &[u8], at: usize) -> Option<u32> {
    let digits = body.get(at..)?.first_chunk::<4>()?;
    digits.iter().try_fold(0, |unit, digit| {
        Some(unit << 4 | char::from(*digit).to_digit(16)?)
    })
}

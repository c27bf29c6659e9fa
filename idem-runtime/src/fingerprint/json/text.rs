//! The inside of JSON strings.

use super::block::Block;

/// The first position from `start` on that is a quote, a backslash, a control character, or the end of the body; `None`
/// if what stands before it is not UTF-8.
#[inline]
pub(super) fn plain_end(body: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    let mut is_ascii = true;
    for _ in 0..4 {
        let block = Block::at(body, at);
        is_ascii &= block.is_ascii();
        let stop = block.stop();
        at += stop;
        if stop < Block::SIZE {
            return checked(body, start, at, is_ascii);
        }
    }
    // A long text, of which more is looked at together.
    while let Some(stretch) = body.get(at..).and_then(<[u8]>::first_chunk) {
        if has_stop(stretch) {
            break;
        }
        is_ascii &= stretch.is_ascii();
        at += stretch.len();
    }
    loop {
        let block = Block::at(body, at);
        is_ascii &= block.is_ascii();
        let stop = block.stop();
        at += stop;
        if stop < Block::SIZE {
            return checked(body, start, at, is_ascii);
        }
    }
}

/// The end of a text if it is UTF-8.
#[inline(always)]
fn checked(body: &[u8], start: usize, end: usize, is_ascii: bool) -> Option<usize> {
    (is_ascii || std::str::from_utf8(&body[start..end]).is_ok()).then_some(end)
}

/// Whether plain text ends within a stretch; written so that the compiler makes vector instructions of it.
#[inline(always)]
fn has_stop(stretch: &[u8; 64]) -> bool {
    stretch.iter().fold(0, |found, byte| {
        found | u8::from(*byte == b'"') | u8::from(*byte == b'\\') | u8::from(*byte < 0x20)
    }) != 0
}

/// Appends the decoded text of the string that begins at `start` and is plain up to `plain`, and says where its closing
/// quote is; `None` if it has none or says what I-JSON forbids.
pub(super) fn unescape(
    body: &[u8],
    start: usize,
    plain: usize,
    into: &mut Vec<u8>,
) -> Option<usize> {
    let mut from = start;
    let mut at = plain;
    loop {
        into.extend_from_slice(&body[from..at]);
        match body.get(at)? {
            b'"' => return Some(at),
            b'\\' => at = escape(body, at + 1, into)?,
            _ => return None,
        }
        from = at;
        at = plain_end(body, at)?;
    }
}

/// Decodes the escape whose backslash stands before `at`.
fn escape(body: &[u8], at: usize, into: &mut Vec<u8>) -> Option<usize> {
    let plain = match body.get(at)? {
        b'u' => return unicode_escape(body, at + 1, into),
        byte @ (b'"' | b'\\' | b'/') => *byte,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        _ => return None,
    };
    into.push(plain);
    Some(at + 1)
}

fn unicode_escape(body: &[u8], at: usize, into: &mut Vec<u8>) -> Option<usize> {
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
    into.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Some(end)
}

fn code_unit(body: &[u8], at: usize) -> Option<u32> {
    let digits = body.get(at..)?.first_chunk::<4>()?;
    digits.iter().try_fold(0, |unit, digit| {
        Some(unit << 4 | char::from(*digit).to_digit(16)?)
    })
}

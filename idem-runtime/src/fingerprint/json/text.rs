//! The inside of JSON strings.

use super::block::Block;

/// The first position from `at` on that is a quote, a backslash, a control character, or the end of the body.
#[inline]
pub(super) fn plain_end(body: &[u8], mut at: usize, beyond_ascii: &mut u64) -> usize {
    loop {
        let block = Block::at(body, at);
        *beyond_ascii |= block.beyond_ascii();
        let stop = block.stop();
        at += stop;
        if stop < Block::SIZE {
            return at;
        }
    }
}

/// Appends the decoded text of the string that begins at `start` and is plain up to `plain`, and says where its closing
/// quote is; `None` if it has none or says what I-JSON forbids.
pub(super) fn unescape(
    body: &[u8],
    start: usize,
    plain: usize,
    into: &mut Vec<u8>,
    beyond_ascii: &mut u64,
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
        at = plain_end(body, at, beyond_ascii);
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

//! Whether a body is UTF-8 (RFC 3629).
//!
//! The standard library knows, but reads a text byte by byte around each character that is not ASCII. Where all of them
//! have two bytes, as in most of Europe, that costs more than all the rest of the pass, and is simple enough to be seen
//! in many bytes at once.

const STRETCH: usize = 64;
/// How much is left to the standard library where characters are longer.
const PIECE: usize = 256;

pub(super) fn is_utf8(body: &[u8]) -> bool {
    if body.is_ascii() {
        return true;
    }
    let mut rest = body;
    while !rest.is_empty() {
        let length = match rest.first_chunk() {
            Some(stretch) if stretch.is_ascii() => STRETCH,
            Some(stretch) if has_short_characters(stretch) => {
                STRETCH + usize::from(is_first_of_two(stretch[STRETCH - 1]))
            }
            _ => {
                let piece = &rest[..PIECE.min(rest.len())];
                match std::str::from_utf8(piece) {
                    Ok(_) => piece.len(),
                    // A character is cut in two.
                    Err(error) if error.error_len().is_none() && piece.len() < rest.len() => {
                        error.valid_up_to()
                    }
                    Err(_) => return false,
                }
            }
        };
        rest = &rest[length..];
    }
    true
}

/// Whether a stretch begins with whole characters of one or two bytes, but for the last byte, which is only looked at as
/// the second of two. Written so that the compiler makes vector instructions of it.
#[inline(always)]
fn has_short_characters(stretch: &[u8; STRETCH + 1]) -> bool {
    let pairs = stretch.iter().zip(&stretch[1..]);
    let is_wrong = pairs.fold(false, |is_wrong, (byte, next)| {
        // 0xc0 and 0xc1 would be longer spellings of ASCII.
        is_wrong
            | (is_first_of_two(*byte) != is_continuation(*next))
            | (*byte & 0xfe == 0xc0)
            | (*byte >= 0xe0)
    });
    !is_wrong && !is_continuation(stretch[0])
}

/// Of what is below 0xe0.
#[inline(always)]
fn is_first_of_two(byte: u8) -> bool {
    byte >= 0xc0
}

#[inline(always)]
fn is_continuation(byte: u8) -> bool {
    byte.cast_signed() < -0x40
}

#[cfg(test)]
mod tests {
    use super::is_utf8;

    /// Every first byte with each of the others that the rules tell apart, at several places of a text.
    #[test]
    fn it_answers_as_the_standard_library_does() {
        for first in 0..=255 {
            for second in [
                0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff,
            ] {
                for third in [0x41, 0x80, 0xbf, 0xc3] {
                    for fourth in [0x41, 0x80, 0xbf, 0xc3] {
                        check(&[first, second, third, fourth]);
                    }
                }
            }
        }
    }

    fn check(bytes: &[u8; 4]) {
        let expected = std::str::from_utf8(bytes).is_ok();
        for (filler, before, behind) in [
            ("a", 0, 0),
            ("a", 63, 40),
            ("\u{e9}", 61, 70),
            ("\u{e9}", 62, 70),
            ("\u{e9}", 64, 1),
            ("\u{20ac}", 254, 70),
            ("\u{1f600}", 400, 0),
        ] {
            let mut text = filler.repeat(before / filler.len()).into_bytes();
            text.resize(before, b'a');
            text.extend_from_slice(bytes);
            text.resize(before + 4 + behind, b'a');
            assert_eq!(
                is_utf8(&text),
                expected,
                "{bytes:?} behind {filler} {before}"
            );
        }
        for cut in 1..4 {
            let text = &bytes[..cut];
            assert_eq!(is_utf8(text), std::str::from_utf8(text).is_ok(), "{text:?}");
        }
    }
}

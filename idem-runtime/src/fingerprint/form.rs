//! `application/x-www-form-urlencoded` pairs, of a query or of a body (WHATWG URL, section 5.1).
//!
//! Decoded to bytes, not to text: a decoder that replaces what is not UTF-8 makes `%FE` and `%FF` one.

use std::borrow::Cow;

use super::sink::Sink;

/// A decoded name and value.
pub(super) type Pair<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// The decoded pairs, stably sorted by name: pairs of one name keep their order.
pub(super) fn sorted_pairs(encoded: &[u8]) -> Vec<Pair<'_>> {
    let mut pairs: Vec<Pair<'_>> = encoded
        .split(|byte| *byte == b'&')
        .filter(|piece| !piece.is_empty())
        .map(|piece| {
            let equals = piece.iter().position(|byte| *byte == b'=');
            let (name, value) = match equals {
                Some(at) => (&piece[..at], &piece[at + 1..]),
                None => (piece, &[][..]),
            };
            (decode(name), decode(value))
        })
        .collect();
    pairs.sort_by(|left, right| left.0.cmp(&right.0));
    pairs
}

/// Writes the number of pairs, then each name and value behind its length.
pub(super) fn write_pairs(sink: &mut Sink, pairs: &[Pair<'_>]) {
    sink.number(pairs.len() as u64);
    for (name, value) in pairs {
        sink.prefixed(name);
        sink.prefixed(value);
    }
}

/// `+` is a space, `%` and two hexadecimal digits are a byte, and everything else is itself.
fn decode(encoded: &[u8]) -> Cow<'_, [u8]> {
    if !encoded.iter().any(|byte| matches!(byte, b'+' | b'%')) {
        return Cow::Borrowed(encoded);
    }
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (b'+', _) => decoded.push(b' '),
            (b'%', [high, low, beyond @ ..]) if let Some(byte) = hexadecimal(*high, *low) => {
                decoded.push(byte);
                rest = beyond;
            }
            (other, _) => decoded.push(other),
        }
    }
    Cow::Owned(decoded)
}

fn hexadecimal(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded_to_bytes() {
        let pairs = sorted_pairs(b"b=%ff&a=1+1&&c&%61=%zz%4");
        let plain: Vec<(&[u8], &[u8])> = pairs
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        assert_eq!(
            plain,
            [
                (&b"a"[..], &b"1 1"[..]),
                (b"a", b"%zz%4"),
                (b"b", b"\xff"),
                (b"c", b""),
            ]
        );
    }
}

//! Sixteen bytes looked at together, in two machine words.
//!
//! Several tests below may also mark bytes *behind* the first that they are about, where a subtraction borrows or an
//! addition carries into the next byte. Only the first is ever asked for, and that one is exact.

/// The bytes at a position, the first one lowest, NULs behind the end.
#[derive(Clone, Copy)]
pub(super) struct Block(u128);

const HIGH_BITS: u64 = all(0x80);

const fn all(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

impl Block {
    pub(super) const SIZE: usize = 16;

    #[inline(always)]
    pub(super) fn at(source: &[u8], at: usize) -> Block {
        match source
            .get(at..at + Block::SIZE)
            .and_then(<[u8]>::first_chunk)
        {
            Some(bytes) => Block(u128::from_le_bytes(*bytes)),
            None => Block::last(source, at),
        }
    }

    #[cold]
    fn last(source: &[u8], at: usize) -> Block {
        let mut bytes = [0; Block::SIZE];
        let rest = source.get(at..).unwrap_or_default();
        bytes[..rest.len()].copy_from_slice(rest);
        Block(u128::from_le_bytes(bytes))
    }

    #[inline(always)]
    fn halves(self) -> (u64, u64) {
        (self.0 as u64, (self.0 >> 64) as u64)
    }

    /// The index of the first byte whose high bit a test sets, 16 if it sets none.
    #[inline(always)]
    fn first(self, test: impl Fn(u64) -> u64) -> usize {
        let (low, high) = self.halves();
        let marks = u128::from(test(low)) | u128::from(test(high)) << 64;
        (marks.trailing_zeros() >> 3) as usize
    }

    /// The first quote, backslash or control character: where plain text in a string ends.
    #[inline(always)]
    pub(super) fn stop(self) -> usize {
        self.first(|word| {
            // 0x22, the quote, becomes 0x20 and stands next to the control characters, whose order does not matter.
            let quote_or_control = (word ^ all(2)).wrapping_sub(all(0x21));
            let backslash = (word ^ all(b'\\')).wrapping_sub(all(1));
            (quote_or_control | backslash) & !word & HIGH_BITS
        })
    }

    #[inline(always)]
    pub(super) fn first_byte(self) -> u8 {
        self.0 as u8
    }

    /// The index of the first quote, backslash or control character behind a quote that comes first.
    #[inline(always)]
    pub(super) fn quoted(self) -> usize {
        // Nothing stops at 0xff, nor does it borrow.
        Block(self.0 | 0xff).stop()
    }

    /// Whether a text of fewer than eight bytes comes first.
    #[inline(always)]
    pub(super) fn begins<const LENGTH: usize>(self, text: &[u8; LENGTH]) -> bool {
        let mut word = [0; 8];
        word[..LENGTH].copy_from_slice(text);
        let others = 64 - 8 * LENGTH;
        (self.0 as u64) << others == u64::from_le_bytes(word) << others
    }

    /// How many decimal digits come first.
    #[inline(always)]
    pub(super) fn digits(self) -> usize {
        self.first(no_digits)
    }

    /// The number that comes first, if it is shorter than half a block and has no exponent: the length of its briefest
    /// spelling, which it begins with, and its own; `None` says nothing.
    #[inline(always)]
    pub(super) fn plain_number(self) -> Option<(usize, usize)> {
        let word = self.0 as u64;
        let byte = |at: u32| (word >> (8 * at)) as u8;
        let others = no_digits(word);
        if others == 0 {
            return None;
        }
        let integer_end = others.trailing_zeros() >> 3;
        let (mut brief, mut end) = (integer_end, integer_end);
        if byte(integer_end) == b'.' {
            // A point carries nothing into the next byte, so the second mark is exact, too.
            let others = others & (others - 1);
            end = others.trailing_zeros() >> 3;
            if others == 0 || end == integer_end + 1 {
                return None;
            }
            brief = end;
            while byte(brief - 1) == b'0' {
                brief -= 1;
            }
            brief -= u32::from(brief == integer_end + 1);
        }
        let is_plain =
            integer_end > 0 && (byte(0) != b'0' || integer_end == 1) && byte(end) | 0x20 != b'e';
        is_plain.then_some((brief as usize, end as usize))
    }

    /// How many spaces come first.
    #[inline(always)]
    pub(super) fn spaces(self) -> usize {
        let others = self.0 ^ u128::from_le_bytes([b' '; 16]);
        (others.trailing_zeros() >> 3) as usize
    }

    /// The block with NULs in place of all but the first `count` (0 to 16) bytes.
    #[inline(always)]
    fn lowest(self, count: usize) -> u128 {
        self.0 & LOWEST[count & 31]
    }

    /// The first `count` bytes to compare others with.
    pub(super) fn beginning(self, count: usize) -> Beginning {
        Beginning {
            bytes: self.lowest(count),
            mask: LOWEST[count & 31],
        }
    }

    #[inline(always)]
    pub(super) fn begins_with(self, beginning: &Beginning) -> bool {
        self.0 & beginning.mask == beginning.bytes
    }
}

/// Marks what is no decimal digit.
#[inline(always)]
fn no_digits(word: u64) -> u64 {
    let value = word ^ all(b'0');
    (value | value.wrapping_add(all(0x80 - 10))) & HIGH_BITS
}

/// Some bytes that a block may begin with.
pub(super) struct Beginning {
    bytes: u128,
    mask: u128,
}

/// By a number of bytes: as many of the lowest. A look-up, since shifting two words by a variable costs more.
static LOWEST: [u128; 32] = {
    let mut masks = [u128::MAX; 32];
    let mut count = 0;
    while count < Block::SIZE {
        masks[count] = (1 << (8 * count)) - 1;
        count += 1;
    }
    masks
};

#[cfg(test)]
mod tests {
    use super::Block;

    /// What the tests say of single bytes, here on every pair of neighbours.
    #[test]
    fn a_block_answers_as_its_bytes_do() {
        let plain = *b"abcdefghijklmnop";
        for first in 0..=255 {
            for second in 0..=255 {
                for at in [0, 6, 7, 14] {
                    for filler in [plain, [b'0'; 16], [b' '; 16], *b"1230450000000000"] {
                        let mut bytes = filler;
                        (bytes[at], bytes[at + 1]) = (first, second);
                        check(&bytes);
                    }
                }
            }
        }
    }

    fn check(bytes: &[u8; 16]) {
        let block = Block::at(bytes, 0);
        let first =
            |test: &dyn Fn(u8) -> bool| bytes.iter().position(|byte| test(*byte)).unwrap_or(16);
        assert_eq!(block.0.to_le_bytes(), *bytes);
        assert_eq!(
            block.stop(),
            first(&|byte| byte < 0x20 || byte == b'"' || byte == b'\\'),
            "{bytes:?}"
        );
        assert_eq!(
            block.digits(),
            first(&|byte| !byte.is_ascii_digit()),
            "{bytes:?}"
        );
        assert_eq!(block.spaces(), first(&|byte| byte != b' '), "{bytes:?}");
        let mut quoted = *bytes;
        quoted[0] = b'"';
        let stop = quoted[1..]
            .iter()
            .position(|byte| *byte < 0x20 || *byte == b'"' || *byte == b'\\');
        assert_eq!(
            Block::at(&quoted, 0).quoted(),
            stop.map_or(16, |stop| stop + 1),
            "{quoted:?}"
        );
    }

    #[test]
    fn a_plain_number_is_shortened_and_any_other_left_alone() {
        for (text, expected) in [
            ("0,", Some((1, 1))),
            ("17}", Some((2, 2))),
            ("1000000]", Some((7, 7))),
            ("3.25 ", Some((4, 4))),
            ("12.50,", Some((4, 5))),
            ("10.00,", Some((2, 5))),
            ("0.0", Some((1, 3))),
            ("0.00001", Some((7, 7))),
            ("", None),
            ("-1", None),
            ("01", None),
            (".5", None),
            ("1.", None),
            ("1.,", None),
            ("1e2", None),
            ("1.50E2", None),
            ("12345678", None),
            ("1.234567", None),
        ] {
            assert_eq!(
                Block::at(text.as_bytes(), 0).plain_number(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn a_word_begins_a_block_as_far_as_it_goes() {
        assert!(Block::at(b"falsely", 0).begins(b"false"));
        assert!(!Block::at(b"fals", 0).begins(b"false"));
        assert!(!Block::at(b"nulL", 0).begins(b"null"));
    }

    #[test]
    fn behind_the_end_there_are_nuls() {
        assert_eq!(
            Block::at(b"abc", 1).0.to_le_bytes(),
            *b"bc\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
        );
        assert_eq!(Block::at(b"abc", 7).0, 0);
        let other = Block::at(b"abce", 0);
        assert!(Block::at(b"abcd", 0).begins_with(&other.beginning(3)));
        assert!(!Block::at(b"abcd", 0).begins_with(&other.beginning(4)));
    }
}

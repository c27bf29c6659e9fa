//! The encoded scalars and arrays of a document, in its order.

use super::block::Block;

/// The first bytes of encoded values.
pub(super) mod tag {
    pub(crate) const NULL: u8 = 1;
    pub(crate) const FALSE: u8 = 2;
    pub(crate) const TRUE: u8 = 3;
    pub(crate) const ARRAY: u8 = 4;
    pub(crate) const ARRAY_END: u8 = 5;
    /// An object whose names follow.
    pub(crate) const OBJECT: u8 = 6;
    /// An object with names that were written before.
    pub(crate) const OBJECT_LIKE: u8 = 7;
    /// An element, or a whole body, that does not count.
    pub(crate) const IGNORED: u8 = 8;
    /// To 0x7f: a number; bit 5 is its sign, the five bits below count its digits.
    pub(crate) const NUMBER: u8 = 0x40;
    pub(crate) const NEGATIVE: u8 = 0x20;
    /// In place of the count of a number's digits, which then follows in four bytes.
    pub(crate) const MANY_DIGITS: u8 = 0x1f;
    /// To 0xfe: a string whose length the seven low bits are.
    pub(crate) const STRING: u8 = 0x80;
    /// A string whose length follows in four bytes.
    pub(crate) const LONG_STRING: u8 = 0xff;
}

/// A buffer that is longer than what has been written, so that short values are written a block at a time.
pub(super) struct Values {
    bytes: Vec<u8>,
    length: usize,
}

impl Values {
    /// Room for what a body of this length usually comes to.
    pub(super) fn for_body(length: usize) -> Values {
        Values {
            bytes: vec![0; length + 64],
            length: 0,
        }
    }

    /// The position of the next value. A body has at most 2^30 bytes and encodes to less than twice as many.
    #[inline(always)]
    pub(super) fn position(&self) -> u32 {
        self.length as u32
    }

    /// Forgets what was written from a position on.
    pub(super) fn truncate(&mut self, position: u32) {
        self.length = position as usize;
    }

    /// All that was written, and behind it what is left of the buffer.
    pub(super) fn into_buffer(self) -> (Vec<u8>, usize) {
        (self.bytes, self.length)
    }

    #[inline(always)]
    pub(super) fn tag(&mut self, tag: u8) {
        let [room] = self.room();
        *room = tag;
        self.length += 1;
    }

    /// A string of fewer than sixteen bytes, which `block` begins with.
    #[inline(always)]
    pub(super) fn short_string(&mut self, block: Block, length: usize) {
        let room: &mut [u8; 17] = self.room();
        room[0] = tag::STRING | length as u8;
        room[1..].copy_from_slice(&block.bytes());
        self.length += 1 + length;
    }

    /// The string `source[start..end]`.
    pub(super) fn string(&mut self, source: &[u8], start: usize, end: usize) {
        let text = &source[start..end];
        if text.len() < 0x7f {
            self.tag(tag::STRING | text.len() as u8);
        } else {
            self.tag(tag::LONG_STRING);
            self.raw(&(text.len() as u32).to_le_bytes());
        }
        self.raw(text);
    }

    /// A number whose digits are the first `count` (fewer than sixteen) of a block.
    #[inline(always)]
    pub(super) fn short_number(&mut self, sign: u8, exponent: i64, digits: Block, count: usize) {
        self.short_decimal(sign, exponent, (digits, count), (digits, 0));
    }

    /// A number whose digits begin two blocks, fewer than sixteen each; the exponent is that of a short number, too.
    #[inline(always)]
    pub(super) fn short_decimal(
        &mut self,
        sign: u8,
        exponent: i64,
        (integer, integer_count): (Block, usize),
        (fraction, fraction_count): (Block, usize),
    ) {
        let count = integer_count + fraction_count;
        let room: &mut [u8; 34] = self.room();
        room[0] = tag::NUMBER | sign | count as u8;
        room[1] = zigzag(exponent) as u8;
        room[2..18].copy_from_slice(&integer.bytes());
        if fraction_count > 0 {
            room[2 + integer_count..18 + integer_count].copy_from_slice(&fraction.bytes());
        }
        self.length += 2 + count;
    }

    /// A number of any size; its digits are those of `integer` followed by those of `fraction`.
    pub(super) fn number(&mut self, sign: u8, exponent: i64, integer: &[u8], fraction: &[u8]) {
        let count = integer.len() + fraction.len();
        self.make_room(48);
        let short = count < usize::from(tag::MANY_DIGITS);
        self.tag(tag::NUMBER | sign | if short { count as u8 } else { tag::MANY_DIGITS });
        self.exponent(exponent);
        if !short {
            self.raw(&(count as u32).to_le_bytes());
        }
        self.raw(integer);
        self.raw(fraction);
    }

    /// Seven bits a byte, as in [`Sink::number`](crate::fingerprint::sink::Sink::number).
    fn exponent(&mut self, exponent: i64) {
        let mut rest = zigzag(exponent);
        while rest >= 0x80 {
            self.bytes[self.length] = rest as u8 | 0x80;
            self.length += 1;
            rest >>= 7;
        }
        self.bytes[self.length] = rest as u8;
        self.length += 1;
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// The next bytes to be written.
    #[inline(always)]
    fn room<const SIZE: usize>(&mut self) -> &mut [u8; SIZE] {
        self.make_room(SIZE);
        self.bytes[self.length..]
            .first_chunk_mut()
            .expect("room has been made")
    }

    #[inline(always)]
    fn make_room(&mut self, needed: usize) {
        if self.bytes.len() - self.length < needed {
            self.grow(needed);
        }
    }

    #[cold]
    fn grow(&mut self, needed: usize) {
        let enough = self.bytes.len() + (self.bytes.len() / 2).max(needed);
        self.bytes.resize(enough, 0);
    }
}

/// 0, -1, 1, -2, 2 and so on, so that small exponents of either sign are one byte.
#[inline(always)]
fn zigzag(exponent: i64) -> u64 {
    ((exponent << 1) ^ (exponent >> 63)).cast_unsigned()
}

//! How scalars are written.

use super::{block::Block, buffer::Buffer};

/// The first bytes of encoded values.
pub(super) mod tag {
    pub(crate) const NULL: u8 = 1;
    pub(crate) const FALSE: u8 = 2;
    pub(crate) const TRUE: u8 = 3;
    pub(crate) const ARRAY: u8 = 4;
    pub(crate) const ARRAY_END: u8 = 5;
    /// An object, whose leaves follow.
    pub(crate) const OBJECT: u8 = 6;
    /// Behind an object's leaves: its shape follows.
    pub(crate) const SHAPE: u8 = 7;
    /// Behind an object's leaves: its shape is that of the object before it in the array.
    pub(crate) const SHAPE_AS_BEFORE: u8 = 8;
    /// An element, or a whole body, that does not count.
    pub(crate) const IGNORED: u8 = 9;
    /// To 0x7f: a number; bit 5 is its sign. The bits below are the length of its plain spelling; 0 if it has none, and
    /// its exponent, the count of its digits and those follow.
    pub(crate) const NUMBER: u8 = 0x40;
    pub(crate) const NEGATIVE: u8 = 0x20;
    /// To 0xfe: a string whose length the seven low bits are.
    pub(crate) const STRING: u8 = 0x80;
    /// A string whose length follows in four bytes.
    pub(crate) const LONG_STRING: u8 = 0xff;
}

/// The length from which a string is a long one.
const LONG: usize = 0x7f;

/// A string of fewer than sixteen bytes, which `block` begins with.
#[inline(always)]
pub(super) fn short_string(values: &mut Buffer, block: Block, length: usize) {
    values.byte_and_block(tag::STRING | length as u8, block, length);
}

/// The string `source[start..end]`.
pub(super) fn string(values: &mut Buffer, source: &[u8], start: usize, end: usize) {
    let length = end - start;
    if length < LONG {
        values.byte(tag::STRING | length as u8);
    } else {
        values.byte(tag::LONG_STRING);
        values.bytes(&(length as u32).to_le_bytes());
    }
    values.piece(source, start, end);
}

/// A string that `write` appends.
pub(super) fn string_with(
    values: &mut Buffer,
    write: impl FnOnce(&mut Buffer) -> Option<usize>,
) -> Option<usize> {
    let at = values.len();
    values.byte(tag::STRING);
    let end = write(values)?;
    let length = values.len() - at - 1;
    if length < LONG {
        values.replace(at, tag::STRING | length as u8);
    } else {
        values.replace(at, tag::LONG_STRING);
        values.insert(at + 1, (length as u32).to_le_bytes());
    }
    Some(end)
}

/// A number whose plain spelling, without a sign, is the first `length` bytes of a block.
#[inline(always)]
pub(super) fn short_number(values: &mut Buffer, sign: u8, block: Block, length: usize) {
    values.byte_and_block(tag::NUMBER | sign | length as u8, block, length);
}

/// A number whose plain spelling, without a sign, is `source[start..end]`.
pub(super) fn plain_number(values: &mut Buffer, sign: u8, source: &[u8], start: usize, end: usize) {
    values.byte(tag::NUMBER | sign | (end - start) as u8);
    values.piece(source, start, end);
}

/// A number without a plain spelling, whose digits are those of `integer` followed by those of `fraction`.
pub(super) fn other_number(
    values: &mut Buffer,
    sign: u8,
    exponent: i64,
    integer: &[u8],
    fraction: &[u8],
) {
    values.byte(tag::NUMBER | sign);
    // 0, -1, 1, -2, 2 and so on, so that small exponents of either sign are one byte.
    values.number(((exponent << 1) ^ (exponent >> 63)).cast_unsigned());
    values.number((integer.len() + fraction.len()) as u64);
    values.bytes(integer);
    values.bytes(fraction);
}

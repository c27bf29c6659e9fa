//! Numbers as exact decimals.
//!
//! A number is its significant digits, without zeros at either end, times a power of ten. If its plain spelling, without
//! an exponent, has no more than 31 bytes besides the sign, and no more than six zeros before or behind those digits, it is
//! written so, since that is how it is nearly always sent; any other is written as digits and exponent.

use super::{block::Block, buffer::Buffer, scalar::peek, tag};

/// The longest plain spelling, and the most zeros in it that are no significant digits: these keep what is written below
/// twice what is read.
const LONGEST: usize = 31;
const MOST_ZEROS: usize = 6;

/// Reads the number at a position, writes it, and says where it ends; `None` if it is no JSON number or its exponent
/// does not fit in 64 bits.
pub(super) fn encode(body: &[u8], at: usize, values: &mut Buffer) -> Option<usize> {
    let is_negative = peek(body, at) == b'-';
    let first = at;
    let start = at + usize::from(is_negative);
    let (mut integer, mut at) = digits(body, start)?;
    if integer[0] == b'0' && integer.len() > 1 {
        return None;
    }
    let mut fraction: &[u8] = &[];
    if peek(body, at) == b'.' {
        (fraction, at) = digits(body, at + 1)?;
    }
    let is_brief = match fraction {
        [] => !(is_negative && integer == b"0"),
        [.., last] => *last != b'0',
    };
    let zeros = match (integer, fraction) {
        (_, []) => integer.len() - trim_end(integer).len(),
        (b"0", _) => 1 + zeros_before(fraction),
        _ => 0,
    };
    let is_plain = is_brief && at - start <= LONGEST && zeros <= MOST_ZEROS;
    if is_plain && !matches!(peek(body, at), b'e' | b'E') {
        values.tagged(tag::NUMBER, body, first, at - first);
        return Some(at);
    }
    let mut exponent: i64 = 0;
    if matches!(peek(body, at), b'e' | b'E') {
        (exponent, at) = exponent_part(body, at + 1)?;
    }

    fraction = trim_end(fraction);
    exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    if fraction.is_empty() {
        let kept = trim_end(integer);
        exponent = exponent.checked_add(i64::try_from(integer.len() - kept.len()).ok()?)?;
        integer = kept;
    }
    if integer == b"0" {
        integer = &[];
    }
    if integer.is_empty() {
        fraction = &fraction[zeros_before(fraction)..];
    }
    values.byte(tag::NUMBER);
    if integer.is_empty() && fraction.is_empty() {
        values.byte(b'0');
        return Some(at);
    }
    if is_negative {
        values.byte(b'-');
    }
    if let Some((spelling, length)) = plain(exponent, integer, fraction) {
        values.bytes(&spelling[..length]);
    } else {
        values.bytes(integer);
        values.bytes(fraction);
        values.bytes(format!("e{exponent}").as_bytes());
    }
    Some(at)
}

/// The plain spelling of a number that is not zero, and how long it is, if it has one.
fn plain(exponent: i64, integer: &[u8], fraction: &[u8]) -> Option<([u8; LONGEST + 1], usize)> {
    let count = integer.len() + fraction.len();
    let exponent = isize::try_from(exponent).ok()?;
    let integer_digits = exponent.checked_add_unsigned(count)?;
    let before = integer_digits.max(1).cast_unsigned();
    let places = exponent.checked_neg()?.max(0).cast_unsigned();
    let point = usize::from(places > 0);
    let length = before.checked_add(places)?.checked_add(point)?;
    // Zeros in front of the first digit: one before the point, and those behind it.
    let first = (1 - integer_digits).max(0).cast_unsigned();
    let last = exponent.max(0).cast_unsigned();
    if length > LONGEST || first.max(last) > MOST_ZEROS {
        return None;
    }
    let mut spelling = [b'0'; LONGEST + 1];
    spelling[first..first + integer.len()].copy_from_slice(integer);
    spelling[first + integer.len()..first + count].copy_from_slice(fraction);
    if places > 0 {
        spelling.copy_within(before..before + places, before + 1);
        spelling[before] = b'.';
    }
    Some((spelling, length))
}

/// One digit at least.
fn digits(body: &[u8], start: usize) -> Option<(&[u8], usize)> {
    let mut end = start;
    loop {
        let count = Block::at(body, end).digits();
        end += count;
        if count < Block::SIZE {
            return (end > start).then(|| (&body[start..end], end));
        }
    }
}

fn exponent_part(body: &[u8], at: usize) -> Option<(i64, usize)> {
    let (sign, at) = match body.get(at)? {
        b'-' => (-1, at + 1),
        b'+' => (1, at + 1),
        _ => (1, at),
    };
    let (digits, end) = digits(body, at)?;
    let exponent = digits.iter().try_fold(0_i64, |exponent, digit| {
        exponent
            .checked_mul(10)?
            .checked_add(sign * i64::from(digit - b'0'))
    })?;
    Some((exponent, end))
}

fn zeros_before(digits: &[u8]) -> usize {
    digits.iter().take_while(|digit| **digit == b'0').count()
}

fn trim_end(digits: &[u8]) -> &[u8] {
    let kept = digits
        .iter()
        .rposition(|digit| *digit != b'0')
        .map_or(0, |at| at + 1);
    &digits[..kept]
}

//! Numbers as exact decimals: significant digits without zeros at either end, times a power of ten. Zero has no digits.

use super::{
    block::Block,
    values::{Values, tag},
};

/// Reads the number at a position, writes it, and says where it ends; `None` if it is no JSON number or its exponent
/// does not fit in 64 bits.
#[inline(always)]
pub(super) fn encode(body: &[u8], at: usize, values: &mut Values) -> Option<usize> {
    let negative = body.get(at) == Some(&b'-');
    let start = at + usize::from(negative);
    let block = Block::at(body, start);
    let count = block.digits();
    let first = block.bytes()[0];
    // What is too long, has a zero in front or has an exponent takes the long way.
    if count == 0 || count == Block::SIZE || (first == b'0' && count > 1) {
        return encode_any(body, at, values);
    }
    let sign = if negative { tag::NEGATIVE } else { 0 };
    let significant = block.without_last_zeros(count);
    let end = start + count;
    match body.get(end) {
        Some(b'.') if first != b'0' => {
            let fraction = Block::at(body, end + 1);
            let places = fraction.digits();
            let end = end + 1 + places;
            if places == 0 || places == Block::SIZE || matches!(body.get(end), Some(b'e' | b'E')) {
                return encode_any(body, at, values);
            }
            let kept = fraction.without_last_zeros(places);
            if kept == 0 {
                values.short_number(sign, (count - significant) as i64, block, significant);
            } else {
                values.short_decimal(sign, -(kept as i64), (block, count), (fraction, kept));
            }
            Some(end)
        }
        Some(b'.' | b'e' | b'E') => encode_any(body, at, values),
        _ => {
            if significant == 0 {
                values.short_number(0, 0, block, 0);
            } else {
                values.short_number(sign, (count - significant) as i64, block, significant);
            }
            Some(end)
        }
    }
}

#[inline(never)]
fn encode_any(body: &[u8], at: usize, values: &mut Values) -> Option<usize> {
    let negative = body.get(at) == Some(&b'-');
    let (mut integer, mut at) = digits(body, at + usize::from(negative))?;
    if integer[0] == b'0' && integer.len() > 1 {
        return None;
    }
    let mut fraction: &[u8] = &[];
    if body.get(at) == Some(&b'.') {
        (fraction, at) = digits(body, at + 1)?;
    }
    let mut exponent: i64 = 0;
    if matches!(body.get(at), Some(b'e' | b'E')) {
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
        let zeros = fraction.iter().take_while(|digit| **digit == b'0').count();
        fraction = &fraction[zeros..];
    }
    if integer.is_empty() && fraction.is_empty() {
        values.number(0, 0, &[], &[]);
    } else {
        values.number(
            if negative { tag::NEGATIVE } else { 0 },
            exponent,
            integer,
            fraction,
        );
    }
    Some(at)
}

/// One digit at least.
fn digits(body: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = body.get(at..)?;
    let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count > 0).then(|| (&rest[..count], at + count))
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

fn trim_end(digits: &[u8]) -> &[u8] {
    let kept = digits
        .iter()
        .rposition(|digit| *digit != b'0')
        .map_or(0, |at| at + 1);
    &digits[..kept]
}

//! Numbers of INCRBYFLOAT: the 80-bit floats that Redis computes with on x86-64, so that sums print the same digits.
//!
//! A finite value is `mantissa x 2^exponent` with a 64-bit mantissa. Reading, adding and printing go through exact big
//! integers and round once, to nearest, ties to even, as the processor and the C library do. Exact for every input,
//! subnormal numbers included; Redis on machines whose `long double` is another type prints other digits.
//!
//! Must not know: keys, replies.

use num_bigint::{BigInt, BigUint, Sign};
use serde::{Deserialize, Serialize};

use super::limits::FLOAT_BYTES_MAX;

/// Smallest exponent of the last mantissa bit (subnormal numbers).
const EXPONENT_MIN: i64 = -16_445;
/// The value's top bit lies below `2^TOP_EXPONENT_MAX`.
const TOP_EXPONENT_MAX: i64 = 16_384;
/// Digits after the point that are printed before trailing zeros go.
const FRACTION_DIGITS: usize = 17;
/// Decimal magnitudes beyond which every number overflows, or underflows to zero.
const DECIMAL_EXPONENT_MAX: i64 = 5_000;

/// An 80-bit float that is not NaN.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LongDouble {
    Finite { negative: bool, mantissa: u64, exponent: i64 },
    Infinite { negative: bool },
}

impl LongDouble {
    /// The number that `text` spells (C syntax without leading space), or `None`: also for NaN, and for numbers that
    /// overflow or vanish.
    pub fn parse(text: &[u8]) -> Option<LongDouble> {
        if text.len() >= FLOAT_BYTES_MAX {
            return None;
        }
        let (negative, digits) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        if digits.eq_ignore_ascii_case(b"inf") || digits.eq_ignore_ascii_case(b"infinity") {
            return Some(LongDouble::Infinite { negative });
        }
        let parsed = match digits {
            [b'0', b'x' | b'X', rest @ ..] => parse_hex(negative, rest)?,
            _ => parse_decimal(negative, digits)?,
        };
        matches!(parsed, LongDouble::Finite { .. }).then_some(parsed)
    }

    /// Is it a number that [`LongDouble::parse`] could answer?
    pub fn is_well_formed(self) -> bool {
        match self {
            LongDouble::Finite { exponent, .. } => (EXPONENT_MIN..TOP_EXPONENT_MAX).contains(&exponent),
            LongDouble::Infinite { .. } => true,
        }
    }

    /// The rounded sum; `None` if it is infinite or not a number.
    pub fn checked_add(self, other: LongDouble) -> Option<LongDouble> {
        let low = self.exponent()?.min(other.exponent()?);
        let sum = self.scaled(low)? + other.scaled(low)?;
        let negative = sum.sign() == Sign::Minus;
        let rounded = round(negative, sum.into_parts().1, BigUint::from(1u32), low);
        matches!(rounded, LongDouble::Finite { .. }).then_some(rounded)
    }

    fn exponent(self) -> Option<i64> {
        match self {
            LongDouble::Finite { exponent, .. } => Some(exponent),
            LongDouble::Infinite { .. } => None,
        }
    }

    /// The value in units of `2^unit`, which must not be above its exponent.
    fn scaled(self, unit: i64) -> Option<BigInt> {
        let LongDouble::Finite { negative, mantissa, exponent } = self else { return None };
        let magnitude = BigUint::from(mantissa) << u64::try_from(exponent - unit).ok()?;
        Some(BigInt::from_biguint(if negative { Sign::Minus } else { Sign::Plus }, magnitude))
    }

    /// Decimal digits without an exponent, at most 17 after the point, no trailing zeros. Infinity is `inf`.
    pub fn format(self) -> String {
        let LongDouble::Finite { negative, mantissa, exponent } = self else { return "inf".to_owned() };
        let mantissa = BigUint::from(mantissa);
        let mut text = match u64::try_from(exponent) {
            Ok(shift) => (mantissa << shift).to_string(),
            Err(_) => format_fraction(mantissa, exponent.unsigned_abs()),
        };
        if negative && text != "0" {
            text.insert(0, '-');
        }
        text
    }
}

/// `mantissa / 2^shift` with 17 rounded digits after the point, trailing zeros cut.
fn format_fraction(mantissa: BigUint, shift: u64) -> String {
    let scaled = mantissa * BigUint::from(10u32).pow(FRACTION_DIGITS as u32);
    let mut rounded = &scaled >> shift;
    let rest = scaled - (&rounded << shift);
    let half = BigUint::from(1u32) << (shift - 1);
    if rest > half || (rest == half && rounded.bit(0)) {
        rounded += 1u32;
    }
    let digits = format!("{:0>width$}", rounded.to_string(), width = FRACTION_DIGITS + 1);
    let (whole, fraction) = digits.split_at(digits.len() - FRACTION_DIGITS);
    match fraction.trim_end_matches('0') {
        "" => whole.to_owned(),
        fraction => format!("{whole}.{fraction}"),
    }
}

/// Rounds `numerator / denominator x 2^exponent`.
fn round(negative: bool, numerator: BigUint, denominator: BigUint, exponent: i64) -> LongDouble {
    let zero = BigUint::ZERO;
    if numerator == zero {
        return LongDouble::Finite { negative, mantissa: 0, exponent: 0 };
    }
    // The quotient gets 64 or 65 bits; fewer where the number is subnormal.
    let bits = numerator.bits().cast_signed() - denominator.bits().cast_signed();
    let unit = (exponent + bits - 64).max(EXPONENT_MIN);
    let (numerator, denominator) = match u64::try_from(exponent - unit) {
        Ok(shift) => (numerator << shift, denominator),
        Err(_) => (numerator, denominator << (unit - exponent).unsigned_abs()),
    };
    let quotient = &numerator / &denominator;
    let inexact = &quotient * &denominator != numerator;
    let mut bits = u128::try_from(quotient).expect("the quotient has at most 65 bits");
    let mut unit = unit;
    let round_up = |half: bool, sticky: bool, kept: &mut u128| {
        if half && (sticky || *kept & 1 == 1) {
            *kept += 1;
        }
    };
    if bits >> 64 != 0 {
        let half = bits & 1 == 1;
        bits >>= 1;
        unit += 1;
        round_up(half, inexact, &mut bits);
    } else {
        let rest = &numerator - BigUint::from(bits) * &denominator;
        let doubled: BigUint = rest << 1u32;
        round_up(doubled >= denominator, doubled > denominator, &mut bits);
    }
    if bits >> 64 != 0 {
        bits >>= 1;
        unit += 1;
    }
    let mantissa = u64::try_from(bits).expect("64 bits were kept");
    let top = unit + 64 - i64::from(mantissa.leading_zeros());
    if top > TOP_EXPONENT_MAX {
        return LongDouble::Infinite { negative };
    }
    LongDouble::Finite { negative, mantissa, exponent: unit }
}

/// Digits of a number without sign, in base 10 or 16, with an optional point.
struct Digits<'a> {
    value: BigUint,
    fraction_count: i64,
    significant_count: i64,
    rest: &'a [u8],
}

fn take_digits(text: &[u8], radix: u32) -> Option<Digits<'_>> {
    let is_digit = |byte: &u8| char::from(*byte).is_digit(radix);
    let whole = text.iter().take_while(|byte| is_digit(byte)).count();
    let (whole, rest) = text.split_at(whole);
    let (fraction, rest) = match rest {
        [b'.', after @ ..] => after.split_at(after.iter().take_while(|byte| is_digit(byte)).count()),
        _ => (&[][..], rest),
    };
    let digits = [whole, fraction].concat();
    let significant = digits.iter().skip_while(|&&digit| digit == b'0').count();
    Some(Digits {
        value: BigUint::parse_bytes(&digits, radix)?,
        fraction_count: i64::try_from(fraction.len()).ok()?,
        significant_count: i64::try_from(significant).ok()?,
        rest,
    })
}

/// The exponent after `mark`, or 0 if there is nothing at all; saturates.
fn take_exponent(text: &[u8], mark: u8) -> Option<i64> {
    let Some((&first, rest)) = text.split_first() else { return Some(0) };
    if first.to_ascii_lowercase() != mark {
        return None;
    }
    let (negative, digits) = match rest {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        _ => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // Far beyond every limit, and far from overflow.
    let magnitude = digits.iter().fold(0i64, |value, &digit| (value * 10 + i64::from(digit - b'0')).min(1 << 40));
    Some(if negative { -magnitude } else { magnitude })
}

fn parse_decimal(negative: bool, text: &[u8]) -> Option<LongDouble> {
    let digits = take_digits(text, 10)?;
    let exponent = take_exponent(digits.rest, b'e')? - digits.fraction_count;
    if digits.value == BigUint::ZERO {
        return Some(LongDouble::Finite { negative, mantissa: 0, exponent: 0 });
    }
    let magnitude = digits.significant_count + exponent;
    if magnitude.abs() > DECIMAL_EXPONENT_MAX {
        return None;
    }
    let power = BigUint::from(10u32).pow(u32::try_from(exponent.unsigned_abs()).ok()?);
    let one = BigUint::from(1u32);
    let (numerator, denominator) = if exponent < 0 { (digits.value, power) } else { (digits.value * power, one) };
    not_vanished(round(negative, numerator, denominator, 0))
}

fn parse_hex(negative: bool, text: &[u8]) -> Option<LongDouble> {
    let digits = take_digits(text, 16)?;
    let exponent = take_exponent(digits.rest, b'p')? - 4 * digits.fraction_count;
    if digits.value == BigUint::ZERO {
        return Some(LongDouble::Finite { negative, mantissa: 0, exponent: 0 });
    }
    if (4 * digits.significant_count + exponent).abs() > 4 * DECIMAL_EXPONENT_MAX {
        return None;
    }
    not_vanished(round(negative, digits.value, BigUint::from(1u32), exponent))
}

/// A number that is not zero must not become zero.
fn not_vanished(number: LongDouble) -> Option<LongDouble> {
    (!matches!(number, LongDouble::Finite { mantissa: 0, .. })).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(left: &str, right: &str) -> String {
        let number = |text: &str| LongDouble::parse(text.as_bytes()).expect("a number");
        number(left).checked_add(number(right)).expect("a finite sum").format()
    }

    /// Expected digits are those that Redis 7.0.15 printed on x86-64.
    #[test]
    fn sums_print_as_in_redis() {
        for (left, right, expected) in [
            ("0.1", "0.2", "0.3"),
            ("10.5", "0.1", "10.6"),
            ("3.0e3", "200", "3200"),
            ("1", "-1", "0"),
            ("-1e-20", "0", "0"),
            ("1e20", "1", "100000000000000000000"),
            ("0x10", "0x1.8p1", "19"),
            (".5", "5.", "5.5"),
            ("0.00000000000000001", "0", "0.00000000000000001"),
            ("1e-18", "0", "0"),
            ("123456789.123456789", "0.000000001", "123456789.12345678999554366"),
            ("1.7976931348623157e30", "1", "1797693134862315699966796890112"),
        ] {
            assert_eq!(sum(left, right), expected, "{left} + {right}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in
            ["", ".", "-", " 1", "1 ", "1e", "1e+", "0x", "nan", "1e5000", "1e-5000", "1e999999999999", "abc", "--1"]
        {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(LongDouble::parse(&[b'1'; FLOAT_BYTES_MAX]), None);
        let infinite = LongDouble::parse(b"-Inf").expect("infinity is a number");
        assert_eq!(infinite.checked_add(infinite), None);
        let huge = LongDouble::parse(b"1e4932").expect("the largest exponent");
        assert_eq!(huge.checked_add(huge).and_then(|twice| twice.checked_add(twice)), None);
    }

    #[test]
    fn doubles_are_read_exactly() {
        // Every double is an 80-bit float, so its exact decimal expansion must come back unchanged.
        let mut state = 1u64;
        for _ in 0..2_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let value = (state >> 11) as f64 / (1u64 << (state % 37)) as f64;
            let LongDouble::Finite { mantissa, exponent, .. } =
                LongDouble::parse(format!("{value:.60}").as_bytes()).expect("a number")
            else {
                panic!("{value} is finite")
            };
            let back = mantissa as f64 * 2f64.powi(i32::try_from(exponent).expect("small"));
            assert_eq!(back, value);
        }
    }
}

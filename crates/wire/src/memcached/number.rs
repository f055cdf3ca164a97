//! Numbers as memcached reads them: exact tokens, and the laxer C reading that `set` and stored values get.

/// Longest token that is read as a 32-bit number, in bytes; memcached's own limit.
const TOKEN_32_BYTES_MAX: usize = 11;
/// The same for 64 bits.
const TOKEN_64_BYTES_MAX: usize = 22;

/// A token of decimal digits only.
pub fn exact_u32(token: &[u8]) -> Option<u32> {
    if token.len() > TOKEN_32_BYTES_MAX {
        return None;
    }
    exact_u64(token).and_then(|number| u32::try_from(number).ok())
}

/// A token of decimal digits only.
pub fn exact_u64(token: &[u8]) -> Option<u64> {
    if token.len() > TOKEN_64_BYTES_MAX {
        return None;
    }
    token.iter().try_fold(0u64, |sum, &byte| sum.checked_mul(10)?.checked_add(digit(byte)?))
}

/// A token of decimal digits, perhaps behind one `-`. A lone `-` is zero.
pub fn exact_i32(token: &[u8]) -> Option<i32> {
    if token.len() > TOKEN_32_BYTES_MAX {
        return None;
    }
    let (negative, digits) = match token.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, token),
    };
    let magnitude = i64::try_from(exact_u64(digits)?).ok()?;
    i32::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// The client flags of a `set`: read as C's `strtoul` would, and cut to 32 bits.
pub(super) fn lax_u32(token: &[u8]) -> Option<u32> {
    let (negative, magnitude) = lax_magnitude(token)?;
    // The server refuses a minus sign when the wrapped number looks negative, which all but zero do.
    (!negative || magnitude == 0).then(|| low_word(magnitude))
}

/// The expiration time of a `set`: read as C's `strtol` would, and cut to 32 bits.
pub(super) fn lax_i32(token: &[u8]) -> Option<i32> {
    let (negative, magnitude) = lax_magnitude(token)?;
    let limit = if negative { 1 << 63 } else { (1 << 63) - 1 };
    let wrapped = if negative { magnitude.wrapping_neg() } else { magnitude };
    (magnitude <= limit).then(|| low_word(wrapped).cast_signed())
}

/// The number that a stored value begins with, if white space, a zero byte or the end follows it: what `incr` sees.
pub fn leading_u64(value: &[u8]) -> Option<u64> {
    let (negative, magnitude) = lax_magnitude(value)?;
    (!negative || magnitude == 0).then_some(magnitude)
}

/// Sign and magnitude of the number at the front of `text`, behind optional white space.
fn lax_magnitude(text: &[u8]) -> Option<(bool, u64)> {
    let start = text.iter().position(|&byte| !is_space(byte))?;
    let (negative, digits) = match text[start] {
        b'-' => (true, &text[start + 1..]),
        b'+' => (false, &text[start + 1..]),
        _ => (false, &text[start..]),
    };
    let count = digits.iter().position(|&byte| digit(byte).is_none()).unwrap_or(digits.len());
    let ends_well = digits.get(count).is_none_or(|&byte| is_space(byte) || byte == 0);
    if count == 0 || !ends_well {
        return None;
    }
    let add = |sum: u64, &byte: &u8| sum.checked_mul(10)?.checked_add(digit(byte)?);
    Some((negative, digits[..count].iter().try_fold(0u64, add)?))
}

fn digit(byte: u8) -> Option<u64> {
    byte.is_ascii_digit().then(|| u64::from(byte - b'0'))
}

/// C's `isspace`.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

fn low_word(number: u64) -> u32 {
    u32::try_from(number & u64::from(u32::MAX)).expect("masked to 32 bits")
}

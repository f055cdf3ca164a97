//! Decimal integers as Redis reads them: no leading zeros, plus signs or spaces.

/// The integer that `text` spells exactly as it would be printed, or `None`.
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let magnitude = match digits {
        [b'0'] if !negative => 0,
        [b'1'..=b'9', ..] if digits.len() <= 19 => parse_magnitude(digits)?,
        _ => return None,
    };
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// At most 19 digits always fit in 64 bits.
fn parse_magnitude(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |value, &digit| digit.is_ascii_digit().then(|| value * 10 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::parse_i64;

    #[test]
    fn only_canonical_integers_are_read() {
        for value in [0, 1, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(parse_i64(value.to_string().as_bytes()), Some(value));
        }
        for text in ["", "-", "-0", "01", "+1", " 1", "1 ", "1a", "9223372036854775808", "-9223372036854775809"] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_i64(b"99999999999999999999"), None);
    }
}

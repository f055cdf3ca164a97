//! Inline commands: words on one line, with quotes and escapes as `redis-cli` writes them.
//!
//! Must not know: where lines begin and end (the parser does).

use super::args::Slice;

/// Splits `line` (no line end) into words, unescaped into `scratch`. Returns `false` if quotes are unbalanced or a
/// closing quote is not followed by a space.
pub(super) fn split_words(line: &[u8], scratch: &mut Vec<u8>, slices: &mut Vec<Slice>) -> bool {
    let mut rest = line;
    loop {
        let blanks = rest.iter().take_while(|&&byte| is_space(byte)).count();
        rest = &rest[blanks..];
        if rest.is_empty() {
            return true;
        }
        let start = scratch.len();
        let Some(after) = take_word(rest, scratch) else { return false };
        slices.push(Slice::new(start, scratch.len()));
        rest = after;
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Appends one word to `scratch`; what follows it, or `None` on unbalanced quotes.
fn take_word<'a>(mut rest: &'a [u8], scratch: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] | [b' ' | b'\t' | b'\n' | b'\r', ..] => return Some(rest),
            [b'"', after @ ..] => return take_double_quoted(after, scratch),
            [b'\'', after @ ..] => return take_single_quoted(after, scratch),
            [byte, after @ ..] => {
                scratch.push(*byte);
                rest = after;
            }
        }
    }
}

fn take_double_quoted<'a>(mut rest: &'a [u8], scratch: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                scratch.push(hex_digit(*high) << 4 | hex_digit(*low));
                after
            }
            [b'\\', escaped, after @ ..] => {
                scratch.push(unescape(*escaped));
                after
            }
            [b'"', after @ ..] => return after_quote(after),
            [byte, after @ ..] => {
                scratch.push(*byte);
                after
            }
            [] => return None,
        };
    }
}

fn take_single_quoted<'a>(mut rest: &'a [u8], scratch: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'\\', b'\'', after @ ..] => {
                scratch.push(b'\'');
                after
            }
            [b'\'', after @ ..] => return after_quote(after),
            [byte, after @ ..] => {
                scratch.push(*byte);
                after
            }
            [] => return None,
        };
    }
}

fn after_quote(rest: &[u8]) -> Option<&[u8]> {
    rest.first().is_none_or(|&byte| is_space(byte)).then_some(rest)
}

fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

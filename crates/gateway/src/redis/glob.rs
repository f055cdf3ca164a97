//! Glob patterns as KEYS, SCAN and CONFIG GET understand them: `*`, `?`, `[a-c]`, `[^a]`, `\x`.
//!
//! A pattern is cut at its `*` into *segments*. What is between is looked for from left to right, and what was found is
//! never looked at again; a long segment is compared at all places at once (shift-and: Baeza-Yates and Gonnet 1992). So
//! a match costs at most text x pattern / 64 steps, whatever the pattern.
//!
//! Source: the behaviour of Redis 7.0, oddities included: a class without its end matches what it lists, and an empty
//! text matches nothing but the empty pattern (Redis asks for `*` alone before it matches; so does [`Glob`]).

use std::cell::OnceCell;

/// Does letter case count?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    Counts,
    Ignored,
}

/// Bytes that an element of a pattern stands for, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Bytes([u64; 4]);

impl Bytes {
    const ALL: Bytes = Bytes([u64::MAX; 4]);

    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte) / 64] |= 1 << (byte % 64);
    }

    fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte) / 64] >> (byte % 64) & 1 == 1
    }

    fn others(self) -> Self {
        Bytes(self.0.map(|bits| !bits))
    }

    /// With the capitals of the small letters that it has, and no other ones.
    fn of_either_case(self) -> Self {
        let [low, letters, ..] = self.0;
        let small = letters & (LETTERS << (b'a' % 64));
        let others = letters & !(LETTERS << (b'A' % 64));
        Bytes([low, others | small >> (b'a' - b'A'), self.0[2], self.0[3]])
    }
}

/// As many bits as there are letters.
const LETTERS: u64 = (1 << 26) - 1;

/// Elements from one `*` to the next, at least one.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Segment {
    elements: Vec<Bytes>,
    /// For each byte the elements that it is one of, a bit each: made when they are needed, which takes hundreds of
    /// steps for an element.
    masks: OnceCell<Vec<u64>>,
}

/// Elements beyond which a segment is compared at all places at once.
const FEW_ELEMENTS: usize = 8;

impl Segment {
    fn masks(&self) -> &[u64] {
        self.masks.get_or_init(|| {
            let words = self.elements.len().div_ceil(64);
            let mut masks = vec![0; 256 * words];
            for byte in 0..=u8::MAX {
                let of_byte = self.elements.iter().enumerate().filter(|(_, element)| element.contains(byte));
                of_byte.for_each(|(at, _)| masks[usize::from(byte) * words + at / 64] |= 1 << (at % 64));
            }
            masks
        })
    }

    /// Does the text begin with it?
    fn begins(&self, text: &[u8]) -> bool {
        text.len() >= self.elements.len()
            && self.elements.iter().zip(text).all(|(element, &byte)| element.contains(byte))
    }

    /// Where it ends where it is found first.
    fn find(&self, text: &[u8]) -> Option<usize> {
        let count = self.elements.len();
        if text.len() < count {
            return None;
        }
        if count <= FEW_ELEMENTS {
            return text.windows(count).position(|window| self.begins(window)).map(|start| start + count);
        }
        let masks = self.masks();
        // Bit n: the last n + 1 bytes are the first n + 1 elements.
        let mut states = vec![0_u64; count.div_ceil(64)];
        let words = states.len();
        let found = text.iter().position(|&byte| {
            let mut carry = 1;
            for (state, mask) in states.iter_mut().zip(&masks[usize::from(byte) * words..]) {
                let next = *state >> 63;
                *state = (*state << 1 | carry) & mask;
                carry = next;
            }
            states[words - 1] >> ((count - 1) % 64) & 1 == 1
        });
        found.map(|last| last + 1)
    }
}

/// A pattern ready to be matched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Glob {
    segments: Vec<Segment>,
    /// Is it `*` alone?
    is_any: bool,
    has_star: bool,
    begins_with_star: bool,
    ends_with_star: bool,
}

impl Glob {
    pub fn new(pattern: &[u8], case: Case) -> Self {
        let fold = |byte: u8| if case == Case::Ignored { byte.to_ascii_lowercase() } else { byte };
        let folded: Vec<u8> = pattern.iter().map(|&byte| fold(byte)).collect();
        let mut glob = Glob {
            segments: Vec::new(),
            is_any: pattern == b"*",
            has_star: false,
            begins_with_star: pattern.first() == Some(&b'*'),
            ends_with_star: false,
        };
        let (mut elements, mut rest) = (Vec::new(), folded.as_slice());
        while let Some(&first) = rest.first() {
            glob.ends_with_star = first == b'*';
            if glob.ends_with_star {
                glob.has_star = true;
                glob.end_segment(&mut elements);
                rest = &rest[1..];
            } else {
                let (element, bytes) = element(rest);
                rest = &rest[bytes..];
                elements.push(if case == Case::Ignored { element.of_either_case() } else { element });
            }
        }
        glob.end_segment(&mut elements);
        glob
    }

    fn end_segment(&mut self, elements: &mut Vec<Bytes>) {
        if !elements.is_empty() {
            self.segments.push(Segment { elements: std::mem::take(elements), masks: OnceCell::new() });
        }
    }

    pub fn matches(&self, text: &[u8]) -> bool {
        if self.is_any || text.is_empty() {
            return self.is_any || self.segments.is_empty() && !self.has_star;
        }
        let (mut rest, mut segments) = (text, self.segments.as_slice());
        if !self.has_star {
            return segments.first().is_some_and(|only| only.elements.len() == rest.len() && only.begins(rest));
        }
        if let Some((first, others)) = segments.split_first().filter(|_| !self.begins_with_star) {
            if !first.begins(rest) {
                return false;
            }
            (rest, segments) = (&rest[first.elements.len()..], others);
        }
        if let Some((last, others)) = segments.split_last().filter(|_| !self.ends_with_star) {
            let Some(start) = rest.len().checked_sub(last.elements.len()) else { return false };
            if !last.begins(&rest[start..]) {
                return false;
            }
            (rest, segments) = (&rest[..start], others);
        }
        segments.iter().all(|segment| match segment.find(rest) {
            Some(end) => {
                rest = &rest[end..];
                true
            }
            None => false,
        })
    }
}

/// The element that a pattern begins with, which is no `*`, and how many bytes it is written with.
fn element(pattern: &[u8]) -> (Bytes, usize) {
    let mut bytes = Bytes::default();
    match pattern {
        [b'?', ..] => (Bytes::ALL, 1),
        [b'[', class @ ..] => {
            let (bytes, length) = class_of(class);
            (bytes, 1 + length)
        }
        [b'\\', escaped, ..] => {
            bytes.insert(*escaped);
            (bytes, 2)
        }
        [literal, ..] => {
            bytes.insert(*literal);
            (bytes, 1)
        }
        [] => (bytes, 0),
    }
}

/// The class that is written behind a `[`, and the bytes that it takes, its end included.
fn class_of(written: &[u8]) -> (Bytes, usize) {
    let is_negated = written.first() == Some(&b'^');
    let mut at = usize::from(is_negated);
    let mut bytes = Bytes::default();
    loop {
        match &written[at..] {
            [] => break,
            [b'\\', escaped, ..] => {
                bytes.insert(*escaped);
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [low, b'-', high, ..] => {
                (*low.min(high)..=*low.max(high)).for_each(|byte| bytes.insert(byte));
                at += 3;
            }
            [literal, ..] => {
                bytes.insert(*literal);
                at += 1;
            }
        }
    }
    (if is_negated { bytes.others() } else { bytes }, at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By trying everything.
    fn matches_slowly(pattern: &[u8], text: &[u8]) -> bool {
        match pattern {
            [] => text.is_empty(),
            [b'*', rest @ ..] => (0..=text.len()).any(|from| matches_slowly(rest, &text[from..])),
            _ => {
                let (element, bytes) = element(pattern);
                text.split_first()
                    .is_some_and(|(&byte, text)| element.contains(byte) && matches_slowly(&pattern[bytes..], text))
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_is_there(
            pattern in "[ab*?]{0,14}|[ab]{0,3}\\*[ab?]{9,12}\\*?[ab]{0,2}|\\*([ab]|\\[[ab^-]{1,3}\\]?){0,9}",
            text in "[ab]{1,30}",
        ) {
            let expected = matches_slowly(pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(Glob::new(pattern.as_bytes(), Case::Counts).matches(text.as_bytes()), expected);
        }
    }

    fn matches(pattern: &str, text: &str) -> bool {
        Glob::new(pattern.as_bytes(), Case::Counts).matches(text.as_bytes())
    }

    #[test]
    fn patterns_match_as_in_redis() {
        let matching = [
            ("*", ""),
            ("", ""),
            ("a*", "a"),
            ("a*c", "abbc"),
            ("*a*b*", "xxaxxbxx"),
            ("*abab", "abaabab"),
            ("**a", "a"),
            ("h?llo", "hello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-b]llo", "hbllo"),
            ("h[b-a]llo", "hbllo"),
            ("[a-]", "_"),
            ("[\\]]", "]"),
            ("[abc", "b"),
            ("[^]", "x"),
            ("a\\*b", "a*b"),
            ("a\\", "a\\"),
        ];
        for (pattern, text) in matching {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        let different = [
            ("", "a"),
            ("a", ""),
            ("**", ""),
            ("h?llo", "hllo"),
            ("h[^e]llo", "hello"),
            ("a\\*b", "axb"),
            ("a*b", "abc"),
            ("A", "a"),
            ("[]", "]"),
            ("[a-]", "-"),
            ("[a", "b"),
            ("a?", "a"),
        ];
        for (pattern, text) in different {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
        assert!(Glob::new(b"MAX*", Case::Ignored).matches(b"maxMemory"));
        assert!(Glob::new(b"[A-C]x", Case::Ignored).matches(b"BX"));
    }

    #[test]
    fn a_letter_of_either_case_is_one_of_the_small_ones() {
        for pattern in ["?", "[^a-c]", "[Q-t]", "[@-z]", "[Z-^]", "[^B]", "\u{e9}", "[a-\u{ff}]", "\\K", "_"] {
            let folded = Glob::new(pattern.to_ascii_lowercase().as_bytes(), Case::Counts);
            let ignored = Glob::new(pattern.as_bytes(), Case::Ignored);
            let differs = |byte: &u8| ignored.matches(&[*byte]) != folded.matches(&[byte.to_ascii_lowercase()]);
            assert_eq!((0..=u8::MAX).find(differs), None, "{pattern}");
        }
    }

    /// A client may send a thousand of them that are as long as may be, and others wait meanwhile.
    #[test]
    fn what_is_longer_than_the_text_is_not_prepared() {
        for pattern in ["?".repeat(1_024), "*".to_owned() + &"?".repeat(1_000) + "*", "a".repeat(30) + "*"] {
            let glob = Glob::new(pattern.as_bytes(), Case::Ignored);
            assert!(!glob.matches(b"maxmemory-policy"));
            assert!(glob.segments.iter().all(|segment| segment.masks.get().is_none()));
        }
    }

    #[test]
    fn hostile_patterns_end_soon() {
        let pattern = "a*".repeat(2_000) + "b";
        assert!(!matches(&pattern, &"a".repeat(10_000)));
        // Were it tried anew at each place, a thousand keys would take minutes.
        let glob = Glob::new(("*".to_owned() + &"a".repeat(1_000) + "b").as_bytes(), Case::Counts);
        let key = "a".repeat(8_000);
        assert!((0..1_000).all(|_| !glob.matches(key.as_bytes())));
        assert!(glob.matches((key + "b").as_bytes()));
    }
}

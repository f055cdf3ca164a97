//! Glob patterns as KEYS, SCAN and CONFIG GET understand them: `*`, `?`, `[a-c]`, `[^a]`, `\x`.
//!
//! Only the last `*` is ever tried again, so a match costs at most pattern x text steps, whatever the pattern.
//! Source: the behaviour of Redis 7.0, oddities included: a class without its end matches what it lists, and an empty
//! text matches nothing but the empty pattern (Redis asks for `*` alone before it matches; so does [`Glob`]).

/// Does letter case count?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    Counts,
    Ignored,
}

/// A pattern ready to be matched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Glob {
    pattern: Vec<u8>,
    case: Case,
}

impl Glob {
    pub fn new(pattern: &[u8], case: Case) -> Self {
        let fold = |&byte: &u8| if case == Case::Ignored { byte.to_ascii_lowercase() } else { byte };
        Glob { pattern: pattern.iter().map(fold).collect(), case }
    }

    pub fn matches(&self, text: &[u8]) -> bool {
        if self.pattern == b"*" || text.is_empty() {
            return self.pattern == b"*" || self.pattern.is_empty();
        }
        let (mut at, mut from) = (0, 0);
        // Where the pattern goes on after the last `*`, and the text position from which to try next.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            if self.pattern.get(at) == Some(&b'*') {
                at += 1;
                retry = Some((at, from));
            } else if from == text.len() && at == self.pattern.len() {
                return true;
            } else if let Some(next) = text.get(from).and_then(|&byte| self.step(at, byte)) {
                at = next;
                from += 1;
            } else {
                match retry {
                    Some((after_star, start)) if start < text.len() => {
                        retry = Some((after_star, start + 1));
                        (at, from) = (after_star, start + 1);
                    }
                    _ => return false,
                }
            }
        }
    }

    /// Matches one byte with the pattern's element at `at`; the position of the next element, or `None`.
    fn step(&self, at: usize, byte: u8) -> Option<usize> {
        let byte = if self.case == Case::Ignored { byte.to_ascii_lowercase() } else { byte };
        match *self.pattern.get(at)? {
            b'?' => Some(at + 1),
            b'[' => self.step_class(at + 1, byte),
            b'\\' if at + 1 < self.pattern.len() => (self.pattern[at + 1] == byte).then_some(at + 2),
            literal => (literal == byte).then_some(at + 1),
        }
    }

    fn step_class(&self, start: usize, byte: u8) -> Option<usize> {
        let negated = self.pattern.get(start) == Some(&b'^');
        let mut at = if negated { start + 1 } else { start };
        let mut found = false;
        loop {
            match self.pattern.get(at..).unwrap_or_default() {
                [] => break,
                [b'\\', escaped, ..] => {
                    found |= *escaped == byte;
                    at += 2;
                }
                [b']', ..] => {
                    at += 1;
                    break;
                }
                [low, b'-', high, ..] => {
                    found |= (*low.min(high)..=*low.max(high)).contains(&byte);
                    at += 3;
                }
                [literal, ..] => {
                    found |= *literal == byte;
                    at += 1;
                }
            }
        }
        (found != negated).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn hostile_patterns_end_soon() {
        let pattern = "a*".repeat(2_000) + "b";
        assert!(!matches(&pattern, &"a".repeat(10_000)));
    }
}

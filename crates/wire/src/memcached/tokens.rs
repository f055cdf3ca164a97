//! Cuts a line at its spaces. Only the space separates: tabs and other control bytes are part of a token.

use memchr::memchr;

use super::limits::ARGUMENT_COUNT_MAX;

/// The first token of `line` and what follows it.
pub fn next_token(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = line.iter().position(|&byte| byte != b' ')?;
    let line = &line[start..];
    let end = memchr(b' ', line).unwrap_or(line.len());
    Some(line.split_at(end))
}

/// The tokens of a line, at most [`ARGUMENT_COUNT_MAX`] of them.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Tokens<'a> {
    pub fn new(line: &'a [u8]) -> Self {
        Tokens { rest: line, left: ARGUMENT_COUNT_MAX }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let (token, rest) = next_token(self.rest)?;
        self.rest = rest;
        Some(token)
    }
}

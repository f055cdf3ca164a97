//! Codes as text: `rs:4+2` is Reed-Solomon with four data and two parity chunks.

use std::fmt;
use std::str::FromStr;

use crate::{Code, CodeError};

impl Code {
    /// The code that a text names.
    ///
    /// # Errors
    /// [`CodeError::Malformed`], or what [`Code::reed_solomon`] says of the numbers.
    pub fn parse(text: &str) -> Result<Code, CodeError> {
        let malformed = || CodeError::Malformed(text.to_owned());
        let number = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => digits.parse::<usize>().map_err(|_| malformed()),
            false => Err(malformed()),
        };
        let (data, parity) = text.strip_prefix("rs:").and_then(|rest| rest.split_once('+')).ok_or_else(malformed)?;
        Code::reed_solomon(number(data)?, number(parity)?)
    }
}

impl FromStr for Code {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<Self, CodeError> {
        Code::parse(text)
    }
}

/// `rs:4+2`, which [`Code::parse`] reads back, or `generator:4+2` for a matrix of the caller's.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = if self.is_reed_solomon() { "rs" } else { "generator" };
        f.pad(&format!("{family}:{}+{}", self.data_count(), self.parity_count()))
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({self}, {})", self.kernel())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_read_back_what_they_print() {
        for text in ["rs:1+0", "rs:4+2", "rs:8+2", "rs:64+16"] {
            assert_eq!(Code::parse(text).expect(text).to_string(), text);
        }
        assert_eq!(format!("{:>8}", Code::parse("rs:04+02").expect("zeros may lead")), "  rs:4+2");
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        let said = |text: &str| Code::parse(text).expect_err(text).to_string();
        for text in
            ["", "rs", "rs:", "rs:4", "rs:4+", "rs:+2", "rs:+4+2", "4+2", "rs:4-2", "rs:4+2+1", "lrc:4+2", "rs: 4+2"]
        {
            assert_eq!(said(text), format!("{text:?} is not a code: write rs:DATA+PARITY, for example rs:4+2"));
        }
        assert_eq!(said("rs:0+2"), "a code needs 1 to 64 data chunks, not 0");
        assert_eq!(said("rs:65+2"), "a code needs 1 to 64 data chunks, not 65");
        assert_eq!(said("rs:4+17"), "a code has 0 to 16 parity chunks, not 17");
        assert!(said("rs:99999999999999999999999999+2").contains("is not a code"));
    }
}

//! The erasure code of a cluster as a text: `rs:4+2`.

use std::fmt;
use std::num::NonZeroU8;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::limits::{DATA_COUNT_MAX, PARITY_COUNT_MAX};

/// Reed-Solomon with this many data and parity chunks in a stripe.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CodeSpec {
    pub data_count: NonZeroU8,
    pub parity_count: u8,
}

/// Why a text is not a code.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CodeSpecError {
    #[error("{0:?} is not a code: write rs:K+M, for example rs:4+2")]
    Malformed(String),
    #[error("{text:?}: {what} must be {min} to {max}")]
    OutOfRange { text: String, what: &'static str, min: u8, max: u8 },
}

impl CodeSpec {
    /// The usual choice: any two nodes may die, for 1.5 times the memory.
    pub const DEFAULT: CodeSpec = CodeSpec { data_count: NonZeroU8::new(4).expect("not zero"), parity_count: 2 };

    /// Chunks of one stripe, each on its own node.
    pub fn chunk_count(self) -> usize {
        self.data() + self.parity()
    }

    pub fn data(self) -> usize {
        usize::from(self.data_count.get())
    }

    pub fn parity(self) -> usize {
        usize::from(self.parity_count)
    }
}

impl FromStr for CodeSpec {
    type Err = CodeSpecError;

    fn from_str(text: &str) -> Result<Self, CodeSpecError> {
        let malformed = || CodeSpecError::Malformed(text.to_owned());
        let (data, parity) = text.strip_prefix("rs:").and_then(|rest| rest.split_once('+')).ok_or_else(malformed)?;
        let number = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => digits.parse::<u32>().map_err(|_| malformed()),
            false => Err(malformed()),
        };
        let (data, parity) = (number(data)?, number(parity)?);
        let out_of_range = |what, min, max| CodeSpecError::OutOfRange { text: text.to_owned(), what, min, max };
        let data_count = u8::try_from(data).ok().filter(|&count| count <= DATA_COUNT_MAX).and_then(NonZeroU8::new);
        let data_count = data_count.ok_or_else(|| out_of_range("the number of data chunks", 1, DATA_COUNT_MAX))?;
        let parity_count = u8::try_from(parity).ok().filter(|&count| count <= PARITY_COUNT_MAX);
        let parity_count =
            parity_count.ok_or_else(|| out_of_range("the number of parity chunks", 0, PARITY_COUNT_MAX))?;
        Ok(CodeSpec { data_count, parity_count })
    }
}

impl fmt::Display for CodeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rs:{}+{}", self.data_count, self.parity_count)
    }
}

impl<'de> Deserialize<'de> for CodeSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for CodeSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_parse_and_print_back() {
        for text in ["rs:4+2", "rs:1+0", "rs:64+16", "rs:8+2"] {
            assert_eq!(text.parse::<CodeSpec>().expect(text).to_string(), text);
        }
        assert_eq!(CodeSpec::DEFAULT.to_string(), "rs:4+2");
        assert_eq!(CodeSpec::DEFAULT.chunk_count(), 6);
    }

    #[test]
    fn what_is_not_a_code_says_so() {
        for text in ["", "4+2", "rs:4", "rs:4+", "rs:+2", "rs:-4+2", "rs:4+2+1", "lrc:4+2", "rs:4 + 2"] {
            assert!(text.parse::<CodeSpec>().is_err(), "{text}");
        }
        let error = "rs:65+2".parse::<CodeSpec>().expect_err("too many");
        assert_eq!(error.to_string(), "\"rs:65+2\": the number of data chunks must be 1 to 64");
        assert!("rs:0+2".parse::<CodeSpec>().is_err());
        assert!("rs:4+17".parse::<CodeSpec>().is_err());
    }
}

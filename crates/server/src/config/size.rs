//! Sizes as people write them: `256MiB`, `1g`, `4096`.
//!
//! All suffixes are powers of 1024, as memcached's and Redis' are; case does not matter.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Size(pub u64);

/// Why a text is not a size.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SizeError {
    #[error("{0:?} is not a size: write a number of bytes, or a number with k, m, g or t (256MiB, 1g)")]
    Malformed(String),
    #[error("{0:?} is more bytes than fit in 64 bits")]
    TooLarge(String),
}

impl Size {
    pub const fn mib(count: u64) -> Self {
        Size(count << 20)
    }

    /// The size as a number of bytes that this machine can address.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let malformed = || SizeError::Malformed(text.to_owned());
        let trimmed = text.trim();
        let digits_end = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
        let (digits, suffix) = trimmed.split_at(digits_end);
        if digits.is_empty() {
            return Err(malformed());
        }
        let count: u64 = digits.parse().map_err(|_| SizeError::TooLarge(text.to_owned()))?;
        let shift = suffix_shift(suffix.trim_start()).ok_or_else(malformed)?;
        let bytes = count.checked_mul(1 << shift).ok_or_else(|| SizeError::TooLarge(text.to_owned()))?;
        Ok(Size(bytes))
    }
}

fn suffix_shift(suffix: &str) -> Option<u32> {
    Some(match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    })
}

impl fmt::Display for Size {
    /// The largest unit that divides the size, so that what is printed parses back to the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
            if self.0 != 0 && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizeVisitor;
        impl Visitor<'_> for SizeVisitor {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a size such as \"256MiB\" or a number of bytes")
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Size, E> {
                Ok(Size(bytes))
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Size, E> {
                u64::try_from(bytes).map(Size).map_err(|_| E::custom(format!("a size cannot be negative ({bytes})")))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(SizeVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_powers_of_1024_in_any_case() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("1k", 1024),
            ("256MiB", 256 << 20),
            ("256mb", 256 << 20),
            ("1g", 1 << 30),
            ("2 GiB", 2 << 30),
            ("1T", 1 << 40),
            ("12B", 12),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_says_so() {
        for text in ["", "MiB", "-1", "1.5g", "1 x", "0x10", "1gg"] {
            assert_eq!(text.parse::<Size>(), Err(SizeError::Malformed(text.into())), "{text}");
        }
        for text in ["99999999999999999999", "18446744073709551615k"] {
            assert_eq!(text.parse::<Size>(), Err(SizeError::TooLarge(text.into())), "{text}");
        }
    }

    #[test]
    fn printing_and_parsing_are_inverses() {
        for bytes in [0, 1, 1023, 1024, 1025, 1 << 20, 3 << 30, u64::MAX] {
            assert_eq!(Size(bytes).to_string().parse(), Ok(Size(bytes)));
        }
    }
}

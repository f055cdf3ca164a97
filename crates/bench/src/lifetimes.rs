//! How long a written object lives: times to live with their shares. Which one a write gets is a pure function of a
//! number in [0, 1), as its size is.

use std::fmt;
use std::str::FromStr;

use crate::limits::TTL_SECONDS_MAX;

/// Times to live in seconds with their weights; never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Lifetimes(Vec<(u32, f64)>);

/// Why lifetimes were refused.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum LifetimeError {
    #[error("`{0}` is no time to live: give SECONDS, or SECONDS:SHARE and more of them with spaces between")]
    Unknown(String),
    #[error("a time to live is between 1 and {TTL_SECONDS_MAX} seconds, not {0}")]
    OutOfRange(u64),
}

impl Lifetimes {
    /// The time to live, in seconds, below which a share `u` of all lies, in the order given. `u` is in [0, 1).
    pub fn quantile(&self, u: f64) -> u32 {
        let target = u * self.0.iter().map(|(_, share)| share).sum::<f64>();
        let mut below = 0.0;
        let found = self.0.iter().find(|(_, share)| {
            below += share;
            target < below
        });
        // Rounding may leave a gap below 1: the last one.
        found.or(self.0.last()).expect("never empty").0
    }

    fn part(text: &str) -> Result<(u32, f64), LifetimeError> {
        let unknown = || LifetimeError::Unknown(text.to_owned());
        let (seconds, share) = text.split_once(':').unwrap_or((text, "1"));
        let seconds: u64 = seconds.parse().map_err(|_| unknown())?;
        let share: f64 = share.parse().map_err(|_| unknown())?;
        if !(share > 0.0 && share.is_finite()) {
            return Err(unknown());
        }
        let within = u32::try_from(seconds).ok().filter(|seconds| (1..=TTL_SECONDS_MAX).contains(seconds));
        Ok((within.ok_or(LifetimeError::OutOfRange(seconds))?, share))
    }
}

impl FromStr for Lifetimes {
    type Err = LifetimeError;

    fn from_str(text: &str) -> Result<Self, LifetimeError> {
        let parts: Vec<(u32, f64)> = text.split_ascii_whitespace().map(Self::part).collect::<Result<_, _>>()?;
        if parts.is_empty() { Err(LifetimeError::Unknown(text.to_owned())) } else { Ok(Lifetimes(parts)) }
    }
}

impl fmt::Display for Lifetimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(|(seconds, share)| format!("{seconds}:{share}")).collect();
        f.write_str(&parts.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lifetime_has_its_share_even_if_the_shares_do_not_sum_to_one() {
        let lifetimes: Lifetimes = "60:0.3 5:0.3".parse().expect("good");
        assert_eq!([0.0, 0.49, 0.51, 0.999_999].map(|u| lifetimes.quantile(u)), [60, 60, 5, 5]);
        assert_eq!("30".parse::<Lifetimes>().expect("good").quantile(0.7), 30);
    }

    #[test]
    fn nonsense_is_named() {
        let refused = |text: &str| text.parse::<Lifetimes>().expect_err("refused");
        assert_eq!(refused("soon"), LifetimeError::Unknown("soon".to_owned()));
        assert_eq!(refused("5:-1"), LifetimeError::Unknown("5:-1".to_owned()));
        assert_eq!(refused(""), LifetimeError::Unknown(String::new()));
        assert_eq!(refused("0"), LifetimeError::OutOfRange(0));
        assert_eq!(refused("2592001"), LifetimeError::OutOfRange(2_592_001));
        let text = "60:0.3 5:0.3";
        assert_eq!(text.parse::<Lifetimes>().expect("good").to_string(), text);
    }
}

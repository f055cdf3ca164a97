//! Sizes of keys and values: each distribution is its quantile function, so a size is a pure function of a number
//! in [0, 1) and the verifier can compute it again.
//!
//! Sources: Facebook's ETC pool (Atikoglu et al. 2012, with the point masses mutilate uses for values below 15
//! bytes); exponential sizes stand for caches of which only the mean is published.

use std::fmt;
use std::str::FromStr;

use crate::limits::{VALUE_BYTES_MAX, VALUE_TAIL_BYTES_MAX};

/// A distribution of sizes in bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum SizeDistribution {
    Fixed(usize),
    /// Every size from `min` to `max`, both included, equally likely.
    Uniform {
        min: usize,
        max: usize,
    },
    /// Rounded down; unbounded, so cut at [`VALUE_TAIL_BYTES_MAX`].
    Exponential {
        mean: usize,
    },
    /// Generalised extreme value distribution of the ETC pool's keys.
    EtcKey,
    /// Point masses up to 14 bytes, then a generalised Pareto distribution: the ETC pool's values.
    EtcValue,
}

/// Share of each value size from 0 to 14 bytes in the ETC pool.
const ETC_VALUE_POINTS: [f64; 15] = [
    0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837, 0.00837, 0.08989,
    0.00092, 0.00326, 0.01980,
];

const ETC_KEY: Gev = Gev { location: 30.7984, scale: 8.20449, shape: 0.078688 };
const ETC_VALUE_TAIL: Pareto = Pareto { location: 15.0, scale: 214.476, shape: 0.348238 };

#[derive(Clone, Copy)]
struct Gev {
    location: f64,
    scale: f64,
    shape: f64,
}

#[derive(Clone, Copy)]
struct Pareto {
    location: f64,
    scale: f64,
    shape: f64,
}

impl Gev {
    fn quantile(self, u: f64) -> f64 {
        self.location + self.scale * ((-u.ln()).powf(-self.shape) - 1.0) / self.shape
    }
}

impl Pareto {
    fn quantile(self, u: f64) -> f64 {
        self.location + self.scale * ((1.0 - u).powf(-self.shape) - 1.0) / self.shape
    }
}

impl SizeDistribution {
    /// The size below which a share `u` of all sizes lies. `u` is in [0, 1).
    pub fn quantile(&self, u: f64) -> usize {
        match *self {
            SizeDistribution::Fixed(bytes) => bytes,
            SizeDistribution::Uniform { min, max } => (min + (u * (max - min + 1) as f64) as usize).min(max),
            SizeDistribution::Exponential { mean } => cut(-(1.0 - u).ln() * mean as f64),
            SizeDistribution::EtcKey => cut(ETC_KEY.quantile(u.max(f64::MIN_POSITIVE))),
            SizeDistribution::EtcValue => etc_value(u),
        }
    }

    /// Largest size that can occur.
    pub fn largest(&self) -> usize {
        match *self {
            SizeDistribution::Fixed(bytes) => bytes,
            SizeDistribution::Uniform { max, .. } => max,
            _ => VALUE_TAIL_BYTES_MAX,
        }
    }

    /// MiB of so many objects with values of these sizes at most, key and what is beside them included.
    pub fn objects_mib(&self, object_count: u32) -> u64 {
        u64::from(object_count) * (self.largest() + 256) as u64 / (1 << 20)
    }
}

fn etc_value(u: f64) -> usize {
    let mut below = 0.0;
    for (bytes, share) in ETC_VALUE_POINTS.iter().enumerate() {
        below += share;
        if u < below {
            return bytes;
        }
    }
    cut(ETC_VALUE_TAIL.quantile((u - below) / (1.0 - below)))
}

/// Rounds down and cuts the tail. Float to integer saturates, so a negative size becomes 0.
fn cut(bytes: f64) -> usize {
    (bytes as usize).min(VALUE_TAIL_BYTES_MAX)
}

/// Why a size was refused.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum SizeError {
    #[error("`{0}` is no size: give BYTES, MIN-MAX, exp:MEAN, etc-key or etc")]
    Unknown(String),
    #[error("size range {min}-{max} is empty")]
    EmptyRange { min: usize, max: usize },
    #[error("{bytes} bytes are more than the {VALUE_BYTES_MAX} that a value may have")]
    TooLarge { bytes: usize },
}

impl FromStr for SizeDistribution {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let number = |part: &str| part.parse::<usize>().map_err(|_| SizeError::Unknown(text.to_owned()));
        let parsed = match text {
            "etc" => SizeDistribution::EtcValue,
            "etc-key" => SizeDistribution::EtcKey,
            _ => match (text.strip_prefix("exp:"), text.split_once('-')) {
                (Some(mean), _) => SizeDistribution::Exponential { mean: number(mean)? },
                (None, Some((min, max))) => SizeDistribution::Uniform { min: number(min)?, max: number(max)? },
                (None, None) => SizeDistribution::Fixed(number(text)?),
            },
        };
        match parsed {
            SizeDistribution::Uniform { min, max } if min > max => Err(SizeError::EmptyRange { min, max }),
            _ if parsed.largest() > VALUE_BYTES_MAX => Err(SizeError::TooLarge { bytes: parsed.largest() }),
            _ => Ok(parsed),
        }
    }
}

impl fmt::Display for SizeDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizeDistribution::Fixed(bytes) => write!(f, "{bytes}"),
            SizeDistribution::Uniform { min, max } => write!(f, "{min}-{max}"),
            SizeDistribution::Exponential { mean } => write!(f, "exp:{mean}"),
            SizeDistribution::EtcKey => f.write_str("etc-key"),
            SizeDistribution::EtcValue => f.write_str("etc"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: usize = 200_000;

    /// Sizes at the middles of equal slices of [0, 1): an exact sample of the distribution.
    fn slices(of: &SizeDistribution) -> impl Iterator<Item = usize> + '_ {
        (0..STEPS).map(move |step| of.quantile((step as f64 + 0.5) / STEPS as f64))
    }

    fn mean(of: &SizeDistribution) -> f64 {
        slices(of).sum::<usize>() as f64 / STEPS as f64
    }

    fn share_below(of: &SizeDistribution, bytes: usize) -> f64 {
        slices(of).filter(|&size| size < bytes).count() as f64 / STEPS as f64
    }

    #[test]
    fn a_uniform_range_has_the_mean_of_its_ends_and_reaches_both() {
        let sizes = SizeDistribution::Uniform { min: 10, max: 20 };
        assert!((mean(&sizes) - 15.0).abs() < 0.01);
        assert_eq!(sizes.quantile(0.0), 10);
        assert_eq!(sizes.quantile(0.999_999), 20);
    }

    #[test]
    fn an_exponential_size_has_its_mean_less_half_a_byte_of_rounding() {
        assert!((mean(&SizeDistribution::Exponential { mean: 1000 }) - 999.5).abs() < 1.0);
    }

    #[test]
    fn etc_values_follow_the_point_masses_and_the_pareto_mean() {
        let sizes = SizeDistribution::EtcValue;
        assert!((share_below(&sizes, 1) - 0.00536).abs() < 1e-4);
        assert!((share_below(&sizes, 3) - (0.00536 + 0.00047 + 0.17820)).abs() < 1e-4);
        let points: f64 = ETC_VALUE_POINTS.iter().sum();
        assert!((share_below(&sizes, 15) - points).abs() < 1e-4);
        // Mean of a generalised Pareto distribution: location + scale / (1 - shape).
        let in_points: f64 = ETC_VALUE_POINTS.iter().enumerate().map(|(bytes, share)| bytes as f64 * share).sum();
        let expected = in_points + (1.0 - points) * (15.0 + 214.476 / (1.0 - 0.348238) - 0.5);
        assert!((mean(&sizes) / expected - 1.0).abs() < 0.01, "{} beside {expected}", mean(&sizes));
    }

    #[test]
    fn etc_keys_follow_the_extreme_value_distribution() {
        for bytes in [20usize, 30, 40, 60] {
            let standard = (bytes as f64 - 30.7984) / 8.20449;
            let expected = (-(1.0 + 0.078688 * standard).powf(-1.0 / 0.078688)).exp();
            assert!((share_below(&SizeDistribution::EtcKey, bytes) - expected).abs() < 1e-3);
        }
    }

    #[test]
    fn texts_are_read_back_and_nonsense_is_named() {
        for text in ["24", "16-40", "exp:230", "etc", "etc-key"] {
            assert_eq!(text.parse::<SizeDistribution>().map(|sizes| sizes.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("9-8".parse::<SizeDistribution>(), Err(SizeError::EmptyRange { min: 9, max: 8 }));
        assert_eq!("many".parse::<SizeDistribution>(), Err(SizeError::Unknown("many".to_owned())));
        assert_eq!("67108865".parse::<SizeDistribution>(), Err(SizeError::TooLarge { bytes: 67_108_865 }));
    }
}

//! Published caches: sizes, mix, popularity and lifetimes of each as one preset.
//!
//! Sources: Facebook's ETC pool (Atikoglu et al., SIGMETRICS 2012; 30 gets to 1 set); 53 of Twitter's 54 clusters of
//! March 2020 (`data/twitter.csv`, which says where from). Deviations: Twitter's sizes are known by their mean only, so
//! keys have it exactly and values are exponential about it; every write is a set and every read a get; popularity is
//! stationary. ETC's popularity is not published in numbers: YCSB's exponent stands in.

use std::str::FromStr;

use crate::lifetimes::Lifetimes;
use crate::limits::{KEY_BYTES_MAX, TTL_SECONDS_MAX};
use crate::sizes::SizeDistribution;
use crate::workload::Mix;

/// Zipf exponent where none is published: YCSB's.
pub const THETA_DEFAULT: f64 = 0.99;

const TWITTER: &str = include_str!("../data/twitter.csv");

/// What is known of a published cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Preset {
    pub key_sizes: SizeDistribution,
    pub value_sizes: SizeDistribution,
    pub mix: Mix,
    pub theta: f64,
    /// None: objects live for ever.
    pub lifetimes: Option<Lifetimes>,
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "etc" {
            return Ok(Preset {
                key_sizes: SizeDistribution::EtcKey,
                value_sizes: SizeDistribution::EtcValue,
                mix: Mix::of(30.0 / 31.0, 0.0),
                theta: THETA_DEFAULT,
                lifetimes: None,
            });
        }
        let number = text.strip_prefix("twitter:").map(|name| name.strip_prefix("cluster").unwrap_or(name));
        number
            .and_then(|number| rows().find(|row| row.split(',').next() == Some(number)))
            .and_then(parse_row)
            .ok_or_else(|| format!("`{text}` is no preset: give etc, or twitter:N with N one of {}", known()))
    }
}

/// The lines with numbers: neither comments nor the names of the columns.
fn rows() -> impl Iterator<Item = &'static str> {
    TWITTER.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()))
}

fn known() -> String {
    let numbers: Vec<&str> = rows().filter_map(|row| row.split(',').next()).collect();
    numbers.join(", ")
}

fn parse_row(row: &str) -> Option<Preset> {
    let columns: Vec<&str> = row.split(',').collect();
    let [_, key, value, gets, deletes, theta, lifetimes] = columns[..] else { return None };
    let key: usize = key.parse().ok().filter(|bytes| (1..=KEY_BYTES_MAX).contains(bytes))?;
    Some(Preset {
        key_sizes: SizeDistribution::Fixed(key),
        value_sizes: SizeDistribution::Exponential { mean: value.parse().ok()? },
        mix: Mix::of(gets.parse().ok()?, deletes.parse().ok()?),
        theta: if theta.is_empty() { THETA_DEFAULT } else { theta.parse().ok()? },
        lifetimes: Some(capped(lifetimes)?),
    })
}

/// memcached takes what is longer than its maximum for a date; no run lasts that long.
fn capped(lifetimes: &str) -> Option<Lifetimes> {
    let part = |text: &str| {
        let (seconds, share) = text.split_once(':')?;
        Some(format!("{}:{share}", seconds.parse::<u32>().ok()?.min(TTL_SECONDS_MAX)))
    };
    let parts: Vec<String> = lifetimes.split_ascii_whitespace().map(part).collect::<Option<_>>()?;
    parts.join(" ").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::OperationClass;

    #[test]
    fn every_row_is_a_preset() {
        assert_eq!(rows().count(), 53);
        for row in rows() {
            assert!(parse_row(row).is_some(), "{row}");
        }
    }

    #[test]
    fn a_cluster_has_the_numbers_published() {
        let preset: Preset = "twitter:12".parse().expect("known");
        assert_eq!(preset.key_sizes, SizeDistribution::Fixed(44));
        assert_eq!(preset.value_sizes, SizeDistribution::Exponential { mean: 1030 });
        assert!((preset.mix.share(OperationClass::Set) - 0.8).abs() < 1e-12);
        assert_eq!(preset.theta, 0.3048);
        assert_eq!(preset.lifetimes, Some("300:0.98 299:0.02".parse().expect("good")));
        assert_eq!("twitter:cluster12".parse(), Ok(preset));
        let deleting: Preset = "twitter:14".parse().expect("known");
        assert!((deleting.mix.share(OperationClass::Delete) - 0.22).abs() < 1e-12);
    }

    #[test]
    fn an_unknown_preset_names_the_known() {
        let error = "twitter:5".parse::<Preset>().expect_err("it published no sizes");
        assert!(error.contains("1, 2, 3, 4, 6") && error.ends_with(", 54"), "{error}");
        assert!("twitter".parse::<Preset>().is_err());
    }
}

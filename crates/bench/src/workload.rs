//! What operations a run consists of: YCSB's mixes, presets of published caches, deletes on top.
//!
//! Sources: YCSB core workloads A to F; Facebook's ETC pool (30 gets to 1 set); twitter/cache-trace (CC BY 4.0), mean
//! sizes, mix and Zipf exponent of single clusters. Deviations: E's scan is a multi-get of as many keys, because
//! neither protocol has ordered keys; Twitter's value sizes are exponential about their published mean.

use std::str::FromStr;

use rand::Rng;
use rand::rngs::SmallRng;

use crate::sizes::SizeDistribution;

/// One kind of operation; latencies are reported per kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OperationClass {
    Get,
    Set,
    Insert,
    ReadModifyWrite,
    MultiGet,
    Delete,
}

impl OperationClass {
    pub const ALL: [OperationClass; 6] = [
        OperationClass::Get,
        OperationClass::Set,
        OperationClass::Insert,
        OperationClass::ReadModifyWrite,
        OperationClass::MultiGet,
        OperationClass::Delete,
    ];

    pub fn name(self) -> &'static str {
        match self {
            OperationClass::Get => "get",
            OperationClass::Set => "set",
            OperationClass::Insert => "insert",
            OperationClass::ReadModifyWrite => "read-modify-write",
            OperationClass::MultiGet => "multi-get",
            OperationClass::Delete => "delete",
        }
    }

    pub fn index(self) -> usize {
        self as usize
    }
}

/// Shares of the operation classes, in the order of [`OperationClass::ALL`]; they sum to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix([f64; 6]);

/// A named workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Workload {
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads only.
    C,
    /// 95 % reads of the newest keys, 5 % inserts.
    D,
    /// 95 % multi-gets, 5 % inserts.
    E,
    /// Half reads, half read-modify-writes.
    F,
    /// Reads only, the same as C.
    Get,
    /// Writes only.
    Set,
}

impl Workload {
    pub fn mix(self) -> Mix {
        //        get   set   ins   rmw  mget  del
        Mix(match self {
            Workload::A => [0.50, 0.50, 0.00, 0.00, 0.00, 0.0],
            Workload::B => [0.95, 0.05, 0.00, 0.00, 0.00, 0.0],
            Workload::C | Workload::Get => [1.00, 0.00, 0.00, 0.00, 0.00, 0.0],
            Workload::D => [0.95, 0.00, 0.05, 0.00, 0.00, 0.0],
            Workload::E => [0.00, 0.00, 0.05, 0.00, 0.95, 0.0],
            Workload::F => [0.50, 0.00, 0.00, 0.50, 0.00, 0.0],
            Workload::Set => [0.00, 1.00, 0.00, 0.00, 0.00, 0.0],
        })
    }
}

impl Mix {
    /// Reads and writes only; `reads` is in 0 to 1.
    pub fn reads_and_sets(reads: f64) -> Self {
        Mix([reads, 1.0 - reads, 0.0, 0.0, 0.0, 0.0])
    }

    /// Gives `share` of all operations to deletes and shrinks the others alike.
    pub fn with_deletes(self, share: f64) -> Self {
        let mut shares = self.0.map(|part| part * (1.0 - share));
        shares[OperationClass::Delete.index()] += share;
        Mix(shares)
    }

    pub fn share(&self, class: OperationClass) -> f64 {
        self.0[class.index()]
    }

    pub fn draw(&self, rng: &mut SmallRng) -> OperationClass {
        let (u, mut below) = (rng.random::<f64>(), 0.0);
        for class in OperationClass::ALL {
            below += self.share(class);
            if u < below {
                return class;
            }
        }
        // Rounding left a gap below 1: the last class that occurs at all.
        let occurs = |class: &OperationClass| self.share(*class) > 0.0;
        OperationClass::ALL.into_iter().rfind(occurs).unwrap_or(OperationClass::Get)
    }
}

/// Sizes, mix and popularity of a published cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Preset {
    pub key_sizes: SizeDistribution,
    pub value_sizes: SizeDistribution,
    pub mix: Mix,
    pub theta: f64,
}

/// cluster, mean key bytes, mean value bytes, share of reads, Zipf exponent.
const TWITTER: [(u32, usize, usize, f64, f64); 9] = [
    (11, 24, 170, 0.97, 1.4891),
    (12, 44, 1030, 0.20, 0.3048),
    (15, 18, 102, 0.0, 0.0242),
    (18, 18, 37, 0.97, 2.0994),
    (31, 41, 15, 0.06, 0.0),
    (37, 72, 20_134, 0.63, 0.4251),
    (49, 44, 10_658, 0.57, 1.5095),
    (50, 18, 67_485, 0.52, 1.2816),
    (52, 20, 273, 0.93, 1.2117),
];

impl FromStr for Preset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "etc" {
            return Ok(Preset {
                key_sizes: SizeDistribution::EtcKey,
                value_sizes: SizeDistribution::EtcValue,
                mix: Mix::reads_and_sets(30.0 / 31.0),
                theta: 0.99,
            });
        }
        let number = text.strip_prefix("twitter-").and_then(|number| number.parse::<u32>().ok());
        let row = TWITTER.iter().find(|row| Some(row.0) == number);
        let Some(&(_, key, value, reads, theta)) = row else {
            let known: Vec<_> = TWITTER.iter().map(|row| format!("twitter-{}", row.0)).collect();
            return Err(format!("`{text}` is no preset: give etc or one of {}", known.join(", ")));
        };
        Ok(Preset {
            key_sizes: SizeDistribution::Fixed(key),
            value_sizes: SizeDistribution::Exponential { mean: value },
            mix: Mix::reads_and_sets(reads),
            theta,
        })
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn shares_drawn(mix: Mix) -> [f64; 6] {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut counts = [0.0; 6];
        for _ in 0..200_000 {
            counts[mix.draw(&mut rng).index()] += 1.0 / 200_000.0;
        }
        counts
    }

    #[test]
    fn every_workload_sums_to_one_and_is_drawn_as_told() {
        for workload in <Workload as clap::ValueEnum>::value_variants() {
            let mix = workload.mix().with_deletes(0.05);
            assert!((mix.0.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            let drawn = shares_drawn(mix);
            let close = mix.0.iter().zip(drawn).all(|(told, seen)| (told - seen).abs() < 0.005);
            assert!(close, "{workload:?}: {mix:?} drawn as {drawn:?}");
        }
    }

    #[test]
    fn presets_are_found_and_unknown_ones_name_the_known() {
        let preset: Preset = "twitter-12".parse().expect("known");
        assert_eq!(preset.value_sizes, SizeDistribution::Exponential { mean: 1030 });
        assert!((preset.mix.share(OperationClass::Set) - 0.8).abs() < 1e-12);
        let error = "twitter-999".parse::<Preset>().expect_err("unknown");
        assert!(error.contains("twitter-52"), "{error}");
    }
}

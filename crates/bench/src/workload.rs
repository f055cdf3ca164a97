//! What operations a run consists of: YCSB's mixes, deletes on top.
//!
//! Source: YCSB core workloads A to F. Deviation: E's scan is a multi-get of as many keys, because neither protocol has
//! ordered keys.

use rand::Rng;
use rand::rngs::SmallRng;

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
    /// Gets, deletes, and sets for the rest; the shares are in 0 to 1, and so is their sum.
    pub fn of(gets: f64, deletes: f64) -> Self {
        Mix([gets, (1.0 - gets - deletes).max(0.0), 0.0, 0.0, 0.0, deletes])
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
}

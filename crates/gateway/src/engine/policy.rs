//! Which techniques against slow nodes are in use, for a partition; the named sets of them.
//!
//! Source: DESIGN section 12. `ecwide`, `llf`, `ec-cache` and `shorttail` stand for the systems that the ShortTail paper
//! compares in how they read; where small objects and overwrites go is the same for all; `adaptive` is this project's own.
//!
//! Must not know: nodes, requests, time.

use std::fmt;
use std::str::FromStr;

/// Named sets of techniques.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PolicyName {
    /// Always the holder; degraded only when it is dead.
    Ecwide,
    /// As ecwide, but degraded when the holder is more loaded than every node of the degraded read.
    Llf,
    /// As ecwide, but more sources are always asked than are needed.
    EcCache,
    /// The paper's: fixed detector, degraded reads, redirected writes.
    Shorttail,
    /// Adaptive detector, degraded reads, redirected writes, hedges.
    #[default]
    Adaptive,
}

const NAMES: [(&str, PolicyName); 5] = [
    ("ecwide", PolicyName::Ecwide),
    ("llf", PolicyName::Llf),
    ("ec-cache", PolicyName::EcCache),
    ("shorttail", PolicyName::Shorttail),
    ("adaptive", PolicyName::Adaptive),
];

impl FromStr for PolicyName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(name, _)| *name == text).map(|&(_, policy)| policy);
        found.ok_or_else(|| format!("{text:?} is no policy; there are {}", NAMES.map(|(name, _)| name).join(", ")))
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, policy)| policy == self).map_or("", |(name, _)| *name);
        f.write_str(name)
    }
}

/// Extra requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Hedge {
    Off,
    /// One more way to the same bytes, or to the same durability, once the first is late; within the budget.
    #[default]
    Adaptive,
    /// So many sources more than are needed, at once; the first that suffice count (Hydra 4.1.2, EC-Cache).
    LateBinding(u8),
}

/// Most sources that late binding may ask beyond what is needed.
pub const LATE_BINDING_MAX: u8 = 8;

impl FromStr for Hedge {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(count) = text.strip_prefix("late-binding:") {
            let count = count.parse().ok().filter(|count| (1..=LATE_BINDING_MAX).contains(count));
            return count
                .map(Hedge::LateBinding)
                .ok_or_else(|| format!("{text:?}: late binding asks 1 to {LATE_BINDING_MAX} more"));
        }
        match text {
            "off" => Ok(Hedge::Off),
            "adaptive" => Ok(Hedge::Adaptive),
            _ => Err(format!("{text:?} is none of off, adaptive, late-binding:N")),
        }
    }
}

impl fmt::Display for Hedge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hedge::Off => f.write_str("off"),
            Hedge::Adaptive => f.write_str("adaptive"),
            Hedge::LateBinding(count) => write!(f, "late-binding:{count}"),
        }
    }
}

/// What is done for the requests of a partition. Each technique can be switched alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Reads go round fail-slow nodes.
    pub read_sidestep: bool,
    /// Writes leave fail-slow nodes.
    pub write_sidestep: bool,
    pub hedge: Hedge,
    /// LLF: read degraded when the holder has more outstanding than each source of the degraded read.
    pub reads_least_loaded: bool,
}

impl Policy {
    pub fn of(name: PolicyName) -> Self {
        let plain =
            Policy { read_sidestep: false, write_sidestep: false, hedge: Hedge::Off, reads_least_loaded: false };
        match name {
            PolicyName::Ecwide => plain,
            PolicyName::Llf => Policy { reads_least_loaded: true, ..plain },
            PolicyName::EcCache => Policy { hedge: Hedge::LateBinding(1), ..plain },
            PolicyName::Shorttail => Policy { read_sidestep: true, write_sidestep: true, ..plain },
            PolicyName::Adaptive => {
                Policy { read_sidestep: true, write_sidestep: true, hedge: Hedge::Adaptive, ..plain }
            }
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy::of(PolicyName::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_alike() {
        for (text, policy) in NAMES {
            assert_eq!(text.parse(), Ok(policy));
            assert_eq!(policy.to_string(), text);
        }
        assert!("fast".parse::<PolicyName>().unwrap_err().contains("ec-cache"));
        for text in ["off", "adaptive", "late-binding:3"] {
            assert_eq!(text.parse::<Hedge>().map(|hedge| hedge.to_string()).as_deref(), Ok(text));
        }
        assert!("late-binding:0".parse::<Hedge>().is_err() && "late-binding:9".parse::<Hedge>().is_err());
    }
}

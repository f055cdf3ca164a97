//! What is done for the requests of a partition; the named sets of techniques.
//!
//! Source: docs/decisions/0009-baselines.md. `ecwide`, `llf`, `ec-cache` and `shorttail` stand for the systems that the
//! ShortTail paper compares (the decision says what is honest about them); `adaptive` is this project's own.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::names::{Words, by_word};
use crate::{Hedge, SmallWrite, Update};

/// Named sets of techniques.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PolicyName {
    /// Always the holder; degraded only when it is dead. Padded, in place, waits for all.
    Ecwide,
    /// As ecwide, but degraded when the holder is more loaded than every node of the degraded read.
    Llf,
    /// As ecwide, but more sources are always asked than are needed.
    EcCache,
    /// The paper's: fixed detector, degraded reads, redirected writes, small objects copied.
    Shorttail,
    /// Adaptive detector, degraded reads, redirected writes, hedges, small objects packed.
    #[default]
    Adaptive,
}

const NAMES: Words<PolicyName, 5> = [
    ("ecwide", PolicyName::Ecwide),
    ("llf", PolicyName::Llf),
    ("ec-cache", PolicyName::EcCache),
    ("shorttail", PolicyName::Shorttail),
    ("adaptive", PolicyName::Adaptive),
];

by_word!(PolicyName, NAMES);

/// What is done for the requests of a partition. Each technique can be switched alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Policy {
    /// Reads go round fail-slow nodes.
    pub read_sidestep: bool,
    /// Writes leave fail-slow nodes.
    pub write_sidestep: bool,
    pub hedge: Hedge,
    /// LLF: read degraded when the holder has more outstanding than each source of the degraded read.
    pub reads_least_loaded: bool,
    pub small_write: SmallWrite,
    pub update: Update,
}

impl Policy {
    pub fn of(name: PolicyName) -> Self {
        let ecwide = Policy {
            read_sidestep: false,
            write_sidestep: false,
            hedge: Hedge::Off,
            reads_least_loaded: false,
            small_write: SmallWrite::Pad,
            update: Update::InPlace,
        };
        let adaptive = Policy {
            read_sidestep: true,
            write_sidestep: true,
            hedge: Hedge::Adaptive,
            reads_least_loaded: false,
            small_write: SmallWrite::Packed,
            update: Update::Log,
        };
        match name {
            PolicyName::Ecwide => ecwide,
            PolicyName::Llf => Policy { reads_least_loaded: true, ..ecwide },
            PolicyName::EcCache => Policy { hedge: Hedge::late_binding(1), ..ecwide },
            PolicyName::Shorttail => Policy { hedge: Hedge::Off, small_write: SmallWrite::Replicate, ..adaptive },
            PolicyName::Adaptive => adaptive,
        }
    }

    /// What the set of these techniques is called, if it has a name.
    pub fn name(self) -> Option<PolicyName> {
        NAMES.iter().map(|&(_, name)| name).find(|&name| Policy::of(name) == self)
    }

    /// Does the partition's log hold only what the compared systems keep in their coordinator's memory: where each
    /// object is? Then a slow node in the log shall delay nobody.
    pub fn log_is_metadata(self) -> bool {
        self.update == Update::InPlace && self.small_write != SmallWrite::Packed
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy::of(PolicyName::default())
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |on| if on { "on" } else { "off" };
        let Policy { read_sidestep, write_sidestep, hedge, reads_least_loaded, small_write, update } = *self;
        write!(f, "read-sidestep {}, write-sidestep {}, ", word(read_sidestep), word(write_sidestep))?;
        write!(f, "hedge {hedge}, small-write {small_write}, update {update}")?;
        if reads_least_loaded { write!(f, ", reads from the least loaded") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_alike() {
        for (text, name) in NAMES {
            assert_eq!(text.parse(), Ok(name));
            assert_eq!(name.to_string(), text);
            assert_eq!(Policy::of(name).name(), Some(name));
        }
        assert!("fast".parse::<PolicyName>().unwrap_err().contains("ec-cache"));
        assert_eq!(Policy { read_sidestep: true, ..Policy::of(PolicyName::Llf) }.name(), None);
    }

    #[test]
    fn a_policy_in_words_names_every_technique() {
        let text = Policy::of(PolicyName::Shorttail).to_string();
        assert_eq!(text, "read-sidestep on, write-sidestep on, hedge off, small-write replicate, update log");
        assert!(Policy::of(PolicyName::Llf).to_string().ends_with("update in-place, reads from the least loaded"));
    }

    #[test]
    fn only_logs_without_values_are_metadata() {
        let is_metadata = |name| Policy::of(name).log_is_metadata();
        assert!(is_metadata(PolicyName::Ecwide) && is_metadata(PolicyName::EcCache));
        assert!(!is_metadata(PolicyName::Shorttail) && !is_metadata(PolicyName::Adaptive));
        assert!(!Policy { update: Update::InPlace, ..Policy::default() }.log_is_metadata());
    }
}

//! A change of a node's standing, with the numbers that led to it: one log line.

use std::fmt;

use shorttail_units::NodeId;

use crate::Class;
use crate::track::Evidence;

/// Why a verdict was reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Slices were slow, or good again.
    Slices,
    /// Windows of the horizon were slow.
    Horizon,
    /// Nobody asked the node for longer than its back-off: it is tried again.
    Untried,
    /// Other engines say so, or no longer.
    Reported,
    /// The node's session ended, or detection was switched off.
    Forgotten,
}

/// What the standing of one class of a node is to be from now on, and why.
#[derive(Clone, Copy, Debug)]
pub struct Judgement {
    pub fail_slow: bool,
    pub reason: Reason,
    pub evidence: Evidence,
}

/// One class of a node became fail-slow, or normal again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    pub node: NodeId,
    pub class: Class,
    pub fail_slow: bool,
    pub reason: Reason,
    /// Mean latency of what was judged, ages included.
    pub latency_us: u64,
    /// What it was compared with: what the peers would have taken, or the mean of the normal nodes.
    pub peers_us: u64,
    /// What it exceeded, or did not.
    pub threshold_us: u64,
    pub samples: u32,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Slices => "slices",
            Reason::Horizon => "horizon",
            Reason::Untried => "untried",
            Reason::Reported => "reported",
            Reason::Forgotten => "forgotten",
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.fail_slow { "fail-slow" } else { "normal" };
        write!(f, "{} is {state} for {}s ({}): ", self.node, self.class.name(), self.reason)?;
        write!(f, "mean {} us of {}, peers {} us, ", self.latency_us, self.samples, self.peers_us)?;
        write!(f, "threshold {} us", self.threshold_us)
    }
}

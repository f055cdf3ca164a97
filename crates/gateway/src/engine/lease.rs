//! Whose partitions they are: what the coordinator decided, and what this owner may claim of it.
//!
//! Must not know: nodes' sessions, requests.

use shorttail_units::{Incarnation, NodeId, Now};

use super::{Engine, Phase};
use crate::command::Command;

/// How long a node keeps a promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseConfig {
    /// Microseconds for which a node promises, counted by it from when it was asked.
    pub lease_us: u64,
    /// By how much sooner the owner stops to rely on the promise: clocks run apart, and a reply takes a moment to leave.
    pub margin_us: u64,
}

/// One life of a node's memory, as one that decides who owns a partition.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Voter {
    pub node: NodeId,
    pub incarnation: Incarnation,
}

/// Those that decide together.
pub type VoterSet = Vec<Voter>;

/// What the coordinator decided about a tenure.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Terms {
    /// By whom the owner proves itself.
    pub voters: VoterSet,
    /// By whom earlier owners may prove themselves: each set has to accept this epoch before it serves.
    pub before: Vec<VoterSet>,
}

/// How far an owner is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Not accepted yet, or still learning what the nodes hold.
    Waiting,
    Serving,
    /// Hands its partitions over: takes no requests any more, and ends those under way.
    LettingGo,
    /// Everything is handed over: the engine may be dropped.
    Released,
    /// A later epoch fenced: the engine is to be dropped.
    Deposed,
}

impl<C: Command> Engine<C> {
    /// The coordinator's decision, when the engine begins and whenever it changes. The latest counts.
    pub fn handle_terms(&mut self, now: Now, terms: Terms) {
        self.now = now;
        self.terms = terms;
    }

    /// By which voters this owner proves itself.
    pub fn voters_in_use(&self) -> &VoterSet {
        &self.terms.voters
    }

    /// Did enough voters promise, as of this time, to let no other owner serve?
    pub fn is_proven(&self, _now: Now) -> bool {
        true
    }

    pub fn standing(&self) -> Standing {
        match self.phase {
            Phase::Gathering(_) | Phase::Completing => Standing::Waiting,
            Phase::Serving => Standing::Serving,
        }
    }
}

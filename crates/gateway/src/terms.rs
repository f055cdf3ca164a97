//! What the coordinator tells the owner of a tenure, in the engine's words, and what it is told back.
//!
//! ```text
//! View   -- tell_nodes ------> engine: nodes, domains, draining, retired, removed
//! Terms  -- TermsTaken::take-> engine: voters and those before, let go
//! engine: standing, voters in use -- state_of, TermsTaken::proven_by --> Standing
//! ```
//!
//! Must not know: how messages come and go, or how many cores share a tenure.

use std::collections::BTreeSet;

use shorttail_units::{NodeId, Now};
use shorttail_wire::control::{self, NodeState, TenureState, View};

use crate::engine::{Engine, Standing, Terms};

/// Microseconds for which an engine that the coordinator names no more may still end what is under way: longer than
/// requests wait. What is left then becomes errors.
pub const ENDING_US_MAX: u64 = 6_000_000;

/// The terms that an engine goes by.
#[derive(Debug, Default)]
pub struct TermsTaken {
    terms: Terms,
    /// Number of the latest terms, and of those before.
    number: u32,
    number_before: u32,
    lets_go: bool,
}

impl TermsTaken {
    /// Tells the engine what is new to it.
    pub fn take(&mut self, engine: &mut Engine, now: Now, terms: &control::Terms) {
        if terms.number != self.number && !terms.prepares {
            self.number_before = self.number;
            self.number = terms.number;
            self.terms =
                Terms { voters: terms.voters.to_vec(), before: terms.before.iter().map(|set| set.to_vec()).collect() };
            engine.handle_terms(now, self.terms.clone());
        }
        if terms.lets_go && !self.lets_go {
            self.lets_go = true;
            engine.let_go(now);
        }
    }

    /// Was it told to let go?
    pub fn lets_go(&self) -> bool {
        self.lets_go
    }

    /// Number of the terms by whose voters the engine is proven; 0: by none now.
    pub fn proven_by(&self, engine: &Engine, now: Now) -> u32 {
        match engine.is_proven(now) {
            false => 0,
            true if *engine.voters_in_use() == self.terms.voters => self.number,
            true => self.number_before,
        }
    }
}

/// How far an engine is, as the coordinator is told.
pub fn state_of(standing: Standing) -> TenureState {
    match standing {
        Standing::Preparing => TenureState::Preparing,
        Standing::Prepared => TenureState::Prepared,
        Standing::Waiting => TenureState::TakingOver,
        Standing::Serving => TenureState::Serving,
        Standing::LettingGo => TenureState::LettingGo,
        Standing::Released => TenureState::LetGo,
        Standing::Deposed => TenureState::Ended,
    }
}

/// How a tenure ended whose engine is gone.
pub fn state_at_end(standing: Standing) -> TenureState {
    match standing {
        Standing::Released => TenureState::LetGo,
        _ => TenureState::Ended,
    }
}

/// Is nothing left for an engine to do? `ending_since_us`: since when the coordinator does not name it any more.
pub fn is_over(engine: &Engine, ending_since_us: Option<u64>, now: Now) -> bool {
    match engine.standing() {
        Standing::Deposed => true,
        // Somebody else is to follow, or nobody.
        Standing::Preparing | Standing::Prepared => ending_since_us.is_some(),
        Standing::Released if engine.outstanding_count() == 0 => true,
        _ => ending_since_us.is_some_and(|since_us| now.mono_us >= since_us + ENDING_US_MAX),
    }
}

/// Tells an engine what a view says of nodes.
pub fn tell_nodes(engine: &mut Engine, view: &View) {
    let (removed, members): (Vec<_>, Vec<_>) = view.nodes.iter().partition(|node| node.removed);
    let nodes: Vec<NodeId> = members.iter().map(|node| node.id).collect();
    engine.handle_nodes(&nodes);
    members.iter().for_each(|node| engine.handle_domain(node.id, &node.domain));
    let draining: BTreeSet<NodeId> = members.iter().filter(|node| node.draining).map(|node| node.id).collect();
    engine.handle_draining(&draining);
    members.iter().for_each(|node| engine.handle_life(node.id, node.incarnation));
    for node in members.iter().filter(|node| node.state == NodeState::Retired) {
        engine.handle_retired(node.id, node.incarnation);
    }
    removed.iter().for_each(|node| engine.handle_removed(node.id, node.incarnation));
}

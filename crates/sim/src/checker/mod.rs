//! Decides whether one key's operations are linearizable, and explains it when they are not.
//!
//! Must not know: the store, the network. Source: Wing and Gong, "Testing and proving for concurrent objects" (1993),
//! with Lowe's memoisation, "Testing for linearizability" (2017). Linearizability is per object (Herlihy and Wing
//! 1990), so judging each key alone is exact. The deviations stand in `search.rs`.

mod memory;
mod problem;
mod search;
mod timeline;

#[cfg(test)]
mod brute;
#[cfg(test)]
mod tests;

use crate::history::Operation;
use crate::limits::CONFIGURATIONS_MAX;
use crate::model::Model;
use problem::Problem;
use search::{Found, Stuck, search};

/// The judgement on one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// `order` is a sequential order that explains every answer: indices into the operations.
    Linearizable {
        order: Vec<usize>,
        configurations: usize,
    },
    Violation(Violation),
    /// The search reached its limit: neither right nor wrong.
    TooHard {
        configurations: usize,
    },
}

/// The shortest prefix of a key's history that no correct store can have shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    pub key: Vec<u8>,
    /// Index of the operation whose answer ends the prefix: with all that was answered before, it does not fit.
    pub operation: usize,
    /// What the key may have held when that answer was to be explained: some of it, if there is much; nothing, if the
    /// answer makes others impossible that came before it.
    pub possible: Vec<Model>,
    /// The explanation, for people.
    pub text: String,
}

/// Judges the operations of one key, given in the order of their invocations, the key being absent at first.
pub fn check(key: &[u8], operations: &[Operation]) -> Verdict {
    // Each unknown write is one more thing that may have happened at any time, and most leave no trace.
    let fewer = Problem::new(operations, u64::MAX).without_traceless();
    if let Some(Found::Order { order, configurations }) = fewer.map(|fewer| search(&fewer, CONFIGURATIONS_MAX)) {
        return Verdict::Linearizable { order, configurations };
    }
    match search(&Problem::new(operations, u64::MAX), CONFIGURATIONS_MAX) {
        Found::Order { order, configurations } => Verdict::Linearizable { order, configurations },
        Found::TooHard { configurations } => Verdict::TooHard { configurations },
        Found::Nothing(stuck) => Verdict::Violation(violation(key, operations, stuck)),
    }
}

fn violation(key: &[u8], operations: &[Operation], stuck: Stuck) -> Violation {
    let stuck = shortest_prefix(operations, stuck);
    let text = timeline::explain(key, operations, &stuck);
    Violation { key: key.to_vec(), operation: stuck.operation, possible: stuck.possible, text }
}

/// Where the shortest bad prefix ends.
///
/// The search knew the later answers of the operations that overlap the end of a prefix; a prefix by itself leaves
/// them open. So the place where the search got stuck is only the earliest possible end; every prefix of a
/// linearizable history is linearizable, which makes the true end a matter of halving.
fn shortest_prefix(operations: &[Operation], first: Stuck) -> Stuck {
    let ends: Vec<(u64, usize)> = Problem::new(operations, u64::MAX).returns_from(first.at_order);
    let stuck_at = |index: usize| {
        let (at_order, operation) = ends[index];
        match search(&Problem::new(operations, at_order), CONFIGURATIONS_MAX) {
            // What is impossible may lie before the end, in operations that only the last answer makes impossible.
            Found::Nothing(stuck) if stuck.at_order < at_order => {
                Some(Stuck { operation, at_order, possible: Vec::new() })
            }
            Found::Nothing(stuck) => Some(stuck),
            Found::Order { .. } | Found::TooHard { .. } => None,
        }
    };
    // Nearly always the first guess is right.
    if let Some(stuck) = stuck_at(0) {
        return stuck;
    }
    let (mut good, mut bad) = (0, ends.len() - 1);
    let mut shortest = None;
    while good + 1 < bad {
        let middle = good.midpoint(bad);
        match stuck_at(middle) {
            Some(stuck) => (bad, shortest) = (middle, Some(stuck)),
            None => good = middle,
        }
    }
    shortest.or_else(|| stuck_at(bad)).unwrap_or(first)
}

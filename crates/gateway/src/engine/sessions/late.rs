//! Who owes an answer for too long, as of one look at all nodes.
//!
//! Must not know: what is owed, what is done about it.

use std::collections::BTreeMap;

use shorttail_units::NodeId;

/// What a node owes for too long, and what its cores that owe it have said.
#[derive(Clone, Copy, Debug)]
pub struct Owing {
    /// When the oldest of it was asked.
    pub oldest_us: u64,
    /// When any of these cores was heard last.
    pub heard_us: u64,
}

#[derive(Debug, Default)]
pub struct Late {
    pub owing: BTreeMap<NodeId, Owing>,
}

impl Late {
    pub fn note_owing(&mut self, node: NodeId, owing: Owing) {
        let known = self.owing.entry(node).or_insert(owing);
        known.oldest_us = known.oldest_us.min(owing.oldest_us);
        known.heard_us = known.heard_us.max(owing.heard_us);
    }
}

//! Which life each node is in, as the coordinator told or the node itself, and whose memory is gone for good.
//!
//! ```text
//! life 1 --registers with another memory--> life 5: all before it are over, and are let in no more
//!    '--given up--> over                       '--given up--> over: nobody is there, and nothing of the node comes back
//! ```
//! A node that merely lost its memory is not gone: in its present life it may hold what others put there.
//!
//! Must not know: what is done about what is lost.

use std::collections::BTreeMap;

use shorttail_units::{Incarnation, NodeId};

use crate::engine::Engine;
use crate::engine::limits::UNSTEADY_US;

#[derive(Clone, Copy, Debug)]
struct Life {
    present: Incarnation,
    /// When it took the place of another one, and when that one did.
    began_us: Option<u64>,
    before_us: Option<u64>,
}

/// The lives that nodes are in.
#[derive(Debug, Default)]
pub struct Lives(BTreeMap<NodeId, Life>);

impl Lives {
    /// A node was seen, or said to be, in a life.
    pub(super) fn note(&mut self, node: NodeId, life: Incarnation, now_us: u64) {
        let known = self.0.entry(node).or_insert(Life { present: life, began_us: None, before_us: None });
        if known.present < life {
            *known = Life { present: life, began_us: Some(now_us), before_us: known.began_us };
        }
    }

    pub(super) fn present(&self, node: NodeId) -> Option<Incarnation> {
        self.0.get(&node).map(|life| life.present)
    }

    pub(super) fn forget(&mut self, node: NodeId) {
        self.0.remove(&node);
    }

    /// Did the node lose its memory twice within a short time, and not long ago?
    fn is_unsteady(&self, node: NodeId, now_us: u64) -> bool {
        self.0.get(&node).and_then(|life| life.before_us).is_some_and(|before_us| now_us < before_us + UNSTEADY_US)
    }
}

impl Engine {
    /// A node is in this life, and those before it are over.
    pub fn handle_life(&mut self, node: NodeId, life: Incarnation) {
        self.lives.note(node, life, self.now.mono_us);
        let met = self.nodes.get(node).and_then(|node| node.incarnation);
        if let Some(met) = met.filter(|&met| met < life) {
            self.handle_retired(node, met);
        }
    }

    /// Was all that the node had, in whichever life, given up for good?
    pub(in crate::engine) fn is_gone(&self, id: NodeId) -> bool {
        if self.nodes.is_reachable(id) {
            return false;
        }
        match self.lives.present(id) {
            Some(life) => self.is_retired(id, life),
            None => self.retired.contains_key(&id),
        }
    }

    /// Is the memory that this owner met there gone, or none was ever met of a node that is gone?
    pub(in crate::engine) fn has_lost_memory(&self, id: NodeId) -> bool {
        let met = self.nodes.get(id).and_then(|node| node.incarnation);
        !self.nodes.is_reachable(id) && met.map_or_else(|| self.is_gone(id), |met| self.is_retired(id, met))
    }

    /// Does the node lose its memory again and again? Nothing is rebuilt there that another one can take.
    pub(in crate::engine) fn is_unsteady(&self, id: NodeId) -> bool {
        self.lives.is_unsteady(id, self.now.mono_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::state::testing::engine_of_one_node;

    const NODE: NodeId = NodeId(0);

    #[test]
    fn a_node_is_gone_if_its_present_life_is() {
        let mut engine = engine_of_one_node();
        assert!(!engine.is_gone(NODE));
        engine.handle_retired(NODE, Incarnation(1));
        assert!(engine.is_gone(NODE));
        engine.handle_life(NODE, Incarnation(5));
        assert!(!engine.is_gone(NODE), "it is back, with what others put there");
        engine.handle_retired(NODE, Incarnation(5));
        assert!(engine.is_gone(NODE));
        engine.handle_life(NODE, Incarnation(2));
        assert!(engine.is_gone(NODE), "old news");
    }

    #[test]
    fn what_an_earlier_life_had_is_lost_when_another_one_is_heard_of() {
        let mut engine = engine_of_one_node();
        engine.lives.note(NODE, Incarnation(1), 0);
        engine.nodes.get_mut(NODE).expect("a node").incarnation = Some(Incarnation(1));
        engine.handle_life(NODE, Incarnation(1));
        assert!(!engine.is_retired(NODE, Incarnation(1)) && !engine.has_lost_memory(NODE));
        engine.handle_life(NODE, Incarnation(7));
        assert!(engine.is_retired(NODE, Incarnation(1)) && engine.has_lost_memory(NODE));
        assert!(!engine.is_gone(NODE) && !engine.is_retired(NODE, Incarnation(7)));
        assert!(engine.is_retired(NODE, Incarnation(6)), "whoever met it");
    }

    #[test]
    fn who_loses_its_memory_twice_within_a_short_time_is_unsteady_for_as_long() {
        let mut lives = Lives::default();
        lives.note(NODE, Incarnation(1), 0);
        lives.note(NODE, Incarnation(2), UNSTEADY_US);
        lives.note(NODE, Incarnation(2), UNSTEADY_US + 1);
        assert!(!lives.is_unsteady(NODE, UNSTEADY_US + 2), "once");
        lives.note(NODE, Incarnation(3), 2 * UNSTEADY_US - 1);
        assert!(lives.is_unsteady(NODE, 2 * UNSTEADY_US - 1));
        assert!(!lives.is_unsteady(NODE, 2 * UNSTEADY_US));
    }
}

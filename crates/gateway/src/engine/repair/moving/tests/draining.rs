//! What leaves a node that drains: where it goes, and how soon.

use super::*;
use crate::engine::limits::LEVEL_LOOK_US;

/// Node 0 drains. The other one of its failure domain, which is to have its chunk, owes a write.
fn scene_of_late_node() -> Scene {
    let mut scene = scene();
    for node in 0..6 {
        scene.engine.handle_domain(NodeId(node), if node % 4 == 0 { "a" } else { "b" });
    }
    scene.engine.handle_draining(&[NodeId(0)].into());
    scene.is_late(4, Some(0));
    scene
}

impl Scene {
    fn is_late(&mut self, node: u16, since_us: Option<u64>) {
        self.engine.nodes.get_mut(NodeId(node)).expect("a node").write_late_us = since_us;
    }

    /// Who is to take the chunk of node 0 after a look at what should move, if anybody is.
    fn target_at(&mut self, at_us: u64) -> Option<u16> {
        self.engine.now.mono_us = at_us;
        self.engine.advance_moves();
        self.engine.check_invariants();
        self.engine.moves.targets().next().map(|node| node.0)
    }
}

#[test]
fn what_leaves_a_node_that_drains_waits_for_a_late_node_that_is_to_have_it() {
    let mut scene = scene_of_late_node();
    assert_eq!(scene.target_at(1), None);
    assert_eq!(scene.engine.moves.stranded_count, 0, "it finds one");
    scene.is_late(4, None);
    assert_eq!(scene.target_at(1 + LEVEL_LOOK_US), Some(4));
}

/// Of any failure domain: a verdict may last for hours.
#[test]
fn what_leaves_a_node_that_drains_goes_elsewhere_if_who_is_to_have_it_stays_slow() {
    let mut scene = scene_of_late_node();
    for look in 0..3 {
        assert_eq!(scene.target_at(1 + look * LEVEL_LOOK_US), None);
    }
    assert_eq!(scene.target_at(1 + REPAIR_SLOW_US + LEVEL_LOOK_US), Some(5));
}

/// It was not slow all the time.
#[test]
fn a_node_that_is_late_now_and_then_is_waited_for_again() {
    let mut scene = scene_of_late_node();
    scene.target_at(1);
    scene.is_late(4, None);
    scene.engine.note_slow();
    scene.is_late(4, Some(REPAIR_SLOW_US));
    assert_eq!(scene.target_at(1 + REPAIR_SLOW_US), None);
}

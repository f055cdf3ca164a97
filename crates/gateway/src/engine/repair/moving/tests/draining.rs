//! What leaves a node that drains: where it goes, and how soon.

use super::*;
use crate::engine::limits::{LEVEL_LOOK_US, USE_AGAIN_US};

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

    fn are_away<const COUNT: usize>(&mut self, nodes: [u16; COUNT]) {
        for node in nodes {
            self.engine.nodes.get_mut(NodeId(node)).expect("a node").phase = NodePhase::Away;
        }
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

/// Nodes 2 to 4 are ready, and node 5, which drains: one too few, without it.
fn scene_of_needed_node() -> Scene {
    let mut scene = scene();
    scene.engine.handle_draining(&[NodeId(5)].into());
    scene.engine.advance_moves();
    scene.are_away([0, 1]);
    scene
}

/// Whoever was told that it holds nothing may be taking it out.
#[test]
fn a_node_that_was_told_to_be_empty_is_used_again_once_everybody_knows() {
    let mut scene = scene_of_needed_node();
    let uses_at = |scene: &mut Scene, mono_us| {
        scene.engine.now.mono_us = mono_us;
        scene.engine.advance_moves();
        assert_eq!(scene.engine.chunks_left(NodeId(5)), None, "it is told to be needed all the time");
        let is_used = scene.engine.taking_nodes().any(|node| node.id == NodeId(5));
        assert_eq!(is_used, scene.engine.too_few_nodes().is_ok());
        is_used
    };
    assert_eq!([0, USE_AGAIN_US - 1, USE_AGAIN_US].map(|mono_us| uses_at(&mut scene, mono_us)), [false, false, true]);
    // Others are there for a moment; then it is away itself.
    let mut mono_us = USE_AGAIN_US;
    for (node, phase) in [(0, NodePhase::Ready), (5, NodePhase::Away)] {
        let before = std::mem::replace(&mut scene.engine.nodes.get_mut(NodeId(node)).expect("a node").phase, phase);
        scene.engine.advance_moves();
        assert_eq!(scene.engine.chunks_left(NodeId(5)), Some(0));
        scene.engine.nodes.get_mut(NodeId(node)).expect("a node").phase = before;
        mono_us += 1;
        assert!(!uses_at(&mut scene, mono_us));
        mono_us += USE_AGAIN_US;
        assert!(uses_at(&mut scene, mono_us));
    }
    // It had a session between, and was not counted since.
    scene.engine.forget_left(NodeId(5));
    assert!(!scene.engine.taking_nodes().any(|node| node.id == NodeId(5)));
}

/// Which is told before the next count.
#[test]
fn a_node_whose_last_chunk_moved_away_is_not_used_at_once_either() {
    let mut scene = scene();
    scene.engine.handle_draining(&[NodeId(0)].into());
    assert_eq!(scene.left_of(0), Some(1));
    scene.begin(5);
    scene.report(5, Ok(()));
    assert_eq!(scene.engine.chunks_left(NodeId(0)), Some(0));
    scene.are_away([1, 2]);
    scene.engine.note_needed();
    assert!(!scene.engine.taking_nodes().any(|node| node.id == NodeId(0)) && scene.engine.too_few_nodes().is_err());
}

/// Though the last stripe was opened there; another one that drains, and holds something, makes up for it.
#[test]
fn no_partition_follows_another_to_a_node_that_was_told_to_be_empty() {
    let mut scene = scene();
    scene.engine.handle_draining(&[NodeId(0), NodeId(5)].into());
    scene.engine.advance_moves();
    scene.are_away([4]);
    scene.engine.shared_members = Some((nodes([1, 2, 3, 5]).into(), 0));
    let members = scene.engine.sociable_members(PartitionId(0)).expect("node 0 takes part");
    assert!(members.contains(&NodeId(0)) && !members.contains(&NodeId(5)), "{members:?}");
}

/// As it is told every now and then, and noted at others.
#[test]
fn a_node_that_is_needed_is_not_told_to_be_empty_for_a_moment() {
    let mut scene = scene_of_needed_node();
    scene.engine.note_needed();
    scene.engine.nodes.get_mut(NodeId(0)).expect("a node").phase = NodePhase::Ready;
    assert_eq!(scene.engine.chunks_left(NodeId(5)), None);
    scene.engine.note_needed();
    assert_eq!(scene.engine.chunks_left(NodeId(5)), Some(0));
}

#[test]
fn a_node_that_is_not_empty_yet_is_used_as_soon_as_it_is_needed() {
    let mut scene = scene_of_needed_node();
    scene.engine.handle_draining(&[NodeId(2)].into());
    scene.engine.advance_moves();
    assert_eq!(scene.engine.moves.left.get(&NodeId(2)), Some(&1));
    assert!(scene.engine.taking_nodes().any(|node| node.id == NodeId(2)) && scene.engine.too_few_nodes().is_ok());
}

/// Only what begins anew waits until nodes told what they have in use.
#[test]
fn a_drain_of_many_chunks_goes_on_at_once_and_keeps_its_rate() {
    let mut scene = scene();
    for number in 0..MOVE_PLAN_MAX as u64 {
        let id = StripeId::new(Epoch(1), 100 + number);
        let members = nodes([0, 1, 2, 3]).into();
        scene.engine.stripes.insert(Stripe::inherited(id, PartitionId(0), members, Box::from([0; 2])));
    }
    scene.engine.handle_draining(&[NodeId(0)].into());
    scene.engine.moves.rate.take(0, 0, true);
    scene.engine.plan_moves();
    assert_eq!(scene.engine.moves.plan.len(), MOVE_PLAN_MAX);
    // All of it is moved.
    scene.engine.moves.plan.clear();
    scene.engine.moves.moved_bytes = 5_000;
    assert!(scene.target_at(1_000_000).is_some(), "the last one of them is moved at once");
    assert_eq!(scene.engine.moves.rate.bytes_per_s(), 5_000);
    let last = scene.engine.moves.stripes().next().expect("it moves");
    scene.engine.cancel_move(last);
    assert_eq!(scene.target_at(1_000_000), None, "that was all");
    assert!(scene.target_at(LEVEL_LOOK_US).is_some());
}

/// Nothing is freed, and nobody is told anything.
#[test]
fn a_target_that_has_enough_orders_is_given_the_move_again() {
    let mut scene = scene();
    scene.begin(4);
    let (told, _) = scene.counts();
    scene.engine.now.mono_us = REBUILD_ASK_US;
    scene.engine.move_refused(NodeId(4), scene.stripe, Some(Refusal::Busy));
    for wait_us in [REPAIR_REST_US, REPAIR_REST_US + 1] {
        scene.asks_nothing();
        scene.engine.now.mono_us = REBUILD_ASK_US + wait_us;
        scene.engine.repair.due_us = 0;
        scene.engine.give_orders();
    }
    scene.is_ordered(4, told);
    scene.report(4, Ok(()));
    assert_eq!(scene.counts(), (told, nodes([4, 1, 2, 3])));
}

#[test]
fn a_target_that_has_enough_orders_has_not_failed() {
    let mut scene = scene();
    scene.engine.repair.mark_damaged(scene.stripe, 0, shape());
    let target = scene.orders_at(0);
    let failures = |scene: &Scene| scene.engine.repair.get(scene.stripe).map(|lost| lost.failures);
    scene.engine.order_refused(NodeId(target), scene.stripe, Some(Refusal::Busy));
    assert_eq!(failures(&scene), Some(0));
    assert_eq!(scene.orders_at(REPAIR_REST_US), target);
    scene.engine.order_refused(NodeId(target), scene.stripe, Some(Refusal::Unreachable));
    assert_eq!(failures(&scene), Some(1));
}

//! A stripe of nodes 0 to 3 in RS(2,2) of which node 0 gives its chunk to node 4, or 5, or lost it: who is told what,
//! and when.

use shorttail_units::{CodeShape, Configuration, Epoch, Incarnation, NodeId, Now, PartitionId, StripeId};
use shorttail_wire::node::{NodeReply, NodeRequest, Refusal, next_frame};

use super::Planned;
use crate::engine::limits::{
    GATHER_US, HUNG_DEADLINES, MOVE_PLAN_MAX, REBUILD_ASK_US, REPAIR_ORDERS_OF_NODE_MAX, REPAIR_REST_US, REPAIR_SLOW_US,
};
use crate::engine::reclaim::reserve::Urgency;
use crate::engine::repair::queue::Reparable;
use crate::engine::sessions::nodes::NodePhase;
use crate::engine::state::pool::PoolKey;
use crate::engine::state::stripes::{Stripe, StripePhase};
use crate::engine::state::testing::engine_of_ready_nodes;
use crate::engine::{Engine, SessionId, What};

mod doubts;
mod draining;
mod standing;

const DONE: NodeReply<'_> = NodeReply::Done { used_bytes: 0, held_bytes: 0 };

/// What a node is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Asked {
    Reconfigure(Configuration, Vec<NodeId>),
    /// By the number that the chunk is to have.
    Rebuild(Configuration),
    /// What was ordered up to this number.
    Free(Configuration),
    Inspect,
}

struct Scene {
    engine: Engine,
    stripe: StripeId,
}

fn shape() -> CodeShape {
    CodeShape::reed_solomon(2, 2).expect("a code")
}

fn nodes(numbers: [u16; 4]) -> Vec<NodeId> {
    numbers.into_iter().map(NodeId).collect()
}

fn scene() -> Scene {
    let mut engine = engine_of_ready_nodes(shape(), 6);
    let stripe = StripeId::new(Epoch(1), 5);
    engine.stripes.insert(Stripe::inherited(stripe, PartitionId(0), nodes([0, 1, 2, 3]).into(), Box::from([0; 2])));
    Scene { engine, stripe }
}

impl Scene {
    fn plan(&mut self, from: u16, to: u16) {
        let planned = Planned { stripe: self.stripe, from: NodeId(from), to: Some(NodeId(to)) };
        assert!(self.engine.begin_move(planned).is_some(), "nobody has enough to do");
    }

    /// What a node was asked since, with the tags that answers bear.
    fn asked(&mut self, node: u16) -> Vec<(u64, Asked)> {
        let session = self.engine.nodes.session_mut(SessionId { node: NodeId(node), core: 0 }).expect("a session");
        let bytes = std::mem::take(session.rest());
        let (mut asked, mut at) = (Vec::new(), 0);
        while let Some((frame, length)) = next_frame(&bytes[at..]).expect("frames") {
            at += length;
            let one = match NodeRequest::parse(&frame).expect("a request") {
                NodeRequest::Reconfigure { configuration, members, .. } => Asked::Reconfigure(configuration, members.0),
                NodeRequest::Rebuild { description, .. } => Asked::Rebuild(description.configuration),
                NodeRequest::Free { up_to, .. } => Asked::Free(up_to),
                NodeRequest::Inspect { .. } => Asked::Inspect,
                other => panic!("{other:?}"),
            };
            asked.push((frame.tag, one));
        }
        asked
    }

    fn asks_nothing(&mut self) {
        (0..6).for_each(|node| assert_eq!(self.asked(node), [], "node {node}"));
    }

    fn answer(&mut self, node: u16, tag: u64, reply: &NodeReply<'_>) {
        let mut bytes = Vec::new();
        reply.encode(tag, &mut bytes);
        let session = SessionId { node: NodeId(node), core: 0 };
        self.engine.handle_session_input(Now::default(), session, &bytes).expect("a reply");
    }

    /// The node was told who the members are; it answers.
    fn hears(&mut self, node: u16, members: [u16; 4], reply: &NodeReply<'_>) -> Configuration {
        let asked = self.asked(node);
        let [(tag, Asked::Reconfigure(configuration, told))] = &asked[..] else { panic!("node {node}: {asked:?}") };
        assert_eq!(*told, nodes(members), "node {node}");
        self.answer(node, *tag, reply);
        *configuration
    }

    /// The node was ordered to copy; the tag of the order.
    fn is_ordered(&mut self, node: u16, configuration: Configuration) -> u64 {
        let asked = self.asked(node);
        let [(tag, Asked::Rebuild(of_chunk))] = asked[..] else { panic!("node {node}: {asked:?}") };
        assert_eq!(of_chunk, configuration);
        tag
    }

    /// Begins a move from node 0 of which every member hears; the tag of the order.
    fn begin(&mut self, to: u16) -> u64 {
        self.plan(0, to);
        let told = [1, 2, 3].map(|node| self.hears(node, [to, 1, 2, 3], &DONE));
        self.is_ordered(to, told[0])
    }

    /// The node was told to free; the tag, and up to which number.
    fn is_to_free(&mut self, node: u16) -> (u64, Configuration) {
        let asked = self.asked(node);
        let [(tag, Asked::Free(up_to))] = asked[..] else { panic!("node {node}: {asked:?}") };
        (tag, up_to)
    }

    fn report(&mut self, node: u16, outcome: Result<(), (Refusal, Option<u8>)>) {
        let stripe = self.stripe;
        self.answer(node, 0, &NodeReply::Rebuilt { stripe, outcome, position: None });
    }

    /// The node's memory is given up.
    fn lose(&mut self, node: u16) {
        self.engine.nodes.get_mut(NodeId(node)).expect("a node").phase = NodePhase::Away;
        self.engine.retired.insert(NodeId(node), Incarnation(1));
        self.engine.drop_orders_of(NodeId(node));
    }

    /// What counts as the node's, counted now.
    fn left_of(&mut self, node: u16) -> Option<u64> {
        self.engine.count_left();
        self.engine.chunks_left(NodeId(node))
    }

    /// An order is given to rebuild the chunk of node 0, and its members hear of it; the target.
    fn orders_at(&mut self, at_us: u64) -> u16 {
        self.engine.now.mono_us = at_us;
        self.engine.give_orders();
        for node in 1..4 {
            self.asked(node).into_iter().for_each(|(tag, _)| self.answer(node, tag, &DONE));
        }
        self.engine.give_orders();
        let target = self.counts().1[0];
        let asked = self.asked(target.0);
        assert!(matches!(asked[..], [(_, Asked::Rebuild(_))]), "{target:?}: {asked:?}");
        target.0
    }

    fn counts(&self) -> (Configuration, Vec<NodeId>) {
        let Reparable::Whole(facts) = self.engine.reparable(self.stripe) else { panic!("the stripe is there") };
        (facts.configuration, facts.members.to_vec())
    }
}

#[test]
fn the_order_leaves_when_every_member_confirmed_that_it_knows() {
    let mut scene = scene();
    scene.plan(0, 4);
    for node in [1, 2] {
        scene.hears(node, [4, 1, 2, 3], &DONE);
        assert_eq!(scene.asked(4), []);
    }
    let told = scene.hears(3, [4, 1, 2, 3], &DONE);
    scene.is_ordered(4, told);
    assert_eq!(scene.counts(), (told, nodes([0, 1, 2, 3])), "until the target has the chunk");
    scene.report(4, Ok(()));
    assert_eq!(scene.counts(), (told, nodes([4, 1, 2, 3])));
    assert!(matches!(scene.asked(0)[..], [(_, Asked::Free(up_to))] if up_to == told));
}

#[test]
fn what_a_member_did_not_hear_is_taken_back_from_the_others() {
    let mut scene = scene();
    scene.plan(0, 4);
    let told = scene.hears(1, [4, 1, 2, 3], &DONE);
    scene.hears(2, [4, 1, 2, 3], &NodeReply::Refused { refusal: Refusal::Immutable, detail: 0 });
    scene.hears(3, [4, 1, 2, 3], &DONE);
    for node in [0, 1, 2, 3] {
        assert!(scene.hears(node, [0, 1, 2, 3], &DONE) > told);
    }
    scene.asks_nothing();
}

#[test]
fn a_chunk_moves_while_enough_members_are_there_to_be_told() {
    let mut scene = scene();
    let away = |scene: &mut Scene, node| {
        scene.engine.nodes.get_mut(NodeId(node)).expect("a node").phase = NodePhase::Suspect;
    };
    away(&mut scene, 3);
    scene.plan(0, 4);
    let told = [1, 2].map(|node| scene.hears(node, [4, 1, 2, 3], &DONE));
    scene.is_ordered(4, told[0]);
    scene.engine.cancel_move(scene.stripe);
    [0, 1, 2].into_iter().for_each(|node| assert_eq!(scene.asked(node).len(), 1));
    scene.asked(4);
    away(&mut scene, 2);
    scene.plan(0, 5);
    scene.asks_nothing();
}

#[test]
fn what_is_lost_is_rebuilt_before_anything_of_its_stripe_moves() {
    let mut scene = scene();
    scene.engine.repair.mark_damaged(scene.stripe, 3, shape());
    scene.plan(0, 4);
    scene.asks_nothing();
}

#[test]
fn a_chunk_whose_node_does_not_answer_does_not_move() {
    let mut scene = scene();
    scene.engine.nodes.get_mut(NodeId(0)).expect("a node").phase = NodePhase::Suspect;
    scene.plan(0, 4);
    scene.asks_nothing();
}

/// It would be told to move again and again, and its stripe would be a spare chunk short without anybody's knowing.
#[test]
fn a_chunk_that_is_found_damaged_when_it_is_to_move_is_looked_at() {
    let mut scene = scene();
    scene.begin(4);
    scene.report(4, Err((Refusal::Damaged, Some(0))));
    let asked: Vec<Asked> = scene.asked(0).into_iter().map(|(_, asked)| asked).collect();
    assert!(matches!(asked[..], [Asked::Inspect, Asked::Reconfigure(..)]), "{asked:?}");
}

/// Node 4 answers what it was asked before the move to it was cancelled: that says nothing of the one to node 5.
#[test]
fn only_who_is_to_hold_the_chunk_says_what_became_of_it() {
    let mut scene = scene();
    let order = scene.begin(4);
    scene.engine.cancel_move(scene.stripe);
    (0..5).for_each(|node| assert_eq!(scene.asked(node).len(), 1, "node {node}"));
    scene.begin(5);
    scene.answer(4, order, &NodeReply::Refused { refusal: Refusal::OutOfMemory, detail: 0 });
    assert!(scene.engine.is_moving_to(scene.stripe, NodeId(5)), "another one's refusal");
    scene.report(4, Ok(()));
    assert_eq!(scene.counts().1, nodes([0, 1, 2, 3]), "another one's success");
    scene.asks_nothing();
    scene.report(5, Ok(()));
    assert_eq!(scene.counts().1, nodes([5, 1, 2, 3]));
}

/// An answer that was lost is not to be waited for.
#[test]
fn a_target_that_answers_nothing_is_ordered_the_same_again() {
    let mut scene = scene();
    let order = scene.begin(4);
    scene.answer(4, order, &DONE);
    let (told, _) = scene.counts();
    scene.engine.now.mono_us = REBUILD_ASK_US;
    scene.engine.repair.due_us = 0;
    scene.engine.give_orders();
    scene.asks_nothing();
    scene.engine.now.mono_us += 1;
    scene.engine.repair.due_us = 0;
    scene.engine.give_orders();
    let order = scene.is_ordered(4, told);
    scene.answer(4, order, &DONE);
    scene.report(4, Ok(()));
    assert_eq!(scene.counts(), (told, nodes([4, 1, 2, 3])));
}

/// The order that was given again crosses the answer to the first one, and is carried out.
#[test]
fn r11_a_move_that_failed_while_it_was_ordered_again_leaves_no_chunk_behind() {
    let mut scene = scene();
    let order = scene.begin(4);
    scene.answer(4, order, &DONE);
    let (told, _) = scene.counts();
    scene.engine.now.mono_us = REBUILD_ASK_US + 1;
    scene.engine.repair.due_us = 0;
    scene.engine.give_orders();
    scene.is_ordered(4, told);
    scene.report(4, Err((Refusal::Unreachable, Some(0))));
    let (free, up_to) = scene.is_to_free(4);
    assert!(up_to >= told && scene.engine.is_to_free(NodeId(4), scene.stripe));
    (0..4).for_each(|node| assert_eq!(scene.asked(node).len(), 1, "node {node}"));
    // What is ordered there later is another number's.
    scene.engine.moves.forgive(NodeId(4));
    scene.plan(0, 4);
    scene.asks_nothing();
    scene.answer(4, free, &DONE);
    scene.begin(4);
    assert!(scene.counts().0 > up_to);
}

/// It took the orders, and hangs before it carries them out.
#[test]
fn who_hangs_is_to_take_no_chunk_any_more() {
    let mut scene = scene();
    let order = scene.begin(4);
    scene.answer(4, order, &DONE);
    let node = scene.engine.nodes.get_mut(NodeId(4)).expect("a node");
    node.phase = NodePhase::Suspect;
    node.sessions[0].sign = Some((PoolKey::from_raw(0), 0));
    scene.engine.now.mono_us = scene.engine.config.request_deadline_us * HUNG_DEADLINES;
    scene.engine.check_deadlines();
    assert!(scene.engine.is_moving_to(scene.stripe, NodeId(4)), "it may only be late");
    scene.engine.now.mono_us += 1;
    scene.engine.check_deadlines();
    assert!(scene.engine.moves.is_idle() && scene.engine.is_to_free(NodeId(4), scene.stripe));
    for node in [0, 1, 2, 3] {
        scene.hears(node, [0, 1, 2, 3], &DONE);
    }
    scene.begin(5);
}

/// What is noted at one look may be unable to move, whatever for.
#[test]
fn each_look_at_what_drains_goes_on_where_the_last_one_ended() {
    let mut scene = scene();
    for number in 0..MOVE_PLAN_MAX as u64 {
        let id = StripeId::new(Epoch(1), 100 + number);
        scene.engine.stripes.insert(Stripe::inherited(
            id,
            PartitionId(0),
            nodes([0, 1, 2, 3]).into(),
            Box::from([0; 2]),
        ));
    }
    scene.engine.moves.draining = [0, 1].map(NodeId).into();
    scene.engine.nodes.get_mut(NodeId(0)).expect("a node").phase = NodePhase::Away;
    let mut counts = Vec::new();
    for _ in 0..3 {
        scene.engine.plan_moves();
        let plan = std::mem::take(&mut scene.engine.moves.plan);
        assert!(plan.iter().all(|planned| planned.from == NodeId(1)), "the other one is away");
        counts.push(plan.len());
    }
    assert_eq!(counts, [MOVE_PLAN_MAX, 1, MOVE_PLAN_MAX]);
}

/// Nodes 0 and 4 are in one failure domain, and the others in another, of which the stripe has three.
fn scene_of_domains() -> Scene {
    let mut scene = scene();
    for node in 0..6 {
        scene.engine.handle_domain(NodeId(node), if node % 4 == 0 { "a" } else { "b" });
    }
    scene.lose(0);
    scene.engine.repair.mark(scene.stripe, 0, shape());
    scene
}

/// The other one of its domain is slow, and nobody else is to have the chunk. That holds up nothing; for some seconds
/// it is waited for.
#[test]
fn a_chunk_that_only_a_slow_node_is_to_have_goes_elsewhere_in_the_end() {
    let mut scene = scene_of_domains();
    scene.engine.nodes.get_mut(NodeId(4)).expect("a node").write_late_us = Some(0);
    for at_us in [1, REPAIR_SLOW_US] {
        scene.engine.now.mono_us = at_us;
        scene.engine.give_orders();
        assert!(scene.engine.repair.is_stuck(scene.stripe) && !scene.engine.repair.is_pressing(), "at {at_us} us");
        scene.asks_nothing();
    }
    assert_eq!(scene.orders_at(REPAIR_SLOW_US + REPAIR_REST_US), 5);
    scene.engine.check_invariants();
}

/// It has enough to do: some moments later it has not.
#[test]
fn a_chunk_that_a_busy_node_is_to_have_waits_for_it() {
    let mut scene = scene_of_domains();
    for number in 0..REPAIR_ORDERS_OF_NODE_MAX as u64 {
        let busy = StripeId::new(Epoch(1), 100 + number);
        scene.engine.stripes.insert(Stripe::inherited(
            busy,
            PartitionId(0),
            nodes([0, 1, 2, 3]).into(),
            Box::from([0; 2]),
        ));
        let planned = Planned { stripe: busy, from: NodeId(1), to: Some(NodeId(4)) };
        assert!(scene.engine.begin_move(planned).is_some());
    }
    scene.engine.now.mono_us = 2 * REPAIR_SLOW_US;
    scene.engine.give_orders();
    assert!(!scene.engine.repair.is_stuck(scene.stripe) && scene.engine.repair.orders.count() == 0);
}

#[test]
fn who_is_to_rebuild_a_chunk_and_answers_nothing_is_ordered_it_again() {
    let mut scene = scene();
    scene.engine.repair.mark_damaged(scene.stripe, 0, shape());
    assert_eq!(scene.orders_at(0), 0);
    let (told, _) = scene.counts();
    for at_us in [REBUILD_ASK_US, REBUILD_ASK_US + 1] {
        scene.asks_nothing();
        scene.engine.now.mono_us = at_us;
        scene.engine.repair.due_us = 0;
        scene.engine.give_orders();
    }
    scene.is_ordered(0, told);
    scene.report(0, Ok(()));
    assert_eq!(scene.engine.repair.missing_count(), 0);
}

/// Nothing that it was told before is left then, and what it is told next has a number above the free's.
#[test]
fn r11_a_chunk_goes_back_to_where_it_came_from_when_that_was_freed() {
    let mut scene = scene();
    scene.begin(4);
    scene.report(4, Ok(()));
    let (free, up_to) = scene.is_to_free(0);
    scene.plan(4, 0);
    scene.asks_nothing();
    scene.engine.free_unanswered(NodeId(0), scene.stripe, 1);
    scene.plan(4, 0);
    scene.asks_nothing();
    scene.answer(0, free, &DONE);
    scene.plan(4, 0);
    for node in [1, 2, 3] {
        assert!(scene.hears(node, [0, 1, 2, 3], &DONE) > up_to);
    }
    assert!(matches!(scene.asked(0)[..], [(_, Asked::Rebuild(number))] if number > up_to));
}

#[test]
fn r11_a_move_that_was_not_made_is_made_when_its_target_has_freed_the_chunk() {
    let mut scene = scene();
    scene.begin(4);
    scene.engine.cancel_move(scene.stripe);
    let (free, up_to) = scene.is_to_free(4);
    assert_eq!(scene.engine.to_be_freed(scene.stripe), up_to.next(Epoch(0)), "the members are told another number");
    (0..4).for_each(|node| assert_eq!(scene.asked(node).len(), 1, "node {node}"));
    scene.plan(0, 4);
    scene.asks_nothing();
    scene.answer(4, free, &DONE);
    scene.begin(4);
}

/// A node confirms that it freed what it had before the chunk came back to it, when the stripe is gone and it is to
/// free that, too: the stripe exists until it did (rule R3).
#[test]
fn r3_a_late_answer_to_a_free_does_not_count_for_the_next() {
    let mut scene = scene();
    scene.begin(4);
    scene.report(4, Ok(()));
    let (first, up_to) = scene.is_to_free(0);
    scene.engine.forget_stripe(scene.stripe);
    scene.engine.free_on(NodeId(0), scene.stripe, PartitionId(0));
    let (second, all) = scene.is_to_free(0);
    assert!(all == Configuration::END && all > up_to);
    scene.answer(0, first, &DONE);
    assert!(scene.engine.is_to_free(NodeId(0), scene.stripe));
    scene.answer(0, second, &DONE);
    assert!(!scene.engine.is_to_free(NodeId(0), scene.stripe));
}

/// Who takes over knows of frees by owners before it nothing: what it orders is of a later number than any of theirs.
#[test]
fn r11_a_free_names_more_than_any_earlier_owner_ever_gave() {
    let scene = scene();
    let epoch = scene.engine.config.epoch;
    let before = Configuration::default().next(Epoch(epoch.0 - 1));
    let up_to = scene.engine.to_be_freed(scene.stripe);
    assert!(before < up_to && up_to < scene.counts().0.next(epoch));
}

/// An owner before this one told node 0 to free the chunk, and died before it told others who holds it: node 0 is still
/// a member, and knows of a higher number than this owner.
#[test]
fn a_member_that_refuses_its_own_chunk_is_ordered_it_under_a_later_number() {
    let mut scene = scene();
    scene.engine.repair.mark_damaged(scene.stripe, 0, shape());
    // Nobody else takes it.
    [4, 5]
        .into_iter()
        .for_each(|node| scene.engine.nodes.get_mut(NodeId(node)).expect("a node").phase = NodePhase::Away);
    let mut orders = Vec::new();
    for round in 0..9 {
        scene.engine.now.mono_us = round * 150_000;
        scene.engine.give_orders();
        for node in 0..4 {
            for (tag, asked) in scene.asked(node) {
                let refused = NodeReply::Refused { refusal: Refusal::Exists, detail: 0 };
                if let Asked::Rebuild(number) = asked {
                    orders.push(number);
                    scene.answer(node, tag, &refused);
                } else {
                    scene.answer(node, tag, &DONE);
                }
            }
        }
    }
    assert!(orders.len() > 1 && orders.windows(2).all(|pair| pair[0] < pair[1]), "{orders:?}");
}

/// Nobody with room takes what node 0 lost; between two looks they are asked in turn.
#[test]
fn what_finds_no_node_is_told_of_until_it_does() {
    let mut scene = scene();
    scene.engine.nodes.get_mut(NodeId(0)).expect("a node").phase = NodePhase::Away;
    scene.engine.retired.insert(NodeId(0), Incarnation(1));
    scene.engine.repair.mark_damaged(scene.stripe, 0, shape());
    let refused = NodeReply::Refused { refusal: Refusal::Exists, detail: 0 };
    let mut stranded = Vec::new();
    for round in 0..40 {
        scene.engine.now.mono_us = round * 150_000;
        scene.engine.give_orders();
        for node in 1..6 {
            for (tag, asked) in scene.asked(node) {
                let is_order = matches!(asked, Asked::Rebuild(_));
                scene.answer(node, tag, if is_order { &refused } else { &DONE });
            }
        }
        stranded.push(scene.engine.stats().totals.stripes_stranded);
        scene.engine.check_invariants();
    }
    let told = stranded.iter().position(|&count| count == 1).expect("it is noticed");
    assert!(told < 20 && stranded[told..].iter().all(|&count| count == 1), "{stranded:?}");
    assert_eq!(scene.engine.stats().totals.chunks_missing, 1);
}

/// A target went away while the others were told of it, and another one is to rebuild the chunk. Answers to the first
/// order say nothing of who knows of the second (rule R11).
#[test]
fn a_late_answer_to_an_order_that_is_over_does_not_count_for_the_next() {
    let mut scene = scene();
    scene.engine.nodes.get_mut(NodeId(0)).expect("a node").phase = NodePhase::Away;
    scene.engine.retired.insert(NodeId(0), Incarnation(1));
    scene.engine.repair.mark_damaged(scene.stripe, 0, shape());
    // As many as may be lost are told of a target: the node, the tag of what it was told, and the target.
    let give = |scene: &mut Scene, at_us| {
        scene.engine.now.mono_us = at_us;
        scene.engine.give_orders();
        let told = (1..4).filter_map(|node| match scene.asked(node).last() {
            Some(&(tag, Asked::Reconfigure(_, ref members))) if members[0] != NodeId(0) => {
                Some((node, tag, members[0]))
            }
            _ => None,
        });
        let told: Vec<_> = told.collect();
        assert_eq!(told.len(), shape().tolerance());
        told
    };
    let first = give(&mut scene, 0);
    scene.engine.drop_orders_of(first[0].2);
    let second = give(&mut scene, 1_000_000);
    let target = second[0].2.0;
    let is_ordered = |scene: &mut Scene| {
        scene.engine.give_orders();
        scene.asked(target).iter().any(|(_, asked)| matches!(asked, Asked::Rebuild(_)))
    };
    for (node, tag, _) in first {
        scene.answer(node, tag, &DONE);
    }
    assert!(!is_ordered(&mut scene));
    for (node, tag, _) in second {
        assert!(!is_ordered(&mut scene));
        scene.answer(node, tag, &DONE);
    }
    assert!(is_ordered(&mut scene));
}

/// More is lost than the code survives: nothing is waited for.
#[test]
fn what_cannot_be_decoded_is_missing_and_not_to_be_rebuilt() {
    let mut scene = scene();
    [0, 1, 2].into_iter().for_each(|chunk| scene.engine.repair.mark(scene.stripe, chunk, shape()));
    let counts =
        |scene: &Scene| (scene.engine.stats().totals.chunks_missing, scene.engine.stats().totals.chunks_to_rebuild);
    assert_eq!(counts(&scene), (3, 3), "nobody looked");
    scene.engine.give_orders();
    assert_eq!(counts(&scene), (3, 0));
    scene.engine.check_invariants();
    scene.engine.repair.mark(scene.stripe, 3, shape());
    assert_eq!(counts(&scene), (4, 0));
    scene.engine.check_invariants();
    [3, 2].into_iter().for_each(|chunk| scene.engine.repair.clear(scene.stripe, chunk));
    assert_eq!(counts(&scene), (2, 2), "enough was found again");
    scene.engine.now.mono_us = 1_000_000;
    scene.engine.give_orders();
    assert_eq!(counts(&scene), (2, 2), "one is ordered");
    scene.engine.check_invariants();
}

/// Who is to have it does not have it yet, and may never get it.
#[test]
fn what_a_node_had_is_left_of_it_until_it_is_rebuilt() {
    let mut scene = scene();
    assert_eq!(scene.left_of(0), None, "it is there");
    scene.lose(0);
    scene.engine.repair.mark(scene.stripe, 0, shape());
    assert_eq!(scene.left_of(0), Some(1));
    let first = scene.orders_at(0);
    assert_eq!(scene.left_of(0), Some(1), "the target is a member");
    scene.lose(first);
    let second = scene.orders_at(1_000_000);
    assert_ne!(second, first);
    assert_eq!(scene.left_of(0), Some(1), "another one is");
    scene.report(second, Ok(()));
    assert_eq!((scene.left_of(0), scene.left_of(first)), (Some(0), Some(0)));
    scene.engine.check_invariants();
}

/// Node 0 lacks what it is to have. Was it to be rebuilt there, then it had been on a node that was given up.
#[test]
fn what_an_earlier_owner_began_to_rebuild_is_left_of_all_that_were_given_up() {
    let mut scene = scene();
    scene.lose(5);
    scene.engine.nodes.get_mut(NodeId(4)).expect("a node").phase = NodePhase::Away;
    scene.engine.note_lost_of(NodeId(0));
    assert_eq!((scene.left_of(4), scene.left_of(5)), (Some(0), Some(0)), "it has no other members than at first");
    scene.engine.repair.clear(scene.stripe, 0);
    scene.engine.tell_members(scene.stripe);
    scene.engine.note_lost_of(NodeId(0));
    assert_eq!((scene.left_of(4), scene.left_of(5)), (Some(0), Some(1)), "what is away may come back");
    scene.engine.repair.clear(scene.stripe, 0);
    assert_eq!(scene.left_of(5), Some(0));
}

#[test]
fn what_was_counted_of_a_node_says_nothing_when_it_goes_or_comes() {
    let mut scene = scene();
    scene.engine.nodes.get_mut(NodeId(5)).expect("a node").phase = NodePhase::Away;
    assert_eq!(scene.left_of(5), Some(0));
    scene.engine.forget_left(NodeId(5));
    assert_eq!(scene.engine.chunks_left(NodeId(5)), None, "it had a life between, with chunks");
    assert_eq!(scene.left_of(5), Some(0));
    // One that drains gets nothing.
    scene.engine.moves.draining.insert(NodeId(5));
    scene.engine.forget_left(NodeId(5));
    assert_eq!(scene.engine.chunks_left(NodeId(5)), Some(0));
}

/// The present owner counts what is there, and the engine once it has followed it.
#[test]
fn an_engine_that_prepares_has_nothing_anywhere() {
    let mut scene = scene();
    scene.engine.handle_draining(&[NodeId(5)].into());
    scene.engine.prepare();
    assert_eq!(scene.engine.chunks_left(NodeId(5)), Some(0));
    scene.engine.preparing = None;
    assert_eq!(scene.engine.chunks_left(NodeId(5)), None, "it has not counted");
}

/// Whoever is told so takes the node out.
#[test]
fn a_node_that_drains_has_what_is_on_its_way_to_it() {
    let mut scene = scene();
    scene.begin(5);
    scene.engine.handle_draining(&[NodeId(5)].into());
    scene.engine.advance_moves();
    assert_eq!(scene.engine.chunks_left(NodeId(5)), Some(1), "it holds nothing yet");
    scene.report(5, Ok(()));
    assert_eq!(scene.engine.chunks_left(NodeId(5)), Some(1));
    assert_eq!(scene.left_of(5), Some(1));
    scene.engine.check_invariants();
}

#[test]
fn a_node_that_drains_has_what_it_is_to_rebuild() {
    let mut scene = scene();
    scene.lose(0);
    scene.engine.note_lost_of(NodeId(0));
    scene.engine.give_orders();
    let target = scene.engine.repair.orders.get(scene.stripe).expect("it is ordered").target();
    assert!(!scene.counts().1.contains(&target), "its members are being told");
    // Four others stay with it, and one more than that is needed.
    scene.engine.moves.draining.insert(target);
    assert_eq!(scene.left_of(target.0), Some(1));
}

#[test]
fn a_node_that_is_used_although_it_drains_is_not_said_to_be_empty() {
    let mut scene = scene();
    scene.engine.handle_draining(&[NodeId(5)].into());
    assert_eq!(scene.left_of(5), Some(0));
    for node in [0, 4] {
        scene.engine.nodes.get_mut(NodeId(node)).expect("a node").phase = NodePhase::Suspect;
    }
    assert_eq!(scene.engine.chunks_left(NodeId(5)), None, "three stay, and a stripe needs four");
    scene.engine.expect_use(&[NodeId(5)], StripeId::new(Epoch(1), 6), 0);
    for node in [0, 4] {
        scene.engine.nodes.get_mut(NodeId(node)).expect("a node").phase = NodePhase::Ready;
    }
    assert_eq!(scene.engine.chunks_left(NodeId(5)), Some(1), "what was put there meanwhile");
}

/// One answer more than one asking waits for: the node drops what it was asked first, and has yet to hear of the rest.
#[test]
fn the_answer_to_an_earlier_free_does_not_end_a_longer_one() {
    let mut scene = scene();
    let (first, last) = (StripeId::new(Epoch(1), 70), StripeId::new(Epoch(1), 72));
    scene.engine.free_range_on(NodeId(5), first, 1, PartitionId(0));
    let (earlier, _) = scene.is_to_free(5);
    scene.engine.free_range_on(NodeId(5), first, 3, PartitionId(0));
    let (later, _) = scene.is_to_free(5);
    scene.answer(5, earlier, &DONE);
    assert!(scene.engine.is_to_free(NodeId(5), last));
    scene.answer(5, later, &DONE);
    assert!(!scene.engine.is_to_free(NodeId(5), last));
}

#[test]
fn members_that_are_to_forget_a_target_confirm_it_before_the_next_order() {
    let mut scene = scene();
    scene.engine.nodes.get_mut(NodeId(0)).expect("a node").phase = NodePhase::Away;
    scene.engine.retired.insert(NodeId(0), Incarnation(1));
    scene.engine.repair.mark_damaged(scene.stripe, 0, shape());
    scene.engine.give_orders();
    let told: Vec<_> = (1..4).flat_map(|node| scene.asked(node).into_iter().map(move |asked| (node, asked))).collect();
    assert_eq!(told.len(), shape().tolerance());
    let Asked::Reconfigure(_, members) = &told[0].1.1 else { panic!("{told:?}") };
    // They know of the target, and it dies before it has the order; then the chunk's own node is back.
    let target = members[0];
    told.iter().for_each(|(node, (tag, _))| scene.answer(*node, *tag, &DONE));
    scene.engine.drop_orders_of(target);
    (1..4).for_each(|node| assert!(matches!(scene.asked(node)[..], [(_, Asked::Reconfigure(..))])));
    scene.engine.retired.clear();
    scene.engine.nodes.get_mut(NodeId(0)).expect("a node").phase = NodePhase::Ready;
    scene.engine.now.mono_us = 1_000_000;
    scene.engine.give_orders();
    assert_eq!(scene.asked(0), [], "it is not known to be a member");
    let told: Vec<_> = (1..4).flat_map(|node| scene.asked(node).into_iter().map(move |asked| (node, asked))).collect();
    assert_eq!(told.len(), shape().tolerance());
    for (node, (tag, _)) in told {
        scene.engine.give_orders();
        assert_eq!(scene.asked(0), []);
        scene.answer(node, tag, &DONE);
    }
    scene.engine.give_orders();
    assert!(matches!(scene.asked(0)[..], [(_, Asked::Rebuild(_))]));
}

#[test]
fn what_nobody_waits_for_leaves_for_one_node_after_another() {
    let mut engine = engine_of_ready_nodes(shape(), 3);
    // Nodes are asked for nothing else meanwhile.
    engine.usage_us = 1_000_000;
    let locate = |engine: &mut Engine, node| {
        let stripe = StripeId::new(Epoch(1), 5);
        engine.ask(NodeId(node), stripe, &NodeRequest::Locate { stripe }, What::Nothing);
    };
    let sent_at = |engine: &mut Engine, at_us| -> Vec<u16> {
        engine.end_turn(Now { mono_us: at_us, ..Now::default() });
        let sends = |&node: &u16| {
            let output = engine.session_output(SessionId { node: NodeId(node), core: 0 });
            output.is_some_and(|output| !std::mem::take(output).is_empty())
        };
        (0..3).filter(sends).collect()
    };
    assert_eq!(sent_at(&mut engine, 0), [0; 0]);
    (0..3).for_each(|node| locate(&mut engine, node));
    let first = sent_at(&mut engine, 10_000);
    assert_eq!(first.len(), 1);
    assert_eq!(sent_at(&mut engine, 10_000 + GATHER_US / 3 - 1), [0; 0]);
    assert!(engine.poll_deadline().is_some_and(|due_us| due_us <= 10_000 + GATHER_US / 3));
    let second = sent_at(&mut engine, 10_000 + GATHER_US / 3);
    let third = sent_at(&mut engine, 10_000 + GATHER_US);
    let mut all = [first, second, third].concat();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2]);
}

#[test]
fn what_is_being_emptied_is_rebuilt_until_it_is_void() {
    let mut scene = scene();
    let slot = scene.engine.stripes.slot_of(scene.stripe).expect("it is there");
    scene.engine.stripes.at_mut(slot).become_phase(StripePhase::Leaving);
    scene.lose(0);
    scene.engine.note_lost_of(NodeId(0));
    assert_eq!(scene.engine.repair.missing_count(), 1);
    let target = scene.orders_at(1_000_000);
    assert!([4, 5].contains(&target), "{target}");
    scene.report(target, Ok(()));
    assert_eq!(scene.engine.repair.missing_count(), 0);
    scene.engine.declare_void(slot, Vec::new());
    assert!(matches!(scene.engine.reparable(scene.stripe), Reparable::Over));
    scene.lose(1);
    scene.engine.note_lost_of(NodeId(1));
    assert_eq!(scene.engine.repair.missing_count(), 0, "nobody needs it");
}

/// The nodes of the last opening are used again, unless one of them is to get nothing more.
#[test]
fn no_stripe_is_opened_on_a_node_that_drains() {
    for draining in [None, Some(NodeId(0)), Some(NodeId(3))] {
        let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
        engine.handle_draining(&[NodeId(7)].into());
        engine.open_stripe(PartitionId(0), Urgency::Client).expect("there is room");
        let first = engine.stripes.iter().next().expect("it was opened").1.members.clone();
        let drains = draining.map(|place| first[usize::from(place.0)]);
        engine.handle_draining(&drains.into_iter().chain([NodeId(7)]).collect());
        engine.open_stripe(PartitionId(1), Urgency::Client).expect("there is room");
        let of_second = |stripe: &&Stripe<_>| stripe.partition == PartitionId(1);
        let second = engine.stripes.iter().map(|(_, stripe)| stripe).find(of_second).expect("it was opened");
        assert!(drains.is_none_or(|node| !second.members.contains(&node)), "{:?}", second.members);
        assert_eq!(second.members == first, drains.is_none());
    }
}

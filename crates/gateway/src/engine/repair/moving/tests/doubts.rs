//! Members that do not hold what they are to hold, of which nobody knew: whatever they refuse for that shows it, so
//! that no repair and no move fails for the same reason for ever.

use shorttail_units::{OpNumber, Slot};
use shorttail_wire::node::{ChunkDescription, ChunkKind, ChunkReport, InspectReport, Members, Scanned};

use super::*;
use crate::engine::state::index::HashedKey;
use crate::engine::state::testing::touch_of;
use crate::engine::takeover::census::Census;
use crate::engine::takeover::picture::Picture;
use crate::engine::takeover::recovery::Gathering;
use crate::engine::write::lock::LockPhase;
use crate::engine::write::manifest::Manifest;
use crate::engine::write::striped_objects::StripedObject;
use crate::engine::{KeyRef, Phase};

const NO_CHUNK: NodeReply<'_> = NodeReply::Refused { refusal: Refusal::NoChunk, detail: 0 };

impl Scene {
    /// What a node with chunk `index` of the stripe shows of it.
    pub(super) fn shown(&self, index: u8, sealed: bool) -> ChunkReport {
        let description = ChunkDescription {
            stripe: self.stripe,
            epoch: Epoch(1),
            partition: PartitionId(0),
            kind: ChunkKind::Packed,
            index,
            shape: shape(),
            chunk_bytes: 1 << 20,
            configuration: Configuration::default(),
            members: Members(nodes([0, 1, 2, 3])),
        };
        let (last, close_op) = (OpNumber(0), OpNumber(0));
        let (folded, close_epoch) = (last, Epoch(0));
        ChunkReport {
            description,
            sealed,
            damaged: false,
            length: 0,
            last,
            folded,
            close_epoch,
            close_op,
            payload_crc: 0,
        }
    }

    /// The node is asked to look at its chunk, and maybe told something else.
    fn is_doubted(&mut self, node: u16) -> u64 {
        let asked = self.asked(node);
        let looks = asked.iter().filter(|(_, asked)| *asked == Asked::Inspect).map(|(tag, _)| *tag).collect::<Vec<_>>();
        let [tag] = looks[..] else { panic!("node {node}: {asked:?}") };
        tag
    }

    fn shows(&mut self, node: u16, report: ChunkReport) {
        let tag = self.is_doubted(node);
        self.answer(node, tag, &NodeReply::Inspected(InspectReport { report, raw: Vec::new() }));
    }

    fn lacking(&self) -> Vec<usize> {
        self.engine.repair.lacks(self.stripe).iter().collect()
    }
}

/// The next owner would look for it elsewhere.
#[test]
fn who_heard_of_another_target_forgets_it_when_the_chunk_is_there_after_all() {
    let mut scene = scene();
    scene.lose(0);
    scene.engine.repair.mark(scene.stripe, 0, shape());
    scene.engine.give_orders();
    let told: Vec<_> = (1..4).flat_map(|node| scene.asked(node)).collect();
    let [(_, Asked::Reconfigure(of_target, members)), _] = &told[..] else { panic!("{told:?}") };
    assert_ne!(members[0], NodeId(0));
    let report = scene.shown(0, true);
    scene.engine.note_found(NodeId(0), &report);
    assert_eq!(scene.lacking(), [0; 0]);
    for node in 1..4 {
        assert!(scene.hears(node, [0, 1, 2, 3], &DONE) > *of_target, "node {node}");
    }
    scene.engine.give_orders();
    scene.asks_nothing();
}

/// A parity is made of all data chunks: should one that is believed to be there not be, it would be asked for ever.
#[test]
fn a_source_that_is_not_there_is_rebuilt_first() {
    let mut scene = scene();
    scene.engine.repair.mark(scene.stripe, 2, shape());
    scene.engine.give_orders();
    let asked = scene.asked(2);
    assert!(matches!(asked[..], [(_, Asked::Rebuild(_))]), "{asked:?}");
    scene.report(2, Err((Refusal::NoChunk, Some(1))));
    let tag = scene.is_doubted(1);
    scene.answer(1, tag, &NO_CHUNK);
    assert_eq!(scene.lacking(), [1, 2]);
    scene.engine.now.mono_us = 1_000_000;
    scene.engine.give_orders();
    let asked = scene.asked(1);
    assert!(matches!(asked[..], [(_, Asked::Rebuild(_))]), "{asked:?}");
    scene.report(1, Ok(()));
    scene.engine.now.mono_us = 2_000_000;
    scene.engine.give_orders();
    scene.report(2, Ok(()));
    assert!(scene.lacking().is_empty());
    scene.engine.check_invariants();
}

#[test]
fn a_member_that_cannot_note_a_move_is_looked_at() {
    let mut scene = scene();
    scene.plan(0, 4);
    let asked = scene.asked(2);
    let [(tag, Asked::Reconfigure(..))] = asked[..] else { panic!("{asked:?}") };
    scene.answer(2, tag, &NO_CHUNK);
    let tag = scene.is_doubted(2);
    scene.answer(2, tag, &NO_CHUNK);
    assert_eq!(scene.lacking(), [2]);
}

#[test]
fn a_member_that_cannot_note_who_is_to_rebuild_is_looked_at() {
    let mut scene = scene();
    scene.lose(0);
    scene.engine.repair.mark(scene.stripe, 0, shape());
    scene.engine.give_orders();
    let told: Vec<_> = (1..4).flat_map(|node| scene.asked(node).into_iter().map(move |(tag, _)| (node, tag))).collect();
    for &(node, tag) in &told {
        scene.answer(node, tag, &NodeReply::Refused { refusal: Refusal::NotAtOp, detail: 0 });
    }
    for &(node, _) in &told {
        let report = scene.shown(node as u8, node != told[0].0);
        scene.shows(node, report);
    }
    assert_eq!(scene.lacking(), [0, usize::from(told[0].0)], "nobody sealed it; the other one's is as it should be");
}

#[test]
fn a_member_that_holds_another_chunk_of_the_stripe_lacks_its_own() {
    let mut scene = scene();
    scene.engine.doubt_chunk(NodeId(1), scene.stripe, Some(Refusal::Invalid));
    let report = scene.shown(3, true);
    scene.shows(1, report);
    assert_eq!(scene.lacking(), [1]);
}

#[test]
fn what_a_node_refuses_for_other_reasons_says_nothing_of_its_chunk() {
    let mut scene = scene();
    for refusal in [None, Some(Refusal::Busy), Some(Refusal::Unreachable), Some(Refusal::Fenced)] {
        scene.engine.doubt_chunk(NodeId(1), scene.stripe, refusal);
    }
    scene.asks_nothing();
}

/// The two do not reach each other: another one may reach both.
#[test]
fn who_does_not_reach_a_chunk_does_not_get_it() {
    let mut scene = scene();
    scene.begin(4);
    scene.report(4, Err((Refusal::Unreachable, Some(0))));
    let Reparable::Whole(facts) = scene.engine.reparable(scene.stripe) else { panic!("the stripe is there") };
    let targets = scene.engine.targets_of_move(scene.stripe, &facts);
    assert_eq!(targets.iter().map(|one| one.node).collect::<Vec<_>>(), [NodeId(5)]);
}

/// All that is left is needed, and the node that is to rebuild does not reach a part of it.
#[test]
fn another_node_rebuilds_what_one_does_not_reach_all_of() {
    let mut scene = scene();
    [0, 1].into_iter().for_each(|node| scene.lose(node));
    [0, 1].into_iter().for_each(|chunk| scene.engine.repair.mark(scene.stripe, chunk, shape()));
    let first = scene.orders_at(0);
    scene.report(first, Err((Refusal::Unreachable, Some(2))));
    let second = scene.orders_at(1_000_000);
    assert_ne!(second, first);
    scene.report(second, Ok(()));
    assert_eq!(scene.lacking(), [1]);
    scene.engine.check_invariants();
}

/// A member was away when the stripe was read, and told before the new owner serves that it holds nothing, though its
/// memory is old enough.
#[test]
fn who_was_away_when_a_stripe_was_read_lacks_what_it_does_not_show() {
    let mut scene = scene();
    let mut census = Census::default();
    for node in 0..4 {
        let session = SessionId { node: NodeId(node), core: 0 };
        census.take_joined(session, PartitionId(0), StripeId::default());
        scene.engine.nodes.session_mut(session).expect("a session").greeted = true;
        if node != 3 {
            census.take(session, scene.shown(node as u8, true));
        }
    }
    scene.engine.note_inherited_losses(&census);
    assert_eq!(scene.lacking(), [3]);
    scene.engine.check_invariants();
}

/// A chunk moved from node 1, which has not freed it yet, and another one of the stripe was to be rebuilt there.
#[test]
fn a_chunk_that_is_to_lie_elsewhere_is_not_taken_for_the_one_that_is_to_be_here() {
    let mut scene = scene();
    let mut census = Census::default();
    for (node, index) in [(0, 0), (1, 3), (2, 2), (3, 3)] {
        let session = SessionId { node: NodeId(node), core: 0 };
        census.take_joined(session, PartitionId(0), StripeId::default());
        scene.engine.nodes.session_mut(session).expect("a session").greeted = true;
        census.take(session, scene.shown(index, true));
    }
    scene.engine.note_inherited_losses(&census);
    assert_eq!(scene.lacking(), [1], "its chunk, though its node shows one of the stripe");
    scene.engine.give_orders();
    assert!(matches!(scene.asked(1)[..], [(_, Asked::Rebuild(_))]));
    // It has one of the stripe.
    scene.report(1, Err((Refusal::Exists, None)));
    let later = Now { mono_us: REPAIR_REST_US, ..Now::default() };
    scene.engine.set_now(later);
    scene.engine.give_orders();
    let targets: Vec<Vec<NodeId>> = [0, 2, 3].iter().flat_map(|&node| scene.asked(node)).filter_map(told).collect();
    assert!(targets.iter().any(|members| members[1] >= NodeId(4)), "{targets:?}");
    scene.engine.check_invariants();
}

fn told((_, asked): (u64, Asked)) -> Option<Vec<NodeId>> {
    if let Asked::Reconfigure(_, members) = asked { Some(members) } else { None }
}

/// It died in a life that only this gateway met, and is removed by the name of the one before.
#[test]
fn who_is_removed_has_lost_what_it_had_in_any_life() {
    let mut scene = scene();
    scene.engine.nodes.get_mut(NodeId(1)).expect("a node").incarnation = Some(Incarnation(7));
    scene.engine.handle_removed(NodeId(1), Incarnation(6));
    scene.engine.give_orders();
    assert_eq!(scene.lacking(), [1]);
    scene.engine.check_invariants();
}

/// Of one that was taken out long ago the coordinator knows no life any more.
#[test]
fn who_was_removed_is_not_lost_again_by_another_name() {
    let mut scene = scene();
    scene.engine.handle_removed(NodeId(1), Incarnation(1));
    scene.engine.give_orders();
    let retired = scene.engine.retired.clone();
    assert!(scene.engine.repair.losing.is_empty(), "all of it is looked at");
    scene.engine.handle_removed(NodeId(1), Incarnation(0));
    assert!(scene.engine.retired == retired && scene.engine.repair.losing.is_empty(), "nothing is looked at again");
    assert!(!scene.engine.is_gone(NodeId(40)));
    scene.engine.handle_removed(NodeId(40), Incarnation(0));
    assert!(scene.engine.is_gone(NodeId(40)), "nobody waits for it");
    scene.engine.check_invariants();
}

#[test]
fn a_stripe_that_is_stuck_has_lost_what_is_on_nodes_that_are_gone() {
    let mut scene = scene();
    scene.lose(1);
    scene.engine.repair.mark(scene.stripe, 2, shape());
    scene.engine.give_orders();
    assert_eq!(scene.lacking(), [1, 2]);
    scene.engine.check_invariants();
}

/// A parity that is damaged on its way does not show; the next order does without it.
#[test]
fn a_parity_is_to_blame_for_what_is_wrong_though_all_data_chunks_are_right() {
    let mut scene = scene();
    scene.engine.repair.mark(scene.stripe, 0, shape());
    let mut parities: Vec<usize> = Vec::new();
    for at_us in [0, 1_000_000] {
        scene.engine.now.mono_us = at_us;
        scene.engine.give_orders();
        let order = scene.engine.repair.orders.get(scene.stripe).expect("an order");
        parities.extend(order.sources().iter().filter(|&&source| source >= 2));
        scene.report(0, Err((Refusal::Damaged, None)));
        let parity = *parities.last().expect("one of two data chunks is lost") as u16;
        scene.is_doubted(parity);
    }
    parities.sort_unstable();
    assert_eq!(parities, [2, 3], "each in its turn");
}

/// Members know of others under the number of an order for a chunk's own node, and refuse it: the next one has a later
/// number.
#[test]
fn a_number_that_members_refuse_is_not_given_again() {
    let mut scene = scene();
    scene.engine.tell_members(scene.stripe);
    (0..4).for_each(|node| _ = scene.asked(node));
    scene.engine.repair.mark(scene.stripe, 0, shape());
    let mut numbers = Vec::new();
    for at_us in [0, 1_000_000] {
        scene.engine.now.mono_us = at_us;
        scene.engine.give_orders();
        for node in 1..4 {
            for (tag, asked) in scene.asked(node) {
                let Asked::Reconfigure(number, _) = asked else { continue };
                numbers.push(number);
                scene.answer(node, tag, &NodeReply::Refused { refusal: Refusal::Invalid, detail: 0 });
            }
        }
    }
    let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
    assert!(first < last, "{numbers:?}");
    scene.engine.check_invariants();
}

/// Its manifest is written anew, again and again. Its pieces are what they were.
#[test]
fn an_object_that_is_touched_is_repaired_all_the_same() {
    let mut engine = engine_of_ready_nodes(shape(), 6);
    let (first, members) = (StripeId::new(Epoch(1), 5), nodes([0, 1, 2, 3]).into());
    let manifest = Manifest { value_bytes: 100, first, stripe_count: 1, piece_bytes: 64, shape: shape(), members };
    engine.striped.insert(StripedObject::new(b"key".to_vec(), PartitionId(0), manifest.clone()));
    let mut scene = Scene { engine, stripe: first };
    scene.lose(0);
    scene.engine.repair.mark(first, 0, shape());
    scene.engine.give_orders();
    let told: Vec<_> = (1..4).flat_map(|node| scene.asked(node).into_iter().map(move |(tag, _)| (node, tag))).collect();
    told.iter().for_each(|&(node, tag)| scene.answer(node, tag, &DONE));
    let key = KeyRef { bytes: b"key", hashed: HashedKey { slot: Slot::of_key(b"key"), hash: 1 } };
    scene.engine.locks.insert(key, LockPhase::Writing(Box::new(touch_of(manifest))));
    // The order is to leave now.
    scene.engine.give_orders();
    let orders = [4, 5].map(|node| scene.asked(node));
    assert!(matches!(orders.concat()[..], [(_, Asked::Rebuild(_))]), "{orders:?}");
    scene.engine.check_invariants();
}

/// A scan looks at the header only, and so does a process that takes over a memory file.
#[test]
fn what_was_damaged_is_looked_at_as_a_whole_before_it_counts_as_there() {
    for holds in [false, true] {
        let mut scene = scene();
        scene.engine.repair.mark_damaged(scene.stripe, 2, shape());
        let report = scene.shown(2, true);
        scene.engine.note_found(NodeId(2), &report);
        assert_eq!(scene.lacking(), [2], "it is as it was");
        scene.shows(2, ChunkReport { damaged: !holds, ..report });
        assert_eq!(scene.lacking().is_empty(), holds);
        assert!(scene.engine.suspected.is_empty());
        scene.engine.check_invariants();
    }
}

/// Nodes that had told were compared when the take-over ended, and this one was in the middle of its scan.
#[test]
fn what_a_node_told_before_the_take_over_ended_counts_when_its_scan_ends() {
    let mut scene = scene();
    let description = scene.shown(0, true).description;
    let told = [(1, 2, true, false), (2, 1, true, true), (3, 1, false, false), (4, 1, true, false)];
    let mut reports: Vec<ChunkReport> = Vec::new();
    for (number, index, sealed, damaged) in told {
        let stripe = StripeId::new(Epoch(1), 100 + number);
        let members = nodes([0, 1, 2, 3]).into();
        scene.engine.stripes.insert(Stripe::inherited(stripe, PartitionId(0), members, Box::from([0; 2])));
        let description = ChunkDescription { stripe, index, ..description.clone() };
        reports.push(ChunkReport { description, sealed, damaged, ..scene.shown(0, true) });
    }
    // The first answer is full, so there is more to tell.
    for number in 1_000..2_020 {
        let description = ChunkDescription { stripe: StripeId::new(Epoch(1), number), ..description.clone() };
        reports.push(ChunkReport { description, ..scene.shown(0, true) });
    }
    let id = SessionId { node: NodeId(1), core: 0 };
    let gathering = Gathering::new(0, Picture::new(2), Census::default());
    let serving = std::mem::replace(&mut scene.engine.phase, Phase::Gathering(Box::new(gathering)));
    scene.engine.scan(id);
    let number = scene.engine.scan_count;
    scene.engine.scanned(id, number, Scanned { change: 9, reports, is_complete: true, ..Scanned::default() });
    scene.engine.phase = serving;
    let description = ChunkDescription { index: 1, stripe: StripeId::new(Epoch(1), 3_000), ..description };
    let last = ChunkReport { description, ..scene.shown(1, true) };
    scene.engine.scanned(id, number, Scanned { change: 9, reports: vec![last], ..Scanned::default() });
    let lacks_it = |number: &u64| scene.engine.repair.lacks(StripeId::new(Epoch(1), 100 + number)).contains(1);
    let lacking: Vec<u64> = (1..=4).filter(lacks_it).collect();
    assert_eq!(lacking, [1, 2, 3], "another one's, damaged, left open; not what is as it should be");
    scene.engine.check_invariants();
}

/// An earlier owner told the members of a move, and neither end of it was there when this one began.
#[test]
fn what_comes_back_counts_until_the_member_in_its_place_shows_the_chunk() {
    for has_shown in [false, true] {
        let mut scene = scene();
        let slot = scene.engine.stripes.slot_of(scene.stripe).expect("it is there");
        let told = Configuration::default().next(Epoch(1));
        let stripe = scene.engine.stripes.at_mut(slot);
        (stripe.configuration, stripe.members) = (told, nodes([4, 1, 2, 3]).into());
        let member = scene.engine.nodes.get_mut(NodeId(4)).expect("a node");
        (member.phase, member.incarnation) = (NodePhase::Away, Some(Incarnation(1)));
        member.sessions[0].told = has_shown.then_some(Incarnation(1));
        let report = scene.shown(0, true);
        scene.engine.note_found(NodeId(0), &report);
        let (configuration, members) = scene.counts();
        assert_eq!(members, nodes(if has_shown { [4, 1, 2, 3] } else { [0, 1, 2, 3] }));
        assert_eq!(configuration > told, !has_shown);
        assert!(scene.lacking().is_empty());
        scene.engine.check_invariants();
    }
}

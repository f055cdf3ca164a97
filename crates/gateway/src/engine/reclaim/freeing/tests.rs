//! In what steps nodes are asked to free, also those that were away.

use shorttail_units::{ClusterId, CodeShape, Epoch, Incarnation, StripeId};
use shorttail_wire::node::{HelloReply, NodeReply, PROTOCOL_VERSION, Refusal, Scanned, next_frame};

use super::*;
use crate::engine::SessionId;
use crate::engine::limits::TICK_US;
use crate::engine::state::testing::{engine_of_one_node, engine_of_ready_nodes, turn_after};

#[test]
fn the_longest_value_of_one_piece_a_stripe_is_freed_in_ranges_that_nodes_take() {
    let mut engine = engine_of_one_node();
    // Each stripe holds less than a chunk of a value of 1 GiB.
    let count = ((1usize << 30) / (engine.config.chunk_bytes - 64)) as u32 + 1;
    let first = StripeId::new(Epoch(1), 5);
    for count in [1, FREE_COUNT_MAX as u32, count, 3 * count] {
        engine.voids.pending.clear();
        engine.free_range_on(NodeId(0), first, count, PartitionId(0));
        let mut next = first;
        for (&begin, free) in &engine.voids.pending[&NodeId(0)].by_first {
            assert_eq!(begin, next, "without a gap");
            assert!((1..=FREE_COUNT_MAX).contains(&(free.count as usize)), "{}", free.count);
            next = begin.plus(u64::from(free.count));
        }
        assert_eq!(next, first.plus(u64::from(count)));
    }
}

/// While an object of a void stripe is locked its members are not told to free it. A node that is no member is never
/// told.
#[test]
fn who_is_no_member_of_a_void_stripe_and_holds_nothing_is_not_waited_for() {
    let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 3);
    let (id, record) = (StripeId::new(Epoch(1), 1), VoidRecord { at: StripeId::new(Epoch(1), 2), bytes: 9 });
    let [member, other] = [NodeId(0), NodeId(2)];
    let members = [member, NodeId(1)].to_vec().into();
    let (partition, ending) = (PartitionId(0), Ending::Held);
    engine.voids.emptied.insert(id, Emptied { partition, members, ending, only_by_record: true, doomed: Vec::new() });
    engine.voids.declared.insert(id, Declared { record, unconfirmed: [member, other].into() });
    engine.settle_voids_of(other);
    engine.settle_voids_of(member);
    assert_eq!(engine.voids.declared[&id].unconfirmed, [member].into());
}

const FREED: u64 = 100_000;
/// The one that was away.
const AWAY: SessionId = SessionId { node: NodeId(1), core: 0 };

/// An owner that freed much while a node was away.
fn engine_that_freed() -> Engine {
    let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 2);
    engine.handle_session_closed(engine.now, AWAY);
    (1..=FREED).for_each(|number| engine.free_on(AWAY.node, StripeId::new(Epoch(1), number), PartitionId(0)));
    engine
}

fn asked_count(engine: &Engine) -> usize {
    engine.voids.pending.get(&AWAY.node).map_or(0, |frees| frees.asked_count)
}

/// What leaves now for the node.
fn sent(engine: &mut Engine) -> Vec<u8> {
    engine.nodes.session_mut(AWAY).and_then(|session| session.batch().map(std::mem::take)).unwrap_or_default()
}

/// What the node says to this, which holds nothing; and what it freed.
fn answers(asked: &[u8]) -> (Vec<u8>, Vec<u64>) {
    let (mut at, mut said, mut freed) = (0, Vec::new(), Vec::new());
    while let Some((frame, length)) = next_frame(&asked[at..]).expect("frames") {
        at += length;
        let reply = match NodeRequest::parse(&frame).expect("a request") {
            NodeRequest::Hello(hello) => NodeReply::Hello(HelloReply {
                version: PROTOCOL_VERSION,
                cluster: hello.cluster,
                node: AWAY.node,
                incarnation: Incarnation(1),
                core_count: 1,
                memory_bytes: 1 << 30,
                used_bytes: 0,
                held_bytes: 0,
                near: None,
                ring: None,
            }),
            NodeRequest::Fence { .. } => NodeReply::Fenced { joined: StripeId::default() },
            NodeRequest::Scan { .. } => {
                NodeReply::Chunks(Scanned { is_complete: true, change: 1, ..Scanned::default() })
            }
            request => {
                if let NodeRequest::Free { first, count: 1, .. } = request {
                    freed.push(first.counter());
                }
                NodeReply::Done { used_bytes: 0, held_bytes: 0 }
            }
        };
        reply.encode(frame.tag, &mut said);
    }
    (said, freed)
}

/// The node takes what was sent, and answers; what it freed.
fn node_answers(engine: &mut Engine) -> Vec<u64> {
    let (said, freed) = answers(&sent(engine));
    let consumed = engine.handle_session_input(engine.now, AWAY, &said);
    assert_eq!(consumed.expect("frames"), said.len());
    freed
}

fn come_back(engine: &mut Engine) {
    engine.handle_session_opened(engine.now, AWAY);
    while !engine.nodes.is_ready(AWAY.node) {
        assert_eq!(node_answers(engine), []);
    }
}

#[test]
fn a_node_that_was_away_is_asked_to_free_some_at_a_time_and_for_all_in_the_end() {
    let mut engine = engine_that_freed();
    assert_eq!(engine.config.cluster, ClusterId(7));
    assert!(!engine.is_reclaiming(), "nobody can be asked");
    come_back(&mut engine);
    let mut freed = BTreeSet::new();
    let mut times_away = 0;
    while freed.len() < FREED as usize {
        assert!(engine.is_reclaiming(), "who waits for memory gets it");
        let before = asked_count(&engine);
        turn_after(&mut engine, 1_000);
        let asked = asked_count(&engine);
        assert!(asked <= FREES_ASKED_MAX && asked - before <= FREES_OF_TURN_MAX, "{before}, then {asked}");
        freed.extend(node_answers(&mut engine));
        if freed.len() as u64 > FREED / 3 * (times_away + 1) {
            times_away += 1;
            // It took some that it does not answer.
            turn_after(&mut engine, 1_000);
            sent(&mut engine);
            engine.handle_session_closed(engine.now, AWAY);
            assert!(!engine.is_reclaiming());
            turn_after(&mut engine, 1_000);
            come_back(&mut engine);
        }
    }
    assert!(times_away >= 2 && !engine.is_reclaiming() && engine.voids.pending.is_empty());
}

#[test]
fn a_read_waits_for_nothing_that_was_freed_while_its_node_was_away() {
    let mut engine = engine_that_freed();
    come_back(&mut engine);
    for _ in 0..10 {
        turn_after(&mut engine, 1_000);
        node_answers(&mut engine);
    }
    while answers(&sent(&mut engine)).1.is_empty() {
        turn_after(&mut engine, 1_000);
    }
    turn_after(&mut engine, 1_000);
    let stripe = StripeId::new(Epoch(1), FREED + 1);
    let read = engine.ask(AWAY.node, stripe, &NodeRequest::ReadRecord { stripe, offset: 0 }, What::Nothing);
    let left = sent(&mut engine);
    let (mut at, mut is_among_them) = (0, false);
    while let Some((frame, length)) = next_frame(&left[at..]).expect("frames") {
        at += length;
        is_among_them |= frame.tag == read.raw();
    }
    assert!(is_among_them, "although frees are not answered");
    assert!(left.len() < 100 * FREES_ASKED_MAX, "{} bytes before its answer", left.len());
}

/// Its core refuses: it is asked once a tick, and the others meanwhile.
#[test]
fn what_a_node_refuses_to_free_holds_up_no_other() {
    let mut engine = engine_that_freed();
    come_back(&mut engine);
    let (mut freed, mut refused) = (0, 0);
    const TURNS: usize = 3_000;
    for _ in 0..TURNS {
        turn_after(&mut engine, 1_000);
        let asked = sent(&mut engine);
        let (mut said, mut at) = (Vec::new(), 0);
        while let Some((frame, length)) = next_frame(&asked[at..]).expect("frames") {
            at += length;
            let request = NodeRequest::parse(&frame).expect("a request");
            let is_refused = matches!(request, NodeRequest::Free { first, .. } if first.counter() <= 300);
            freed += usize::from(matches!(request, NodeRequest::Free { .. }) && !is_refused);
            refused += usize::from(is_refused);
            let reply = match is_refused {
                true => NodeReply::Refused { refusal: Refusal::Invalid, detail: 0 },
                false => NodeReply::Done { used_bytes: 0, held_bytes: 0 },
            };
            reply.encode(frame.tag, &mut said);
        }
        engine.handle_session_input(engine.now, AWAY, &said).expect("frames");
    }
    let tick_count = TURNS / (TICK_US as usize / 1_000);
    assert!(refused <= 300 * (tick_count + 1), "{refused} refused");
    assert_eq!(freed, FREED as usize - 300, "each once");
}

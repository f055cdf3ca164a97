//! How fast what a flush ended is freed, and who waits for that.

use shorttail_monitor::{Class, Opinion, Opinions};
use shorttail_units::{CodeShape, Epoch, NodeId, PartitionId};
use shorttail_wire::node::{NodeReply, NodeRequest, next_frame};

use super::*;
use crate::engine::state::testing::{engine_of_ready_nodes, turn_after};
use crate::engine::write::manifest::Manifest;
use crate::engine::{SessionId, What};

const NODES: [NodeId; 2] = [NodeId(0), NodeId(1)];

/// The owner of so many large values, just flushed.
fn engine_of_flushed(count: u64) -> Engine {
    let shape = CodeShape::reed_solomon(1, 1).expect("a code");
    let mut engine = engine_of_ready_nodes(shape, 2);
    turn_after(&mut engine, 10_000);
    for node in NODES {
        let (asked, _) = sent(&mut engine, node);
        answer(&mut engine, node, &asked);
    }
    for number in 1..=count {
        let first = StripeId::new(Epoch(1), number);
        let manifest =
            Manifest { value_bytes: 9, first, stripe_count: 1, piece_bytes: 13, shape, members: NODES.into() };
        engine.striped.insert(StripedObject::new(number.to_string().into_bytes(), PartitionId(0), manifest));
    }
    let floor = engine.take_version();
    engine.apply_floor(floor);
    assert!(engine.striped.is_empty() && engine.striped.value_bytes() == 0);
    engine
}

/// What leaves now for a node: the tags of all, and the stripes that it is to free.
fn sent(engine: &mut Engine, node: NodeId) -> (Vec<u64>, Vec<u64>) {
    let session = engine.nodes.session_mut(SessionId { node, core: 0 }).expect("a session");
    let bytes = session.batch().map(std::mem::take).unwrap_or_default();
    let (mut at, mut tags, mut freed) = (0, Vec::new(), Vec::new());
    while let Some((frame, length)) = next_frame(&bytes[at..]).expect("frames") {
        at += length;
        tags.push(frame.tag);
        if let NodeRequest::Free { first, count: 1, .. } = NodeRequest::parse(&frame).expect("a request") {
            freed.push(first.counter());
        }
    }
    (tags, freed)
}

fn answer(engine: &mut Engine, node: NodeId, tags: &[u64]) {
    let mut answers = Vec::new();
    let done = NodeReply::Done { used_bytes: 0, held_bytes: 0 };
    tags.iter().for_each(|&tag| done.encode(tag, &mut answers));
    let consumed = engine.handle_session_input(engine.now, SessionId { node, core: 0 }, &answers);
    assert_eq!(consumed.expect("frames"), answers.len());
}

#[test]
fn what_a_flush_ended_is_freed_once_and_some_at_a_time() {
    let count = 100_000;
    let mut engine = engine_of_flushed(count);
    assert!(NODES.iter().all(|&node| sent(&mut engine, node).1.is_empty()), "not with the flush itself");
    let mut freed = [Vec::new(), Vec::new()];
    while !engine.flushed.is_empty() || engine.is_reclaiming() {
        assert!(engine.can_reclaim(), "who waits for memory gets it");
        turn_after(&mut engine, 10_000);
        for (node, freed) in NODES.into_iter().zip(&mut freed) {
            let (tags, some) = sent(&mut engine, node);
            assert!(some.len() <= 2 * FLUSHED_FREES_MAX, "{} at once", some.len());
            freed.extend(some);
            answer(&mut engine, node, &tags);
        }
        assert!(engine.frees_under_way() < 2 * FLUSHED_FREES_MAX);
    }
    freed.into_iter().for_each(|freed| assert!(freed.into_iter().eq(1..=count), "each once"));
}

#[test]
fn a_read_waits_for_nothing_that_was_flushed() {
    let mut engine = engine_of_flushed(10_000);
    while sent(&mut engine, NODES[0]).1.is_empty() {
        turn_after(&mut engine, 10_000);
    }
    let stripe = StripeId::new(Epoch(1), 1);
    let read = engine.ask(NODES[0], stripe, &NodeRequest::ReadRecord { stripe, offset: 0 }, What::Nothing);
    assert!(sent(&mut engine, NODES[0]).0.contains(&read.raw()), "although frees are not answered");
}

/// A node that does not answer is waited for, until it is late.
#[test]
fn no_more_is_freed_than_nodes_answer() {
    let mut engine = engine_of_flushed(10_000);
    (0..20).for_each(|_| turn_after(&mut engine, 10_000));
    assert_eq!(engine.frees_under_way(), FLUSHED_FREES_MAX);
}

/// What the others free is there meanwhile.
#[test]
fn a_slow_node_is_not_waited_for() {
    let mut engine = engine_of_flushed(10_000);
    let opinion = Opinion { node: NODES[1], class: Class::Read, fail_slow: true, latency_us: 50_000, peers_us: 100 };
    engine.handle_opinions(engine.now, &Opinions { reports: vec![opinion] });
    let mut freed = 0;
    for _ in 0..100 {
        turn_after(&mut engine, 10_000);
        let (tags, some) = sent(&mut engine, NODES[0]);
        freed += some.len();
        answer(&mut engine, NODES[0], &tags);
    }
    assert_eq!(freed, 10_000);
}

#[test]
fn where_memory_is_short_frees_leave_at_once() {
    let mut engine = engine_of_flushed(10_000);
    engine.nodes.iter_mut().for_each(|node| node.sessions[0].memory_bytes = 0);
    engine.look_at_room();
    engine.free_flushed();
    NODES.iter().for_each(|&node| assert_eq!(sent(&mut engine, node).1.len(), FLUSHED_FREES_MAX));
}

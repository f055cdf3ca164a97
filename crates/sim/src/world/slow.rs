//! Nodes that answer late: replies pass through a fault model before they leave, and what clients wait is recorded.
//!
//! ```text
//! node's output --frame by frame--> fault model --now----> network
//!                                        '-----later-----> held, then network
//! ```
//! A reply held back does not hold back the others, unless the link keeps order (a stream that lost a segment does).
//!
//! Must not know: what replies say, beyond reading from writing.

use std::collections::BTreeMap;

use shorttail_chaos::{Class, Fate, Fault, FaultModel, Traffic};
use shorttail_gateway::request::StoreStats;
use shorttail_monitor::Verdict;
use shorttail_wire::node::{FRAME_HEADER_BYTES, NodeReply, next_frame, seal_frame};

use super::{Event, World, endpoint_of};
use crate::network::{SendError, SessionId};

/// A request of a client that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub asked_us: u64,
    pub latency_us: u64,
    pub is_read: bool,
    /// Bytes of the value that a plain store wrote.
    pub stored_bytes: Option<usize>,
}

/// What a node's replies pass through.
pub(super) struct Slowness {
    model: FaultModel,
    /// Replies of a session leave in order.
    pub keeps_order: bool,
    /// When the last held reply of each session leaves.
    last_us: BTreeMap<SessionId, u64>,
    /// What is held, by when it leaves; the number tells those of one time apart.
    held: BTreeMap<(u64, u64), (SessionId, Vec<u8>)>,
    held_next: u64,
}

impl Slowness {
    pub fn new(seed: u64) -> Self {
        Slowness {
            model: FaultModel::new(seed),
            keeps_order: false,
            last_us: BTreeMap::new(),
            held: BTreeMap::new(),
            held_next: 0,
        }
    }

    /// Is something the matter with what the node answers?
    pub fn is_active(&mut self, now_us: u64) -> bool {
        self.model.is_active(now_us)
    }

    /// The node crashed: what was held goes with it.
    pub fn forget(&mut self) {
        self.last_us.clear();
        self.held.clear();
    }
}

/// A request is not at hand when its reply leaves: its kind says enough.
fn class_of(reply: &NodeReply<'_>) -> Class {
    match reply {
        NodeReply::Bytes(_) | NodeReply::Inspected(_) => Class::Read,
        NodeReply::Acked { .. } | NodeReply::Done { .. } => Class::Write,
        NodeReply::Hello(_)
        | NodeReply::Chunks(_)
        | NodeReply::Fenced { .. }
        | NodeReply::Located { .. }
        | NodeReply::Damaged { .. }
        | NodeReply::Rebuilt { .. }
        | NodeReply::Refused { .. } => Class::Other,
    }
}

/// A reply with a bit turned over, as of a node that reads its memory wrong: the frame about it is right.
fn hurt(reply: &[u8], bit: u64) -> Vec<u8> {
    let mut reply = reply.to_vec();
    let body = &mut reply[FRAME_HEADER_BYTES..];
    if let Some(bits) = (body.len() as u64 * 8).checked_sub(1) {
        let bit = bit % (bits + 1);
        body[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
    seal_frame(&mut reply);
    reply
}

impl World {
    /// The node answers as this fault has it, from now on.
    pub fn apply_fault(&mut self, node: usize, fault: Fault) {
        self.note(format_args!("node {node} has {fault:?}"));
        let now_us = self.schedule.now_us();
        self.nodes[node].slowness.model.apply(now_us, fault);
    }

    /// As [`World::apply_fault`], and no reply overtakes another of its session.
    pub fn apply_fault_in_order(&mut self, node: usize, fault: Fault) {
        self.apply_fault(node, fault);
        self.nodes[node].slowness.keeps_order = true;
    }

    /// The node is as fast as ever, and what it held back leaves.
    pub fn clear_fault(&mut self, node: usize) {
        let slowness = &mut self.nodes[node].slowness;
        slowness.model.clear();
        slowness.keeps_order = false;
        slowness.last_us.clear();
        let held = std::mem::take(&mut slowness.held);
        held.into_values().for_each(|(session, bytes)| self.reply_leaves_node(node, session, bytes));
    }

    /// Requests that were answered so far, in the order of their ends.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Changes of standing so far, and when.
    pub fn verdicts(&self) -> &[(u64, Verdict)] {
        &self.verdicts
    }

    /// Counters of the gateway that serves now.
    pub fn engine_stats(&self) -> StoreStats {
        self.gateways[0].engines().next().map(shorttail_gateway::engine::Engine::stats).unwrap_or_default()
    }

    /// Reads that nodes answered to the gateway that serves now.
    pub fn reads_answered(&self) -> u64 {
        let Some(engine) = self.gateways[0].engines().next() else { return 0 };
        self.nodes.iter().map(|node| engine.watched(node.id).reads.count()).sum()
    }

    pub(super) fn note_verdicts(&mut self, gateway: usize) {
        let now_us = self.schedule.now_us();
        let next = |world: &mut World| world.gateways[gateway].engines_mut().find_map(|engine| engine.poll_verdict());
        while let Some(verdict) = next(self) {
            self.note(format_args!("{verdict}"));
            self.verdicts.push((now_us, verdict));
        }
    }

    /// What of a node's output leaves now; the rest is held.
    pub(super) fn pass_slowness(&mut self, node: usize, session: SessionId, bytes: Vec<u8>) -> Vec<u8> {
        let now_us = self.schedule.now_us();
        let slowness = &mut self.nodes[node].slowness;
        if !slowness.model.is_active(now_us) && slowness.last_us.is_empty() {
            return bytes;
        }
        let mut leaving = Vec::new();
        let mut at = 0;
        while let Some((frame, length)) = next_frame(&bytes[at..]).expect("a node's own frames") {
            let reply = NodeReply::parse(&frame);
            let is_read = matches!(reply, Ok(NodeReply::Bytes(_)));
            let class = reply.map_or(Class::Other, |reply| class_of(&reply));
            let reply_bytes = (frame.body.len() + FRAME_HEADER_BYTES) as u64;
            let traffic = Traffic { class, request_bytes: reply_bytes, reply_bytes };
            let slowness = &mut self.nodes[node].slowness;
            let fate = slowness.model.judge(now_us, traffic);
            let piece = &bytes[at..at + length];
            at += length;
            let Fate::Leave { at_us, flip } = fate else { continue };
            let hurt = flip.filter(|_| is_read).map(|bit| hurt(piece, bit));
            let piece = hurt.as_deref().unwrap_or(piece);
            let last_us = slowness.last_us.get(&session).copied().unwrap_or(0);
            let at_us = if slowness.keeps_order { at_us.max(last_us) } else { at_us };
            if at_us <= now_us {
                leaving.extend_from_slice(piece);
                continue;
            }
            if slowness.keeps_order {
                slowness.last_us.insert(session, at_us);
            }
            slowness.held_next += 1;
            slowness.held.insert((at_us, slowness.held_next), (session, piece.to_vec()));
            if at_us < FaultModel::NEVER {
                self.schedule.at(at_us, Event::Held { node });
            }
        }
        leaving
    }

    pub(super) fn held_leaves(&mut self, node: usize) {
        let now_us = self.schedule.now_us();
        let due =
            |held: &BTreeMap<(u64, u64), _>| held.first_key_value().is_some_and(|(&(at_us, _), _)| at_us <= now_us);
        while due(&self.nodes[node].slowness.held) {
            let held = self.nodes[node].slowness.held.pop_first();
            let (_, (session, bytes)) = held.expect("one is due");
            self.reply_leaves_node(node, session, bytes);
        }
    }

    fn reply_leaves_node(&mut self, node: usize, session: SessionId, bytes: Vec<u8>) {
        match self.network.send(&mut self.schedule, endpoint_of(node), session, bytes) {
            // The session ended meanwhile.
            Ok(()) | Err(SendError::NotOpen) => {}
            Err(error @ SendError::Full) => panic!("a node does not bound what it sends: {error}"),
        }
    }
}

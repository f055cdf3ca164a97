//! Damaged chunks: who says so is not believed; the node looks at the whole chunk, and what it finds damaged is
//! rebuilt.
//!
//! ```text
//! a read finds bytes that are wrong  \                          damaged: the chunk lacks, as a lost one does
//! a scrubber found a chunk damaged    >-- Inspect --> the node    (queue.rs); its own node rebuilds it in place
//! a member refuses what it is asked  /                          not there: the same; it is rebuilt there, or elsewhere
//!                                                               intact: the bytes were hurt on their way
//! ```
//! A scan looks at headers only: that a chunk is as it should be which was found damaged, its node is asked, too.
//!
//! Reads go round a damaged chunk as long as the others suffice; else they use what of it proves itself.
//!
//! Must not know: how a chunk is checked or rebuilt.

use shorttail_units::{NodeId, StripeId};
use shorttail_wire::node::{InspectReport, NodeRequest, Refusal};

use super::queue::Reparable;
use crate::engine::limits::SUSPECTED_MAX;
use crate::engine::sessions::node_session::ToldEarly;
use crate::engine::{Engine, What};

impl Engine {
    /// Something about a chunk of a stripe on this node was wrong.
    pub(in crate::engine) fn suspect_chunk(&mut self, node: NodeId, stripe: StripeId) {
        if self.chunk_of(node, stripe).is_some_and(|chunk| !self.repair.lacks(stripe).contains(chunk))
            && self.nodes.is_ready(node)
        {
            self.verify_chunk(node, stripe);
        }
    }

    /// The node is to look at a whole chunk.
    pub(super) fn verify_chunk(&mut self, node: NodeId, stripe: StripeId) {
        if self.suspected.len() < SUSPECTED_MAX && self.suspected.insert((node, stripe)) {
            self.ask(node, stripe, &NodeRequest::Inspect { stripe }, What::Verify { stripe });
        }
    }

    /// A node that is to have a chunk refused something about it. What it refuses because of what it holds it refuses
    /// again.
    pub(in crate::engine) fn doubt_chunk(&mut self, node: NodeId, stripe: StripeId, refusal: Option<Refusal>) {
        if let Some(Refusal::Damaged | Refusal::NoChunk | Refusal::NotAtOp | Refusal::Invalid) = refusal {
            self.suspect_chunk(node, stripe);
        }
    }

    /// The node looked at it. A chunk whose state does not hold does not say that it is sealed: that the stripe is,
    /// this owner knows, and then each member's chunk was.
    pub(in crate::engine) fn verified(&mut self, node: NodeId, stripe: StripeId, report: &InspectReport<'_>) {
        self.suspected.remove(&(node, stripe));
        let report = &report.report;
        let Some(chunk) = self.chunk_of(node, stripe).filter(|_| report.description.stripe == stripe) else { return };
        if report.damaged {
            self.note_damaged(node, stripe);
        } else if usize::from(report.description.index) != chunk {
            self.note_lacking(node, stripe);
        } else if !report.sealed {
            self.note_left_open(node, stripe);
        } else if self.repair.is_damaged(stripe, chunk) {
            self.chunk_is_there(stripe, chunk);
        }
    }

    /// It did not tell, or cannot.
    pub(in crate::engine) fn verify_refused(&mut self, node: NodeId, stripe: StripeId, refusal: Option<Refusal>) {
        self.suspected.remove(&(node, stripe));
        match refusal {
            Some(Refusal::Damaged) => self.note_damaged(node, stripe),
            Some(Refusal::NoChunk) => self.note_lacking(node, stripe),
            _ => {}
        }
    }

    /// A member that is there does not hold its chunk.
    fn note_lacking(&mut self, node: NodeId, stripe: StripeId) {
        let Some(chunk) = self.chunk_of(node, stripe) else { return };
        if let Reparable::Whole(facts) = self.reparable(stripe) {
            tracing::warn!(?stripe, chunk, node = node.0, "a chunk is not there");
            self.repair.mark(stripe, chunk, facts.shape);
            self.note_had_by_unknown(stripe, chunk);
        }
    }

    /// A member's chunk is damaged: an erasure, to be rebuilt, once its object is not being written any more.
    pub(in crate::engine) fn note_damaged(&mut self, node: NodeId, stripe: StripeId) {
        let Some(chunk) = self.chunk_of(node, stripe) else { return };
        if let Some(facts) = self.facts_of(stripe) {
            tracing::warn!(?stripe, chunk, node = node.0, "damaged chunk");
            self.repair.mark_damaged(stripe, chunk, facts.shape);
        }
    }

    /// A member was not told that the stripe is sealed, and was not there when this owner took the others' word for it:
    /// its chunk may lack operations, and is as good as damaged.
    pub(in crate::engine) fn note_left_open(&mut self, node: NodeId, stripe: StripeId) {
        let Some(chunk) = self.chunk_of(node, stripe) else { return };
        if let Reparable::Whole(facts) = self.reparable(stripe) {
            tracing::info!(?stripe, chunk, node = node.0, "a chunk was left open");
            self.repair.mark_damaged(stripe, chunk, facts.shape);
        }
    }

    /// What a core said before this owner had read what it inherits, and the core's scan ends only now: those that had
    /// told were compared then, and this one was not among them.
    pub(in crate::engine) fn note_told_early(&mut self, node: NodeId, told_early: &[ToldEarly]) {
        for told in told_early {
            let stripe = told.stripe;
            match self.chunk_of(node, stripe) {
                Some(chunk) if chunk != usize::from(told.index) => self.note_lacking(node, stripe),
                Some(_) if told.is_damaged => self.note_damaged(node, stripe),
                Some(_) if !told.is_sealed => self.note_left_open(node, stripe),
                _ => {}
            }
        }
    }

    /// Which chunk of a sealed stripe, or of an object, a node holds.
    fn chunk_of(&self, node: NodeId, stripe: StripeId) -> Option<usize> {
        self.facts_of(stripe)?.members.iter().position(|&member| member == node)
    }
}

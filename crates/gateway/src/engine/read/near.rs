//! Near reads: small objects read straight from the memory of a node on the same machine, without asking it.
//!
//! ```text
//! sealed, or read the first time   Locate, of every chunk ---> its place is known
//! a read                           place --- read ---> the record proves itself ---> found
//!                                                 '--> it does not: the place is forgotten, and the record fetched
//! of a chunk that is not there     places of the others --- read, decoded ---> as above
//! ```
//! The node goes on using its memory meanwhile: chunks are freed and moved, others written in their place. So nothing
//! that is found there is believed for where it lies. A record's checksum covers the id of its stripe: what passes is a
//! record of the stripe that the index names, which is sealed and does not change; and the key is compared as ever. A
//! place is worth something only in the session in which it was learned, and nothing is lost with it.
//!
//! While a node counts as slow in reading, all nodes are asked as ever: it is compared with the others, which takes
//! requests to all of them.
//!
//! Must not know: how memory of another process is read.

use std::collections::VecDeque;

use shorttail_codes::ChunkSet;
use shorttail_monitor::Class;
use shorttail_store::record::record_bytes;
use shorttail_store::{NearReader, RingWriter, sealed_length};
use shorttail_units::{NodeId, StripeId};
use shorttail_wire::node::{NearMemory, NodeRequest};
use smallvec::SmallVec;

use crate::engine::sessions::nodes::SessionId;
use crate::engine::state::index::StripeSlot;
use crate::engine::state::stripes::StripePhase;
use crate::engine::{Engine, What};

/// What a node lets an owner on its machine use: the server opens it, if it can.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NearOffer {
    /// To read its chunks: [`Engine::handle_near`].
    Memory(NearMemory),
    /// To put appends: [`Engine::handle_ring`].
    Ring(NearMemory),
}

/// Near memory of a session.
#[derive(Debug)]
pub struct Near {
    reader: Box<dyn NearReader>,
    /// Places that were learned in other sessions mean nothing in this one.
    generation: u32,
}

/// Where the payload of a chunk lies in near memory.
#[derive(Clone, Copy, Debug)]
struct Place {
    chunk: u8,
    node: NodeId,
    generation: u32,
    /// `None`: it was asked.
    position: Option<u64>,
    /// Bytes in use, once its header was read: needed to decode from it.
    length: Option<u32>,
}

/// The places of a stripe's chunks, as far as they are known.
#[derive(Debug, Default)]
pub struct Places(Vec<Place>);

impl Places {
    fn find(&self, chunk: usize, node: NodeId, generation: u32) -> Option<&Place> {
        let is_it = |place: &&Place| usize::from(place.chunk) == chunk && place.node == node;
        self.0.iter().find(is_it).filter(|place| place.generation == generation)
    }

    fn put(&mut self, place: Place) {
        self.forget(place.chunk);
        self.0.push(place);
    }

    fn forget(&mut self, chunk: u8) {
        self.0.retain(|place| place.chunk != chunk);
    }
}

/// Near memory that nodes offered, and memory for what is read there.
#[derive(Debug, Default)]
pub struct NearMemories {
    /// Those that the server is to open.
    pub offers: VecDeque<(SessionId, NearOffer)>,
    /// How many were opened: a place in an earlier one is none in a later one.
    generation: u32,
    /// What was read last.
    pub buffer: Vec<u8>,
    /// What a record is decoded from.
    parts: Vec<u8>,
}

impl Engine {
    /// What a node offered: the server opens it, if it can, and says so.
    pub fn poll_near_offer(&mut self) -> Option<(SessionId, NearOffer)> {
        self.near.offers.pop_front()
    }

    /// The memory that a session's node offered is open, until the session ends.
    pub fn handle_near(&mut self, id: SessionId, reader: Box<dyn NearReader>) {
        self.near.generation += 1;
        let generation = self.near.generation;
        if let Some(session) = self.nodes.session_mut(id).filter(|session| session.incarnation.is_some()) {
            session.near = Some(Near { reader, generation });
        }
    }

    /// The ring that a session's node offered is open, until the session ends.
    pub fn handle_ring(&mut self, id: SessionId, ring: RingWriter) {
        if let Some(session) = self.nodes.session_mut(id).filter(|session| session.incarnation.is_some()) {
            session.ring = Some(ring);
        }
    }

    /// May near memory be read for this stripe?
    fn reads_near(&self, slot: StripeSlot) -> bool {
        // One that does not answer at all is compared with nobody.
        let is_slow = |node| self.nodes.is_ready(node) && self.monitor.is_class_fail_slow(node, Class::Read);
        !self.stripes.at(slot).places.0.is_empty() && !self.monitor.fail_slow().any(is_slow)
    }

    /// The beginning of a data chunk that is there, from near memory; `None`: it must be fetched.
    pub(in crate::engine) fn read_chunk_near(
        &self,
        slot: StripeSlot,
        data_index: usize,
        length: usize,
    ) -> Option<Vec<u8>> {
        let stripe = self.stripes.at(slot);
        let is_lost = self.repair.avoided_by_reads(stripe.id, self.config.shape).contains(data_index);
        if !self.reads_near(slot) || is_lost || !self.nodes.is_ready(stripe.members[data_index]) {
            return None;
        }
        let (near, place) = self.near_place(slot, data_index)?;
        let mut bytes = vec![0; length];
        (near.reader.read(place.position?, &mut bytes) == length).then_some(bytes)
    }

    /// Reads what lies at `offset` of a data chunk into `into`, from near memory; false: it must be fetched.
    pub(super) fn read_near(&mut self, slot: StripeSlot, data_index: usize, offset: u16, into: &mut Vec<u8>) -> bool {
        if !self.reads_near(slot) {
            return false;
        }
        let stripe = self.stripes.at(slot);
        let lost = self.repair.avoided_by_reads(stripe.id, self.config.shape);
        if lost.contains(data_index) || !self.nodes.is_ready(stripe.members[data_index]) {
            let decoded = self.decode_near(slot, data_index, offset, lost, into);
            self.stats.totals.degraded_reads_total += u64::from(decoded.is_some());
            return decoded.is_some();
        }
        let Some((near, place)) = self.near_place(slot, data_index) else { return false };
        let Some(position) = place.position.and_then(|it| it.checked_add(u64::from(offset))) else { return false };
        // What was never written is not to be touched: a page of the node's file would come to be.
        let used = self.stripes.at(slot).fills.get(data_index).map_or(self.config.chunk_bytes, |&fill| fill as usize);
        let room = used.saturating_sub(usize::from(offset));
        into.resize((self.record_guess.bytes() as usize).min(room), 0);
        let mut length = near.reader.read(position, into);
        if let Ok(needed) = record_bytes(&into[..length])
            && (length + 1..=room).contains(&needed)
        {
            into.resize(needed, 0);
            length = near.reader.read(position, into);
        }
        into.truncate(length);
        true
    }

    /// Where a chunk lies, if that is known and can be read.
    fn near_place(&self, slot: StripeSlot, chunk: usize) -> Option<(&Near, Place)> {
        let stripe = self.stripes.at(slot);
        let node = stripe.members[chunk];
        let near = self.nodes.session(self.nodes.session_of(node, stripe.id))?.near.as_ref()?;
        let place = stripe.places.find(chunk, node, near.generation).filter(|place| place.position.is_some())?;
        Some((near, *place))
    }

    /// Where a chunk of a packed stripe lies in its node's memory, if that is known.
    pub(in crate::engine) fn position_of(&self, stripe: StripeId, chunk: usize) -> Option<u64> {
        self.near_place(self.stripes.slot_of(stripe)?, chunk)?.1.position
    }

    /// Decodes a record of a chunk that is not there from what is near of its stripe, without those in `lost`.
    fn decode_near(
        &mut self,
        slot: StripeSlot,
        data_index: usize,
        offset: u16,
        lost: ChunkSet,
        into: &mut Vec<u8>,
    ) -> Option<()> {
        let code = self.codes.get(self.config.shape);
        let is_near = |chunk: usize| !lost.contains(chunk) && self.near_place(slot, chunk).is_some();
        let plan = code.read_plan(data_index, &is_near).ok()?;
        let room = self.config.chunk_bytes - usize::from(offset);
        let mut length = (self.record_guess.bytes() as usize).min(room);
        let mut parts = std::mem::take(&mut self.near.parts);
        let mut decoded = None;
        // Once more if the record turns out longer.
        for _ in 0..2 {
            parts.resize(plan.sources.len() * length, 0);
            let sources = plan.sources.iter().zip(parts.chunks_exact_mut(length));
            decoded = sources.map(|(&source, part)| self.read_part(slot, source, offset, part)).collect();
            if decoded.is_none() {
                break;
            }
            into.resize(length, 0);
            let sources: SmallVec<[&[u8]; 16]> = parts.chunks_exact(length).collect();
            plan.decode(&sources, into);
            match record_bytes(into) {
                Ok(needed) if (length + 1..=room).contains(&needed) => length = needed,
                _ => break,
            }
        }
        self.near.parts = parts;
        decoded
    }

    /// Fills `part` with what a chunk has from `offset` on.
    fn read_part(&mut self, slot: StripeSlot, chunk: usize, offset: u16, part: &mut [u8]) -> Option<()> {
        let id = self.stripes.at(slot).id;
        let (near, place) = self.near_place(slot, chunk)?;
        let position = place.position?;
        let Some(in_use) = place.length.or_else(|| sealed_length(&*near.reader, position, id)) else {
            self.forget_place(slot, chunk);
            return None;
        };
        let held = (in_use as usize).saturating_sub(usize::from(offset)).min(part.len());
        let (held, zeros) = part.split_at_mut(held);
        let is_read = near.reader.read(position.checked_add(u64::from(offset))?, held) == held.len();
        zeros.fill(0);
        if place.length.is_none() {
            self.stripes.at_mut(slot).places.put(Place { length: Some(in_use), ..place });
        }
        is_read.then_some(())
    }

    /// What was read near does not prove itself: nothing that is known of the stripe's chunks is believed any more.
    pub(in crate::engine) fn forget_places(&mut self, slot: StripeSlot) {
        self.stripes.at_mut(slot).places.0.clear();
    }

    fn forget_place(&mut self, slot: StripeSlot, chunk: usize) {
        self.stripes.at_mut(slot).places.forget(chunk as u8);
    }

    /// A stripe is sealed, or a record of it came from the nodes: the next one may be read without them.
    pub(in crate::engine) fn locate(&mut self, slot: StripeSlot) {
        (0..self.stripes.at(slot).members.len()).for_each(|chunk| self.locate_chunk(slot, chunk));
    }

    /// A node rebuilt its chunk of the stripe, and said where.
    pub(in crate::engine) fn placed(&mut self, session: SessionId, stripe: StripeId, position: Option<u64>) {
        let Some(slot) = self.stripes.slot_of(stripe).filter(|_| position.is_some()) else { return };
        if let Some(chunk) = self.stripes.at(slot).member_of(session.node) {
            self.located(session, stripe, chunk as u8, position);
        }
    }

    fn locate_chunk(&mut self, slot: StripeSlot, chunk: usize) {
        let stripe = self.stripes.at(slot);
        if stripe.phase() != StripePhase::Sealed || self.repair.lacks(stripe.id).contains(chunk) {
            return;
        }
        let (id, node) = (stripe.id, stripe.members[chunk]);
        let session = self.nodes.session_of(node, id);
        let near = self.nodes.session(session).and_then(|session| session.near.as_ref());
        let Some(generation) = near.map(|near| near.generation).filter(|_| self.nodes.is_ready(node)) else { return };
        if stripe.places.find(chunk, node, generation).is_some() {
            return;
        }
        let chunk = chunk as u8;
        let place = Place { chunk, node, generation, position: None, length: None };
        self.stripes.at_mut(slot).places.put(place);
        self.ask_session(session, &NodeRequest::Locate { stripe: id }, What::Locate { stripe: id, chunk });
    }

    /// `None`: the node did not say. It is asked again when it served another record.
    pub(in crate::engine) fn located(&mut self, id: SessionId, stripe: StripeId, chunk: u8, position: Option<u64>) {
        let near = self.nodes.session(id).and_then(|session| session.near.as_ref());
        let generation = near.map(|near| near.generation);
        let Some(stripe) = self.stripes.slot_of(stripe).and_then(|slot| self.stripes.get_mut(slot)) else { return };
        match (position, generation) {
            (Some(_), Some(generation)) => {
                stripe.places.put(Place { chunk, node: id.node, generation, position, length: None });
            }
            _ => stripe.places.forget(chunk),
        }
    }
}

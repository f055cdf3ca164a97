//! Near reads: small objects read straight from the memory of a node on the same machine, without asking it.
//!
//! ```text
//! first read of a chunk   fetched from its node --- answered ---> Locate ---> its place is known
//! the next ones           place --- read ---> the record proves itself ---> found
//!                                        '--> it does not: the place is forgotten, and the record fetched
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

use shorttail_monitor::Class;
use shorttail_store::NearReader;
use shorttail_store::record::record_bytes;
use shorttail_units::{NodeId, StripeId};
use shorttail_wire::node::{NearMemory, NodeRequest};

use super::index::StripeSlot;
use super::nodes::SessionId;
use super::stripes::StripePhase;
use super::{Engine, What};
use crate::command::Command;

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
}

/// The places of a stripe's data chunks, as far as they are known.
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

impl<C: Command> Engine<C> {
    /// A node lets its memory be read: the server opens it, if it can, and says so.
    pub fn poll_near_offer(&mut self) -> Option<(SessionId, NearMemory)> {
        self.near_offers.pop_front()
    }

    /// The memory that a session's node offered is open, until the session ends.
    pub fn handle_near(&mut self, id: SessionId, reader: Box<dyn NearReader>) {
        self.near_generation += 1;
        let generation = self.near_generation;
        if let Some(session) = self.nodes.session_mut(id).filter(|session| session.incarnation.is_some()) {
            session.near = Some(Near { reader, generation });
        }
    }

    /// Reads what lies at `offset` of a data chunk into `into`, from near memory; false: it must be fetched.
    pub(super) fn read_near(&self, slot: StripeSlot, data_index: usize, offset: u16, into: &mut Vec<u8>) -> bool {
        let stripe = self.stripes.at(slot);
        let node = stripe.members[data_index];
        let is_slow = |node| self.monitor.is_class_fail_slow(node, Class::Read);
        if stripe.places.0.is_empty() || self.monitor.fail_slow().any(is_slow) {
            return false;
        }
        let session = self.nodes.session(self.nodes.session_of(node, stripe.id));
        let Some(near) = session.and_then(|session| session.near.as_ref()) else { return false };
        let position = stripe.places.find(data_index, node, near.generation).and_then(|place| place.position);
        let Some(position) = position.and_then(|it| it.checked_add(u64::from(offset))) else { return false };
        let room = self.config.chunk_bytes - usize::from(offset);
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

    /// What lay in near memory was no record of the stripe: the chunk is elsewhere, or damaged.
    pub(super) fn forget_place(&mut self, slot: StripeSlot, data_index: usize) {
        self.stripes.at_mut(slot).places.forget(data_index as u8);
    }

    /// A record of a data chunk came from its node: the next one may be read without it.
    pub(super) fn locate(&mut self, slot: StripeSlot, data_index: usize) {
        let stripe = self.stripes.at(slot);
        if stripe.phase() != StripePhase::Sealed {
            return;
        }
        let (id, node) = (stripe.id, stripe.members[data_index]);
        let session = self.nodes.session_of(node, id);
        let near = self.nodes.session(session).and_then(|session| session.near.as_ref());
        let Some(generation) = near.map(|near| near.generation) else { return };
        if stripe.places.find(data_index, node, generation).is_some() {
            return;
        }
        let chunk = data_index as u8;
        self.stripes.at_mut(slot).places.put(Place { chunk, node, generation, position: None });
        self.ask_session(session, &NodeRequest::Locate { stripe: id }, What::Locate { stripe: id, chunk });
    }

    /// `None`: the node did not say. It is asked again when it served another record.
    pub(super) fn located(&mut self, id: SessionId, stripe: StripeId, chunk: u8, position: Option<u64>) {
        let near = self.nodes.session(id).and_then(|session| session.near.as_ref());
        let generation = near.map(|near| near.generation);
        let Some(stripe) = self.stripes.slot_of(stripe).and_then(|slot| self.stripes.get_mut(slot)) else { return };
        match (position, generation) {
            (Some(_), Some(generation)) => stripe.places.put(Place { chunk, node: id.node, generation, position }),
            _ => stripe.places.forget(chunk),
        }
    }
}

//! Which stripe of a partition takes an append, and when stripes are opened and sealed for want of room.
//!
//! ```text
//! stripes that take appends, oldest first      5: chunk 2 hampered    6: all hampered    8
//! record --> the oldest that has room in a chunk that is not hampered; else a new one; else the least hampered chunk
//! ```
//! A chunk is *hampered* while one of its participants is evaded or late; all of a stripe's are while it needs a late
//! member to open its chunk, before which nothing in it is confirmed. So writes go round slow nodes within a stripe
//! if they can, to another stripe if they must, and come back when a hiccup is over. A hiccup alone seals nothing: a
//! slow member holds up the seal, and stripes that wait for theirs are few.
//!
//! Stripes of a partition are appended to in any order, so a record may be newer than one in a younger stripe. Each
//! stripe's *reach* is the youngest that existed when it last took an append, or when a record in it was confirmed of
//! which there are copies: nothing beyond it is older than what the stripe holds, or the same (rule R3).
//!
//! Must not know: records, who waits for them.

use shorttail_units::{NodeId, PartitionId, StripeId};
use smallvec::SmallVec;

use super::log::{PlaceError, Purpose};
use crate::command::StoreError;
use crate::engine::limits::{APPEND_BYTES_MAX, HICCUP_US, OPEN_MAX};
use crate::engine::reclaim::reserve::Urgency;
use crate::engine::state::index::StripeSlot;
use crate::engine::state::stripes::Stripe;
use crate::engine::{Engine, Work};

/// Where an append goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub slot: StripeSlot,
    pub data_index: usize,
    /// How late the slowest participant is; more than 0: there was no better place.
    pub lateness_us: u64,
}

impl Engine {
    /// Room for `length` bytes in a stripe younger than `above`, ready to be appended to.
    pub(super) fn make_room(
        &mut self,
        partition: PartitionId,
        length: usize,
        urgency: Urgency,
        above: StripeId,
    ) -> Result<Room, PlaceError> {
        if length > self.config.chunk_bytes {
            return Err(PlaceError::Refuse(StoreError::TooLarge));
        }
        let room = self.find_room(partition, length, urgency, above)?;
        let newest = self.newest_of(partition);
        let stripe = self.stripes.at_mut(room.slot);
        stripe.reach = stripe.reach.max(newest);
        let open = stripe.bytes();
        if open.needs_flush(room.data_index, length, APPEND_BYTES_MAX) {
            self.flush_stripe(room.slot);
        }
        Ok(room)
    }

    fn find_room(
        &mut self,
        partition: PartitionId,
        length: usize,
        urgency: Urgency,
        above: StripeId,
    ) -> Result<Room, PlaceError> {
        if self.is_deposed() {
            return Err(PlaceError::Refuse(StoreError::NotOwner));
        }
        if self.is_kept_from(urgency) {
            self.too_few_nodes()?;
            return Err(PlaceError::Wait);
        }
        // Almost always there is one stripe, and it has room.
        for &slot in &self.logs[&partition].open {
            let stripe = self.stripes.at(slot);
            let open = stripe.bytes();
            if let Some(data_index) = open.room_for(length).filter(|_| stripe.id > above) {
                return Ok(Room { slot, data_index, lateness_us: 0 });
            }
        }
        // While there is no memory, the tails of a full stripe are where void records go.
        if !self.shortage.is_cramped {
            self.seal_full(partition, length);
        }
        let hampered = self.least_hampered(partition, length, above);
        let is_many = self.logs[&partition].open.len() >= OPEN_MAX;
        let is_unhurried = matches!(urgency, Urgency::Cleaning | Urgency::Freeing);
        let is_worth_a_stripe = |room: Room| {
            let is_bearable = is_unhurried || is_many && room.lateness_us < HICCUP_US;
            !is_bearable && self.may_open_better() && !self.is_opening_late(partition) && !self.is_short_of_memory()
        };
        if let Some(room) = hampered.filter(|&room| !is_worth_a_stripe(room)) {
            return Ok(room);
        }
        if is_many {
            self.begin_seal(self.logs[&partition].open[0]);
        }
        if let Err(error) = self.open_stripe(partition, urgency) {
            return self.least_hampered(partition, length, above).ok_or(error);
        }
        self.seal_full(partition, length);
        Ok(self.least_hampered(partition, length, above).expect("an empty stripe"))
    }

    /// Does a stripe of the partition that takes appends have room for so many bytes?
    pub(in crate::engine) fn has_room_in_open(&self, partition: PartitionId, length: usize) -> bool {
        self.logs[&partition].open.iter().any(|&slot| {
            let open = self.stripes.at(slot).bytes();
            open.chunks_with_room(length).next().is_some()
        })
    }

    /// Stripes in which a record found no room at all are sealed; for a group, which may be as long as a chunk, those
    /// in which a long record would find none. Others have room for much.
    fn seal_full(&mut self, partition: PartitionId, length: usize) {
        let length = length.min(self.config.packed_bytes_max());
        let is_full = |slot: &StripeSlot| {
            let open = self.stripes.at(*slot).bytes();
            open.chunks_with_room(length).next().is_none()
        };
        let full: Vec<_> = self.logs[&partition].open.iter().copied().filter(is_full).collect();
        full.into_iter().for_each(|slot| self.begin_seal(slot));
    }

    /// The chunk with room whose participants are least late; of equal ones that of the youngest stripe.
    fn least_hampered(&self, partition: PartitionId, length: usize, above: StripeId) -> Option<Room> {
        let sidesteps = self.policy(partition).write_sidestep;
        let lateness_us = move |node: NodeId| if sidesteps { self.lateness_us(node) } else { 0 };
        let rooms = self.logs[&partition].open.iter().rev().flat_map(|&slot| {
            let stripe = self.stripes.at(slot);
            let open = stripe.bytes();
            let chunks = open.chunks_with_room(length).filter(move |_| stripe.id > above);
            let opening_us = self.opening_lateness_us(stripe, lateness_us);
            chunks.map(move |data_index| {
                let participants = self.config.shape.participants(data_index);
                let latest_us = participants.map(|member| lateness_us(stripe.members[member])).max();
                Room { slot, data_index, lateness_us: latest_us.unwrap_or(0).max(opening_us) }
            })
        });
        rooms.min_by_key(|room| room.lateness_us)
    }

    /// How late the members are whose chunk a stripe needs before anything in it is confirmed.
    fn opening_lateness_us(&self, stripe: &Stripe<Purpose>, lateness_us: impl Fn(NodeId) -> u64) -> u64 {
        let open = stripe.bytes();
        let mut unopened: SmallVec<[u64; 24]> =
            open.unopened().map(|member| lateness_us(stripe.members[member])).collect();
        unopened.sort_unstable();
        // So many of them it can do without.
        unopened.iter().rev().nth(self.config.shape.unopened_max()).copied().unwrap_or(0)
    }

    /// Would a new stripe wait for slow members to open their chunks, as another one does already?
    fn is_opening_late(&self, partition: PartitionId) -> bool {
        let shape = self.config.shape;
        let prompt = self.taking_nodes().filter(|node| !self.is_evaded(node.id)).count();
        let mut open = self.logs[&partition].open.iter().map(|&slot| self.stripes.at(slot));
        prompt + shape.unopened_max() < shape.chunk_count()
            && open.any(|stripe| self.opening_lateness_us(stripe, |node| self.lateness_us(node)) > 0)
    }

    /// Would a new stripe have a chunk that is not hampered?
    fn may_open_better(&self) -> bool {
        let shape = self.config.shape;
        let free = self.taking_nodes().filter(|node| !self.is_evaded(node.id)).count();
        free >= shape.participants(0).count() && self.usable_count() >= shape.chunk_count()
    }

    fn newest_of(&self, partition: PartitionId) -> StripeId {
        self.logs[&partition].newest
    }

    /// A record in this stripe counts of which copies lie in others: all of them are there, and none is to come.
    pub(super) fn extend_reach(&mut self, slot: StripeSlot) {
        let newest = self.newest_of(self.stripes.at(slot).partition);
        let stripe = self.stripes.at_mut(slot);
        stripe.reach = stripe.reach.max(newest);
    }

    /// Who is slow has changed: which chunks are hampered is found anew.
    pub(in crate::engine) fn refresh_hampered(&mut self) {
        let shape = self.config.shape;
        let slots: Vec<_> = self.logs.values().flat_map(|log| log.open.iter().copied()).collect();
        for slot in slots {
            let stripe = self.stripes.at(slot);
            let sidesteps = self.log_sidesteps(stripe.partition);
            let is_slow = |member: usize| sidesteps && self.is_evaded(stripe.members[member]);
            let is_opening = sidesteps && self.opening_lateness_us(stripe, |node| self.lateness_us(node)) > 0;
            let is_hampered = |chunk: &usize| is_opening || shape.participants(*chunk).any(is_slow);
            let hampered = (0..shape.data_count()).filter(is_hampered).collect();
            self.stripes.at_mut(slot).bytes_mut().set_hampered(hampered);
        }
    }

    /// A node is fail-slow: stripes of which it hampers every chunk are sealed as they are, if others can be opened.
    pub(in crate::engine) fn leave_slow(&mut self, node: NodeId) {
        if !self.may_open_better() {
            return;
        }
        let shape = self.config.shape;
        let slots: Vec<_> = self.logs.values().flat_map(|log| log.open.iter().copied()).collect();
        for slot in slots {
            let stripe = self.stripes.at(slot);
            let member = stripe.member_of(node).filter(|_| self.log_sidesteps(stripe.partition));
            let takes_part =
                |member: usize| (0..shape.data_count()).all(|it| shape.participants(it).any(|p| p == member));
            if member.is_some_and(takes_part) {
                self.retire(slot);
            }
        }
    }

    /// When memory is short, a partition has one stripe open.
    pub(in crate::engine) fn close_spare_stripes(&mut self) {
        if !self.is_short_of_memory() {
            return;
        }
        let spare = self.logs.values().filter(|log| log.open.len() > 1).map(|log| log.open[0]);
        let spare: Vec<_> = spare.collect();
        spare.into_iter().for_each(|slot| self.retire(slot));
    }

    /// A stripe takes no more appends although it has room. One without records is emptied at once.
    pub(in crate::engine) fn retire(&mut self, slot: StripeSlot) {
        let is_empty = self.stripes.at(slot).open.as_ref().is_some_and(|open| open.is_empty());
        if is_empty { self.work.push_back(Work::Abandon(slot)) } else { self.begin_seal(slot) }
    }
}

//! The log of a partition: where records are appended, and how stripes open, fill, seal and are abandoned.
//!
//! Usually one stripe of a partition takes appends; more while nodes are slow (see `room.rs`).

use std::sync::Arc;

use shorttail_monitor::Class;
use shorttail_store::record::{Control, Record, RecordKind};
use shorttail_units::{Configuration, NodeId, OpNumber, PartitionId, StripeId};
use shorttail_wire::node::{ChunkDescription, ChunkKind, Members, NodeRequest};
use smallvec::SmallVec;

use super::open_stripe::{Item, OpenStripe};
use super::race::Left;
use super::seal_sums::sums_of;
use crate::command::StoreError;
use crate::engine::limits::{CHUNK_EXTRA_BYTES, CHUNK_UNIT_BYTES, IDLE_STABLE_US, UNSEALED_MAX};
use crate::engine::reclaim::freeing::VoidRecord;
use crate::engine::reclaim::reserve::Urgency;
use crate::engine::repair::queue::StripeFacts;
use crate::engine::sessions::asking::append_tag;
use crate::engine::state::index::{Location, StripeSlot};
use crate::engine::state::pool::PoolKey;
use crate::engine::state::stripes::{Stripe, StripePhase};
use crate::engine::{Engine, What, Work};

/// Who wants to know that a record is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// A round of a key lock.
    Write(PoolKey),
    /// A live record that a job moves under a key lock.
    Move { lock: PoolKey, job: PoolKey },
    /// A tombstone or control record that a job carries over from there.
    Carry { job: PoolKey, from: Location },
    /// A stripe is void from now on.
    Void { stripe: StripeId },
    /// A floor, or a delayed flush, of the partition.
    Declared { declaration: PoolKey, partition: PartitionId },
    /// A pair of a group.
    Group { group: PoolKey, pair: u32 },
    /// Whoever waits for one of several copies.
    Raced(PoolKey),
    /// Nobody any more: it was flushed while it was under way.
    Flushed,
}

#[derive(Debug, Default)]
pub struct Log {
    /// Stripes that take appends, oldest first; at most [`crate::engine::limits::OPEN_MAX`].
    pub open: Vec<StripeSlot>,
    /// The youngest stripe ever opened.
    pub newest: StripeId,
}

/// A record of a group that lost its place before it was confirmed.
#[derive(Debug)]
struct Grouped {
    group: PoolKey,
    bytes: Vec<u8>,
    purpose: Purpose,
}

/// Why a record found no place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlaceError {
    /// Memory, or an owner's buffer, may become free soon, or a late node may answer.
    Wait,
    Refuse(StoreError),
}

impl Engine {
    /// Appends a record to the log of a partition; `purpose` hears when it is durable.
    pub(in crate::engine) fn append_record(
        &mut self,
        partition: PartitionId,
        record: &Record<'_>,
        purpose: Purpose,
        urgency: Urgency,
    ) -> Result<(), PlaceError> {
        let epoch = self.config.epoch;
        let length = record.encoded_bytes(epoch);
        self.check_length(record)?;
        // A new owner reads stripes newest first: it must know that a stripe is void before it meets it.
        let above = match record.kind {
            RecordKind::Control => match Control::parse(record.value) {
                Some(Control::Void(stripe)) => stripe,
                _ => StripeId::default(),
            },
            _ => StripeId::default(),
        };
        let room = self.make_room(partition, length, urgency, above)?;
        let stripe = self.stripes.at_mut(room.slot);
        stripe.manifests.expect_if(record.kind);
        let open = stripe.open.as_mut().expect("it has room");
        let (_, place) = open.append(room.data_index, length, purpose);
        record.encode(stripe.id, place);
        self.has_unsent = true;
        let is_of_cleaning = matches!(purpose, Purpose::Move { .. } | Purpose::Carry { .. });
        self.walks.written_bytes += if is_of_cleaning { 0 } else { length };
        Ok(())
    }

    /// Does a record fit into a chunk of any owner?
    fn check_length(&self, record: &Record<'_>) -> Result<(), PlaceError> {
        let fits = record.longest_bytes() <= self.config.chunk_bytes;
        if fits { Ok(()) } else { Err(PlaceError::Refuse(StoreError::TooLarge)) }
    }

    /// Appends records as one operation: all of them are durable, or none is found by a later owner.
    pub(super) fn append_together(
        &mut self,
        partition: PartitionId,
        records: &[(Record<'_>, Purpose)],
        urgency: Urgency,
    ) -> Result<(), PlaceError> {
        let epoch = self.config.epoch;
        records.iter().try_for_each(|(record, _)| self.check_length(record))?;
        let length: usize = records.iter().map(|(record, _)| record.encoded_bytes(epoch)).sum();
        let room = self.make_room(partition, length, urgency, StripeId::default())?;
        self.flush_stripe(room.slot);
        let stripe = self.stripes.at_mut(room.slot);
        let open = stripe.open.as_mut().expect("it has room");
        for (record, purpose) in records {
            let (_, place) = open.append(room.data_index, record.encoded_bytes(epoch), *purpose);
            record.encode(stripe.id, place);
        }
        self.flush_stripe(room.slot);
        // It may be confirmed by now, with nothing to come that would begin a turn.
        self.has_unsent = true;
        Ok(())
    }

    fn log(&mut self, partition: PartitionId) -> &mut Log {
        self.logs.get_mut(&partition).expect("a partition of this core")
    }

    pub(in crate::engine) fn open_stripe(
        &mut self,
        partition: PartitionId,
        urgency: Urgency,
    ) -> Result<StripeSlot, PlaceError> {
        if self.is_superseded() {
            return Err(PlaceError::Refuse(StoreError::NotOwner));
        }
        if self.waits_for_seals(partition) {
            return Err(PlaceError::Wait);
        }
        let is_tight = self.stripes_for_clients() == 0;
        let is_client = urgency == Urgency::Client;
        if is_client && is_tight || self.spare_stripes() <= self.stripes_left_by(urgency) {
            self.too_few_nodes()?;
            return Err(PlaceError::Wait);
        }
        let members = if is_tight { Err(PlaceError::Wait) } else { self.sociable_members(partition) };
        // What is left must not come to lie on fewer nodes than a stripe has: the roomiest take it, also slow ones.
        let of_rest = |error| match is_client {
            true => Err(error),
            false => self.choose_roomiest(self.config.shape, self.chunk_room_bytes(self.config.chunk_bytes)),
        };
        let members = members.or_else(of_rest)?;
        let id = self.take_stripe_ids(1);
        let (shape, chunk_bytes) = (self.config.shape, self.config.chunk_bytes);
        let open = match self.spare.take(self.now.mono_us) {
            Some(memory) => OpenStripe::in_memory_of(shape, chunk_bytes, memory),
            None => OpenStripe::new(shape, chunk_bytes),
        };
        let slot = self.stripes.insert(Stripe::new(id, partition, members.clone(), open));
        let log = self.log(partition);
        log.open.push(slot);
        log.newest = id;
        self.refresh_hampered();
        self.expect_use(&members, id, self.chunk_room_bytes(self.config.chunk_bytes));
        self.look_at_room();
        let (kind, configuration) = (ChunkKind::Packed, Configuration::default());
        let facts = StripeFacts { partition, kind, shape, chunk_bytes, configuration, members };
        for (index, &node) in facts.members.iter().enumerate() {
            let description = self.describe(id, &facts, index);
            self.ask(node, id, &NodeRequest::Open(description), What::Open { stripe: id });
        }
        Ok(slot)
    }

    /// Does the partition have as many unsealed stripes as it may?
    pub(in crate::engine) fn waits_for_seals(&self, partition: PartitionId) -> bool {
        self.stripes.unsealed_count(partition) >= UNSEALED_MAX
    }

    /// Members for a packed stripe: those of the last one, until each partition of this core had its turn with them.
    /// The open stripes of a core then lie on the same nodes in the same order, and what a turn appends, to whichever
    /// partition, wakes one data node and the parity nodes.
    pub(in crate::engine) fn sociable_members(&mut self, partition: PartitionId) -> Result<Arc<[NodeId]>, PlaceError> {
        let sidesteps = self.log_sidesteps(partition);
        let (bytes, kept_bytes) = (self.chunk_room_bytes(self.config.chunk_bytes), self.kept_bytes());
        let is_good = |&id: &NodeId| {
            let node = self.nodes.get(id).filter(|node| node.free_bytes() >= bytes + kept_bytes);
            let is_taking = self.nodes.is_ready(id) && !self.is_leaving(id) && !self.may_be_taken_out(id);
            node.is_some() && is_taking && !(sidesteps && self.is_evaded(id))
        };
        // Where memory is short every chunk counts: room on a few nodes is none.
        if let Some((members, uses)) = &self.shared_members
            && !self.is_short_of_memory()
            && *uses < self.logs.len()
            && members.iter().all(is_good)
        {
            let (members, uses) = (members.clone(), uses + 1);
            self.shared_members = Some((members.clone(), uses));
            return Ok(members);
        }
        let members = self.choose_members(self.config.shape, bytes, sidesteps)?;
        self.shared_members = Some((members.clone(), 1));
        Ok(members)
    }

    /// What a node is told of one of a stripe's chunks.
    pub(in crate::engine) fn describe(&self, stripe: StripeId, facts: &StripeFacts, index: usize) -> ChunkDescription {
        ChunkDescription {
            stripe,
            epoch: self.config.epoch,
            partition: facts.partition,
            kind: facts.kind,
            index: index as u8,
            shape: facts.shape,
            chunk_bytes: facts.chunk_bytes as u32,
            configuration: facts.configuration,
            members: Members(facts.members.to_vec()),
        }
    }

    /// # Errors
    /// There are too few nodes for a stripe. While one that is late may answer yet, that is waited for.
    pub(in crate::engine) fn too_few_nodes(&self) -> Result<(), PlaceError> {
        match self.lack_of_nodes() {
            None => Ok(()),
            Some(_) if self.awaits_suspects() => Err(PlaceError::Wait),
            Some(error) => Err(PlaceError::Refuse(error)),
        }
    }

    fn lack_of_nodes(&self) -> Option<StoreError> {
        let (alive, needed) = (self.usable_count(), self.config.member_count());
        let error = StoreError::TooFewNodes { alive: alive as u16, needed: needed as u16 };
        (alive < needed).then_some(error)
    }

    /// Are nodes that are late, and may answer yet, what it takes to write? It is known soon whether they hang.
    pub(in crate::engine) fn awaits_suspects(&self) -> bool {
        let (usable, needed) = (self.usable_count(), self.config.member_count());
        usable < needed && usable + self.usable_suspect_count() >= needed
    }

    /// What is told who waited for a place in vain. `waits_for_seals`: does its partition?
    pub(in crate::engine) fn why_no_place(&self, waits_for_seals: bool) -> StoreError {
        let other = if waits_for_seals { StoreError::Overloaded } else { StoreError::OutOfMemory };
        self.lack_of_nodes().unwrap_or(other)
    }

    /// Counts memory that was asked for until the nodes' answers tell what is in use, and chunks until they are
    /// counted.
    pub(in crate::engine) fn expect_use(&mut self, members: &[NodeId], stripe: StripeId, bytes: u64) {
        for &node in members {
            self.moves.note_put_on(node);
            let session = self.nodes.session_of(node, stripe);
            if let Some(session) = self.nodes.session_mut(session) {
                session.used_bytes += bytes;
            }
        }
    }

    /// Memory that a chunk with so much payload takes on its node.
    pub(in crate::engine) fn chunk_room_bytes(&self, payload_bytes: usize) -> u64 {
        (payload_bytes as u64 + CHUNK_EXTRA_BYTES).next_multiple_of(CHUNK_UNIT_BYTES)
    }

    /// Sends the pending operation of every stripe that takes appends. The next turn writes to the next data chunk, in
    /// all stripes alike: so chunks fill evenly, and a turn's appends go to few nodes (see [`Self::sociable_members`]).
    pub(in crate::engine) fn flush_logs(&mut self) {
        self.has_unsent = false;
        let open: SmallVec<[StripeSlot; 16]> = self.logs.values().flat_map(|log| &log.open).copied().collect();
        let flushed = open.iter().filter(|&&slot| self.flush_stripe(slot)).count();
        if flushed == 0 {
            return;
        }
        self.turn += 1;
        for slot in open {
            self.stripes.at_mut(slot).bytes_mut().begin_turn(self.turn);
        }
    }

    pub(super) fn flush_stripe(&mut self, slot: StripeSlot) -> bool {
        let now_us = self.now.mono_us;
        let stripe = self.stripes.at_mut(slot);
        let Some(open) = stripe.open.as_mut() else { return false };
        let Some(append) = open.flush(now_us) else { return false };
        let mut held: SmallVec<[usize; 8]> = SmallVec::new();
        // Members that are told the same get the same frame.
        let mut framed = None;
        for place in 0..open.shares().len() {
            let share = open.shares()[place];
            let request = NodeRequest::Append {
                stripe: stripe.id,
                op: append.op,
                previous: share.previous,
                stable: share.stable,
                data_index: append.data_index as u8,
                offset: append.offset as u32,
                bytes: open.append_bytes(&append),
            };
            let node = stripe.members[share.member];
            let session = self.nodes.session_of(node, stripe.id);
            if open.is_level(&share)
                && let Some(session) = self.nodes.ringed_mut(session)
            {
                let told = Some((share.previous, share.stable));
                if framed != told {
                    self.append_frame.clear();
                    request.encode(append_tag(stripe.id), &mut self.append_frame);
                    framed = told;
                }
                let call = NodeRequest::Stable { stripe: stripe.id, stable: share.stable };
                if session.put_into_ring(stripe.partition, &self.append_frame, &call) {
                    held.push(share.member);
                    continue;
                }
            }
            // A member that is gone is noticed by its session's end, which abandons the stripe.
            let _ = self.nodes.send(session, &request, append_tag(stripe.id));
            let ticket = self.monitor.sent(node, Class::Write, append.length as u32, now_us);
            open.owe(share.member, append.op, now_us, ticket);
        }
        let is_sent = held.len() < open.shares().len();
        let (partition, members) = (stripe.partition, Arc::clone(&stripe.members));
        self.hedging.budget.earn();
        self.stats.totals.appends_put_total += held.len() as u64;
        for member in held {
            let open = self.stripes.at_mut(slot).bytes_mut();
            let confirmed = open.acknowledge(member, append.op);
            self.pass_on(slot, confirmed);
        }
        if is_sent && self.races_late(partition) {
            let participants = self.config.shape.participants(append.data_index);
            self.note_raceable(participants.map(|member| members[member]), append.length);
        }
        true
    }

    /// A node holds all it was sent of a stripe, up to `op`.
    pub(in crate::engine) fn acknowledged(&mut self, node: NodeId, id: StripeId, op: OpNumber) {
        let Some(slot) = self.stripes.slot_of(id) else { return };
        let stripe = self.stripes.at_mut(slot);
        let Some(member) = stripe.member_of(node) else { return };
        let is_unsealed = stripe.is_unsealed();
        let Some(open) = stripe.open.as_mut() else { return };
        let mut reached_us = 0;
        while let Some((sent_us, ticket)) = open.settle(member, op) {
            self.monitor.answered(ticket, self.now.mono_us);
            reached_us = sent_us;
        }
        if let Some(session) = self.nodes.session_mut(self.nodes.session_of(node, id)) {
            session.reached_us = session.reached_us.max(reached_us);
        }
        if !is_unsealed {
            return;
        }
        let confirmed = open.acknowledge(member, op);
        self.pass_on(slot, confirmed);
    }

    /// A node has its chunk of a stripe.
    pub(in crate::engine) fn stripe_opened(&mut self, node: NodeId, id: StripeId) {
        let Some(slot) = self.stripes.slot_of(id) else { return };
        let stripe = self.stripes.at_mut(slot);
        let Some(member) = stripe.member_of(node).filter(|_| stripe.is_unsealed()) else { return };
        let Some(open) = stripe.open.as_mut() else { return };
        let confirmed = open.open(member);
        self.pass_on(slot, confirmed);
        if self.is_evaded(node) {
            // Nobody waits for it there any more.
            self.refresh_hampered();
        }
    }

    fn pass_on(&mut self, slot: StripeSlot, confirmed: Vec<Item<Purpose>>) {
        for item in confirmed {
            self.prefetch_entry(item.purpose);
            self.work.push_back(Work::Confirmed { slot, item });
        }
        if self.stripes.at(slot).phase() == StripePhase::Sealing {
            self.send_seals(slot);
        }
    }

    /// The index entry of the key that a record is about will be wanted as soon as those before it are dealt with.
    fn prefetch_entry(&self, purpose: Purpose) {
        if let Purpose::Write(lock) | Purpose::Move { lock, .. } = purpose
            && let Some(lock) = self.locks.get(lock)
        {
            self.index.prefetch(lock.slot, lock.tag());
        }
    }

    /// A full stripe takes no more appends; it is sealed when every operation is confirmed.
    pub(in crate::engine) fn begin_seal(&mut self, slot: StripeSlot) {
        self.flush_stripe(slot);
        let stripe = self.stripes.at_mut(slot);
        stripe.become_phase(StripePhase::Sealing);
        let partition = stripe.partition;
        self.stalled.hope_again();
        self.log(partition).open.retain(|&other| other != slot);
        self.send_seals(slot);
    }

    fn send_seals(&mut self, slot: StripeSlot) {
        let stripe = self.stripes.at(slot);
        let open = stripe.bytes();
        if !open.is_settled() {
            return;
        }
        let (id, members, last) = (stripe.id, stripe.members.clone(), open.last_op());
        let chunk_lasts: Vec<_> = (0..members.len()).map(|member| open.member_last(member)).collect();
        let shape = self.config.shape;
        let sums = sums_of(&self.codes.get(shape), shape, open);
        for ((&node, chunk_last), sum) in members.iter().zip(chunk_lasts).zip(sums) {
            let seal = NodeRequest::Seal { stripe: id, last, chunk_last, sum };
            self.ask(node, id, &seal, What::Seal { stripe: id });
        }
    }

    /// A member sealed its chunk; when all have, the owner lets go of the bytes (rule R5).
    pub(in crate::engine) fn seal_confirmed(&mut self, node: NodeId, id: StripeId) {
        let Some(slot) = self.stripes.slot_of(id) else { return };
        let stripe = self.stripes.at_mut(slot);
        let Some(member) = stripe.member_of(node).filter(|_| stripe.phase() == StripePhase::Sealing) else { return };
        let open = stripe.bytes_mut();
        open.seal_confirmed.insert(member);
        if open.seal_confirmed.len() != stripe.members.len() {
            return;
        }
        self.keep_manifests(slot);
        let stripe = self.stripes.at_mut(slot);
        let open = stripe.open.take().expect("an unsealed stripe has its bytes");
        stripe.fills = open.fills().iter().map(|&fill| fill as u32).collect();
        stripe.become_phase(StripePhase::Sealed);
        self.spare.put(open.into_memory());
        self.stripes.no_longer_unsealed(slot);
        self.locate(slot);
        self.stalled.press();
    }

    /// A stripe that lost a member before it was sealed: what is not confirmed is appended elsewhere at once, what is
    /// alive follows by a job.
    pub(in crate::engine) fn abandon(&mut self, slot: StripeSlot) {
        let Some(stripe) = self.stripes.get_mut(slot).filter(|stripe| stripe.is_unsealed()) else { return };
        stripe.become_phase(StripePhase::Leaving);
        let partition = stripe.partition;
        let open = stripe.open.as_mut().expect("an unsealed stripe has its bytes");
        // Should this owner die before it can empty the stripe, the next one knows what is certain.
        for (member, stable) in open.take_untold() {
            let node = stripe.members[member];
            if self.nodes.is_ready(node) {
                let session = self.nodes.session_of(node, stripe.id);
                self.nodes.send(session, &NodeRequest::Stable { stripe: stripe.id, stable }, 0);
            }
        }
        let unconfirmed = open.take_unconfirmed();
        for member in 0..stripe.members.len() {
            while let Some((_, ticket)) = open.settle(member, OpNumber(u32::MAX)) {
                self.monitor.cancelled(ticket);
            }
        }
        self.stripes.no_longer_unsealed(slot);
        self.log(partition).open.retain(|&other| other != slot);
        let place = |item: &Item<Purpose>| self.stripes.location(slot, item.data_index, item.offset);
        let places = unconfirmed.iter().map(place).collect();
        let mut grouped = Vec::new();
        for item in unconfirmed {
            self.append_again(slot, partition, &item, &mut grouped);
        }
        let id = self.stripes.at(slot).id;
        for group in grouped.chunk_by(|one, other| one.group == other.group) {
            self.append_group_again(id, partition, group);
        }
        self.start_leaving(slot, places);
        self.stalled.press();
    }

    /// Appends an unconfirmed record elsewhere; one of a group is put to `grouped`, to go with the others.
    fn append_again(
        &mut self,
        from: StripeSlot,
        partition: PartitionId,
        item: &Item<Purpose>,
        grouped: &mut Vec<Grouped>,
    ) {
        let stripe = self.stripes.at(from);
        let open = stripe.bytes();
        let bytes = open.item_bytes(item.data_index, item.offset, item.length).to_vec();
        let (record, _) = Record::parse(&bytes, stripe.id).expect("the owner's own bytes are a record");
        let purpose = match item.purpose {
            Purpose::Raced(race) => match self.leave_race(race) {
                Left::Nothing => return,
                Left::Last(purpose) => purpose,
            },
            // In a stripe above the flush's horizon it would come back (rule R3).
            Purpose::Flushed => return,
            purpose => purpose,
        };
        if let Purpose::Move { lock, job } = purpose {
            return self.move_interrupted(lock, job);
        }
        if let Purpose::Carry { job, .. } = purpose
            && let Some(from) = self.jobs.get(job).map(|job| job.id())
            && !self.is_needed(partition, from, &record)
        {
            // It did its duty meanwhile: an order of a flush that happened would be found without the floor.
            return self.count_landed(job, item.length);
        }
        if let Purpose::Group { group, .. } = purpose {
            return grouped.push(Grouped { group, bytes, purpose });
        }
        let urgency = if matches!(purpose, Purpose::Void { .. }) { Urgency::Freeing } else { Urgency::Replacing };
        if let Err(error) = self.append_record(partition, &record, purpose, urgency) {
            self.append_failed(purpose, item.length, error);
        }
    }

    /// The records of a group are one operation again: a later owner finds all of them or none.
    fn append_group_again(&mut self, from: StripeId, partition: PartitionId, records: &[Grouped]) {
        let parsed = records.iter().map(|it| {
            let (record, _) = Record::parse(&it.bytes, from).expect("the owner's own bytes are a record");
            (record, it.purpose)
        });
        let parsed: Vec<_> = parsed.collect();
        if self.append_together(partition, &parsed, Urgency::Replacing).is_err() {
            self.fail_group(records[0].group, StoreError::OutcomeUnknown);
        }
    }

    /// A record that was in flight found no other place: a client's write waits for one; what else depended on it hears
    /// that its outcome is unknown.
    fn append_failed(&mut self, purpose: Purpose, length: usize, error: PlaceError) {
        match purpose {
            Purpose::Write(lock) if error == PlaceError::Wait => self.send_again(lock),
            Purpose::Write(lock) => self.fail_round(lock, StoreError::OutcomeUnknown),
            Purpose::Move { lock, job } => self.move_interrupted(lock, job),
            Purpose::Carry { job, from } => self.carry_interrupted(job, from, length),
            Purpose::Void { stripe } => self.void_interrupted(stripe),
            Purpose::Declared { declaration, .. } => self.declaration_interrupted(declaration),
            Purpose::Group { .. } => unreachable!("a group is appended again as a whole"),
            Purpose::Raced(_) => unreachable!("a copy leaves its race before it is appended again"),
            Purpose::Flushed => unreachable!("what was flushed is not appended again"),
        }
    }

    /// A record is held by all its participants.
    pub(in crate::engine) fn record_confirmed(&mut self, slot: StripeSlot, item: Item<Purpose>) {
        let location = self.stripes.location(slot, item.data_index, item.offset);
        match item.purpose {
            Purpose::Write(lock) => self.round_confirmed(lock, location, item.length),
            Purpose::Move { lock, job } => self.move_confirmed(lock, job, location, item.length),
            Purpose::Carry { job, .. } => {
                self.count_kept(location, item.length);
                self.carry_confirmed(job, location, item.length);
            }
            Purpose::Void { stripe } => {
                self.count_kept(location, item.length);
                let at = self.stripes.at(slot).id;
                self.void_confirmed(stripe, VoidRecord { at, bytes: item.length });
            }
            Purpose::Declared { declaration, partition } => {
                self.count_kept(location, item.length);
                self.declaration_confirmed(declaration, partition);
            }
            Purpose::Group { group, pair } => self.group_confirmed(group, pair, location, item.length),
            Purpose::Raced(race) => match self.race_confirmed(race, location) {
                Some(purpose) => {
                    self.extend_reach(slot);
                    self.record_confirmed(slot, Item { purpose, ..item });
                }
                None => self.count_kept(location, item.length),
            },
            Purpose::Flushed => self.count_kept(location, item.length),
        }
    }

    /// A record lies there that is kept, if it is a tombstone or control record, in a stripe whose bytes the owner has.
    pub(super) fn count_kept(&mut self, location: Location, length: usize) {
        let (slot, data_index) = self.stripes.place_of(location);
        let stripe = self.stripes.at_mut(slot);
        let open = stripe.open.as_ref().expect("what is confirmed just now is unsealed or being left");
        let bytes = open.item_bytes(data_index, usize::from(location.offset), length);
        let (record, _) = Record::parse(bytes, stripe.id).expect("the owner's own bytes are a record");
        stripe.kept.add(&record, length, self.config.epoch, true);
    }

    /// Members know what is stable soon even when nothing more is appended.
    pub(in crate::engine) fn tell_stable_when_idle(&mut self) {
        let now_us = self.now.mono_us;
        for &slot in &self.stripes.unsealed().to_vec() {
            let stripe = self.stripes.at_mut(slot);
            let open = stripe.bytes_mut();
            for (member, stable) in open.stable_untold(now_us, IDLE_STABLE_US) {
                let session = self.nodes.session_of(stripe.members[member], stripe.id);
                self.nodes.send(session, &NodeRequest::Stable { stripe: stripe.id, stable }, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! Striped objects: values with stripes of their own, cut into pieces on `k+m` nodes. Usually those above the
//! small-write threshold; which ones, by which code and on which nodes is the partition's strategy.
//!
//! Write: pieces are installed on all members, data first, then the parities; when every chunk is held, a manifest is
//! appended to the log, and that makes the object exist (rule R8). A failure on the way starts again with new stripe
//! ids and members. The pieces of the value before are freed when the new manifest is durable, also where they lie on
//! the same nodes: a crash leaves the old value or the new one, never a mix. What is late is written again beside it
//! (see `striped_race`). Read: see `striped_read`.

use std::collections::BTreeMap;
use std::sync::Arc;

use shorttail_units::{CodeShape, Configuration, NodeId, PartitionId, StripeId};
use shorttail_wire::node::{ChunkKind, NodeRequest, Refusal};

use super::layout::Layout;
use super::lock::{Lock, LockPhase};
use super::log::PlaceError;
use super::manifest::{Manifest, seal_piece};
use super::object::{Object, ObjectData};
use super::round::{End, Round};
use super::striped_objects::StripedObject;
use crate::command::StoreError;
use crate::engine::limits::INSTALLS_IN_FLIGHT;
use crate::engine::repair::queue::StripeFacts;
use crate::engine::sessions::nodes::Node;
use crate::engine::state::pool::PoolKey;
use crate::engine::{Engine, What};

/// Attempts of a striped write, late and failed ones, before its client hears of it: four nodes that stand still may be
/// met one after the other.
pub(super) const ATTEMPTS_MAX: u32 = 6;

/// The value of a round that is to be striped: what all attempts at it have in common, but for their number.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// Of the round.
    pub lock: PoolKey,
    pub partition: PartitionId,
    /// Shared by the attempts that race.
    pub value: Arc<Vec<u8>>,
    /// That of the first attempt: the policy by which the value is striped may have changed since.
    pub layout: Layout,
    /// Attempts before this one.
    pub attempts: u32,
}

/// An attempt to hold all pieces of a value.
#[derive(Debug)]
pub struct StripedWrite {
    pub(super) task: Task,
    pub(in crate::engine) manifest: Manifest,
    /// Next stripe to send.
    next: u32,
    /// Stripes of which not every member has confirmed, oldest first.
    pub(in crate::engine) flights: BTreeMap<u32, Flight>,
    /// The other attempt, and whether this one is the second.
    pub(super) rival: Option<PoolKey>,
    pub(super) is_second: bool,
}

impl StripedWrite {
    /// Pieces that their members confirmed.
    pub(super) fn pieces_held(&self) -> usize {
        let on_their_way: usize = self.flights.values().map(|flight| flight.missing).sum();
        self.next as usize * self.manifest.members.len() - on_their_way
    }
}

/// The pieces of one stripe on their way.
#[derive(Debug)]
pub struct Flight {
    pub(in crate::engine) sent_us: u64,
    missing: usize,
    /// The installs, answered ones included.
    pub(super) tags: Vec<PoolKey>,
}

impl Engine {
    pub(super) fn start_striped_write(&mut self, lock: PoolKey) {
        let Some(held) = self.locks.get(lock) else { return };
        let partition = self.config.partition_of(held.slot);
        let Some(round) = self.round_mut(lock) else { return };
        let End::Store(Object { data: ObjectData::Inline(value), .. }) = &mut round.end else { return };
        let value = Arc::new(std::mem::take(value));
        let layout = self.config.layout(self.policy(partition).small_write, value.len());
        self.begin_attempt(Task { lock, partition, value, layout, attempts: 0 });
    }

    fn begin_attempt(&mut self, task: Task) {
        let core_bytes = self.striped_bytes_on_core(task.value.len(), task.layout);
        let members = match self.members_for(task.lock, task.partition, task.layout.shape, core_bytes) {
            Ok(members) => members,
            // Nothing is given up for what would find no place all the same.
            Err(PlaceError::Wait) if !self.might_ever_fit(core_bytes) => {
                return self.postpone_striped(task, PlaceError::Refuse(StoreError::TooLarge));
            }
            Err(error) => return self.postpone_striped(task, error),
        };
        self.send_attempt(task, members);
    }

    /// What a value takes of each core of each member at most.
    pub(super) fn striped_bytes_on_core(&self, value_bytes: usize, layout: Layout) -> u64 {
        let Layout { shape, payload_bytes_min } = layout;
        let (stripe_count, piece_bytes) =
            Manifest::cut(value_bytes, shape.data_count(), self.config.chunk_bytes, payload_bytes_min);
        let core_count = self.taking_nodes().map(|node| node.sessions.len()).min().unwrap_or(1);
        self.chunk_room_bytes(piece_bytes) * Node::stripes_on_core(u64::from(stripe_count), core_count)
    }

    /// Begins to send the pieces of a value to these members; `None` if nobody waits for them any more.
    pub(super) fn send_attempt(&mut self, task: Task, members: Arc<[NodeId]>) -> Option<PoolKey> {
        let key = self.locks.get(task.lock)?.key.to_vec();
        let (value_bytes, Layout { shape, payload_bytes_min }) = (task.value.len(), task.layout);
        let (stripe_count, piece_bytes) =
            Manifest::cut(value_bytes, shape.data_count(), self.config.chunk_bytes, payload_bytes_min);
        let manifest = Manifest {
            value_bytes,
            first: self.take_stripe_ids(u64::from(stripe_count)),
            stripe_count,
            piece_bytes,
            shape,
            members,
        };
        self.striped.insert(StripedObject::new(key, task.partition, manifest.clone()));
        let write = StripedWrite { task, manifest, next: 0, flights: BTreeMap::new(), rival: None, is_second: false };
        let write = self.striped_writes.insert(write);
        self.send_stripes(write);
        Some(write)
    }

    /// The nodes of a value that takes so many bytes of a core of each. Like every client it leaves a reserve to
    /// cleaning.
    fn members_for(
        &mut self,
        lock: PoolKey,
        partition: PartitionId,
        shape: CodeShape,
        core_bytes: u64,
    ) -> Result<Arc<[NodeId]>, PlaceError> {
        self.striped_fits(core_bytes)?;
        match self.members_in_place(lock, partition, shape, core_bytes) {
            Some(members) => {
                let has_room = |&id: &NodeId| self.nodes.get(id).is_some_and(|it| it.free_bytes() >= core_bytes);
                if members.iter().all(has_room) { Ok(members) } else { Err(PlaceError::Wait) }
            }
            None => self.choose_members(shape, core_bytes, self.policy(partition).write_sidestep),
        }
    }

    /// Is there room for a value beside the reserve?
    pub(in crate::engine) fn striped_fits(&self, core_bytes: u64) -> Result<(), PlaceError> {
        // Its manifest will need a whole stripe.
        self.too_few_nodes()?;
        let as_stripes = core_bytes.div_ceil(self.chunk_room_bytes(self.config.chunk_bytes));
        if self.stripes_for_clients() >= as_stripes { Ok(()) } else { Err(PlaceError::Wait) }
    }

    /// The value goes back to its round, which waits for memory or fails.
    fn postpone_striped(&mut self, task: Task, error: PlaceError) {
        if let Some(round) = self.round_mut(task.lock) {
            if let End::Store(Object { data: ObjectData::Inline(value), .. }) = &mut round.end {
                *value = Arc::unwrap_or_clone(task.value);
            }
            round.is_sent = false;
        }
        match error {
            PlaceError::Wait => self.stall_striped(task.lock),
            PlaceError::Refuse(error) => self.fail_round(task.lock, error),
        }
    }

    fn send_stripes(&mut self, key: PoolKey) {
        loop {
            let Some(write) = self.striped_writes.get_mut(key) else { return };
            if write.flights.len() >= INSTALLS_IN_FLIGHT || write.next == write.manifest.stripe_count {
                return;
            }
            let number = write.next;
            write.next += 1;
            let (partition, manifest) = (write.task.partition, write.manifest.clone());
            let code = self.codes.get(manifest.shape);
            let chunks = cut(&manifest, number, &write.task.value, &code);
            let stripe = manifest.first.plus(u64::from(number));
            self.expect_use(&manifest.members, stripe, self.chunk_room_bytes(manifest.piece_bytes));
            let facts = StripeFacts {
                partition,
                kind: ChunkKind::Striped,
                shape: manifest.shape,
                chunk_bytes: manifest.piece_bytes,
                configuration: Configuration::default(),
                members: manifest.members.clone(),
            };
            let mut tags = Vec::with_capacity(chunks.len());
            for (index, chunk) in chunks.iter().enumerate() {
                let description = self.describe(stripe, &facts, index);
                let install = NodeRequest::Install { description, bytes: chunk };
                tags.push(self.ask(manifest.members[index], stripe, &install, What::Install { write: key, number }));
            }
            let flight = Flight { sent_us: self.now.mono_us, missing: tags.len(), tags };
            let Some(write) = self.striped_writes.get_mut(key) else { return };
            write.flights.insert(number, flight);
            self.hedging.budget.earn();
            if self.races_values(partition) {
                self.note_raceable(manifest.members.iter().copied(), manifest.piece_bytes);
            }
        }
    }

    pub(in crate::engine) fn installed(&mut self, key: PoolKey, number: u32) {
        let Some(write) = self.striped_writes.get_mut(key) else { return };
        let Some(flight) = write.flights.get_mut(&number) else { return };
        flight.missing -= 1;
        if flight.missing > 0 {
            return;
        }
        write.flights.remove(&number);
        if write.next < write.manifest.stripe_count || !write.flights.is_empty() {
            return self.send_stripes(key);
        }
        let write = self.striped_writes.remove(key).expect("it was there");
        self.win_striped_race(&write);
        if let Some(round) = self.round_mut(write.task.lock) {
            if let End::Store(object) = &mut round.end {
                object.data = ObjectData::Striped { manifest: write.manifest, value: None };
            }
            // Its pieces have their place: the manifest may wait for one as long again.
            (round.is_sent, round.stalled_us) = (false, None);
        }
        self.send_round(write.task.lock);
    }

    /// A member refused or was lost: what was installed goes, and the write starts again elsewhere, or waits for
    /// memory; unless another attempt is under way.
    pub(in crate::engine) fn install_refused(&mut self, key: PoolKey, refusal: Option<Refusal>) {
        let Some(write) = self.drop_attempt(key) else { return };
        if self.leaves_striped_race(&write) {
            return;
        }
        let task = write.task;
        if refusal == Some(Refusal::OutOfMemory) {
            return self.postpone_striped(task, PlaceError::Wait);
        }
        if task.attempts + 1 < ATTEMPTS_MAX {
            return self.begin_attempt(Task { attempts: task.attempts + 1, ..task });
        }
        self.postpone_striped(task, PlaceError::Refuse(StoreError::OutcomeUnknown));
    }

    /// Ends an attempt: its pieces are freed, also those that are still on their way (rule R11).
    pub(super) fn drop_attempt(&mut self, key: PoolKey) -> Option<StripedWrite> {
        let write = self.striped_writes.remove(key)?;
        for &tag in write.flights.values().flat_map(|flight| &flight.tags) {
            self.let_go_of(tag);
        }
        self.free_striped(write.manifest.first);
        Some(write)
    }

    /// The stripes of a striped object are not needed any more.
    pub(in crate::engine) fn free_striped(&mut self, first: StripeId) {
        if let Some(object) = self.striped.remove(first) {
            self.free_pieces(&object);
        }
    }

    /// The same of an object that was taken out.
    pub(super) fn free_pieces(&mut self, object: &StripedObject) {
        let (partition, manifest) = (object.partition, &object.manifest);
        for stripe in object.stripes() {
            self.repair.forget(stripe);
            self.forget_moves(stripe);
        }
        for (&stripe, (_, members)) in &object.moved {
            let moved = members.iter().filter(|node| !manifest.members.contains(node));
            moved.for_each(|&node| self.free_on(node, stripe, partition));
        }
        for &node in manifest.members.iter() {
            self.free_range_on(node, manifest.first, manifest.stripe_count, partition);
        }
    }

    /// The striped object that a stripe belongs to, and its first stripe.
    pub(in crate::engine) fn striped_of(&self, stripe: StripeId) -> Option<(StripeId, &StripedObject)> {
        let (&first, object) = self.striped.range(..=stripe).next_back()?;
        (stripe < first.plus(u64::from(object.manifest.stripe_count))).then_some((first, object))
    }

    pub(in crate::engine) fn striped_of_mut(&mut self, stripe: StripeId) -> Option<&mut StripedObject> {
        let (first, _) = self.striped_of(stripe)?;
        self.striped.get_mut(&first)
    }

    /// First stripes of striped objects that rounds are about to make, or to keep: these decide what becomes of them.
    pub(in crate::engine) fn striped_in_flight(&self) -> Vec<StripeId> {
        let unconfirmed = self.unconfirmed_rounds().filter_map(|round| round.manifest());
        self.striped_being_written().chain(unconfirmed.map(|manifest| manifest.first)).collect()
    }

    /// Does the object with this first stripe not exist yet? One that is touched does, and its pieces stay what they
    /// are: there may be no end of that.
    pub(in crate::engine) fn is_in_the_making(&self, first: StripeId) -> bool {
        let is_made = |object: &StripedObject| {
            let lock = self.locks.find(self.key_ref(&object.key)).and_then(|lock| self.locks.get(lock));
            let manifest = lock.and_then(unconfirmed_round).and_then(Round::new_manifest);
            manifest.is_some_and(|manifest| manifest.first == first)
        };
        self.striped_being_written().any(|written| written == first) || self.striped.get(&first).is_some_and(is_made)
    }

    fn striped_being_written(&self) -> impl Iterator<Item = StripeId> {
        self.striped_writes.iter().map(|(_, write)| write.manifest.first)
    }

    fn unconfirmed_rounds(&self) -> impl Iterator<Item = &Round> {
        self.locks.iter().filter_map(|(_, lock)| unconfirmed_round(lock))
    }
}

fn unconfirmed_round(lock: &Lock) -> Option<&Round> {
    match &lock.phase {
        LockPhase::Writing(round) if round.confirmed.is_none() => Some(round),
        _ => None,
    }
}

/// The chunks of stripe `number` of a value, parities included.
fn cut(manifest: &Manifest, number: u32, value: &[u8], code: &shorttail_codes::Code) -> Vec<Vec<u8>> {
    let mut data: Vec<Vec<u8>> = Vec::with_capacity(manifest.members.len());
    for index in 0..manifest.shape.data_count() {
        let mut piece = vec![0; manifest.piece_bytes];
        let range = manifest.value_range(number, index);
        piece[..range.len()].copy_from_slice(&value[range]);
        seal_piece(&mut piece, manifest.first.plus(u64::from(number)));
        data.push(piece);
    }
    let mut parities = vec![vec![0; manifest.piece_bytes]; manifest.shape.parity_count()];
    let sources: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let mut targets: Vec<&mut [u8]> = parities.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(&sources, &mut targets);
    data.append(&mut parities);
    data
}

#[cfg(test)]
mod tests;

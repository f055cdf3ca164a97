//! Striped objects: values with stripes of their own, cut into pieces on `k+m` nodes. Usually those above the
//! small-write threshold; which ones, by which code and on which nodes is the partition's strategy.
//!
//! Write: pieces are installed on all members, data first, then the parities; when every chunk is held, a manifest is
//! appended to the log, and that makes the object exist (rule R8). A failure on the way starts again with new stripe
//! ids and members. The pieces of the value before are freed when the new manifest is durable, also where they lie on
//! the same nodes: a crash leaves the old value or the new one, never a mix. What is late is written again beside it
//! (see `striped_race`). Read: the pieces are fetched side by side, each by itself degraded if need be; so many values
//! at once as there is room for (see `read_room`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use shorttail_codes::ChunkSet;
use shorttail_units::{CodeShape, Configuration, NodeId, OpNumber, PartitionId, StripeId, UnixMs};
use shorttail_wire::node::{ChunkDescription, ChunkKind, NodeRequest, Refusal};

use super::layout::Layout;
use super::lock::{End, LockPhase, Object, ObjectData, Old, OldRecord, Round};
use super::log::PlaceError;
use super::manifest::{Manifest, seal_piece};
use crate::command::{ApplyContext, BoxCommand, StoreError};
use crate::engine::limits::INSTALLS_IN_FLIGHT;
use crate::engine::read::fetch::{Extent, FetchPurpose, Wanted};
use crate::engine::repair::queue::Facts;
use crate::engine::sessions::nodes::Node;
use crate::engine::state::pool::PoolKey;
use crate::engine::{Engine, Token, What, Work};

/// Attempts of a striped write, late and failed ones, before its client hears of it: four nodes that stand still may be
/// met one after the other.
pub(super) const ATTEMPTS_MAX: u32 = 6;

/// A striped object that exists, or is being written.
#[derive(Clone, Debug)]
pub struct StripedObject {
    pub key: Vec<u8>,
    pub partition: PartitionId,
    pub manifest: Manifest,
    /// As its manifest's record says, once that is durable.
    pub expiry: Option<UnixMs>,
    /// Stripes of which a chunk was rebuilt elsewhere, and who holds them now.
    moved: BTreeMap<StripeId, (Configuration, Arc<[NodeId]>)>,
}

impl StripedObject {
    pub fn new(key: Vec<u8>, partition: PartitionId, manifest: Manifest) -> Self {
        StripedObject { key, partition, manifest, expiry: None, moved: BTreeMap::new() }
    }

    pub fn is_over(&self, now: UnixMs) -> bool {
        self.expiry.is_some_and(|expiry| expiry <= now)
    }

    pub fn stripes(&self) -> impl Iterator<Item = StripeId> + use<> {
        let (first, count) = (self.manifest.first, self.manifest.stripe_count);
        (0..count).map(move |number| first.plus(u64::from(number)))
    }

    /// Who holds a stripe, and under which configuration.
    pub fn members_of(&self, stripe: StripeId) -> (Configuration, Arc<[NodeId]>) {
        let moved = self.moved.get(&stripe).cloned();
        moved.unwrap_or_else(|| (Configuration::default(), self.manifest.members.clone()))
    }

    pub(in crate::engine) fn facts_of(&self, stripe: StripeId) -> Facts {
        let (configuration, members) = self.members_of(stripe);
        Facts {
            partition: self.partition,
            kind: ChunkKind::Striped,
            shape: self.manifest.shape,
            chunk_bytes: self.manifest.piece_bytes,
            configuration,
            members,
        }
    }

    pub fn move_to(&mut self, stripe: StripeId, configuration: Configuration, members: Arc<[NodeId]>) {
        self.moved.insert(stripe, (configuration, members));
    }
}

/// Striped objects by their first stripe: in the order in which they were written.
#[derive(Debug, Default)]
pub struct StripedObjects {
    by_first: BTreeMap<StripeId, StripedObject>,
    value_bytes: u64,
}

impl StripedObjects {
    pub fn insert(&mut self, object: StripedObject) {
        self.value_bytes += object.manifest.value_bytes as u64;
        let replaced = self.by_first.insert(object.manifest.first, object);
        assert!(replaced.is_none(), "stripe ids are used once");
    }

    pub fn remove(&mut self, first: StripeId) -> Option<StripedObject> {
        let object = self.by_first.remove(&first)?;
        self.value_bytes -= object.manifest.value_bytes as u64;
        Some(object)
    }

    /// Takes out what goes. Where all of it does but a few, those few are all that is looked at.
    pub fn take(
        &mut self,
        kept: &BTreeSet<StripeId>,
        goes: Option<impl Fn(&StripedObject) -> bool>,
    ) -> BTreeMap<StripeId, StripedObject> {
        let taken = match goes {
            Some(goes) => {
                let is_taken = |first: &StripeId, object: &mut StripedObject| goes(object) && !kept.contains(first);
                self.by_first.extract_if(.., is_taken).collect()
            }
            None => {
                let mut all = std::mem::take(&mut self.by_first);
                self.by_first.extend(kept.iter().filter_map(|first| all.remove_entry(first)));
                all
            }
        };
        self.value_bytes = self.by_first.values().map(|object| object.manifest.value_bytes as u64).sum();
        taken
    }

    /// The manifest must stay what it is.
    pub fn get_mut(&mut self, first: &StripeId) -> Option<&mut StripedObject> {
        self.by_first.get_mut(first)
    }

    /// Bytes of all their values.
    pub fn value_bytes(&self) -> u64 {
        self.value_bytes
    }
}

impl Deref for StripedObjects {
    type Target = BTreeMap<StripeId, StripedObject>;

    fn deref(&self) -> &Self::Target {
        &self.by_first
    }
}

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

/// Who waits for the value.
#[derive(Debug)]
pub(in crate::engine) enum Reader {
    Command { token: Token, command: BoxCommand },
    Round { lock: PoolKey, old: OldRecord },
}

#[derive(Debug)]
pub struct StripedRead {
    reader: Reader,
    object: Object,
    partition: PartitionId,
    manifest: Manifest,
    value: Vec<u8>,
    /// Next stripe to read, and stripes not there yet.
    next: u32,
    missing: u32,
}

impl StripedRead {
    pub fn value_bytes(&self) -> usize {
        self.manifest.value_bytes
    }

    /// First stripe of what is read.
    pub(in crate::engine) fn first(&self) -> StripeId {
        self.manifest.first
    }
}

impl Engine {
    /// Takes out the clients that wait for values.
    pub(in crate::engine) fn take_striped_readers(&mut self) -> Vec<(Token, BoxCommand)> {
        let waiting = self.read_room.take_all().map(|(reader, _)| reader);
        let readers = self.striped_reads.take_all().into_iter().map(|read| read.reader).chain(waiting);
        let of_client = |reader| match reader {
            Reader::Command { token, command } => Some((token, command)),
            Reader::Round { .. } => None,
        };
        readers.filter_map(of_client).collect()
    }

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
        let write =
            StripedWrite { task, manifest, next: 0, flights: BTreeMap::new(), rival: None, is_second: false };
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
            let (kind, shape) = (ChunkKind::Striped, manifest.shape);
            let first = self.describe(stripe, partition, kind, shape, manifest.piece_bytes, &manifest.members);
            let mut tags = Vec::with_capacity(chunks.len());
            for (index, chunk) in chunks.iter().enumerate() {
                let description = ChunkDescription { index: index as u8, ..first.clone() };
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
            round.is_sent = false;
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

    /// Reads the value of a striped object once there is room; `is_next`: before others that wait.
    pub(in crate::engine) fn load_striped(&mut self, reader: Reader, object: Object, is_next: bool) {
        let (bytes, reader) = (object.data.value_bytes(), (reader, object));
        let admitted = match is_next {
            true => self.read_room.admit_next(bytes, reader),
            false => self.read_room.admit(bytes, reader),
        };
        if let Some((reader, object)) = admitted {
            self.start_striped_read(reader, object);
        }
    }

    /// Reads that waited for room begin; those whose value was replaced meanwhile, with the one that is there now.
    pub(in crate::engine) fn resume_striped_reads(&mut self) {
        while let Some((reader, object)) = self.read_room.next() {
            match reader {
                Reader::Command { token, command } if self.is_replaced_value(&object) => {
                    self.read_room.leave(object.data.value_bytes());
                    self.read_replaced(token, command);
                }
                reader => self.start_striped_read(reader, object),
            }
        }
    }

    fn is_replaced_value(&self, object: &Object) -> bool {
        let ObjectData::Striped { manifest, .. } = &object.data else { return false };
        !self.striped.contains_key(&manifest.first)
    }

    /// A read is over: what it took is free for those that wait.
    fn take_striped_read(&mut self, key: PoolKey) -> Option<StripedRead> {
        let read = self.striped_reads.remove(key)?;
        self.read_room.leave(read.manifest.value_bytes);
        self.work.push_back(Work::Read);
        Some(read)
    }

    fn start_striped_read(&mut self, reader: Reader, object: Object) {
        let ObjectData::Striped { manifest, .. } = &object.data else { return };
        let manifest = manifest.clone();
        let value = vec![0; manifest.value_bytes];
        let partition = self.striped.get(&manifest.first).map(|object| object.partition).unwrap_or_default();
        let missing = manifest.stripe_count;
        let read = StripedRead { reader, object, partition, manifest, value, next: 0, missing };
        let key = self.striped_reads.insert(read);
        for _ in 0..INSTALLS_IN_FLIGHT {
            self.read_next_stripe(key);
        }
    }

    fn read_next_stripe(&mut self, key: PoolKey) {
        let Some(read) = self.striped_reads.get_mut(key) else { return };
        let manifest = &read.manifest;
        if read.next == manifest.stripe_count {
            return;
        }
        let number = read.next;
        read.next += 1;
        let stripe = manifest.first.plus(u64::from(number));
        let held = self.striped.get(&manifest.first).map(|object| object.members_of(stripe).1);
        let holds_some = |&index: &usize| !manifest.value_range(number, index).is_empty();
        let pieces: ChunkSet = (0..manifest.shape.data_count()).filter(holds_some).collect();
        let wanted = Wanted {
            stripe,
            shape: manifest.shape,
            partition: read.partition,
            members: held.unwrap_or_else(|| manifest.members.clone()),
            data_index: 0,
            chunk_bytes: manifest.piece_bytes as u32,
            offset: 0,
            extent: Extent::Bytes(manifest.piece_bytes as u32),
            op: OpNumber(0),
            purpose: FetchPurpose::Piece { read: key, number },
        };
        // An empty value is read too: so it is seen whether it can be.
        self.start_pieces(wanted, if pieces.is_empty() { ChunkSet::of(0) } else { pieces });
    }

    /// The wanted pieces of a stripe, whole.
    pub(in crate::engine) fn pieces_read(
        &mut self,
        key: PoolKey,
        number: u32,
        pieces: impl Iterator<Item = (u8, Vec<u8>)>,
    ) {
        let Some(read) = self.striped_reads.get_mut(key) else { return };
        for (data_index, piece) in pieces {
            let range = read.manifest.value_range(number, usize::from(data_index));
            let length = range.len();
            read.value[range].copy_from_slice(&piece[..length]);
        }
        read.missing -= 1;
        if read.missing > 0 {
            return self.read_next_stripe(key);
        }
        let read = self.take_striped_read(key).expect("it was there");
        self.striped_loaded(read);
    }

    fn striped_loaded(&mut self, read: StripedRead) {
        let mut object = read.object;
        object.data = ObjectData::Striped { manifest: read.manifest, value: Some(read.value) };
        match read.reader {
            Reader::Command { token, mut command } => {
                let mut reply = Vec::new();
                let context = ApplyContext { now: self.now, version: Default::default() };
                command.apply(Some(object.shown()), &context, &mut reply);
                self.answer_key(token, command, reply);
            }
            Reader::Round { lock, old } => self.striped_loaded_for_round(lock, object, old),
        }
    }

    fn striped_loaded_for_round(&mut self, lock: PoolKey, object: Object, old: OldRecord) {
        if self.is_current(lock, &old) {
            return self.round_current(lock, Some(object), Old::Present(old));
        }
        self.start_round_again(lock);
    }

    /// Is what a round reads still what its key has? It may have been flushed meanwhile.
    fn is_current(&self, lock: PoolKey, old: &OldRecord) -> bool {
        let held = self.locks.get(lock);
        held.is_some_and(|held| self.index.contains(held.slot, held.tag(), old.location))
    }

    /// First stripes of striped objects that rounds are about to make, or to keep: these decide what becomes of them.
    pub(in crate::engine) fn striped_in_flight(&self) -> Vec<StripeId> {
        let unconfirmed = self.unconfirmed_rounds().filter_map(|round| round.manifest());
        self.striped_being_written().chain(unconfirmed.map(|manifest| manifest.first)).collect()
    }

    /// Does the object with this first stripe not exist yet? One that is touched does, and its pieces stay what they
    /// are: there may be no end of that.
    pub(in crate::engine) fn is_in_the_making(&self, first: StripeId) -> bool {
        let mut made = self.unconfirmed_rounds().filter_map(|round| round.new_manifest());
        self.striped_being_written().any(|written| written == first) || made.any(|manifest| manifest.first == first)
    }

    fn striped_being_written(&self) -> impl Iterator<Item = StripeId> {
        self.striped_writes.iter().map(|(_, write)| write.manifest.first)
    }

    fn unconfirmed_rounds(&self) -> impl Iterator<Item = &Round> {
        self.locks.iter().filter_map(|(_, lock)| match &lock.phase {
            LockPhase::Writing(round) if round.confirmed.is_none() => Some(&**round),
            _ => None,
        })
    }

    /// Pieces are gone: the object was replaced while it was read, or too many nodes failed.
    pub(in crate::engine) fn striped_unreadable(&mut self, key: PoolKey) {
        let Some(read) = self.take_striped_read(key) else { return };
        let was_replaced = !self.striped.contains_key(&read.manifest.first);
        match read.reader {
            Reader::Command { token, command } if was_replaced => self.read_replaced(token, command),
            Reader::Command { token, command } => self.refuse(token, &command, StoreError::Unreadable),
            Reader::Round { lock, old } if !self.is_current(lock, &old) => self.start_round_again(lock),
            Reader::Round { lock, .. } => self.round_unreadable(lock),
        }
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

//! Striped objects: values above the small-write threshold, cut into pieces on `k+m` nodes.
//!
//! Write: pieces are installed on all members, data first, then the parities; when every chunk is held, a manifest is
//! appended to the log, and that makes the object exist (rule R8). A failure on the way starts again with new stripe ids
//! and members. Read: the pieces are fetched side by side, each by itself degraded if need be.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use shorttail_units::{Configuration, NodeId, OpNumber, PartitionId, StripeId};
use shorttail_wire::node::{ChunkDescription, ChunkKind, NodeRequest, Refusal};

use super::fetch::{Extent, FetchError, FetchPurpose, Wanted};
use super::limits::INSTALLS_IN_FLIGHT;
use super::lock::{End, Object, ObjectData, Old, OldRecord};
use super::log::PlaceError;
use super::manifest::{Manifest, open_piece, seal_piece};
use super::pool::PoolKey;
use super::{Engine, Token, What};
use crate::command::{ApplyContext, Command, StoreError};
use crate::request::Reply;

/// Times a striped write starts again before its client hears of it.
const ATTEMPTS_MAX: u32 = 4;

/// A striped object that exists, or is being written.
#[derive(Clone, Debug)]
pub struct StripedObject {
    pub key: Vec<u8>,
    pub partition: PartitionId,
    pub manifest: Manifest,
    /// Stripes of which a chunk was rebuilt elsewhere, and who holds them now.
    moved: BTreeMap<StripeId, (Configuration, Arc<[NodeId]>)>,
}

impl StripedObject {
    pub fn new(key: Vec<u8>, partition: PartitionId, manifest: Manifest) -> Self {
        StripedObject { key, partition, manifest, moved: BTreeMap::new() }
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

    pub fn move_to(&mut self, stripe: StripeId, configuration: Configuration, members: Arc<[NodeId]>) {
        self.moved.insert(stripe, (configuration, members));
    }
}

#[derive(Debug)]
pub struct StripedWrite {
    lock: PoolKey,
    partition: PartitionId,
    manifest: Manifest,
    value: Vec<u8>,
    /// Next stripe to send.
    next: u32,
    /// Per stripe in flight, how many members have not confirmed.
    open: HashMap<u32, usize>,
    attempts: u32,
}

/// Who waits for the value.
#[derive(Debug)]
enum Reader<C> {
    Command { token: Token, command: C },
    Round { lock: PoolKey, old: OldRecord },
}

#[derive(Debug)]
pub struct StripedRead<C> {
    reader: Reader<C>,
    object: Object,
    partition: PartitionId,
    manifest: Manifest,
    value: Vec<u8>,
    /// Next piece to ask for, counted over all stripes, and pieces not there yet.
    next: usize,
    missing: usize,
}

impl<C: Command> Engine<C> {
    pub(super) fn start_striped_write(&mut self, lock: PoolKey) {
        let Some(held) = self.locks.get(lock) else { return };
        let partition = self.config.partition_of(held.slot);
        let Some(round) = self.round_mut(lock) else { return };
        let End::Store(Object { data: ObjectData::Inline(value), .. }) = &mut round.end else { return };
        let value = std::mem::take(value);
        self.begin_attempt(lock, partition, value, 0);
    }

    fn begin_attempt(&mut self, lock: PoolKey, partition: PartitionId, value: Vec<u8>, attempts: u32) {
        let shape = self.config.shape;
        let (stripe_count, piece_bytes) = Manifest::cut(value.len(), shape.data_count(), self.config.chunk_bytes, 1);
        let members = match self.choose_members_for(partition, piece_bytes, stripe_count) {
            Ok(members) => members,
            Err(error) => return self.postpone_striped(lock, value, error),
        };
        let manifest = Manifest {
            value_bytes: value.len(),
            first: self.take_stripe_ids(u64::from(stripe_count)),
            stripe_count,
            piece_bytes,
            shape,
            members,
        };
        let Some(held) = self.locks.get(lock) else { return };
        let object = StripedObject::new(held.key.clone(), partition, manifest.clone());
        self.striped.insert(manifest.first, object);
        let write = StripedWrite { lock, partition, manifest, value, next: 0, open: HashMap::new(), attempts };
        let write = self.striped_writes.insert(write);
        self.send_stripes(write);
    }

    fn choose_members_for(
        &mut self,
        partition: PartitionId,
        piece_bytes: usize,
        stripe_count: u32,
    ) -> Result<Arc<[NodeId]>, PlaceError> {
        let per_node = self.chunk_room_bytes(piece_bytes) * u64::from(stripe_count);
        let as_stripes = per_node.div_ceil(self.chunk_room_bytes(self.config.chunk_bytes));
        if self.spare_stripes() < self.reserved_stripes() + as_stripes {
            self.too_few_nodes()?;
            return Err(PlaceError::Wait);
        }
        self.choose_members(partition, per_node)
    }

    /// The value goes back to its round, which waits for memory or fails.
    fn postpone_striped(&mut self, lock: PoolKey, returned: Vec<u8>, error: PlaceError) {
        if let Some(round) = self.round_mut(lock) {
            if let End::Store(Object { data: ObjectData::Inline(value), .. }) = &mut round.end {
                *value = returned;
            }
            round.is_sent = false;
        }
        match error {
            PlaceError::Wait => self.stall(lock),
            PlaceError::Refuse(error) => self.fail_round(lock, error),
        }
    }

    fn send_stripes(&mut self, key: PoolKey) {
        loop {
            let Some(write) = self.striped_writes.get_mut(key) else { return };
            if write.open.len() >= INSTALLS_IN_FLIGHT || write.next == write.manifest.stripe_count {
                return;
            }
            let number = write.next;
            write.next += 1;
            write.open.insert(number, write.manifest.members.len());
            let (partition, manifest) = (write.partition, write.manifest.clone());
            let code = self.codes.get(manifest.shape);
            let chunks = cut(&manifest, number, &write.value, &code);
            let stripe = manifest.first.plus(u64::from(number));
            self.expect_use(&manifest.members, stripe, self.chunk_room_bytes(manifest.piece_bytes));
            let (kind, shape) = (ChunkKind::Striped, manifest.shape);
            let first = self.describe(stripe, partition, kind, shape, manifest.piece_bytes, &manifest.members);
            for (index, chunk) in chunks.iter().enumerate() {
                let description = ChunkDescription { index: index as u8, ..first.clone() };
                let install = NodeRequest::Install { description, bytes: chunk };
                self.ask(manifest.members[index], stripe, &install, What::Install { write: key, number });
            }
        }
    }

    pub(super) fn installed(&mut self, key: PoolKey, number: u32) {
        let Some(write) = self.striped_writes.get_mut(key) else { return };
        let Some(missing) = write.open.get_mut(&number) else { return };
        *missing -= 1;
        if *missing > 0 {
            return;
        }
        write.open.remove(&number);
        if write.next < write.manifest.stripe_count || !write.open.is_empty() {
            return self.send_stripes(key);
        }
        let write = self.striped_writes.remove(key).expect("it was there");
        if let Some(round) = self.round_mut(write.lock) {
            if let End::Store(object) = &mut round.end {
                object.data = ObjectData::Striped { manifest: write.manifest, value: None };
            }
            round.is_sent = false;
        }
        self.send_round(write.lock);
    }

    /// A member refused or was lost: what was installed goes, and the write starts again elsewhere, or waits for memory.
    pub(super) fn install_refused(&mut self, key: PoolKey, refusal: Option<Refusal>) {
        let Some(write) = self.striped_writes.remove(key) else { return };
        self.free_striped(write.partition, &write.manifest);
        if refusal == Some(Refusal::OutOfMemory) {
            return self.postpone_striped(write.lock, write.value, PlaceError::Wait);
        }
        if write.attempts + 1 < ATTEMPTS_MAX {
            return self.begin_attempt(write.lock, write.partition, write.value, write.attempts + 1);
        }
        self.postpone_striped(write.lock, write.value, PlaceError::Refuse(StoreError::OutcomeUnknown));
    }

    /// The stripes of a striped object are not needed any more.
    pub(super) fn free_striped(&mut self, partition: PartitionId, manifest: &Manifest) {
        let Some(object) = self.striped.remove(&manifest.first) else { return };
        object.stripes().for_each(|stripe| self.repair.forget(stripe));
        for (&stripe, (_, members)) in &object.moved {
            let moved = members.iter().filter(|node| !manifest.members.contains(node));
            moved.for_each(|&node| self.free_on(node, stripe, partition));
        }
        for &node in manifest.members.iter() {
            self.free_range_on(node, manifest.first, manifest.stripe_count, partition);
        }
    }

    /// Does a stripe belong to a striped object that exists?
    pub(super) fn is_striped(&self, stripe: StripeId) -> bool {
        self.striped_of(stripe).is_some()
    }

    /// The striped object that a stripe belongs to, and its first stripe.
    pub(super) fn striped_of(&self, stripe: StripeId) -> Option<(StripeId, &StripedObject)> {
        let (&first, object) = self.striped.range(..=stripe).next_back()?;
        (stripe < first.plus(u64::from(object.manifest.stripe_count))).then_some((first, object))
    }

    pub(super) fn striped_of_mut(&mut self, stripe: StripeId) -> Option<&mut StripedObject> {
        let (first, _) = self.striped_of(stripe)?;
        self.striped.get_mut(&first)
    }

    pub(super) fn load_striped_for_read(&mut self, token: Token, command: C, object: Object) {
        self.load_striped(Reader::Command { token, command }, object);
    }

    pub(super) fn load_striped_for_round(&mut self, lock: PoolKey, object: Object, old: OldRecord) {
        self.load_striped(Reader::Round { lock, old }, object);
    }

    fn load_striped(&mut self, reader: Reader<C>, object: Object) {
        let ObjectData::Striped { manifest, .. } = &object.data else { return };
        let manifest = manifest.clone();
        let value = vec![0; manifest.value_bytes];
        let in_flight = INSTALLS_IN_FLIGHT * manifest.shape.data_count();
        let partition = self.striped.get(&manifest.first).map(|object| object.partition).unwrap_or_default();
        let missing = manifest.piece_count();
        let read = StripedRead { reader, object, partition, manifest, value, next: 0, missing };
        let key = self.striped_reads.insert(read);
        for _ in 0..in_flight {
            self.fetch_next_piece(key);
        }
    }

    fn fetch_next_piece(&mut self, key: PoolKey) {
        let Some(read) = self.striped_reads.get_mut(key) else { return };
        let manifest = &read.manifest;
        if read.next == manifest.piece_count() {
            return;
        }
        let data_count = manifest.shape.data_count();
        let number = (read.next / data_count) as u32;
        let data_index = read.next % data_count;
        read.next += 1;
        let stripe = manifest.first.plus(u64::from(number));
        let held = self.striped.get(&manifest.first).map(|object| object.members_of(stripe).1);
        let wanted = Wanted {
            stripe,
            shape: manifest.shape,
            partition: read.partition,
            members: held.unwrap_or_else(|| manifest.members.clone()),
            data_index,
            chunk_bytes: manifest.piece_bytes as u32,
            offset: 0,
            extent: Extent::Bytes(manifest.piece_bytes as u32),
            op: OpNumber(0),
            purpose: FetchPurpose::Piece { read: key, number, data_index: data_index as u8 },
        };
        self.start_fetch(wanted);
    }

    pub(super) fn piece_fetched(&mut self, wanted: Wanted, excluded: u128, result: Result<&[u8], FetchError>) {
        let FetchPurpose::Piece { read: key, number, data_index } = wanted.purpose else { return };
        let Some(read) = self.striped_reads.get_mut(key) else { return };
        let Ok(piece) = result else { return self.striped_unreadable(key) };
        let Some(payload) = open_piece(piece) else {
            let bit = 1 << wanted.data_index;
            if excluded & bit != 0 {
                return self.striped_unreadable(key);
            }
            tracing::warn!(stripe = ?wanted.stripe, "damaged piece");
            return self.start_fetch_without(wanted, excluded | bit);
        };
        let range = read.manifest.value_range(number, usize::from(data_index));
        let length = range.len();
        read.value[range].copy_from_slice(&payload[..length]);
        read.missing -= 1;
        if read.missing > 0 {
            return self.fetch_next_piece(key);
        }
        let read = self.striped_reads.remove(key).expect("it was there");
        self.striped_loaded(read);
    }

    fn striped_loaded(&mut self, read: StripedRead<C>) {
        let mut object = read.object;
        object.data = ObjectData::Striped { manifest: read.manifest, value: Some(read.value) };
        match read.reader {
            Reader::Command { token, mut command } => {
                let mut reply = Vec::new();
                let context = ApplyContext { now: self.now, version: Default::default() };
                command.apply(Some(object.shown()), &context, &mut reply);
                self.reply(token, Reply::Bytes(reply));
            }
            Reader::Round { lock, old } => self.striped_loaded_for_round(lock, object, old),
        }
    }

    fn striped_loaded_for_round(&mut self, lock: PoolKey, object: Object, old: OldRecord) {
        let Some(held) = self.locks.get_mut(lock) else { return };
        if self.index.contains(held.slot, super::Tag::of_hash(held.hash), old.location) {
            return self.round_current(lock, Some(object), Old::Present(old));
        }
        // Flushed while it was read.
        held.phase = super::lock::LockPhase::Starting;
        self.work.push_back(super::Work::Start(lock));
    }

    /// First stripes of striped objects that do not exist yet: their rounds decide what becomes of them.
    pub(super) fn striped_in_flight(&self) -> Vec<StripeId> {
        let writing = self.striped_writes.iter().map(|(_, write)| write.manifest.first);
        let unconfirmed = self.locks.iter().filter_map(|(_, lock)| match &lock.phase {
            super::lock::LockPhase::Writing(round) if round.confirmed.is_none() => round.manifest(),
            _ => None,
        });
        writing.chain(unconfirmed.map(|manifest| manifest.first)).collect()
    }

    /// Pieces are gone: the object was replaced while it was read, or too many nodes failed.
    fn striped_unreadable(&mut self, key: PoolKey) {
        let Some(read) = self.striped_reads.remove(key) else { return };
        let was_replaced = !self.striped.contains_key(&read.manifest.first);
        match read.reader {
            Reader::Command { token, command } if was_replaced => self.read(token, command),
            Reader::Command { token, command } => self.refuse(token, &command, StoreError::Unreadable),
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
        seal_piece(&mut piece);
        data.push(piece);
    }
    let mut parities = vec![vec![0; manifest.piece_bytes]; manifest.shape.parity_count()];
    let sources: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let mut targets: Vec<&mut [u8]> = parities.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(&sources, &mut targets);
    data.append(&mut parities);
    data
}

//! Reading striped values: the pieces are fetched side by side, each by itself degraded if need be; so many values at
//! once as there is room for (see `read_room`).
//!
//! A value that is replaced while it waits for room, or is read, is looked up anew.
//!
//! Must not know: how a piece is fetched or decoded.

use shorttail_codes::ChunkSet;
use shorttail_units::{OpNumber, PartitionId, StripeId};

use super::lock::Old;
use super::manifest::Manifest;
use super::object::{Object, ObjectData, OldRecord};
use crate::command::{ApplyContext, BoxCommand, StoreError};
use crate::engine::limits::INSTALLS_IN_FLIGHT;
use crate::engine::read::fetch::{Extent, FetchPurpose, Wanted};
use crate::engine::state::pool::PoolKey;
use crate::engine::{Engine, Token, Work};

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
    pub(super) fn take_striped_read(&mut self, key: PoolKey) -> Option<StripedRead> {
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

    pub(super) fn striped_loaded_for_round(&mut self, lock: PoolKey, object: Object, old: OldRecord) {
        // What is over by now is looked for anew: nobody may be told so while a write of unknown outcome may show it
        // yet.
        let is_over = object.expiry.is_some_and(|at| at <= self.now.unix_ms);
        if !is_over && self.is_current(lock, &old) {
            return self.round_current(lock, Some(object), Old::Present(old));
        }
        self.start_round_again(lock);
    }

    /// Is what a round reads still what its key has? It may have been flushed meanwhile.
    fn is_current(&self, lock: PoolKey, old: &OldRecord) -> bool {
        let held = self.locks.get(lock);
        held.is_some_and(|held| self.index.contains(held.slot, held.tag(), old.location))
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

//! Key locks: one command round at a time changes a key; commands that arrive meanwhile wait and are combined.
//!
//! ```text
//! Starting -> Looking -> Writing -> (released, or Starting again for those that waited)
//!        \_________________^
//!         Moving: cleaning copies the record elsewhere
//!         Writing, and doubtful: the same, and it is released when the copy is there
//!         Held: a group of keys is written together
//! ```

use std::collections::VecDeque;
use std::ops::Deref;

use hashbrown::HashTable;
use shorttail_units::{UnixMs, Version};
use smallvec::SmallVec;

use super::manifest::Manifest;
use crate::command::{Attributes, BoxCommand, NewObject};
use crate::engine::reclaim::doomed::Gone;
use crate::engine::state::index::{HashedKey, Location};
use crate::engine::state::pool::{Pool, PoolKey};
use crate::engine::{KeyRef, Token};

/// The value of an object, or where it is.
#[derive(Clone, Debug)]
pub enum ObjectData {
    Inline(Vec<u8>),
    /// `value`: once it was fetched.
    Striped {
        manifest: Manifest,
        value: Option<Vec<u8>>,
    },
}

impl ObjectData {
    pub fn value_bytes(&self) -> usize {
        match self {
            ObjectData::Inline(value) => value.len(),
            ObjectData::Striped { manifest, .. } => manifest.value_bytes,
        }
    }
}

/// An object in the hands of a round.
#[derive(Clone, Debug)]
pub struct Object {
    pub data: ObjectData,
    pub flags: u32,
    pub expiry: Option<UnixMs>,
    /// Token that clients see.
    pub cas: u64,
    pub attributes: Attributes,
    pub fetched: bool,
    pub idle_s: u32,
}

impl Object {
    /// What a write of this version stores.
    pub fn new(new: NewObject, version: Version) -> Self {
        Object {
            data: ObjectData::Inline(new.value),
            flags: new.flags,
            expiry: new.expiry,
            cas: new.cas.unwrap_or(version.raw()),
            attributes: new.attributes,
            fetched: false,
            idle_s: 0,
        }
    }
}

/// The committed record of a key, as far as it matters for replacing it.
#[derive(Clone, Debug)]
pub struct OldRecord {
    pub location: Location,
    pub version: Version,
    pub record_bytes: usize,
    /// Bytes of the record, and of a striped value.
    pub object_bytes: u64,
    /// The stripes that hold its value, if it is striped.
    pub manifest: Option<Manifest>,
}

/// What is known of the record that a round replaces.
#[derive(Clone, Debug)]
pub enum Old {
    /// A record with this tag exists, its key is being compared.
    Unverified,
    /// The record with this tag cannot be read now.
    Unreadable,
    /// It never will be.
    Lost,
    Absent,
    Present(OldRecord),
}

/// How a round leaves the key.
#[derive(Clone, Debug)]
pub enum End {
    Store(Object),
    Delete,
}

/// A command that was applied and waits for the round to be durable.
#[derive(Debug)]
pub struct Finished {
    pub token: Token,
    pub command: BoxCommand,
    pub reply: Vec<u8>,
    /// Nothing before it in the round, nor itself, changed the key: it may be answered whatever becomes of the write.
    pub is_independent: bool,
    /// It took the object away.
    pub is_delete: bool,
}

/// Those of a round: usually one.
pub type FinishedCommands = SmallVec<[Finished; 1]>;

/// One combined write of a key.
#[derive(Debug)]
pub struct Round {
    pub finished: FinishedCommands,
    pub end: End,
    pub version: Version,
    pub old: Old,
    /// The last effect kept the value and counts as a read.
    pub mark_read: bool,
    /// Where the new record is and its length, once it is durable.
    pub confirmed: Option<(Location, usize)>,
    /// Cleaning copies that record elsewhere, while what it replaces cannot be read.
    pub moved: Option<Move>,
    /// It was handed to the log (or to a striped write).
    pub is_sent: bool,
    /// Nodes may hold its record although it is to be sent (again): if it fails, its outcome is unknown.
    pub was_sent: bool,
    /// It frees more than it takes: it may use memory that is reserved for cleaning.
    pub helps_cleaning: bool,
    /// The job that ends the object, and the bytes of its record.
    pub job: Option<(PoolKey, usize)>,
    /// It ends a striped object, of which not many go at once.
    pub is_eviction: bool,
    /// What is counted once it is durable.
    pub gone: Option<Gone>,
    /// The group of which it is one pair.
    pub group: Option<PoolKey>,
    /// Since when it waits for memory.
    pub stalled_us: Option<u64>,
    /// Its turn among those that wait comes.
    pub is_in_lane: bool,
}

impl Round {
    /// A round that ends an object for want of memory, or because its time is over.
    pub fn ending(old: OldRecord, version: Version, job: Option<(PoolKey, usize)>) -> Self {
        let round = Round::new(FinishedCommands::new(), End::Delete, version, Old::Present(old));
        Round { helps_cleaning: true, job, ..round }
    }

    /// A round that stores one pair of a group.
    pub fn of_group(group: PoolKey, object: Object, version: Version, old: Old) -> Self {
        let round = Round::new(FinishedCommands::new(), End::Store(object), version, old);
        Round { group: Some(group), ..round }
    }

    /// Does it only take the object away, and waits for memory without anything of it having been sent? Nodes know
    /// nothing of it, nor does a client: a read beside it is before it (rule R10), as long as that takes.
    pub fn is_delete_to_come(&self) -> bool {
        matches!(self.end, End::Delete) && self.stalled_us.is_some() && !self.is_sent && !self.was_sent
    }

    /// Is one of its commands of this connection? What that asks afterwards is after them.
    pub fn is_asked_by(&self, connection: u64) -> bool {
        self.finished.iter().any(|done| done.token.connection == connection)
    }

    /// What these commands leave.
    pub fn new(finished: FinishedCommands, end: End, version: Version, old: Old) -> Self {
        Round {
            finished,
            end,
            version,
            old,
            mark_read: false,
            confirmed: None,
            moved: None,
            is_sent: false,
            was_sent: false,
            helps_cleaning: false,
            job: None,
            is_eviction: false,
            gone: None,
            group: None,
            stalled_us: None,
            is_in_lane: false,
        }
    }
}

/// A record on its way to another stripe.
#[derive(Clone, Debug)]
pub struct Move {
    pub from: Location,
    pub record_bytes: usize,
    pub expiry: Option<UnixMs>,
}

#[derive(Debug)]
pub enum LockPhase {
    Starting,
    Looking,
    Writing(Box<Round>),
    Moving(Move),
    /// A group holds the key.
    Held,
}

/// Somebody who waits for a key.
#[derive(Debug)]
pub enum Waiting {
    Command(Token, BoxCommand),
    /// A group that takes the key when it is its turn.
    Group(PoolKey),
}

/// A key: most need no memory of their own.
pub type KeyBytes = SmallVec<[u8; 32]>;

#[derive(Debug)]
pub struct Lock {
    pub key: KeyBytes,
    pub hashed: HashedKey,
    /// Who comes next, in the order of arrival.
    pub queue: VecDeque<Waiting>,
    pub phase: LockPhase,
}

impl Deref for Lock {
    type Target = HashedKey;

    fn deref(&self) -> &HashedKey {
        &self.hashed
    }
}

impl Lock {
    /// Written, but a record with the same tag cannot be compared now: no further change until it can.
    pub fn is_doubtful(&self) -> bool {
        matches!(&self.phase, LockPhase::Writing(round)
            if round.confirmed.is_some() && matches!(round.old, Old::Unreadable))
    }

    /// What cleaning copies elsewhere under it.
    pub fn moved(&self) -> Option<&Move> {
        match &self.phase {
            LockPhase::Moving(moved) => Some(moved),
            LockPhase::Writing(round) => round.moved.as_ref(),
            _ => None,
        }
    }

    /// The copy is there, or is not to be.
    pub fn take_moved(&mut self) -> Option<Move> {
        if let LockPhase::Writing(round) = &mut self.phase {
            return round.moved.take();
        }
        match std::mem::replace(&mut self.phase, LockPhase::Starting) {
            LockPhase::Moving(moved) => Some(moved),
            other => {
                self.phase = other;
                None
            }
        }
    }
}

#[derive(Debug, Default)]
pub struct Locks {
    pool: Pool<Lock>,
    table: HashTable<(u64, PoolKey)>,
}

impl Locks {
    pub fn find(&self, key: KeyRef<'_>) -> Option<PoolKey> {
        if self.table.is_empty() {
            return None;
        }
        let is_key = |entry: &(u64, PoolKey)| {
            entry.0 == key.hash && self.pool.get(entry.1).is_some_and(|lock| lock.key[..] == *key.bytes)
        };
        self.table.find(key.hash, is_key).map(|&(_, lock)| lock)
    }

    /// The caller has looked: the key is not locked.
    pub fn insert(&mut self, key: KeyRef<'_>, phase: LockPhase) -> PoolKey {
        let lock = self.pool.insert(Lock {
            key: KeyBytes::from_slice(key.bytes),
            hashed: key.hashed,
            queue: VecDeque::new(),
            phase,
        });
        self.table.insert_unique(key.hash, (key.hash, lock), |entry| entry.0);
        lock
    }

    pub fn remove(&mut self, lock: PoolKey) {
        let Some(removed) = self.pool.remove(lock) else { return };
        if let Ok(entry) = self.table.find_entry(removed.hash, |entry| entry.1 == lock) {
            entry.remove();
        }
    }

    pub fn get(&self, lock: PoolKey) -> Option<&Lock> {
        self.pool.get(lock)
    }

    pub fn get_mut(&mut self, lock: PoolKey) -> Option<&mut Lock> {
        self.pool.get_mut(lock)
    }

    pub fn iter(&self) -> impl Iterator<Item = (PoolKey, &Lock)> {
        self.pool.iter()
    }
}

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
use shorttail_units::UnixMs;
use smallvec::SmallVec;

use super::object::OldRecord;
use super::round::Round;
use crate::command::BoxCommand;
use crate::engine::state::index::{HashedKey, Location};
use crate::engine::state::pool::{Pool, PoolKey};
use crate::engine::{KeyRef, Token};

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

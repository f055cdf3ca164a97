//! The newest record of each key, while a picture is made.
//!
//! A key is known by two hashes of 64 bits each and its slot: 48 bytes a key, however long the keys are. The table is
//! many small ones, each of which grows by itself: who prepares serves clients meanwhile, and to grow a table of
//! millions keeps them waiting for a tenth of a second.
//!
//! Must not know: what a picture makes of it.

use hashbrown::HashTable;
use shorttail_units::{Slot, Version};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::engine::state::config::EngineConfig;
use crate::engine::state::index::{HashedKey, Location};

/// Makes the second hash of a key another one than the first.
const CHECK_SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// With a hundred million keys a table is of a megabyte.
const TABLE_COUNT: usize = 4096;

/// Tables that are given back at once.
const TABLES_SHRUNK: usize = 64;

/// Bits of the hash that choose the table: the tables themselves go by the lowest and the highest ones.
const TABLE_SHIFT: u32 = 32;

/// Who a key is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeyId {
    pub hash: u64,
    check: u64,
    slot: u16,
}

impl KeyId {
    pub fn of(key: &[u8], config: &EngineConfig) -> Self {
        KeyId {
            hash: config.hash_of(key),
            check: xxh3_64_with_seed(key, config.hash_seed ^ CHECK_SEED),
            slot: Slot::of_key(key).index() as u16,
        }
    }

    pub fn hashed(self) -> HashedKey {
        HashedKey { slot: Slot::new(self.slot).expect("it was a slot"), hash: self.hash }
    }

    fn table(self) -> usize {
        (self.hash >> TABLE_SHIFT) as usize % TABLE_COUNT
    }
}

/// The newest record of a key.
#[derive(Clone, Copy, Debug)]
pub struct Newest {
    pub key: KeyId,
    pub version: Version,
    pub location: Location,
    pub record_bytes: u32,
    /// Not a tombstone.
    pub is_live: bool,
}

/// The default one has no tables, and takes nothing: what is left behind where one is taken out.
#[derive(Debug, Default)]
pub struct NewestRecords {
    tables: Vec<HashTable<Newest>>,
}

impl NewestRecords {
    pub fn new() -> Self {
        NewestRecords { tables: vec![HashTable::new(); TABLE_COUNT] }
    }

    pub fn get(&self, key: KeyId) -> Option<&Newest> {
        self.tables[key.table()].find(key.hash, |newest| newest.key == key)
    }

    /// Takes the place of the record that was the newest of the key, if there was one.
    pub fn put(&mut self, newest: Newest) {
        let table = &mut self.tables[newest.key.table()];
        match table.find_mut(newest.key.hash, |known| known.key == newest.key) {
            Some(known) => *known = newest,
            None => _ = table.insert_unique(newest.key.hash, newest, |newest| newest.key.hash),
        }
    }

    /// Gives some tables back. With millions of keys clients would wait for tens of milliseconds for all of them.
    pub fn shrink(&mut self) {
        self.tables.truncate(self.tables.len().saturating_sub(TABLES_SHRUNK));
        if self.tables.is_empty() {
            self.tables = Vec::new();
        }
    }

    pub fn retain(&mut self, mut is_kept: impl FnMut(&mut Newest) -> bool) {
        self.tables.iter_mut().for_each(|table| table.retain(&mut is_kept));
    }
}

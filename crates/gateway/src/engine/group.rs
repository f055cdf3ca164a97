//! Groups: several keys of one hash slot stored together or not at all (MSETNX).
//!
//! The group takes the locks of its keys in key order, so two groups cannot wait for each other; learns which keys
//! exist; and appends all its records as one operation, which is durable or void as a whole.

use std::collections::BTreeMap;

use shorttail_store::record::Record;
use shorttail_units::Version;

use super::index::Location;
use super::limits::STALLED_MAX;
use super::lock::{LockPhase, Old, Waiting};
use super::log::{PlaceError, Purpose};
use super::lookup::LookupPurpose;
use super::pool::PoolKey;
use super::round::Stalled;
use super::{Engine, Tag, Token, Work};
use crate::command::{Command, StoreError};
use crate::request::{GroupPut, Reply};

#[derive(Debug)]
struct Pair {
    key: Vec<u8>,
    value: Vec<u8>,
    lock: Option<PoolKey>,
    /// Known once looked up.
    old: Option<Old>,
    exists: bool,
}

#[derive(Debug)]
pub struct Group {
    token: Token,
    only_if_absent: bool,
    pairs: Vec<Pair>,
    version: Version,
    /// Pairs that are not durable yet.
    unconfirmed: usize,
}

impl<C: Command> Engine<C> {
    pub(super) fn group(&mut self, token: Token, group: GroupPut) {
        let mut pairs: Vec<Pair> = Vec::new();
        // The last of several values for a key counts, as if they were stored one after the other.
        let last_values: BTreeMap<Vec<u8>, Vec<u8>> = group.pairs.into_iter().collect();
        for (key, value) in last_values {
            pairs.push(Pair { key, value, lock: None, old: None, exists: false });
        }
        let unconfirmed = pairs.len();
        let version = Version::default();
        let group = Group { token, only_if_absent: group.only_if_absent, pairs, version, unconfirmed };
        let group = self.groups.insert(group);
        self.group_granted(group);
    }

    /// The group got the lock that it waited for (or none yet): it goes on to the next key.
    pub(super) fn group_granted(&mut self, key: PoolKey) {
        loop {
            let Some(group) = self.groups.get(key) else { return };
            let waited = group.pairs.iter().position(|pair| pair.lock.is_none());
            let Some(place) = waited else { return self.look_up_group(key) };
            let bytes = group.pairs[place].key.clone();
            let wanted = self.key_ref(&bytes);
            let lock = match self.locks.find(wanted) {
                Some(lock) => {
                    let held = self.locks.get_mut(lock).expect("it was found");
                    if !matches!(held.phase, LockPhase::Held(owner) if owner == key) {
                        return held.queue.push_back(Waiting::Group(key));
                    }
                    lock
                }
                None => self.locks.insert(wanted, LockPhase::Held(key)),
            };
            self.groups.get_mut(key).expect("it was there").pairs[place].lock = Some(lock);
        }
    }

    fn look_up_group(&mut self, key: PoolKey) {
        let Some(group) = self.groups.get(key) else { return };
        let keys: Vec<_> = group.pairs.iter().map(|pair| pair.key.clone()).collect();
        for (place, bytes) in keys.iter().enumerate() {
            let purpose = LookupPurpose::Group { group: key, pair: place as u32 };
            self.begin_lookup(self.key_ref(bytes), purpose);
        }
    }

    pub(super) fn group_current(&mut self, key: PoolKey, pair: u32, exists: bool, old: Old) {
        let Some(group) = self.groups.get_mut(key) else { return };
        let place = &mut group.pairs[pair as usize];
        place.exists = exists;
        place.old = Some(old);
        if group.pairs.iter().any(|pair| pair.old.is_none()) {
            return;
        }
        if group.only_if_absent && group.pairs.iter().any(|pair| pair.exists) {
            return self.end_group(key, Ok(false));
        }
        let version = self.take_version();
        self.groups.get_mut(key).expect("it was there").version = version;
        self.send_group(key);
    }

    pub(super) fn send_group(&mut self, key: PoolKey) {
        let Some(group) = self.groups.get(key) else { return };
        let Some(first) = group.pairs.first() else { return self.end_group(key, Ok(true)) };
        let partition = self.config.partition_of(self.key_ref(&first.key).slot);
        let pairs: Vec<_> = group.pairs.iter().map(|pair| (pair.key.clone(), pair.value.clone())).collect();
        let version = group.version;
        let records: Vec<_> = pairs
            .iter()
            .enumerate()
            .map(|(place, (bytes, value))| {
                (Record::object(bytes, value, version), Purpose::Group { group: key, pair: place as u32 })
            })
            .collect();
        match self.append_together(partition, &records) {
            Ok(()) => {}
            Err(PlaceError::Wait) => self.stall_group(key),
            Err(PlaceError::Refuse(error)) => self.fail_group(key, error),
        }
    }

    fn stall_group(&mut self, key: PoolKey) {
        if self.stalled.len() < STALLED_MAX {
            self.stalled.push_back(Stalled::Group(key));
            self.start_jobs();
            if self.can_reclaim() {
                return;
            }
            self.stalled.retain(|stalled| !matches!(stalled, Stalled::Group(other) if *other == key));
        }
        self.fail_group(key, StoreError::OutOfMemory);
    }

    pub(super) fn group_confirmed(&mut self, key: PoolKey, pair: u32, location: Location, record_bytes: usize) {
        let Some(group) = self.groups.get_mut(key) else { return };
        let place = &group.pairs[pair as usize];
        let version = group.version;
        let (old, object_bytes) = (place.old.clone(), record_bytes as u64);
        group.unconfirmed -= 1;
        let is_over = group.unconfirmed == 0;
        let bytes = place.key.clone();
        let stored = self.key_ref(&bytes);
        let (slot, tag) = (stored.slot, Tag::of_hash(stored.hash));
        let partition = self.config.partition_of(slot);
        if let Some(Old::Present(old)) = old {
            self.drop_record(slot, tag, &old);
            if let Some(manifest) = old.manifest {
                self.free_striped(partition, &manifest);
            }
        }
        if version >= self.floor_of(partition) {
            self.index.insert(slot, tag, location);
            self.count_stored(location, record_bytes, object_bytes, None);
            self.stats.stored_total += 1;
        }
        if is_over {
            self.end_group(key, Ok(true));
        }
    }

    pub(super) fn fail_group(&mut self, key: PoolKey, error: StoreError) {
        self.end_group(key, Err(error));
    }

    fn end_group(&mut self, key: PoolKey, result: Result<bool, StoreError>) {
        let Some(group) = self.groups.remove(key) else { return };
        for lock in group.pairs.iter().filter_map(|pair| pair.lock) {
            if let Some(held) = self.locks.get_mut(lock) {
                held.phase = LockPhase::Starting;
                self.work.push_back(Work::Start(lock));
            }
        }
        self.reply(group.token, Reply::Group(result));
    }
}

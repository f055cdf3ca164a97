//! Groups: several keys of one hash slot stored together or not at all (MSETNX).
//!
//! The group queues for the locks of all its keys when it comes; learns which keys exist when it holds them; and
//! appends all its records as one operation, which is durable or void as a whole. What one operation does not take is
//! refused, or stored apart if it may be (see `apart`).

use std::collections::BTreeMap;

use shorttail_store::record::Record;
use shorttail_units::{PartitionId, Version};

use super::apart::Apart;
use super::lock::{LockPhase, Old, Waiting};
use super::log::{PlaceError, Purpose};
use super::stalled::{Kind, Lane, StalledWrite};
use crate::command::StoreError;
use crate::engine::read::lookup::LookupPurpose;
use crate::engine::reclaim::reserve::Urgency;
use crate::engine::state::index::Location;
use crate::engine::state::pool::PoolKey;
use crate::engine::{Engine, Token};
use crate::request::{GroupPut, Reply};

#[derive(Debug)]
pub(super) struct Pair {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    lock: Option<PoolKey>,
    /// Known once looked up.
    old: Option<Old>,
    exists: bool,
}

#[derive(Debug)]
pub struct Group {
    pub(in crate::engine) token: Token,
    pub(super) only_if_absent: bool,
    /// In the order of their keys.
    pub(super) pairs: Vec<Pair>,
    /// Of its records, or of the last one that was begun.
    pub(super) version: Version,
    /// Pairs that are not durable yet.
    pub(super) unconfirmed: usize,
    /// Each pair is stored by itself.
    pub(super) apart: Option<Apart>,
    /// It waits for a flush.
    pub(super) is_held: bool,
    /// Since when it waits for memory.
    stalled_us: Option<u64>,
}

impl Group {
    /// Did it come as far as to be sent? Then nodes may hold it.
    pub(in crate::engine) fn may_be_sent(&self) -> bool {
        self.version != Version::default()
    }
}

impl Engine {
    pub(in crate::engine) fn group(&mut self, token: Token, group: GroupPut) {
        if group.pairs.is_empty() {
            return self.reply(token, Reply::Group(Ok(true)));
        }
        let mut pairs: Vec<Pair> = Vec::new();
        // The last of several values for a key counts, as if they were stored one after the other.
        let last_values: BTreeMap<Vec<u8>, Vec<u8>> = group.pairs.into_iter().collect();
        for (key, value) in last_values {
            pairs.push(Pair { key, value, lock: None, old: None, exists: false });
        }
        let unconfirmed = pairs.len();
        let version = Version::default();
        let only_if_absent = group.only_if_absent;
        let (apart, is_held, stalled_us) = (None, false, None);
        let group = Group { token, only_if_absent, pairs, version, unconfirmed, apart, is_held, stalled_us };
        let goes_together = self.goes_together(&group);
        let key = self.groups.insert(group);
        match goes_together {
            true => self.queue_group(key),
            false if only_if_absent => self.fail_group(key, StoreError::TooLarge),
            false => self.begin_apart(key),
        }
    }

    /// Takes the locks that are free and waits for the others, all at once: so that commands and groups meet every key
    /// in the order in which they came, and no two groups wait for each other.
    fn queue_group(&mut self, key: PoolKey) {
        let Some(group) = self.groups.get(key) else { return };
        let keys: Vec<_> = group.pairs.iter().map(|pair| pair.key.clone()).collect();
        let refused = keys.iter().find_map(|bytes| self.may_queue(self.locks.find(self.key_ref(bytes))?).err());
        if let Some(error) = refused {
            return self.fail_group(key, error);
        }
        let mut locks = Vec::with_capacity(keys.len());
        for bytes in &keys {
            let wanted = self.key_ref(bytes);
            locks.push(match self.locks.find(wanted) {
                Some(lock) => {
                    let held = self.locks.get_mut(lock).expect("it was found");
                    self.deferred.press();
                    held.queue.push_back(Waiting::Group(key));
                    None
                }
                None => Some(self.locks.insert(wanted, LockPhase::Held)),
            });
        }
        let group = self.groups.get_mut(key).expect("it was there");
        group.pairs.iter_mut().zip(locks).for_each(|(pair, lock)| pair.lock = lock);
        self.look_up_when_held(key);
    }

    /// It is the group's turn at a lock that it waited for.
    pub(super) fn group_granted(&mut self, key: PoolKey, lock: PoolKey) {
        let Some(held) = self.locks.get_mut(lock) else { return };
        let Some(group) = self.groups.get_mut(key) else {
            // The group failed meanwhile.
            return self.start_round_again(lock);
        };
        if group.apart.is_some() {
            return self.begin_part(key, lock);
        }
        held.phase = LockPhase::Held;
        if let Some(pair) = group.pairs.iter_mut().find(|pair| pair.key[..] == held.key[..]) {
            pair.lock = Some(lock);
        }
        self.look_up_when_held(key);
    }

    pub(super) fn look_up_when_held(&mut self, key: PoolKey) {
        let is_held = |group: &Group| group.pairs.iter().all(|pair| pair.lock.is_some());
        if self.groups.get(key).is_some_and(is_held) && !self.hold_group_for_flush(key) {
            self.look_up_group(key);
        }
    }

    fn look_up_group(&mut self, key: PoolKey) {
        let Some(group) = self.groups.get(key) else { return };
        let is_blind = !group.only_if_absent;
        let keys: Vec<_> = group.pairs.iter().map(|pair| pair.key.clone()).collect();
        for (place, bytes) in keys.iter().enumerate() {
            let purpose = LookupPurpose::Group { group: key, pair: place as u32, is_blind };
            self.begin_lookup(self.key_ref(bytes), purpose);
        }
    }

    pub(in crate::engine) fn group_current(&mut self, key: PoolKey, pair: u32, exists: bool, old: Old) {
        let Some(group) = self.groups.get_mut(key) else { return };
        let place = &mut group.pairs[pair as usize];
        place.exists = exists;
        place.old = Some(old);
        if group.pairs.iter().any(|pair| pair.old.is_none()) {
            return;
        }
        if self.hold_group_for_flush(key) {
            // What was found is about to end: it is looked up again.
            let group = self.groups.get_mut(key).expect("it was there");
            return group.pairs.iter_mut().for_each(|pair| pair.old = None);
        }
        let Some(group) = self.groups.get(key) else { return };
        if group.only_if_absent && group.pairs.iter().any(|pair| pair.exists) {
            return self.end_group(key, Ok(false));
        }
        let version = self.take_version();
        self.groups.get_mut(key).expect("it was there").version = version;
        self.send_group(key);
    }

    /// All its keys are of one slot.
    pub(super) fn partition_of_group(&self, key: PoolKey) -> Option<PartitionId> {
        let first = self.groups.get(key)?.pairs.first()?;
        Some(self.config.partition_of(self.key_ref(&first.key).slot))
    }

    pub(super) fn send_group(&mut self, key: PoolKey) {
        let (Some(group), Some(partition)) = (self.groups.get(key), self.partition_of_group(key)) else { return };
        let pairs: Vec<_> = group.pairs.iter().map(|pair| (pair.key.clone(), pair.value.clone())).collect();
        let version = group.version;
        if self.is_group_flushed(key) {
            // While it waited.
            return self.end_group(key, Ok(true));
        }
        if self.is_flush_late(partition) {
            return self.fail_group(key, self.late_error(partition));
        }
        let records: Vec<_> = pairs
            .iter()
            .enumerate()
            .map(|(place, (bytes, value))| {
                (Record::object(bytes, value, version), Purpose::Group { group: key, pair: place as u32 })
            })
            .collect();
        match self.append_together(partition, &records, Urgency::Client) {
            Ok(()) => {}
            Err(PlaceError::Wait) => self.stall_group(key),
            Err(PlaceError::Refuse(error)) => self.fail_group(key, error),
        }
    }

    /// Was everything flushed since the group got its version?
    pub(super) fn is_group_flushed(&self, key: PoolKey) -> bool {
        let Some(group) = self.groups.get(key) else { return false };
        self.partition_of_group(key).is_some_and(|partition| group.version < self.floor_of(partition))
    }

    fn stall_group(&mut self, key: PoolKey) {
        let now_us = self.now.mono_us;
        let Some(group) = self.groups.get_mut(key) else { return };
        let since_us = *group.stalled_us.get_or_insert(now_us);
        let bytes = group.pairs.iter().map(|pair| pair.key.len() + pair.value.len()).sum();
        let Some(partition) = self.partition_of_group(key) else { return };
        let lane = Lane { kind: Kind::Packed, partition };
        if let Err(error) = self.let_wait(StalledWrite::Group(key), lane, since_us, bytes, false) {
            self.fail_group(key, error);
        }
    }

    pub(super) fn group_confirmed(&mut self, key: PoolKey, pair: u32, location: Location, record_bytes: usize) {
        let Some(group) = self.groups.get_mut(key) else { return };
        let place = &group.pairs[pair as usize];
        let version = group.version;
        let (old, object_bytes) = (place.old.clone(), record_bytes as u64);
        group.unconfirmed -= 1;
        let is_over = group.unconfirmed == 0;
        let bytes = place.key.clone();
        let stored = self.key_ref(&bytes).hashed;
        self.settle(stored.hash);
        let partition = self.config.partition_of(stored.slot);
        if let Some(Old::Present(old)) = old {
            self.drop_record(stored, &old);
            if let Some(manifest) = old.manifest {
                self.free_striped(manifest.first);
            }
        }
        if version >= self.floor_of(partition) {
            self.index.insert(stored.slot, stored.tag(), location);
            self.count_stored(location, record_bytes, object_bytes, None);
            self.stats.totals.stored_total += 1;
        }
        self.outlive_lost(stored, Some(location));
        if is_over {
            self.end_group(key, Ok(true));
        }
    }

    /// A later owner may find it, and store all of it: at no moment was one of its keys absent after another was
    /// written.
    fn note_unsettled_group(&mut self, group: &Group) {
        for pair in &group.pairs {
            let key = self.key_ref(&pair.key).hashed;
            self.note_unsettled(key);
        }
    }

    pub(in crate::engine) fn fail_group(&mut self, key: PoolKey, error: StoreError) {
        let is_apart = self.groups.get(key).is_some_and(|group| group.apart.is_some());
        if is_apart { self.part_ended(key, Err(error)) } else { self.end_group(key, Err(error)) }
    }

    pub(super) fn end_group(&mut self, key: PoolKey, result: Result<bool, StoreError>) {
        let Some(group) = self.groups.remove(key) else { return };
        if group.only_if_absent && result == Err(StoreError::OutcomeUnknown) {
            self.note_unsettled_group(&group);
        }
        for lock in group.pairs.iter().filter_map(|pair| pair.lock) {
            self.start_round_again(lock);
        }
        self.reply(group.token, Reply::Group(result));
    }
}

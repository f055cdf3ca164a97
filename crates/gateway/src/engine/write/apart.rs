//! Groups whose pairs are stored each by itself: what an MSET stores, and one operation does not take.
//!
//! ```text
//! every pair is packed, and all of them fit into a chunk --> one operation: together or not at all (see `group`)
//! otherwise --> so many rounds, begun at once; the group is answered when the last one is over
//! ```
//! What is longer than a packed record has stripes of its own, like any such value: cleaning relies on it that records
//! leave little room at the end of a chunk. If only some pairs were stored, the outcome is unknown: nobody is told to
//! try again, as with keys of several slots.

use shorttail_policy::SmallWrite;
use shorttail_store::record::Record;
use shorttail_units::Version;

use super::group::Group;
use super::lock::{LockPhase, Old, Waiting};
use super::object::Object;
use super::round::Round;
use crate::command::{NewObject, StoreError};
use crate::engine::Engine;
use crate::engine::state::pool::PoolKey;

/// What became of the pairs that are over.
#[derive(Debug, Default)]
pub(super) struct Apart {
    is_any_stored: bool,
    error: Option<StoreError>,
}

impl Engine {
    /// Does one operation take the records of a group? Those that are to be stored together or not at all are packed
    /// whatever the policy.
    pub(super) fn goes_together(&self, group: &Group) -> bool {
        let Some(first) = group.pairs.first() else { return true };
        let policy = self.policy(self.config.partition_of(self.key_ref(&first.key).slot));
        let small_write = if group.only_if_absent { SmallWrite::Packed } else { policy.small_write };
        let mut bytes = 0;
        group.pairs.iter().all(|pair| {
            let length = Record::object(&pair.key, &pair.value, Version::default()).longest_bytes();
            bytes += length;
            self.config.packs(small_write, length) && bytes <= self.config.chunk_bytes
        })
    }

    /// Each pair takes its key when it is its turn.
    pub(super) fn begin_apart(&mut self, key: PoolKey) {
        let Some(group) = self.groups.get_mut(key) else { return };
        group.apart = Some(Apart::default());
        for bytes in group.pairs.iter().map(|pair| pair.key.clone()).collect::<Vec<_>>() {
            let wanted = self.key_ref(&bytes);
            let found = self.locks.find(wanted);
            if let Some(error) = found.and_then(|lock| self.may_queue(lock).err()) {
                self.part_ended(key, Err(error));
                continue;
            }
            let lock = found.unwrap_or_else(|| self.locks.insert(wanted, LockPhase::Starting));
            self.locks.get_mut(lock).expect("it is there").queue.push_back(Waiting::Group(key));
            match found {
                Some(_) => self.deferred.press(),
                None => self.start(lock),
            }
        }
    }

    /// It is a pair's turn.
    pub(super) fn begin_part(&mut self, key: PoolKey, lock: PoolKey) {
        let Some(held) = self.locks.get(lock) else { return };
        let Some(group) = self.groups.get_mut(key) else { return };
        let place =
            group.pairs.binary_search_by(|pair| pair.key[..].cmp(&held.key[..])).expect("it waited for the key");
        let value = std::mem::take(&mut group.pairs[place].value);
        let is_new = self.index.candidates(held.slot, held.tag()).next().is_none();
        let version = self.take_version();
        self.groups.get_mut(key).expect("it was there").version = version;
        let object = Object::new(NewObject { value, ..NewObject::default() }, version);
        let old = if is_new { Old::Absent } else { Old::Unverified };
        self.write_round(lock, Round::of_group(key, object, version, old));
    }

    /// A pair is stored, or failed.
    pub(super) fn part_ended(&mut self, key: PoolKey, result: Result<(), StoreError>) {
        let Some(group) = self.groups.get_mut(key) else { return };
        group.unconfirmed -= 1;
        let is_over = group.unconfirmed == 0;
        let apart = group.apart.as_mut().expect("a group whose pairs are rounds");
        match result {
            Ok(()) => apart.is_any_stored = true,
            Err(_) if apart.error == Some(StoreError::OutcomeUnknown) => {}
            Err(error) => apart.error = Some(error),
        }
        if is_over {
            let result = match apart.error {
                None => Ok(true),
                Some(_) if apart.is_any_stored => Err(StoreError::OutcomeUnknown),
                Some(error) => Err(error),
            };
            self.end_group(key, result);
        }
    }
}

#[cfg(test)]
mod tests;

//! Evicting striped objects, and ending those that are over: their stripes are no part of the log, so cleaning does not
//! meet them.
//!
//! A hand goes over the objects that are older than the oldest packed stripe, in the order of their age; one that was
//! read since the hand passed stays until the next lap (CLOCK). An eviction is a round of the key's lock that deletes:
//! a tombstone, then the stripes are freed.
//!
//! ```text
//! lap:  begins ------ hand --> oldest packed stripe ..... all packed stripes of its begin are gone: the next one begins
//!       object that stays       object that is younger: that stripe goes first
//! ```
//! What is read all the time stays for ever and is older than all that is packed in the end. So what the hand has
//! passed holds up nothing, and after some looks in vain a packed stripe goes.

use shorttail_units::StripeId;

use super::doomed::Gone;
use crate::engine::limits::{EVICTIONS_MAX, EXPIRY_LOOKS_MAX};
use crate::engine::read::lookup::LookupPurpose;
use crate::engine::state::pool::PoolKey;
use crate::engine::write::lock::{LockPhase, Old};
use crate::engine::write::object::OldRecord;
use crate::engine::write::round::Round;
use crate::engine::{Engine, WhenFull, Work};

/// Striped objects that are on their way out, and where the hands are that look for more.
#[derive(Debug, Default)]
pub struct Evictions {
    /// Objects that are being looked up.
    pub(super) looking: usize,
    /// Objects whose rounds are under way, and how many of these wait for a place for their tombstones.
    ending: usize,
    waiting: usize,
    hand: StripeId,
    /// The first id that no stripe had when the lap began.
    lap_end: StripeId,
    /// Objects looked at, one after the other, none of which is gone.
    vain_looks: usize,
    /// Of what is over.
    expiry_hand: StripeId,
}

impl Evictions {
    /// How many more may be begun.
    fn room(&self) -> usize {
        EVICTIONS_MAX.saturating_sub(self.looking + self.ending)
    }

    /// Is a tombstone on its way?
    fn is_ending_one(&self) -> bool {
        self.ending > self.waiting
    }

    /// Will one be gone soon, unless it stays?
    pub(super) fn goes_on(&self) -> bool {
        self.looking > 0 || self.is_ending_one()
    }

    fn note_stay(&mut self) {
        self.vain_looks += 1;
    }

    /// A tombstone found no place.
    pub(in crate::engine) fn note_wait(&mut self) {
        self.waiting += 1;
    }

    /// One that waited has a place, or is over.
    pub(in crate::engine) fn note_waited(&mut self) {
        self.waiting -= 1;
    }

    pub(in crate::engine) fn note_end(&mut self, is_gone: bool) {
        self.ending -= 1;
        match is_gone {
            true => self.vain_looks = 0,
            false => self.note_stay(),
        }
    }
}

impl Engine {
    /// Changes what happens when memory is full, from now on.
    pub fn set_when_full(&mut self, when_full: WhenFull) {
        self.config.when_full = when_full;
        self.stalled.press();
    }

    /// Is a striped object to be looked at before a packed stripe is evicted?
    pub(super) fn goes_before(&self, packed: StripeId) -> bool {
        let is_next = self.striped.range(self.evictions.hand..).next().is_some_and(|(&first, _)| first < packed);
        // They may all wait for a partition that takes nothing for now.
        let may_go = self.evictions.room() > 0 || self.evictions.is_ending_one();
        is_next && may_go && self.evictions.vain_looks < EVICTIONS_MAX
    }

    /// A packed stripe is evicted.
    pub(super) fn note_packed_eviction(&mut self) {
        self.evictions.vain_looks = 0;
    }

    /// Starts to evict striped objects while memory is short and the one at the hand is older than the packed ones.
    pub(super) fn evict_striped(&mut self) {
        let may_evict = self.config.when_full == WhenFull::Evict && !self.striped.is_empty();
        if !may_evict || !self.is_short_of_memory() || self.too_few_nodes().is_err() {
            return;
        }
        let (sight, partitions) = (self.sight(), self.logs.keys().copied().collect::<Vec<_>>());
        let oldest = partitions.into_iter().filter_map(|partition| self.oldest_in_sight(&sight, partition));
        let oldest: Vec<_> = oldest.collect();
        let goes = |&(id, slot): &(StripeId, _)| !self.stripes.at(slot).is_unsealed() && !self.is_held_back(id);
        let packed = oldest.into_iter().filter(goes).map(|(id, _)| id).min();
        let is_older = |first: StripeId| packed.is_none_or(|packed| first < packed);
        let is_lap_over = packed.is_none_or(|packed| packed >= self.evictions.lap_end);
        if is_lap_over && self.striped.range(self.evictions.hand..).next().is_none_or(|(&first, _)| !is_older(first)) {
            self.evictions.hand = StripeId::default();
        }
        if self.evictions.hand == StripeId::default() {
            self.evictions.lap_end = self.next_stripe_id();
        }
        let room = self.evictions.room();
        let next = self.striped.range(self.evictions.hand..).take_while(|&(&first, _)| is_older(first)).take(room);
        let next: Vec<_> = next.map(|(&first, object)| (first, object.key.clone())).collect();
        for (first, key) in next {
            self.evictions.hand = first.plus(1);
            if !self.begin_eviction(first, &key) {
                self.evictions.note_stay();
            }
        }
    }

    /// Ends striped objects that are over, some at a time: their pieces take memory, which cleaning does not see.
    pub(super) fn expire_striped(&mut self) {
        if self.is_flushing() || self.striped.is_empty() {
            return;
        }
        let (hand, now) = (self.evictions.expiry_hand, self.now.unix_ms);
        let looked_at: Vec<_> = self.striped.range(hand..).take(EXPIRY_LOOKS_MAX).collect();
        self.evictions.expiry_hand = match looked_at.last() {
            Some((first, _)) if looked_at.len() == EXPIRY_LOOKS_MAX => first.plus(1),
            _ => StripeId::default(),
        };
        let over = looked_at.into_iter().filter(|(_, object)| object.is_over(now));
        let over: Vec<_> = over.map(|(&first, object)| (first, object.key.clone())).collect();
        for (first, key) in over {
            if self.evictions.room() == 0 {
                // It is the next one: those before it may stay for long.
                self.evictions.expiry_hand = first;
                return;
            }
            self.begin_eviction(first, &key);
        }
    }

    /// False: its key is locked.
    fn begin_eviction(&mut self, first: StripeId, bytes: &[u8]) -> bool {
        let key = self.key_ref(bytes);
        if self.locks.find(key).is_some() {
            return false;
        }
        let lock = self.locks.insert(key, LockPhase::Looking);
        self.evictions.looking += 1;
        self.begin_lookup(key, LookupPurpose::Evict { lock, first });
        true
    }

    /// What the key holds now is known: it is deleted if it is still the object that was chosen.
    pub(in crate::engine) fn eviction_found(&mut self, key: PoolKey, first: StripeId, old: Old) {
        self.evictions.looking -= 1;
        let is_same = |old: &OldRecord| old.manifest.as_ref().is_some_and(|manifest| manifest.first == first);
        let old = match old {
            Old::Present(old) if is_same(&old) => old,
            other => {
                self.drop_left_behind(key, first, &other);
                return self.stays(key);
            }
        };
        let Some(lock) = self.locks.get(key) else { return };
        let (slot, tag) = (lock.slot, lock.tag());
        let is_over = self.striped.get(&first).is_some_and(|object| object.is_over(self.now.unix_ms));
        if !is_over && self.index.take_recent(slot, tag, old.location) {
            return self.stays(key);
        }
        let gone = if is_over { Gone::Expired } else { Gone::Evicted };
        let ending = Round::ending(old, self.take_version(), None);
        let round = Round { is_eviction: true, gone: Some(gone), ..ending };
        if let Some(lock) = self.locks.get_mut(key) {
            self.evictions.ending += 1;
            lock.phase = LockPhase::Writing(Box::new(round));
        }
        self.send_round(key);
    }

    /// The record of a striped object is lost for good, and its key is known to be something else now, or nothing: its
    /// pieces go. Nobody else frees them, as a write of the key does not find what it replaces.
    fn drop_left_behind(&mut self, key: PoolKey, first: StripeId, now: &Old) {
        let Some(lock) = self.locks.get(key) else { return };
        let hashed = lock.hashed;
        let is_known = match now {
            Old::Present(now) => {
                let version = Some(now.version);
                !self.is_overshadowed(hashed.slot, version) && !self.is_in_doubt(hashed, version)
            }
            Old::Absent => !self.is_absence_doubtful(hashed),
            Old::Unverified | Old::Unreadable | Old::Lost => false,
        };
        if !is_known || self.striped_in_flight().contains(&first) || self.unsettled_values().contains(&first) {
            return;
        }
        let Some(object) = self.striped.get(&first) else { return };
        let value_bytes = object.manifest.value_bytes as u64;
        self.stats.totals.bytes_stored = self.stats.totals.bytes_stored.saturating_sub(value_bytes);
        self.free_striped(first);
    }

    /// What was to be evicted is not.
    fn stays(&mut self, key: PoolKey) {
        self.evictions.note_stay();
        self.work.push_back(Work::Start(key));
    }
}

#[cfg(test)]
mod tests;

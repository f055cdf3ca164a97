//! Evicting striped objects, and ending those that are over: their stripes are no part of the log, so cleaning does not
//! meet them.
//!
//! A hand goes round the objects in the order of their age; one that was read since the hand passed stays until the
//! next time (CLOCK). An eviction is a round of the key's lock that deletes: a tombstone, then the stripes are freed.

use shorttail_units::StripeId;

use super::limits::{EVICTIONS_MAX, EXPIRY_LOOKS_MAX};
use super::lock::{LockPhase, OldRecord, Round};
use super::lookup::LookupPurpose;
use super::pool::PoolKey;
use super::{Engine, Tag, WhenFull, Work};
use crate::command::Command;

impl<C: Command> Engine<C> {
    /// Changes what happens when memory is full, from now on.
    pub fn set_when_full(&mut self, when_full: WhenFull) {
        self.config.when_full = when_full;
    }

    pub(super) fn oldest_striped(&self) -> Option<StripeId> {
        self.striped.keys().next().copied()
    }

    /// Starts to evict striped objects while memory is short and the oldest of them is older than the packed ones.
    pub(super) fn evict_striped(&mut self) {
        if self.config.when_full == WhenFull::Error || !self.is_short_of_memory() {
            return;
        }
        let room = EVICTIONS_MAX.saturating_sub(self.evictions);
        let (sight, partitions) = (self.sight(), self.logs.keys().copied().collect::<Vec<_>>());
        let oldest = partitions.into_iter().filter_map(|partition| self.oldest_in_sight(&sight, partition));
        let oldest: Vec<_> = oldest.collect();
        let sealed = oldest.into_iter().filter(|&(_, slot)| !self.stripes.at(slot).is_unsealed());
        let until = sealed.map(|(id, _)| id).min();
        if self.oldest_striped().is_none_or(|oldest| until.is_some_and(|until| oldest > until)) {
            return;
        }
        let hand = self.eviction_hand;
        let around = self.striped.range(hand..).chain(self.striped.range(..hand));
        let keys: Vec<_> = around.take(room).map(|(&first, object)| (first, object.key.clone())).collect();
        for (first, key) in keys {
            self.eviction_hand = first.plus(1);
            self.begin_eviction(first, &key);
        }
    }

    /// Ends striped objects that are over, some at a time: their pieces take memory, which cleaning does not see.
    pub(super) fn expire_striped(&mut self) {
        if self.is_flushing() || self.striped.is_empty() {
            return;
        }
        let (hand, now) = (self.expiry_hand, self.now.unix_ms);
        let looked_at: Vec<_> = self.striped.range(hand..).take(EXPIRY_LOOKS_MAX).collect();
        self.expiry_hand = match looked_at.last() {
            Some((first, _)) if looked_at.len() == EXPIRY_LOOKS_MAX => first.plus(1),
            _ => StripeId::default(),
        };
        let room = EVICTIONS_MAX.saturating_sub(self.evictions);
        let over = looked_at.into_iter().filter(|(_, object)| object.is_over(now)).take(room);
        let over: Vec<_> = over.map(|(&first, object)| (first, object.key.clone())).collect();
        for (first, key) in over {
            self.begin_eviction(first, &key);
        }
    }

    fn begin_eviction(&mut self, first: StripeId, bytes: &[u8]) {
        let key = self.key_ref(bytes);
        if self.locks.find(key).is_some() {
            return;
        }
        let lock = self.locks.insert(key, LockPhase::Looking);
        self.evictions += 1;
        self.begin_lookup(key, LookupPurpose::Evict { lock, first });
    }

    /// What the key holds now is known: it is deleted if it is still the object that was chosen.
    pub(super) fn eviction_found(&mut self, key: PoolKey, first: StripeId, old: Option<OldRecord>) {
        self.evictions -= 1;
        let is_same = |old: &OldRecord| old.manifest.as_ref().is_some_and(|manifest| manifest.first == first);
        let Some(old) = old.filter(is_same) else { return self.work.push_back(Work::Start(key)) };
        let Some(lock) = self.locks.get(key) else { return };
        let (slot, tag) = (lock.slot, Tag::of_hash(lock.hash));
        let is_over = self.striped.get(&first).is_some_and(|object| object.is_over(self.now.unix_ms));
        if !is_over && self.index.take_recent(slot, tag, old.location) {
            return self.work.push_back(Work::Start(key));
        }
        if is_over {
            self.stats.expired_total += 1;
        } else {
            self.stats.evicted_total += 1;
        }
        let round = Round::ending(old, self.take_version(), None);
        if let Some(lock) = self.locks.get_mut(key) {
            lock.phase = LockPhase::Writing(Box::new(round));
        }
        self.send_round(key);
    }
}

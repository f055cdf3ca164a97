//! Further copies of the newest records: one takes the place of the copy whose stripe goes.
//!
//! A record lies in several stripes if it was raced, or is being moved to where it will stay. Few do at any time, and a
//! copy goes when its stripe is emptied.
//!
//! Must not know: which stripes go, and why.

use std::collections::HashMap;

use shorttail_units::{UnixMs, Version};

use super::Picture;
use crate::engine::state::index::Location;
use crate::engine::takeover::newest::{KeyId, Newest};

/// A copy in another stripe than the one that counts.
#[derive(Clone, Copy, Debug)]
pub struct StandIn {
    pub location: Location,
    pub record_bytes: u32,
    pub expiry: Option<UnixMs>,
}

impl StandIn {
    pub fn of(newest: &Newest, expiry: Option<UnixMs>) -> Self {
        StandIn { location: newest.location, record_bytes: newest.record_bytes, expiry }
    }
}

/// Of the version that is the newest of its key, each in a stripe of its own.
#[derive(Debug, Default)]
pub struct StandIns(HashMap<KeyId, Vec<StandIn>>);

impl StandIns {
    pub fn add(&mut self, key: KeyId, copy: StandIn) {
        self.0.entry(key).or_default().push(copy);
    }

    /// There is a newer record of the key.
    pub fn forget(&mut self, key: KeyId) {
        self.0.remove(&key);
    }
}

impl Picture {
    pub(super) fn is_there(&self, location: Location) -> bool {
        !self.dropped.contains(&self.stripes.place_of(location).0)
    }

    pub(super) fn youngest_stand_in(&self, key: KeyId) -> Option<StandIn> {
        let there = self.stand_ins.0.get(&key)?.iter().filter(|copy| self.is_there(copy.location));
        there.copied().max_by_key(|copy| self.stripes.at(self.stripes.place_of(copy.location).0).id)
    }

    /// Is there a copy of the newest record of a key that is certain, and is it of this version?
    pub fn is_certain(&self, key: KeyId, version: Version) -> bool {
        let Some(newest) = self.newest.get(key).filter(|newest| newest.version == version) else { return false };
        let copies = self.stand_ins.0.get(&key).into_iter().flatten().map(|copy| copy.location);
        let mut places = std::iter::once(newest.location).chain(copies);
        places.any(|place| self.is_there(place) && self.is_certain_at(place))
    }

    /// The newest record of a key; one of a stripe that was dropped only if no copy stands in for it.
    pub(super) fn known(&mut self, key: KeyId) -> Option<Newest> {
        let mut newest = self.newest.get(key).copied()?;
        if !self.is_there(newest.location) && self.let_stand_in(&mut newest) {
            self.newest.put(newest);
        }
        Some(newest)
    }

    /// Another copy takes the place of a record whose stripe was dropped, if there is one.
    pub(super) fn let_stand_in(&mut self, newest: &mut Newest) -> bool {
        let key = newest.key;
        let Some(copy) = self.youngest_stand_in(key) else { return false };
        let gone = *newest;
        (newest.location, newest.record_bytes) = (copy.location, copy.record_bytes);
        if let Some(copies) = self.stand_ins.0.get_mut(&key) {
            copies.retain(|other| other.location != copy.location);
        }
        if newest.is_live {
            let hashed = key.hashed();
            self.index.replace(hashed.slot, hashed.tag(), gone.location, newest.location);
            self.uncount_live(&gone);
            self.count_live(newest, copy.expiry);
            // A record of an earlier epoch is longer in a stripe of a later one.
            self.bytes_stored += u64::from(newest.record_bytes);
            self.bytes_stored -= u64::from(gone.record_bytes);
            self.reach_over(self.stripes.place_of(newest.location).0, self.stripes.place_of(gone.location).0);
        }
        true
    }

    /// The copy that a stand-in was compared with may have been another one than counts now.
    pub(super) fn shadow_stand_ins(&mut self) {
        let pairs = self.stand_ins.0.iter().filter_map(|(&key, copies)| Some((self.newest.get(key)?.location, copies)));
        let pairs = pairs.flat_map(|(by, copies)| copies.iter().map(move |copy| (copy.location, by)));
        for (copy, by) in pairs.collect::<Vec<_>>() {
            self.shadow(self.stripes.place_of(copy).0, by);
        }
    }

    /// Forgets copies in stripes that were dropped, and of records that are over.
    pub(super) fn settle_stand_ins(&mut self) {
        let mut stand_ins = std::mem::take(&mut self.stand_ins);
        stand_ins.0.retain(|&key, copies| {
            copies.retain(|copy| self.is_there(copy.location));
            !copies.is_empty() && self.newest.get(key).is_some()
        });
        self.stand_ins = stand_ins;
    }
}

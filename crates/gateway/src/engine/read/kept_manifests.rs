//! Manifests that the owner keeps when it lets go of a sealed stripe's bytes.
//!
//! Who reads a striped object asks for its pieces at once instead of for its record first: one round trip, and no node
//! that happens to hold the record is in the way. About a hundred bytes an object, whose value has thousands.
//!
//! What is kept here is what the nodes hold; a manifest that is not (after a take-over) is fetched once.

use std::collections::HashMap;

use shorttail_store::record::{RecordKind, records};

use crate::engine::Engine;
use crate::engine::state::index::{Location, StripeSlot};

/// Those of one stripe. They go with it.
#[derive(Debug, Default)]
pub struct KeptManifests {
    /// The stripe was given one: worth looking for at its seal.
    pub is_expected: bool,
    records: HashMap<Location, Box<[u8]>>,
}

impl KeptManifests {
    pub fn expect_if(&mut self, kind: RecordKind) {
        self.is_expected |= kind == RecordKind::Manifest;
    }

    pub fn keep(&mut self, location: Location, record: &[u8]) {
        self.records.insert(location, record.into());
    }

    pub fn get(&self, location: Location) -> Option<&[u8]> {
        self.records.get(&location).map(|record| &**record)
    }

    pub fn forget(&mut self, location: Location) {
        self.records.remove(&location);
    }
}

impl Engine {
    /// A stripe's bytes are about to go: what names striped objects in it stays.
    pub(in crate::engine) fn keep_manifests(&mut self, slot: StripeSlot) {
        let stripe = self.stripes.at(slot);
        let Some(open) = stripe.open.as_ref().filter(|_| stripe.manifests.is_expected) else { return };
        let mut kept = KeptManifests { is_expected: true, records: HashMap::new() };
        for data_index in 0..self.config.data_count() {
            let chunk = open.chunk(data_index);
            for (offset, record, length) in records(chunk, stripe.id) {
                let (key, location) = (self.key_ref(record.key), self.stripes.location(slot, data_index, offset));
                if record.kind == RecordKind::Manifest && self.index.contains(key.slot, key.tag(), location) {
                    kept.keep(location, &chunk[offset..offset + length]);
                }
            }
        }
        self.stripes.at_mut(slot).manifests = kept;
    }
}

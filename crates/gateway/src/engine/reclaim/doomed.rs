//! Evicting packed objects: they are served until the stripe that holds them is void. Striped objects that are over,
//! which nobody is shown any more, end in the same way: their pieces go with the stripe that holds the manifest.
//!
//! ```text
//! job walks the stripe: not read lately --> doomed, still in the index
//! job is done --> void record --durable--> out of the index (a locked one when its lock ends) --> chunks are freed
//! ```
//! An object that was missed must stay away. Nothing older of a doomed one exists, so no tombstone is written: what
//! ends it is that its stripe is void. Were it missed before, the next owner could find the stripe as it was, and the
//! object in it. One that was served although its stripe is void already was evicted a little later.
//!
//! Must not know: which objects are evicted (see `cleaner`).

use crate::engine::Engine;
use crate::engine::write::object::OldRecord;

/// Why an object is gone that no client deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    Expired,
    Evicted,
}

/// An object that goes with its stripe.
#[derive(Debug)]
pub struct Doomed {
    pub key: Vec<u8>,
    pub old: OldRecord,
    pub gone: Gone,
}

impl Engine {
    /// Does the index still name the object there?
    pub(super) fn is_in_place(&self, doomed: &Doomed) -> bool {
        let key = self.key_ref(&doomed.key);
        self.index.contains(key.slot, key.tag(), doomed.old.location)
    }

    /// The objects' stripe is void for good: they are evicted. Returns those whose key is locked: a round may be
    /// about to replace one.
    pub(in crate::engine) fn drop_doomed(&mut self, doomed: Vec<Doomed>) -> Vec<Doomed> {
        let mut held = Vec::new();
        for one in doomed.into_iter().filter(|one| self.is_in_place(one)).collect::<Vec<_>>() {
            let key = self.key_ref(&one.key);
            if self.locks.find(key).is_some() {
                held.push(one);
                continue;
            }
            let key = key.hashed;
            self.drop_record(key, &one.old);
            match one.old.manifest {
                // What was to change the object may be found yet, and names the same pieces.
                Some(manifest) if self.is_unsettled(key.hash) => self.note_unsettled_value(key, manifest),
                Some(manifest) => self.free_striped(manifest.first),
                None => {}
            }
            self.count_gone(one.gone);
        }
        held
    }

    pub(in crate::engine) fn count_gone(&mut self, gone: Gone) {
        match gone {
            Gone::Expired => self.stats.totals.expired_total += 1,
            Gone::Evicted => self.stats.totals.evicted_total += 1,
        }
    }
}

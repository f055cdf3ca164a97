//! Looks at sealed chunks in the background, so that damage is found before the chunk is needed.
//!
//! ```text
//! pass: partition by partition, ids in ascending order -- a few chunks, then as long a pause as their bytes cost -- to the last one
//!       `-- the next pass begins PASS_US after this one did, at the earliest
//! ```
//! A damaged chunk is an erasure. Every owner that has a session is told; the one whose stripe it is orders the repair.
//! One that was not told, or could not do it, is told again by the next pass.
//!
//! Must not know: how a chunk is checked, who owns it.

use shorttail_store::{ChunkStore, Place};
use shorttail_units::StripeId;

use crate::limits::{SCRUB_PASS_US, SCRUB_TURN_CHUNKS};

#[derive(Debug)]
pub(crate) struct Scrubber {
    /// 0: nothing is looked at.
    bytes_per_s: u64,
    /// The last chunk that was looked at in this pass.
    place: Place,
    pass_began_us: u64,
    due_us: u64,
    pub scrubbed_bytes: u64,
}

impl Scrubber {
    pub fn new(bytes_per_s: u64) -> Self {
        Scrubber { bytes_per_s, place: Place::default(), pass_began_us: 0, due_us: 0, scrubbed_bytes: 0 }
    }

    /// When there is something to do, in microseconds.
    pub fn deadline_us(&self, store: &ChunkStore) -> Option<u64> {
        (self.bytes_per_s > 0 && store.counters().sealed_chunks > 0).then_some(self.due_us)
    }

    /// Looks at a few chunks if it is time; answers which are damaged.
    pub fn advance(&mut self, now_us: u64, store: &mut ChunkStore) -> Vec<StripeId> {
        let mut damaged = Vec::new();
        if self.deadline_us(store).is_none_or(|due_us| due_us > now_us) {
            return damaged;
        }
        let mut bytes = 0;
        for _ in 0..SCRUB_TURN_CHUNKS {
            let Some(stripe) = self.take_next(now_us, store) else { break };
            let Some(looked) = store.look_at(stripe) else { continue };
            bytes += looked.bytes as u64;
            if looked.is_damaged {
                damaged.push(stripe);
            }
        }
        self.scrubbed_bytes += bytes;
        // A pause that the chunks have to be paid with; what time was idle before is not saved up.
        self.due_us = self.due_us.max(now_us + bytes * 1_000_000 / self.bytes_per_s);
        damaged
    }

    /// The next chunk of the pass; `None`: the pass is over.
    fn take_next(&mut self, now_us: u64, store: &ChunkStore) -> Option<StripeId> {
        if self.place == Place::default() {
            self.pass_began_us = now_us;
        }
        let next = store.sealed_behind(self.place);
        if next.is_none() {
            self.due_us = self.pass_began_us + SCRUB_PASS_US;
        }
        self.place = next.unwrap_or_default();
        next.map(|place| place.stripe)
    }
}

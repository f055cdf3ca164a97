//! Looks at sealed chunks in the background, so that damage is found before the chunk is needed.
//!
//! ```text
//! pass: partition by partition, ids in ascending order -- a few chunks, then as long a pause as their bytes cost -- to the last one
//!       `-- the next pass begins PASS_US after this one did, at the earliest
//! ```
//! What a partition gets while the pass is there waits for the next pass: it may get chunks as fast as they are looked
//! at.
//!
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
    /// The highest stripe of its partition when the pass came there.
    last: StripeId,
    pass_began_us: u64,
    due_us: u64,
    pub scrubbed_bytes: u64,
}

impl Scrubber {
    pub fn new(bytes_per_s: u64) -> Self {
        let (place, last) = (Place::default(), StripeId::default());
        Scrubber { bytes_per_s, place, last, pass_began_us: 0, due_us: 0, scrubbed_bytes: 0 }
    }

    /// The next look is due: at a low pace what was looked at last may have cost hours.
    pub fn set_pace(&mut self, bytes_per_s: u64) {
        (self.bytes_per_s, self.due_us) = (bytes_per_s, 0);
    }

    /// When there is something to do, in microseconds.
    pub fn deadline_us(&self, store: &ChunkStore) -> Option<u64> {
        (self.bytes_per_s > 0 && store.counters().sealed_chunks > 0).then_some(self.due_us)
    }

    /// Looks at a few chunks if it is time; returns which are damaged.
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
        let begins = self.place == Place::default();
        if begins {
            self.pass_began_us = now_us;
        }
        let is_newer = |next: &Place| !begins && next.partition == self.place.partition && next.stripe > self.last;
        let mut next = store.sealed_behind(self.place);
        if next.is_some_and(|next| is_newer(&next)) {
            next = store.sealed_behind(Place { stripe: StripeId::from_raw(u64::MAX), ..self.place });
        }
        match next {
            Some(next) if begins || next.partition != self.place.partition => {
                self.last = store.last_of(next.partition).unwrap_or(next.stripe);
            }
            Some(_) => {}
            None => self.due_us = self.pass_began_us + SCRUB_PASS_US,
        }
        self.place = next.unwrap_or_default();
        next.map(|place| place.stripe)
    }
}

#[cfg(test)]
mod tests {
    use shorttail_units::{CodeShape, Epoch, NodeId, PartitionId};
    use shorttail_wire::node::{ChunkDescription, ChunkKind, Members};

    use super::*;

    fn install(store: &mut ChunkStore, partition: u16, counter: u64) -> StripeId {
        let stripe = StripeId::new(Epoch(1), counter);
        let description = ChunkDescription {
            stripe,
            epoch: Epoch(1),
            partition: PartitionId(partition),
            kind: ChunkKind::Striped,
            index: 0,
            shape: CodeShape::reed_solomon(1, 1).expect("a shape"),
            chunk_bytes: 300,
            configuration: Default::default(),
            members: Members([0, 1].map(NodeId).to_vec()),
        };
        store.install(&description, &[1; 300]).expect("room");
        stripe
    }

    #[test]
    fn a_pass_leaves_a_partition_that_gets_chunks_as_fast_as_they_are_looked_at() {
        for busy in [0, 1] {
            let mut store = ChunkStore::new(8 << 20).expect("memory");
            let mut scrubber = Scrubber::new(1 << 30);
            let mut expected = vec![install(&mut store, busy, 1), install(&mut store, busy, 2)];
            expected.push(install(&mut store, 7, 3));
            let mut pass = Vec::new();
            for counter in 4..20 {
                let Some(stripe) = scrubber.take_next(0, &store) else { break };
                pass.push(stripe);
                install(&mut store, busy, counter);
            }
            assert_eq!(pass, expected);
            assert!(scrubber.due_us >= SCRUB_PASS_US, "the pass is over");
            let next: Vec<_> = std::iter::from_fn(|| scrubber.take_next(SCRUB_PASS_US, &store)).collect();
            assert_eq!(next.len(), 6, "what came meanwhile is of the next pass: {next:?}");
        }
    }
}

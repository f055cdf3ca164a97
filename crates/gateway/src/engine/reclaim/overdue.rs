//! How much of what packed stripes hold is over, without a look at each of them every time: without it what is over
//! would count as stored, and take memory, until memory is short.
//!
//! In each tick some stripes are looked at. What counts is what the last round over all of them found, less what was
//! begun to be emptied since.
//!
//! Must not know: what is done about it.

use crate::engine::Engine;
use crate::engine::limits::OVERDUE_LOOKS;
use crate::engine::state::index::StripeSlot;
use crate::engine::state::stripes::StripePhase;

#[derive(Debug, Default)]
pub struct Overdue {
    next: usize,
    /// Found in the round that is under way.
    found_bytes: u64,
    bytes: u64,
}

impl Overdue {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// So much of it is in a stripe that is emptied now.
    pub fn note_emptied(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    fn end_round(&mut self) {
        *self = Overdue { bytes: self.found_bytes, ..Overdue::default() };
    }
}

impl Engine {
    pub(in crate::engine) fn look_for_overdue(&mut self) {
        for _ in 0..OVERDUE_LOOKS {
            if self.overdue.next >= self.stripes.slot_count() {
                return self.overdue.end_round();
            }
            self.overdue.found_bytes += self.overdue_bytes(StripeSlot(self.overdue.next as u32));
            self.overdue.next += 1;
        }
    }

    /// Of a stripe that waits to be emptied.
    pub(super) fn overdue_bytes(&self, slot: StripeSlot) -> u64 {
        let stripe = self.stripes.get(slot).filter(|stripe| stripe.phase() == StripePhase::Sealed);
        stripe.map_or(0, |stripe| stripe.live_bytes - stripe.live_estimate(self.now.unix_ms))
    }
}

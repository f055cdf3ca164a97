//! How much of what packed stripes hold is over, without a look at each of them every time: without it what is over
//! would count as stored, and take memory, until memory is short.
//!
//! In each tick some stripes are looked at. What counts is what the last round over all of them found, less what was
//! begun to be emptied since.
//!
//! Must not know: what is done about it.

use crate::engine::Engine;
use crate::engine::limits::EXPIRED_LOOKS;
use crate::engine::state::index::StripeSlot;
use crate::engine::state::stripes::StripePhase;

#[derive(Debug, Default)]
pub struct Expired {
    next: usize,
    /// Found in the round that is under way.
    found_bytes: u64,
    bytes: u64,
}

impl Expired {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// So much of it is in a stripe that is emptied now; it may have been looked at in this round, too.
    pub fn note_emptied(&mut self, slot: StripeSlot, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        if (slot.0 as usize) < self.next {
            self.found_bytes = self.found_bytes.saturating_sub(bytes);
        }
    }

    fn end_round(&mut self) {
        *self = Expired { bytes: self.found_bytes, ..Expired::default() };
    }
}

impl Engine {
    pub(in crate::engine) fn look_for_expired(&mut self) {
        for _ in 0..EXPIRED_LOOKS {
            if self.expired.next >= self.stripes.slot_count() {
                return self.expired.end_round();
            }
            self.expired.found_bytes += self.expired_bytes(StripeSlot(self.expired.next as u32));
            self.expired.next += 1;
        }
    }

    /// Of a stripe that waits to be emptied.
    pub(super) fn expired_bytes(&self, slot: StripeSlot) -> u64 {
        let stripe = self.stripes.get(slot).filter(|stripe| stripe.phase() == StripePhase::Sealed);
        stripe.map_or(0, |stripe| stripe.live_bytes - stripe.live_estimate(self.now.unix_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_emptied_while_a_round_goes_on_is_over_no_more_at_its_end() {
        let mut expired = Expired { next: 5, found_bytes: 30, bytes: 40 };
        expired.note_emptied(StripeSlot(4), 10);
        expired.note_emptied(StripeSlot(5), 10);
        assert_eq!((expired.found_bytes, expired.bytes()), (20, 20));
        expired.end_round();
        assert_eq!((expired.next, expired.found_bytes, expired.bytes()), (0, 0, 20));
    }
}

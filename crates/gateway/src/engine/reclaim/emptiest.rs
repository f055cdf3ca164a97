//! Which sealed stripe cleaning would gain most from, without a look at each of them every time.
//!
//! ```text
//! asked: the next some stripes are looked at in turn --file--> [share | slot] --> the first, if it is still filed right
//! ```
//! What of a stripe is alive changes with every write and, as objects expire, with time. So a share is as old as the
//! last look, which is as many questions ago as there are stripes for the looks of one; where those look at all of
//! them, the answer is exact.
//!
//! Must not know: what a share is made of.

use std::collections::BTreeSet;

use crate::engine::state::index::StripeSlot;

/// Shares are told apart by so much of one.
const STEPS: f64 = 1024.0;

#[derive(Debug, Default)]
pub struct Emptiest {
    filed: BTreeSet<(u16, StripeSlot)>,
    /// Of each slot, what it is filed under.
    shares: Vec<Option<u16>>,
    next: usize,
    /// Looks since a question had an answer that was worth something.
    idle_looks: usize,
}

impl Emptiest {
    /// The slots to look at now, of so many.
    pub fn turn(&mut self, slot_count: usize, looks_max: usize) -> impl Iterator<Item = StripeSlot> + use<> {
        let count = looks_max.min(slot_count);
        let first = if self.next < slot_count { self.next } else { 0 };
        self.next = (first + count) % slot_count.max(1);
        self.idle_looks = self.idle_looks.saturating_add(count);
        (first..first + count).map(move |at| StripeSlot((at % slot_count) as u32))
    }

    /// Files a slot; `None`: it is no choice. True: it was filed otherwise.
    pub fn file(&mut self, slot: StripeSlot, share: Option<f64>) -> bool {
        let place = slot.0 as usize;
        if self.shares.len() <= place {
            self.shares.resize(place + 1, None);
        }
        // More than twice what there is makes no difference.
        let share = share.map(|share| (share.clamp(0.0, 2.0) * STEPS) as u16);
        let before = std::mem::replace(&mut self.shares[place], share);
        if before == share {
            return false;
        }
        before.map(|before| self.filed.remove(&(before, slot)));
        share.map(|share| self.filed.insert((share, slot)));
        true
    }

    /// The one with the lowest share, as far as is known.
    pub fn first(&self) -> Option<StripeSlot> {
        self.filed.first().map(|&(_, slot)| slot)
    }

    /// A question had an answer.
    pub fn note_found(&mut self) {
        self.idle_looks = 0;
    }

    /// Was every slot looked at since a question had an answer?
    pub fn has_seen_all(&self, slot_count: usize) -> bool {
        self.idle_looks >= slot_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_share_comes_first_whatever_it_was_before() {
        let mut emptiest = Emptiest::default();
        let [a, b, c] = [0, 1, 2].map(StripeSlot);
        assert!(emptiest.file(b, Some(0.5)) && emptiest.file(a, Some(0.9)) && emptiest.file(c, Some(7.0)));
        assert_eq!(emptiest.first(), Some(b));
        assert!(!emptiest.file(b, Some(0.5)) && emptiest.file(a, Some(0.1)));
        assert_eq!(emptiest.first(), Some(a));
        assert!(emptiest.file(a, None) && emptiest.file(b, None) && !emptiest.file(b, None));
        assert_eq!(emptiest.first(), Some(c));
    }

    #[test]
    fn every_slot_has_its_turn() {
        let mut emptiest = Emptiest::default();
        let turns = |emptiest: &mut Emptiest, count| emptiest.turn(count, 2).map(|slot| slot.0).collect::<Vec<_>>();
        assert_eq!([turns(&mut emptiest, 3), turns(&mut emptiest, 3)], [[0, 1], [2, 0]]);
        assert!(emptiest.has_seen_all(3));
        emptiest.note_found();
        assert_eq!(turns(&mut emptiest, 5), [1, 2]);
        assert!(!emptiest.has_seen_all(5));
        assert_eq!(turns(&mut emptiest, 3), [0, 1], "there are fewer than before");
        assert_eq!(turns(&mut emptiest, 1), [0]);
        assert!(turns(&mut emptiest, 0).is_empty());
    }
}

//! Marks of freed stripes, so that a late open or install is refused (rule R11).
//!
//! A mark names the highest configuration that the free was for. An order of a higher one came later: its owner took
//! the number after it had told this node to free (see `docs/decisions/0017-membership.md`). Of a stripe that is gone
//! nothing is taken any more.
//!
//! Stripe ids are never used twice, so a mark could stand for ever; the oldest goes when there are more than
//! [`FREED_MARKS_MAX`]. An open or install of a session comes in the order in which it was sent; an order to rebuild
//! may take long, and whoever takes it drops it at the free.

use std::collections::VecDeque;

use shorttail_units::{Configuration, StripeId};

use crate::limits::FREED_MARKS_MAX;
use crate::stripe_map::StripeMap;

#[derive(Debug, Default)]
pub(crate) struct FreedMarks {
    marks: StripeMap<Configuration>,
    /// As they were made or raised; of a stripe that was raised only the last one counts.
    oldest_first: VecDeque<(u64, Configuration)>,
}

impl FreedMarks {
    /// Nothing of the stripe up to this configuration is taken any more.
    pub fn mark(&mut self, stripe: StripeId, up_to: Configuration) {
        if self.marks.get(&stripe.raw()).is_some_and(|&known| known >= up_to) {
            return;
        }
        self.marks.insert(stripe.raw(), up_to);
        self.oldest_first.push_back((stripe.raw(), up_to));
        if self.oldest_first.len() > FREED_MARKS_MAX
            && let Some((oldest, up_to)) = self.oldest_first.pop_front()
            && self.marks.get(&oldest) == Some(&up_to)
        {
            self.marks.remove(&oldest);
        }
    }

    /// Was a chunk of this configuration ordered before the stripe was freed?
    pub fn refuses(&self, stripe: StripeId, configuration: Configuration) -> bool {
        self.marks.get(&stripe.raw()).is_some_and(|&up_to| configuration <= up_to)
    }

    pub fn len(&self) -> usize {
        assert!(self.marks.len() <= self.oldest_first.len(), "every mark has its place in the queue");
        self.oldest_first.len()
    }
}

#[cfg(test)]
mod tests {
    use shorttail_units::Epoch;

    use super::*;

    const FIRST: Configuration = Configuration::from_raw(0);

    #[test]
    fn the_oldest_mark_goes_first() {
        let mut freed = FreedMarks::default();
        let id = |id: usize| StripeId::from_raw(id as u64);
        (0..=FREED_MARKS_MAX).for_each(|number| freed.mark(id(number), Configuration::END));
        freed.mark(id(5), Configuration::END);
        assert_eq!(freed.len(), FREED_MARKS_MAX);
        assert!(!freed.refuses(id(0), FIRST));
        assert!(freed.refuses(id(1), FIRST) && freed.refuses(id(FREED_MARKS_MAX), FIRST));
    }

    #[test]
    fn a_mark_is_raised_and_never_lowered() {
        let mut freed = FreedMarks::default();
        let (stripe, numbers) = (StripeId::from_raw(7), [3, 4].map(|epoch| FIRST.next(Epoch(epoch))));
        freed.mark(stripe, numbers[0]);
        assert!(freed.refuses(stripe, FIRST) && freed.refuses(stripe, numbers[0]));
        assert!(!freed.refuses(stripe, numbers[1]));
        freed.mark(stripe, Configuration::END);
        freed.mark(stripe, numbers[0]);
        assert!(freed.refuses(stripe, numbers[1]));
    }

    /// Its stripe may have been ordered since it was made.
    #[test]
    fn a_mark_that_was_raised_stays_as_long_as_a_new_one() {
        let mut freed = FreedMarks::default();
        let id = |id: usize| StripeId::from_raw(id as u64);
        freed.mark(id(0), FIRST);
        (1..FREED_MARKS_MAX).for_each(|number| freed.mark(id(number), Configuration::END));
        freed.mark(id(0), Configuration::END);
        (0..FREED_MARKS_MAX - 1).for_each(|number| freed.mark(id(FREED_MARKS_MAX + number), Configuration::END));
        assert!(freed.refuses(id(0), FIRST));
        freed.mark(id(3 * FREED_MARKS_MAX), Configuration::END);
        assert!(!freed.refuses(id(0), FIRST) && freed.len() == FREED_MARKS_MAX);
    }
}

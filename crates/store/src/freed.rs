//! Marks of freed stripes, so that a late open or install is refused (rule R11).
//!
//! Stripe ids are never used twice, so a mark could stand for ever; the oldest goes when there are more than
//! [`FREED_MARKS_MAX`]. An install later than that comes from another session, which fencing ends.

use std::collections::VecDeque;

use shorttail_units::StripeId;

use crate::limits::FREED_MARKS_MAX;
use crate::stripe_map::StripeMap;

#[derive(Debug, Default)]
pub(crate) struct FreedMarks {
    marks: StripeMap<()>,
    oldest_first: VecDeque<u64>,
}

impl FreedMarks {
    pub fn mark(&mut self, stripe: StripeId) {
        if self.marks.insert(stripe.raw(), ()).is_some() {
            return;
        }
        self.oldest_first.push_back(stripe.raw());
        if self.oldest_first.len() > FREED_MARKS_MAX
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.marks.remove(&oldest);
        }
    }

    pub fn contains(&self, stripe: StripeId) -> bool {
        self.marks.contains_key(&stripe.raw())
    }

    pub fn len(&self) -> usize {
        assert_eq!(self.marks.len(), self.oldest_first.len(), "every mark has its place in the queue");
        self.marks.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_mark_goes_first() {
        let mut freed = FreedMarks::default();
        (0..=FREED_MARKS_MAX as u64).for_each(|id| freed.mark(StripeId::from_raw(id)));
        freed.mark(StripeId::from_raw(5));
        assert_eq!(freed.len(), FREED_MARKS_MAX);
        assert!(!freed.contains(StripeId::from_raw(0)));
        assert!(freed.contains(StripeId::from_raw(1)) && freed.contains(StripeId::from_raw(FREED_MARKS_MAX as u64)));
    }
}

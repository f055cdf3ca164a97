//! The one queue of a simulation: what happens when, in virtual time.
//!
//! Must not know: what an event means. Invariants: time never goes back; events of one microsecond come out in the
//! order in which they went in, so a run depends on nothing but its seed.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::limits::SCHEDULE_EVENTS_MAX;

/// Events by (virtual time, order of scheduling).
#[derive(Debug)]
pub struct Schedule<E> {
    now_us: u64,
    sequence: u64,
    waiting: BinaryHeap<Waiting<E>>,
}

#[derive(Debug)]
struct Waiting<E> {
    at_us: u64,
    sequence: u64,
    event: E,
}

impl<E> Default for Schedule<E> {
    fn default() -> Self {
        Schedule { now_us: 0, sequence: 0, waiting: BinaryHeap::new() }
    }
}

impl<E> Schedule<E> {
    /// Virtual microseconds since the start of the run: the time of the event taken last.
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Schedules an event; a time in the past means now, as a role may name a deadline that has just passed.
    ///
    /// # Panics
    /// If [`SCHEDULE_EVENTS_MAX`] events wait: some part schedules without end.
    pub fn at(&mut self, at_us: u64, event: E) {
        assert!(self.waiting.len() < SCHEDULE_EVENTS_MAX, "event storm: {SCHEDULE_EVENTS_MAX} events wait");
        self.waiting.push(Waiting { at_us: at_us.max(self.now_us), sequence: self.sequence, event });
        self.sequence += 1;
    }

    /// Schedules an event after a delay; see [`Schedule::at`].
    pub fn after(&mut self, delay_us: u64, event: E) {
        self.at(self.now_us.saturating_add(delay_us), event);
    }

    /// The time of the next event.
    pub fn next_us(&self) -> Option<u64> {
        self.waiting.peek().map(|waiting| waiting.at_us)
    }

    /// Takes the next event and moves time forward to it.
    pub fn pop(&mut self) -> Option<E> {
        let waiting = self.waiting.pop()?;
        self.now_us = waiting.at_us;
        Some(waiting.event)
    }

    /// As [`Schedule::pop`], but not past `until_us`; with nothing left before it, time moves there.
    pub fn pop_until(&mut self, until_us: u64) -> Option<E> {
        if self.next_us().is_some_and(|at_us| at_us <= until_us) {
            return self.pop();
        }
        self.now_us = self.now_us.max(until_us);
        None
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Reversed, because the heap gives the greatest first.
impl<E> Ord for Waiting<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_us, other.sequence).cmp(&(self.at_us, self.sequence))
    }
}

impl<E> PartialOrd for Waiting<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Waiting<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Waiting<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_out_by_time_then_by_order_of_scheduling() {
        let mut schedule = Schedule::default();
        for (at_us, name) in [(5, "c"), (3, "a"), (5, "d"), (3, "b"), (9, "e")] {
            schedule.at(at_us, name);
        }
        let taken: Vec<_> = std::iter::from_fn(|| schedule.pop().map(|name| (schedule.now_us(), name))).collect();
        assert_eq!(taken, [(3, "a"), (3, "b"), (5, "c"), (5, "d"), (9, "e")]);
    }

    #[test]
    fn the_past_is_now_and_time_never_goes_back() {
        let mut schedule = Schedule::default();
        schedule.at(10, "first");
        schedule.pop();
        schedule.at(4, "late");
        schedule.after(0, "after it");
        assert_eq!((schedule.pop(), schedule.pop(), schedule.now_us()), (Some("late"), Some("after it"), 10));
    }

    #[test]
    fn pop_until_stops_at_its_time() {
        let mut schedule = Schedule::default();
        schedule.at(10, "ten");
        schedule.at(20, "twenty");
        assert_eq!((schedule.pop_until(15), schedule.pop_until(15), schedule.now_us()), (Some("ten"), None, 15));
        assert_eq!((schedule.pop_until(20), schedule.len()), (Some("twenty"), 0));
    }
}

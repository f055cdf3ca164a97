//! Requests of one node and class, by the slice in which they start. Nothing is kept for a single request: the sum of
//! the start times of what is outstanding gives the sum of its ages.
//!
//! ```text
//!   slice    4        5        6        7        now in 8
//!   cell    [judged] [judged] [ended ] [started, ended, sum of latencies, sum of starts outstanding]
//!   elder   what is outstanding of slices whose cell was taken by a later one
//! ```
//!
//! Must not know: nodes, thresholds.

use crate::limits::SLICES;

/// Requests that started in one slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cell {
    pub slice: u32,
    pub started: u32,
    pub ended: u32,
    /// Its ended requests have been looked at.
    pub is_judged: bool,
    /// Latencies of those that ended; the age at the end for cancelled ones.
    pub sum_us: u64,
    /// The same, each cut off where one request would decide for all.
    pub clipped_us: u64,
    /// What those that ended usually take.
    pub expected_us: u64,
    /// Start times of those outstanding, added up; may wrap, and then unwraps.
    starts_us: u64,
    /// What those outstanding usually take.
    pub expected_outstanding_us: u64,
}

/// End of a request.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub slice: u32,
    pub start_us: u64,
    pub latency_us: u64,
    pub clipped_us: u64,
    pub expected_us: u64,
}

impl Cell {
    #[inline]
    pub fn outstanding(&self) -> u32 {
        self.started - self.ended
    }

    /// Ages of those outstanding, added up.
    pub fn ages_us(&self, now_us: u64) -> u64 {
        u64::from(self.outstanding()).wrapping_mul(now_us).wrapping_sub(self.starts_us)
    }

    #[inline]
    fn end(&mut self, ended: &Ended) -> bool {
        if self.outstanding() == 0 {
            return false;
        }
        self.ended += 1;
        self.sum_us += ended.latency_us;
        self.clipped_us += ended.clipped_us;
        self.expected_us += ended.expected_us;
        self.starts_us = self.starts_us.wrapping_sub(ended.start_us);
        self.expected_outstanding_us = self.expected_outstanding_us.saturating_sub(ended.expected_us);
        true
    }

    /// Takes over what is outstanding of `old`, and what of it was not looked at.
    fn merge(&mut self, old: &Cell) {
        self.started += old.outstanding();
        self.starts_us = self.starts_us.wrapping_add(old.starts_us);
        self.expected_outstanding_us += old.expected_outstanding_us;
        if !old.is_judged {
            self.started += old.ended;
            self.ended += old.ended;
            self.sum_us += old.sum_us;
            self.clipped_us += old.clipped_us;
            self.expected_us += old.expected_us;
        }
    }
}

/// The latest slices of one node and class.
#[derive(Clone, Debug, Default)]
pub struct Cells {
    ring: [Cell; SLICES],
    elder: Cell,
}

impl Cells {
    /// A request starts.
    #[inline]
    pub fn start(&mut self, slice: u32, now_us: u64, expected_us: u64) {
        let cell = &mut self.ring[slice as usize % SLICES];
        if cell.slice != slice {
            self.elder.merge(cell);
            *cell = Cell { slice, ..Cell::default() };
        }
        cell.started += 1;
        cell.starts_us = cell.starts_us.wrapping_add(now_us);
        cell.expected_outstanding_us += expected_us;
    }

    /// A request ends. False: all that started in its slice have ended, this one twice.
    #[inline]
    pub fn end(&mut self, ended: &Ended) -> bool {
        let cell = &mut self.ring[ended.slice as usize % SLICES];
        if cell.slice == ended.slice { cell.end(ended) } else { self.elder.end(ended) }
    }

    /// The cells of slices before `slice`, in any order.
    pub fn before(&mut self, slice: u32) -> impl Iterator<Item = &mut Cell> {
        self.ring.iter_mut().filter(move |cell| cell.started > 0 && cell.slice < slice)
    }

    pub fn elder(&self) -> &Cell {
        &self.elder
    }

    /// The merged cell, if all its requests have ended; it begins anew.
    pub fn take_elder(&mut self) -> Option<Cell> {
        (self.elder.outstanding() == 0 && self.elder.ended > 0).then(|| std::mem::take(&mut self.elder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(cells: &mut Cells, slice: u32, start_us: u64, now_us: u64) {
        let latency_us = now_us - start_us;
        assert!(cells.end(&Ended { slice, start_us, latency_us, clipped_us: latency_us, expected_us: 10 }));
    }

    #[test]
    fn ages_need_no_table() {
        let mut cells = Cells::default();
        [100, 110, 130].iter().for_each(|&start| cells.start(1, start, 10));
        end(&mut cells, 1, 110, 150);
        let cell = *cells.before(2).next().expect("slice 1 has requests");
        assert_eq!((cell.started, cell.outstanding(), cell.sum_us), (3, 2, 40));
        assert_eq!(cell.ages_us(200), 100 + 70);
        assert_eq!((cell.expected_us, cell.expected_outstanding_us), (10, 20));
    }

    #[test]
    fn what_outlives_the_ring_becomes_elder_and_ends_there() {
        let mut cells = Cells::default();
        (0..=SLICES as u32).for_each(|step| cells.start(1 + step, 100 * u64::from(1 + step), 10));
        assert_eq!((cells.elder().outstanding(), cells.elder().ages_us(1000)), (1, 900));
        assert_eq!(cells.take_elder(), None, "one is outstanding");
        end(&mut cells, 1, 100, 2000);
        let elder = cells.take_elder().expect("its request has ended");
        assert_eq!((elder.ended, elder.sum_us, elder.expected_outstanding_us), (1, 1900, 0));
        assert_eq!(cells.elder(), &Cell::default());
    }

    #[test]
    fn what_was_judged_is_not_merged_again() {
        let mut cells = Cells::default();
        cells.start(1, 100, 10);
        cells.start(1, 100, 10);
        end(&mut cells, 1, 100, 300);
        cells.before(2).for_each(|cell| cell.is_judged = true);
        cells.start(1 + SLICES as u32, 9000, 10);
        assert_eq!((cells.elder().started, cells.elder().ended, cells.elder().sum_us), (1, 0, 0));
    }
}

//! When keys were last used, for as many of the latest as a fixed table holds.
//!
//! Eviction order and "was it fetched" live in the index entry; this table only answers how long ago
//! (memcached's `mg l`, Redis' OBJECT IDLETIME). A key that lost its place to another answers an upper bound:
//! since the engine started.

use crate::engine::limits::RECENT_PLACES;

#[derive(Debug)]
pub struct Recent {
    /// (upper half of the hash, seconds since `started_s`).
    places: Vec<(u32, u32)>,
    started_s: u64,
}

impl Recent {
    pub fn new() -> Self {
        Recent { places: Vec::new(), started_s: 0 }
    }

    fn place(hash: u64) -> usize {
        hash as usize % RECENT_PLACES
    }

    pub fn touch(&mut self, hash: u64, now_s: u64) {
        if self.places.is_empty() {
            self.places = vec![(0, 0); RECENT_PLACES];
            self.started_s = now_s;
        }
        let age = u32::try_from(now_s.saturating_sub(self.started_s)).unwrap_or(u32::MAX);
        self.places[Self::place(hash)] = ((hash >> 32) as u32, age);
    }

    pub fn idle_s(&self, hash: u64, now_s: u64) -> u32 {
        let running = u32::try_from(now_s.saturating_sub(self.started_s)).unwrap_or(u32::MAX);
        match self.places.get(Self::place(hash)) {
            Some(&(owner, at)) if owner == (hash >> 32) as u32 => running.saturating_sub(at),
            Some(_) => running,
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_counts_from_the_last_touch() {
        let mut recent = Recent::new();
        let hash = 0xABCD_0000_0000_0001;
        recent.touch(hash, 100);
        assert_eq!(recent.idle_s(hash, 107), 7);
        recent.touch(hash, 110);
        assert_eq!(recent.idle_s(hash, 110), 0);
        recent.touch(0x1234_0000_0000_0001, 120);
        assert_eq!(recent.idle_s(hash, 125), 25, "displaced: since the start");
    }
}

//! What the sessions of a gateway's cores count, told to one another so that clients see the sum.
//!
//! ```text
//! core 0: counters --copy--> place 0 --.      .--> elsewhere = places 1 + 2
//! core 1: counters --copy--> place 1 --+--sum-+--> elsewhere = places 0 + 2
//! core 2: counters --copy--> place 2 --'      '--> elsewhere = places 0 + 1
//! ```
//!
//! Counting itself touches a core's own memory only. Cores exchange copies now and then, and when a client asks: then
//! the cores that answer do so first, so that the sum lacks nothing that was counted before the question.
//!
//! Must not know: what is counted, beyond that clients may clear it and may switch the counting per prefix.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use shorttail_gateway::session::Counters;

use crate::locks::lock;

/// A place for each core.
#[derive(Debug)]
pub struct Tallies {
    places: Vec<Mutex<Counters>>,
    /// Times that a client of any core cleared the counters.
    resets: AtomicU64,
    counts_prefixes: AtomicBool,
}

impl Tallies {
    pub fn new(core_count: usize) -> Self {
        Tallies {
            places: (0..core_count).map(|_| Mutex::default()).collect(),
            resets: AtomicU64::new(0),
            counts_prefixes: AtomicBool::new(false),
        }
    }

    /// What all cores counted, as they last told.
    pub fn sum(&self) -> Counters {
        let mut sum: Option<Counters> = None;
        for place in &self.places {
            let told = lock(place);
            sum = Some(sum.map_or_else(|| told.clone(), |sum| sum.plus(&told)));
        }
        sum.unwrap_or_default()
    }
}

/// One core's end.
#[derive(Debug)]
pub struct Teller {
    tallies: Arc<Tallies>,
    core: usize,
    /// Of all cores, and of this one, when it last told.
    resets: u64,
    own_resets: u64,
    counted_prefixes: bool,
}

impl Teller {
    pub fn new(tallies: Arc<Tallies>, core: usize) -> Self {
        Teller { tallies, core, resets: 0, own_resets: 0, counted_prefixes: false }
    }

    /// Tells what this core counted, after clearing it if another core's client did; answers what the others counted.
    pub fn exchange(&mut self, own: &mut Counters) -> Counters {
        self.take_resets(own);
        self.take_switch(own);
        *lock(&self.tallies.places[self.core]) = own.clone();
        self.others().fold(Counters::default(), |sum, place| sum.plus(&lock(place)))
    }

    fn take_resets(&mut self, own: &mut Counters) {
        let here = own.resets - self.own_resets;
        let all = self.tallies.resets.fetch_add(here, Ordering::AcqRel) + here;
        if all - self.resets > here {
            own.reset();
        }
        if here > 0 {
            self.others().for_each(|place| lock(place).reset());
        }
        (self.resets, self.own_resets) = (all, own.resets);
    }

    fn take_switch(&mut self, own: &mut Counters) {
        let counts_prefixes = &mut own.prefixes.enabled;
        if *counts_prefixes == self.counted_prefixes {
            *counts_prefixes = self.tallies.counts_prefixes.load(Ordering::Acquire);
        } else {
            self.tallies.counts_prefixes.store(*counts_prefixes, Ordering::Release);
        }
        self.counted_prefixes = *counts_prefixes;
    }

    fn others(&self) -> impl Iterator<Item = &Mutex<Counters>> {
        let places = self.tallies.places.iter().enumerate();
        places.filter(|(core, _)| *core != self.core).map(|(_, place)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_cores() -> [(Teller, Counters); 2] {
        let tallies = Arc::new(Tallies::new(2));
        [0, 1].map(|core| (Teller::new(Arc::clone(&tallies), core), Counters::default()))
    }

    #[test]
    fn each_core_learns_what_the_other_counted() {
        let [(mut one, mut ones), (mut other, mut others)] = two_cores();
        ones.get_hits = 3;
        others.get_hits = 4;
        assert_eq!(one.exchange(&mut ones).get_hits, 0, "the other has told nothing yet");
        assert_eq!(other.exchange(&mut others).get_hits, 3);
        assert_eq!(one.exchange(&mut ones).get_hits, 4);
        assert_eq!((ones.get_hits, one.tallies.sum().get_hits), (3, 7));
    }

    #[test]
    fn a_client_of_one_core_clears_what_all_counted() {
        let [(mut one, mut ones), (mut other, mut others)] = two_cores();
        for counters in [&mut ones, &mut others] {
            (counters.get_hits, counters.connections_current) = (5, 2);
        }
        one.exchange(&mut ones);
        other.exchange(&mut others);
        ones.reset();
        assert_eq!(one.exchange(&mut ones).get_hits, 0, "before the other core has noticed");
        others.get_hits += 1;
        assert_eq!(other.exchange(&mut others).get_hits, 0);
        assert_eq!((others.get_hits, others.connections_current), (0, 2));
        for _ in 0..2 {
            ones.get_hits += 1;
            others.get_hits += 1;
            other.exchange(&mut others);
            assert_eq!(one.exchange(&mut ones).get_hits, others.get_hits, "cleared once");
        }
    }

    #[test]
    fn a_switch_made_on_one_core_holds_on_all() {
        let [(mut one, mut ones), (mut other, mut others)] = two_cores();
        for wanted in [true, false, true] {
            ones.prefixes.enabled = wanted;
            one.exchange(&mut ones);
            other.exchange(&mut others);
            one.exchange(&mut ones);
            assert_eq!((ones.prefixes.enabled, others.prefixes.enabled), (wanted, wanted));
        }
    }
}

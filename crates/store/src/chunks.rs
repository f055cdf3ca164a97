//! Where each chunk of a core is, by stripe, and what changed when.
//!
//! Owners ask what a core holds of their partitions, and later what of that changed. So stripes are kept in order by
//! partition, each chunk knows the last change that touched it, and what was freed lately is remembered. That there is
//! a core counts as the first change of this process; an open chunk always counts as changed. Which sealed chunks were
//! touched lately is remembered too, so that of a million nobody looks at more than those.
//!
//! Must not know: what a chunk holds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use shorttail_units::{PartitionId, StripeId};

use crate::arena::Allocation;
use crate::limits::{FREES_REMEMBERED_MAX, TOUCHES_REMEMBERED_MAX};
use crate::open_state::OpenState;
use crate::stripe_map::StripeMap;

/// What is asked of a store's chunks.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// None: all.
    pub partitions: &'a [PartitionId],
    /// What changed after this many changes; 0: everything.
    pub since: u64,
    /// Above this id.
    pub after: StripeId,
    /// So many at most.
    pub count: usize,
}

/// Where a chunk is in the order that chunks are kept in.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Place {
    pub partition: PartitionId,
    /// The default one is before all others.
    pub stripe: StripeId,
}

#[derive(Debug)]
pub(crate) struct Chunk {
    pub allocation: Allocation,
    pub open: Option<Box<OpenState>>,
    /// As the header said when the chunk came here: who may drop it, whatever becomes of its header.
    pub partition: PartitionId,
    changed: u64,
}

/// A chunk that is gone.
#[derive(Debug)]
struct Freed {
    change: u64,
    partition: PartitionId,
    stripe: StripeId,
}

/// A sealed chunk changed.
#[derive(Debug)]
struct Touched {
    change: u64,
    stripe: StripeId,
}

#[derive(Debug)]
pub(crate) struct Chunks {
    by_stripe: StripeMap<Chunk>,
    by_partition: BTreeMap<PartitionId, BTreeSet<StripeId>>,
    change: u64,
    freed: VecDeque<Freed>,
    /// The last one that is not remembered any more.
    forgotten: u64,
    /// Those that are open, and some that were: no change of them is in `touched`.
    opened: BTreeSet<StripeId>,
    /// How many of them there are before it is looked which are open.
    opened_max: usize,
    touched: VecDeque<Touched>,
    /// As `forgotten`.
    touched_forgotten: u64,
}

/// How many chunks may count as open before it is looked whether they are, at least.
const OPENED_MIN: usize = 64;

impl Default for Chunks {
    fn default() -> Self {
        Chunks {
            by_stripe: StripeMap::default(),
            by_partition: BTreeMap::new(),
            change: 1,
            freed: VecDeque::new(),
            forgotten: 0,
            opened: BTreeSet::new(),
            opened_max: OPENED_MIN,
            touched: VecDeque::new(),
            touched_forgotten: 0,
        }
    }
}

impl Chunks {
    pub fn len(&self) -> usize {
        self.by_stripe.len()
    }

    /// How many changes there were.
    pub fn change(&self) -> u64 {
        self.change
    }

    pub fn contains(&self, stripe: StripeId) -> bool {
        self.by_stripe.contains_key(&stripe.raw())
    }

    pub fn get(&self, stripe: StripeId) -> Option<&Chunk> {
        self.by_stripe.get(&stripe.raw())
    }

    /// What is changed of it is not noticed: see [`Chunks::touch`].
    pub fn get_mut(&mut self, stripe: StripeId) -> Option<&mut Chunk> {
        self.by_stripe.get_mut(&stripe.raw())
    }

    /// What is told of a chunk changes.
    pub fn touch(&mut self, stripe: StripeId) -> Option<&mut Chunk> {
        let chunk = self.by_stripe.get_mut(&stripe.raw())?;
        self.change += 1;
        chunk.changed = self.change;
        if chunk.open.is_none() && !self.opened.contains(&stripe) {
            self.touched.push_back(Touched { change: self.change, stripe });
            if self.touched.len() > TOUCHES_REMEMBERED_MAX {
                self.touched_forgotten = self.touched.pop_front().map_or(0, |touched| touched.change);
            }
        }
        Some(chunk)
    }

    /// Those that are open no more count as changed once more, and are remembered as others are from then on.
    fn look_which_are_open(&mut self) {
        let by_stripe = &self.by_stripe;
        let is_closed = |stripe: &StripeId| by_stripe.get(&stripe.raw()).is_none_or(|chunk| chunk.open.is_none());
        let closed: Vec<StripeId> = self.opened.extract_if(.., is_closed).collect();
        self.opened_max = OPENED_MIN.max(2 * self.opened.len());
        for stripe in closed {
            self.touch(stripe);
        }
    }

    pub fn insert(
        &mut self,
        stripe: StripeId,
        partition: PartitionId,
        allocation: Allocation,
        open: Option<Box<OpenState>>,
    ) {
        let is_open = open.is_some();
        let chunk = Chunk { allocation, open, partition, changed: 0 };
        if let Some(before) = self.by_stripe.insert(stripe.raw(), chunk) {
            self.drop_place(before.partition, stripe);
        }
        self.by_partition.entry(partition).or_default().insert(stripe);
        if is_open && self.opened.insert(stripe) && self.opened.len() > self.opened_max {
            self.look_which_are_open();
        }
        self.touch(stripe);
    }

    pub fn remove(&mut self, stripe: StripeId) -> Option<Chunk> {
        let chunk = self.by_stripe.remove(&stripe.raw())?;
        self.drop_place(chunk.partition, stripe);
        self.opened.remove(&stripe);
        self.change += 1;
        self.freed.push_back(Freed { change: self.change, partition: chunk.partition, stripe });
        if self.freed.len() > FREES_REMEMBERED_MAX {
            self.forgotten = self.freed.pop_front().map_or(self.forgotten, |freed| freed.change);
        }
        Some(chunk)
    }

    fn drop_place(&mut self, partition: PartitionId, stripe: StripeId) {
        let Some(stripes) = self.by_partition.get_mut(&partition) else { return };
        stripes.remove(&stripe);
        if stripes.is_empty() {
            self.by_partition.remove(&partition);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (StripeId, &Chunk)> {
        self.by_stripe.iter().map(|(&id, chunk)| (StripeId::from_raw(id), chunk))
    }

    pub fn values(&self) -> impl Iterator<Item = &Chunk> {
        self.by_stripe.values()
    }

    /// The first place behind this one whose chunk is not open.
    pub fn sealed_behind(&self, place: Place) -> Option<Place> {
        self.by_partition.range(place.partition..).find_map(|(&partition, stripes)| {
            let after = if partition == place.partition { place.stripe } else { StripeId::default() };
            let mut later = stripes.range((Bound::Excluded(after), Bound::Unbounded));
            let stripe = later.find(|&&stripe| self.get(stripe).is_some_and(|chunk| chunk.open.is_none()))?;
            Some(Place { partition, stripe: *stripe })
        })
    }

    /// The highest stripe of the partition with a chunk here, open or not.
    pub fn last_of(&self, partition: PartitionId) -> Option<StripeId> {
        self.by_partition.get(&partition)?.last().copied()
    }

    /// Is everything known that was freed after this change?
    pub fn remembers(&self, since: u64) -> bool {
        (self.forgotten..=self.change).contains(&since)
    }

    /// What was freed of these partitions (none: of all) after this change.
    pub fn freed_since(&self, partitions: &[PartitionId], since: u64) -> Vec<StripeId> {
        let later = self.freed.partition_point(|freed| freed.change <= since);
        let of: BTreeSet<PartitionId> = partitions.iter().copied().collect();
        let wanted = |freed: &&Freed| of.is_empty() || of.contains(&freed.partition);
        self.freed.range(later..).filter(wanted).map(|freed| freed.stripe).collect()
    }

    /// The lowest of those that are wanted. An open one always counts as changed.
    pub fn changed(&self, wanted: Wanted<'_>) -> Vec<(StripeId, &Chunk)> {
        let has_changed = |chunk: &Chunk| chunk.changed > wanted.since || chunk.open.is_some();
        if wanted.since > 0 && wanted.since >= self.touched_forgotten {
            return self.touched_since(wanted, has_changed);
        }
        let mut found: Vec<(StripeId, &Chunk)> = Vec::new();
        let mut take = |stripes: &BTreeSet<StripeId>| {
            // As many are found already that come before all others.
            let end = wanted.count.checked_sub(1).and_then(|last| found.get(last)).map(|&(stripe, _)| stripe);
            let later = stripes.range((Bound::Excluded(wanted.after), Bound::Unbounded));
            let later = later.take_while(|&&stripe| end.is_none_or(|end| stripe < end));
            let chunks = later.map(|&stripe| (stripe, self.get(stripe).expect("what has a place is here")));
            found.extend(chunks.filter(|(_, chunk)| has_changed(chunk)).take(wanted.count));
            if found.len() >= wanted.count {
                found.sort_unstable_by_key(|&(stripe, _)| stripe);
                found.truncate(wanted.count);
            }
        };
        match wanted.partitions {
            [] => self.by_partition.values().for_each(&mut take),
            some => {
                let of: BTreeSet<PartitionId> = some.iter().copied().collect();
                of.iter().filter_map(|partition| self.by_partition.get(partition)).for_each(&mut take);
            }
        }
        found.sort_unstable_by_key(|&(stripe, _)| stripe);
        found.truncate(wanted.count);
        found
    }

    /// As [`Chunks::changed`], when all is remembered that was touched since.
    fn touched_since(&self, wanted: Wanted<'_>, has_changed: impl Fn(&Chunk) -> bool) -> Vec<(StripeId, &Chunk)> {
        let later = self.touched.partition_point(|touched| touched.change <= wanted.since);
        let touched = self.touched.range(later..).map(|touched| touched.stripe);
        let above: BTreeSet<StripeId> =
            touched.chain(self.opened.iter().copied()).filter(|&stripe| stripe > wanted.after).collect();
        let of: BTreeSet<PartitionId> = wanted.partitions.iter().copied().collect();
        let is_wanted = |chunk: &Chunk| has_changed(chunk) && (of.is_empty() || of.contains(&chunk.partition));
        let chunks = above.into_iter().filter_map(|stripe| Some((stripe, self.get(stripe)?)));
        chunks.filter(|(_, chunk)| is_wanted(chunk)).take(wanted.count).collect()
    }

    /// Asserts everything that must hold between operations.
    pub fn check_invariants(&self) {
        let placed =
            self.by_partition.iter().flat_map(|(partition, stripes)| stripes.iter().map(move |s| (partition, s)));
        let mut count = 0;
        for (&partition, &stripe) in placed {
            assert_eq!(self.get(stripe).map(|chunk| chunk.partition), Some(partition), "{stripe:?} is in its place");
            count += 1;
        }
        assert_eq!(count, self.len(), "every chunk has a place");
        assert!(self.by_stripe.values().all(|chunk| chunk.changed <= self.change), "changes are counted");
        assert!(self.freed.len() <= FREES_REMEMBERED_MAX, "frees are bounded");
        let last: BTreeMap<StripeId, u64> =
            self.touched.iter().map(|touched| (touched.stripe, touched.change)).collect();
        for (stripe, chunk) in self.iter().filter(|(stripe, _)| !self.opened.contains(stripe)) {
            assert!(chunk.open.is_none(), "{stripe:?} is open");
            let is_old = chunk.changed <= self.touched_forgotten;
            assert!(is_old || last.get(&stripe) == Some(&chunk.changed), "{stripe:?}: its change is remembered");
        }
        assert!(self.touched.len() <= TOUCHES_REMEMBERED_MAX, "so are touches");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arena::Arena;
    use crate::open_state::DataLog;

    const PARTITIONS: u16 = 3;

    fn stripe_of(number: u64) -> StripeId {
        StripeId::from_raw(1 + number)
    }

    /// What is found by looking at every chunk.
    fn changed_by_looking(chunks: &Chunks, wanted: Wanted<'_>) -> Vec<StripeId> {
        let is_wanted = |stripe: StripeId, chunk: &Chunk| {
            (chunk.changed > wanted.since || chunk.open.is_some())
                && stripe > wanted.after
                && (wanted.partitions.is_empty() || wanted.partitions.contains(&chunk.partition))
        };
        let all: BTreeMap<StripeId, &Chunk> = chunks.iter().collect();
        let found = all.into_iter().filter(|&(stripe, chunk)| is_wanted(stripe, chunk));
        found.map(|(stripe, _)| stripe).take(wanted.count).collect()
    }

    /// One step: what is done, and to which stripe.
    fn step(chunks: &mut Chunks, allocation: Allocation, what: u8, number: u64) {
        let stripe = stripe_of(number);
        let partition = PartitionId((number % u64::from(PARTITIONS)) as u16);
        match what {
            0 => chunks.insert(stripe, partition, allocation, None),
            1 => chunks.insert(stripe, partition, allocation, Some(Box::new(OpenState::Data(DataLog::default())))),
            2 => drop(chunks.remove(stripe)),
            // Sealed, as by its owner.
            3 => drop(chunks.touch(stripe).map(|chunk| chunk.open = None)),
            _ => drop(chunks.touch(stripe)),
        }
    }

    proptest! {
        #[test]
        fn what_changed_is_found_whether_it_is_remembered_or_not(
            steps in proptest::collection::vec((0u8..5, 0u64..300), 1..400),
            count in 1usize..50,
        ) {
            let mut arena = Arena::new(1 << 20).expect("memory");
            let allocation = arena.allocate(1).expect("room");
            let mut chunks = Chunks::default();
            let mut marks = vec![chunks.change()];
            for (place, (what, number)) in steps.into_iter().enumerate() {
                step(&mut chunks, allocation, what, number);
                if place % 16 == 0 {
                    chunks.check_invariants();
                    marks.push(chunks.change());
                    for &since in marks.iter().rev().take(5) {
                        for partitions in [&[][..], &[PartitionId(1)], &[PartitionId(0), PartitionId(2)]] {
                            for after in [StripeId::default(), stripe_of(number)] {
                                let wanted = Wanted { partitions, since, after, count };
                                let found: Vec<StripeId> =
                                    chunks.changed(wanted).into_iter().map(|(stripe, _)| stripe).collect();
                                prop_assert_eq!(found, changed_by_looking(&chunks, wanted));
                            }
                        }
                    }
                }
            }
        }

        #[test]
        fn a_page_of_all_is_the_first_of_them_whatever_lies_in_which_partition(
            partitions in proptest::collection::vec(0..PARTITIONS, 1..40),
            after in 0u64..10,
        ) {
            let mut arena = Arena::new(1 << 20).expect("memory");
            let allocation = arena.allocate(1).expect("room");
            let mut chunks = Chunks::default();
            for (number, &partition) in (0..).zip(&partitions) {
                chunks.insert(stripe_of(number), PartitionId(partition), allocation, None);
            }
            for count in 0..=partitions.len() {
                let wanted = Wanted { partitions: &[], since: 0, after: stripe_of(after), count };
                let found: Vec<StripeId> = chunks.changed(wanted).into_iter().map(|(stripe, _)| stripe).collect();
                prop_assert_eq!(found, changed_by_looking(&chunks, wanted));
            }
        }
    }

    #[test]
    fn what_is_not_remembered_is_looked_for() {
        let mut arena = Arena::new(1 << 20).expect("memory");
        let allocation = arena.allocate(1).expect("room");
        let mut chunks = Chunks::default();
        (0..TOUCHES_REMEMBERED_MAX as u64 + 2).for_each(|number| step(&mut chunks, allocation, 0, number));
        chunks.check_invariants();
        assert!(chunks.touched_forgotten > 1);
        for since in [1, 2, chunks.touched_forgotten, chunks.touched_forgotten + 1, chunks.change()] {
            let wanted = Wanted { partitions: &[], since, after: StripeId::default(), count: usize::MAX };
            let found: Vec<StripeId> = chunks.changed(wanted).into_iter().map(|(stripe, _)| stripe).collect();
            assert_eq!(found, changed_by_looking(&chunks, wanted), "{since}");
            assert_eq!(found.len() as u64, chunks.change() - since);
        }
    }
}

//! Where each chunk of a core is, by stripe, and what changed when.
//!
//! Owners ask what a core holds of their partitions, and later what of that changed. So stripes are kept in order by
//! partition, each chunk knows the last change that touched it, and what was freed lately is remembered. That there is
//! a core counts as the first change of this process; an open chunk always counts as changed.
//!
//! Must not know: what a chunk holds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use shorttail_units::{PartitionId, StripeId};

use crate::arena::Allocation;
use crate::limits::FREES_REMEMBERED_MAX;
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

#[derive(Debug)]
pub(crate) struct Chunks {
    by_stripe: StripeMap<Chunk>,
    by_partition: BTreeMap<PartitionId, BTreeSet<StripeId>>,
    change: u64,
    freed: VecDeque<Freed>,
    /// The last one that is not remembered any more.
    forgotten: u64,
}

impl Default for Chunks {
    fn default() -> Self {
        Chunks {
            by_stripe: StripeMap::default(),
            by_partition: BTreeMap::new(),
            change: 1,
            freed: VecDeque::new(),
            forgotten: 0,
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
        Some(chunk)
    }

    pub fn insert(
        &mut self,
        stripe: StripeId,
        partition: PartitionId,
        allocation: Allocation,
        open: Option<Box<OpenState>>,
    ) {
        self.change += 1;
        let chunk = Chunk { allocation, open, partition, changed: self.change };
        if let Some(before) = self.by_stripe.insert(stripe.raw(), chunk) {
            self.drop_place(before.partition, stripe);
        }
        self.by_partition.entry(partition).or_default().insert(stripe);
    }

    pub fn remove(&mut self, stripe: StripeId) -> Option<Chunk> {
        let chunk = self.by_stripe.remove(&stripe.raw())?;
        self.drop_place(chunk.partition, stripe);
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
        let mut found = Vec::new();
        let mut take = |stripes: &BTreeSet<StripeId>| {
            let later = stripes.range((Bound::Excluded(wanted.after), Bound::Unbounded));
            let chunks = later.map(|&stripe| (stripe, self.get(stripe).expect("what has a place is here")));
            found.extend(chunks.filter(|(_, chunk)| has_changed(chunk)).take(wanted.count));
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
    }
}

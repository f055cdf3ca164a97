//! The owner's table of packed stripes: members, life cycle, what in them is alive.
//!
//! ```text
//! Open -> Sealing -> Sealed -> Leaving -> (gone)
//!   \________\__________________^
//! ```
//! Open takes appends. Sealing takes none, and waits until every member confirmed the seal. Sealed is immutable and the
//! owner forgot its bytes. Leaving is being emptied: by cleaning (from Sealed), or because a member was lost before the
//! seal (from Open or Sealing: then the owner still has the bytes). There is no way back from Leaving, and none from
//! Sealed to Open: an id is never appended to twice.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use shorttail_units::{Configuration, NodeId, PartitionId, StripeId, UnixMs};

use super::expiries::Expiries;
use super::index::{Location, StripeSlot};
use crate::engine::read::kept_manifests::KeptManifests;
use crate::engine::read::near::Places;
use crate::engine::reclaim::kept::Kept;
use crate::engine::write::open_stripe::OpenStripe;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StripePhase {
    Open,
    Sealing,
    Sealed,
    Leaving,
}

impl StripePhase {
    /// The one place that knows the legal transitions.
    pub fn may_become(self, next: StripePhase) -> bool {
        use StripePhase::{Leaving, Open, Sealed, Sealing};
        matches!((self, next), (Open, Sealing) | (Sealing, Sealed) | (Open | Sealing | Sealed, Leaving))
    }
}

#[derive(Debug)]
pub struct Stripe<I> {
    pub id: StripeId,
    pub partition: PartitionId,
    pub members: Arc<[NodeId]>,
    /// Of the members.
    pub configuration: Configuration,
    /// The youngest stripe of the partition that existed when this one last took an append, or of which a record here
    /// is newer: nothing older than what it holds lies beyond.
    pub reach: StripeId,
    phase: StripePhase,
    /// Bytes and number of records that the index names.
    pub live_bytes: u64,
    pub live_count: u32,
    /// Tombstones and control records.
    pub kept: Kept,
    /// Of its records, also of those that were overwritten since.
    pub expiries: Expiries,
    /// Bytes in use per data chunk, from the seal on.
    pub fills: Box<[u32]>,
    /// The owner's copy, while it has one.
    pub open: Option<Box<OpenStripe<I>>>,
    /// Records of striped objects, once the copy is gone.
    pub manifests: KeptManifests,
    /// Of its data chunks, in near memory.
    pub places: Places,
}

impl<I> Stripe<I> {
    pub fn new(id: StripeId, partition: PartitionId, members: Arc<[NodeId]>, open: OpenStripe<I>) -> Self {
        let open = Some(Box::new(open));
        Stripe { phase: StripePhase::Open, open, ..Self::inherited(id, partition, members, Box::default()) }
    }

    /// A stripe that another owner sealed.
    pub fn inherited(id: StripeId, partition: PartitionId, members: Arc<[NodeId]>, fills: Box<[u32]>) -> Self {
        Stripe {
            id,
            partition,
            members,
            configuration: Configuration::default(),
            reach: id,
            phase: StripePhase::Sealed,
            live_bytes: 0,
            live_count: 0,
            kept: Kept::default(),
            expiries: Expiries::default(),
            fills,
            open: None,
            manifests: KeptManifests::default(),
            places: Places::default(),
        }
    }

    /// The owner's copy.
    ///
    /// # Panics
    /// If it has none: it has that of every stripe that is unsealed or being left.
    pub fn bytes(&self) -> &OpenStripe<I> {
        self.open.as_ref().expect("an unsealed stripe, and one that is being left, has its bytes")
    }

    /// As [`Stripe::bytes`].
    pub fn bytes_mut(&mut self) -> &mut OpenStripe<I> {
        self.open.as_mut().expect("an unsealed stripe, and one that is being left, has its bytes")
    }

    pub fn phase(&self) -> StripePhase {
        self.phase
    }

    /// # Panics
    /// On a transition that the diagram does not have.
    pub fn become_phase(&mut self, next: StripePhase) {
        assert!(self.phase.may_become(next), "{:?}: {:?} -> {next:?}", self.id, self.phase);
        self.phase = next;
    }

    pub fn member_of(&self, node: NodeId) -> Option<usize> {
        self.members.iter().position(|&member| member == node)
    }

    pub fn is_unsealed(&self) -> bool {
        matches!(self.phase, StripePhase::Open | StripePhase::Sealing)
    }

    /// Was it left before it was sealed?
    fn is_left(&self) -> bool {
        self.phase == StripePhase::Leaving && self.open.is_some()
    }

    /// Do its members have all of it, sealed? So it is while it is emptied, too, unless it was left before that.
    pub fn is_sealed(&self) -> bool {
        self.phase == StripePhase::Sealed || self.phase == StripePhase::Leaving && self.open.is_none()
    }

    /// The index names one more record in it, alive until then if it has an expiry.
    pub fn add_live(&mut self, record_bytes: usize, expiry: Option<UnixMs>) {
        self.live_bytes += record_bytes as u64;
        self.live_count += 1;
        if let Some(expiry) = expiry {
            self.expiries.add(expiry, record_bytes);
        }
    }

    /// The index names a record in it no more. When it would have been over stays among the expiries.
    pub fn drop_live(&mut self, record_bytes: usize) {
        self.live_bytes -= record_bytes as u64;
        self.live_count -= 1;
    }

    /// Bytes that would have to be moved to free the stripe.
    pub fn live_estimate(&self, now: UnixMs) -> u64 {
        self.live_bytes.saturating_sub(self.expiries.over_bytes(now))
    }
}

#[derive(Debug)]
pub struct Stripes<I> {
    data_count: usize,
    places: Vec<Option<Stripe<I>>>,
    free: Vec<StripeSlot>,
    by_id: HashMap<StripeId, StripeSlot>,
    /// Existing stripes of each partition in the order of their ids (rule R3 asks for the oldest).
    by_age: BTreeMap<(PartitionId, StripeId), StripeSlot>,
    unsealed: Vec<StripeSlot>,
    /// How many of them each partition has, if any.
    unsealed_counts: HashMap<PartitionId, usize>,
    /// Those that were left before they were sealed.
    left: BTreeSet<(PartitionId, StripeId)>,
}

impl<I> Stripes<I> {
    pub fn new(data_count: usize) -> Self {
        Stripes {
            data_count,
            places: Vec::new(),
            free: Vec::new(),
            by_id: HashMap::new(),
            by_age: BTreeMap::new(),
            unsealed: Vec::new(),
            unsealed_counts: HashMap::new(),
            left: BTreeSet::new(),
        }
    }

    pub fn insert(&mut self, stripe: Stripe<I>) -> StripeSlot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            StripeSlot(u32::try_from(self.places.len() - 1).expect("fewer than 2^32 stripes"))
        });
        assert!(self.by_id.insert(stripe.id, slot).is_none(), "{:?} exists twice", stripe.id);
        self.by_age.insert((stripe.partition, stripe.id), slot);
        if stripe.is_unsealed() {
            self.unsealed.push(slot);
            *self.unsealed_counts.entry(stripe.partition).or_default() += 1;
        }
        if stripe.is_left() {
            self.left.insert((stripe.partition, stripe.id));
        }
        self.places[slot.0 as usize] = Some(stripe);
        slot
    }

    /// Forgets a stripe.
    ///
    /// # Panics
    /// If there is no such stripe.
    pub fn remove(&mut self, slot: StripeSlot) -> Stripe<I> {
        let stripe = self.places[slot.0 as usize].take().expect("a stripe");
        self.by_id.remove(&stripe.id);
        self.by_age.remove(&(stripe.partition, stripe.id));
        self.left.remove(&(stripe.partition, stripe.id));
        self.take_from_unsealed(slot, stripe.partition);
        self.free.push(slot);
        stripe
    }

    fn take_from_unsealed(&mut self, slot: StripeSlot, partition: PartitionId) {
        let Some(place) = self.unsealed.iter().position(|&other| other == slot) else { return };
        self.unsealed.remove(place);
        if let Entry::Occupied(mut count) = self.unsealed_counts.entry(partition) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    pub fn no_longer_unsealed(&mut self, slot: StripeSlot) {
        self.take_from_unsealed(slot, self.at(slot).partition);
        let stripe = self.at(slot);
        if stripe.is_left() {
            self.left.insert((stripe.partition, stripe.id));
        }
    }

    /// The oldest stripe of a partition that was left before it was sealed.
    pub fn oldest_left(&self, partition: PartitionId) -> Option<StripeId> {
        let of_partition = (partition, StripeId::default())..=(partition, StripeId::from_raw(u64::MAX));
        self.left.range(of_partition).next().map(|&(_, id)| id)
    }

    pub fn unsealed(&self) -> &[StripeSlot] {
        &self.unsealed
    }

    pub fn unsealed_count(&self, partition: PartitionId) -> usize {
        self.unsealed_counts.get(&partition).copied().unwrap_or_default()
    }

    pub fn get(&self, slot: StripeSlot) -> Option<&Stripe<I>> {
        self.places.get(slot.0 as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, slot: StripeSlot) -> Option<&mut Stripe<I>> {
        self.places.get_mut(slot.0 as usize)?.as_mut()
    }

    /// # Panics
    /// If there is no such stripe: the caller holds something that keeps it.
    pub fn at(&self, slot: StripeSlot) -> &Stripe<I> {
        self.get(slot).expect("a stripe that is kept")
    }

    /// # Panics
    /// As [`Stripes::at`].
    pub fn at_mut(&mut self, slot: StripeSlot) -> &mut Stripe<I> {
        self.get_mut(slot).expect("a stripe that is kept")
    }

    pub fn slot_of(&self, id: StripeId) -> Option<StripeSlot> {
        self.by_id.get(&id).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (StripeSlot, &Stripe<I>)> {
        let place = |(place, stripe): (usize, &'_ Option<Stripe<I>>)| (StripeSlot(place as u32), stripe.is_some());
        let slots: Vec<_> = self.places.iter().enumerate().map(place).filter(|(_, some)| *some).collect();
        slots.into_iter().map(|(slot, _)| (slot, self.at(slot)))
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Slots in use lie below.
    pub fn slot_count(&self) -> usize {
        self.places.len()
    }

    /// The oldest stripe of a partition, and from there on upwards.
    pub fn by_age(&self, partition: PartitionId) -> impl Iterator<Item = (StripeId, StripeSlot)> {
        self.by_age_from(partition, StripeId::default())
    }

    /// As [`Stripes::by_age`], from this id on.
    pub fn by_age_from(&self, partition: PartitionId, first: StripeId) -> impl Iterator<Item = (StripeId, StripeSlot)> {
        let range = (partition, first)..=(partition, StripeId::from_raw(u64::MAX));
        self.by_age.range(range).map(|(&(_, id), &slot)| (id, slot))
    }

    pub fn location(&self, slot: StripeSlot, data_index: usize, offset: usize) -> Location {
        let chunk_number = slot.0 as usize * self.data_count + data_index;
        Location {
            chunk_number: u32::try_from(chunk_number).expect("below 2^28, checked by the index"),
            offset: u16::try_from(offset).expect("chunks are shorter than 64 KiB"),
        }
    }

    /// Stripe slot and data index of a location.
    pub fn place_of(&self, location: Location) -> (StripeSlot, usize) {
        let number = location.chunk_number as usize;
        (StripeSlot((number / self.data_count) as u32), number % self.data_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsealed_stripes_are_counted_by_partition() {
        let mut stripes = Stripes::<()>::new(2);
        let [one, other] = [PartitionId(3), PartitionId(4)];
        let mut stripe = |partition, number| {
            let shape = shorttail_units::CodeShape::default();
            let id = StripeId::new(shorttail_units::Epoch(1), number);
            stripes.insert(Stripe::new(id, partition, Arc::from([NodeId(0); 6]), OpenStripe::new(shape, 1 << 16)))
        };
        let slots = [stripe(one, 1), stripe(one, 2), stripe(other, 3)];
        let counts = |stripes: &Stripes<()>| [one, other].map(|partition| stripes.unsealed_count(partition));
        assert_eq!(counts(&stripes), [2, 1]);
        // However often it is said.
        (0..2).for_each(|_| stripes.no_longer_unsealed(slots[0]));
        assert_eq!(counts(&stripes), [1, 1]);
        slots.into_iter().for_each(|slot| drop(stripes.remove(slot)));
        assert_eq!((counts(&stripes), stripes.unsealed_counts.len()), ([0, 0], 0));
    }

    #[test]
    fn life_goes_one_way() {
        use StripePhase::{Leaving, Open, Sealed, Sealing};
        assert!(Open.may_become(Sealing) && Sealing.may_become(Sealed) && Sealed.may_become(Leaving));
        assert!(!Sealed.may_become(Open) && !Leaving.may_become(Open) && !Open.may_become(Sealed));
    }
}

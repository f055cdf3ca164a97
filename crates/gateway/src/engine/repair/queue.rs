//! Which chunks are lost, and which of them are rebuilt first.
//!
//! ```text
//!        node retired, or back with an empty memory               Rebuilt, or found by a scan
//! there ---------------------------------------------> lost ------------------------------------> there
//!                                                      | ^
//!                              most urgent first: order' 'rest: a source failed; stuck: no target, its node is away
//! ```
//! Only chunks of sealed stripes, those that are being emptied among them, and of striped objects are here: an unsealed
//! stripe that loses a member is emptied from the owner's memory. Reads know what is lost and decode it at once.
//!
//! Invariant: a stripe with lost chunks is in the queue, rests, is stuck, has an order, or is void. What is stuck is
//! looked at in turn, beside the queue: however much of it there is, it holds up nothing that can be repaired.
//!
//! Must not know: how a chunk is rebuilt (see `rebuilding`).

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use shorttail_codes::ChunkSet;
use shorttail_units::{CodeShape, Configuration, NodeId, PartitionId, StripeId};
use shorttail_wire::node::ChunkKind;
use smallvec::SmallVec;

use super::losing::{AllLosing, Walk};
use super::orders::Orders;
use super::rate::Rate;
use super::rebuilding::{Order, OrderNumber};
use crate::engine::limits::AWAY_COUNT_US;

/// What is lost of a stripe.
#[derive(Debug, Default)]
pub struct Lost {
    pub chunks: ChunkSet,
    /// Those of them that are there, but damaged.
    pub(in crate::engine) damaged: ChunkSet,
    /// Chunks that failed as sources lately.
    pub avoided: ChunkSet,
    /// Orders that failed since a chunk of it was rebuilt.
    pub(super) failures: u32,
    /// Nodes that cannot take the chunk, or did not reach what it is made of, until all others did.
    pub refused: SmallVec<[NodeId; 2]>,
    /// Who had which chunk, or was to have it, before it was to be rebuilt where it is to be now. `None`: an owner
    /// before this one knew.
    pub(in crate::engine) had_by: SmallVec<[(u8, Option<NodeId>); 2]>,
    /// At the last look no order could be given: too few others are there, or nobody can take a chunk.
    is_stuck: bool,
    /// Since when only nodes that are slow could take a chunk where placement would have it.
    pub(super) slow_since_us: Option<u64>,
    /// The stripe's configuration is known to as many members as a later owner needs to find one.
    pub is_told: bool,
    shape: CodeShape,
    /// Losses that the stripe survives still.
    spare: usize,
    rests_until_us: Option<u64>,
}

impl Lost {
    /// How many more losses the stripe survives.
    fn count(&mut self) {
        self.spare = self.shape.tolerance().saturating_sub(self.chunks.len());
    }
}

/// A count of the chunks that are away, some stripes at a time.
#[derive(Debug, Default)]
pub(super) struct AwayCount {
    pub walk: Walk,
    pub chunks: u64,
}

/// Losses of one engine's stripes.
#[derive(Debug, Default)]
pub struct Repair {
    lost: HashMap<StripeId, Lost>,
    lost_count: u64,
    /// How many stripes lost how many chunks.
    stripes_by_lost: BTreeMap<usize, u64>,
    /// How many stripes with local groups lost just these chunks, if those are more than the code survives in any case.
    stripes_beyond: BTreeMap<(CodeShape, ChunkSet), u64>,
    /// To be looked at, the fewest spare chunks first.
    queue: BTreeSet<(usize, StripeId)>,
    /// The last that was looked at beside the most urgent ones.
    passed: (usize, StripeId),
    resting: BTreeSet<(u64, StripeId)>,
    /// Those for which no order can be given, by when they are looked at again.
    stuck: BTreeSet<(u64, StripeId)>,
    /// So many of those that rest, and that are stuck, are looked at all the same: a node is in use again, which may be
    /// what they lacked.
    woken_count: usize,
    woken_stuck_count: usize,
    pub(in crate::engine) orders: Orders,
    /// Not all that these nodes had is marked yet.
    pub(in crate::engine) losing: AllLosing,
    next_order: OrderNumber,
    /// Orders that are to be sent, a few in a turn: their members know of them.
    told: VecDeque<(StripeId, OrderNumber)>,
    /// Chunks on nodes that are away and may come back.
    pub(super) away_count: u64,
    /// A node left or came since they were counted.
    pub(in crate::engine) is_away_stale: bool,
    /// When they are counted again in any case.
    away_due_us: u64,
    pub(super) counting: Option<AwayCount>,
    /// Found no node to take them, until one is rebuilt or another node is in use.
    pub(in crate::engine) stranded: BTreeSet<StripeId>,
    pub(in crate::engine) rebuilt_count: u64,
    pub(in crate::engine) rebuilt_bytes: u64,
    pub(in crate::engine) rate: Rate,
    /// Chunks of stripes that are stuck.
    stuck_count: u64,
    /// When orders are given next.
    pub(in crate::engine) due_us: u64,
    /// More orders are given in the next turn, which is to follow at once.
    pub(super) goes_on: bool,
}

impl Repair {
    /// Chunks of a stripe that are lost or damaged.
    pub fn lacks(&self, stripe: StripeId) -> ChunkSet {
        self.lost.get(&stripe).map_or(ChunkSet::EMPTY, |lost| lost.chunks)
    }

    /// Chunks that a read goes round from the beginning: what is lost; what is damaged as long as the others suffice,
    /// for much of it may be right.
    pub fn avoided_by_reads(&self, stripe: StripeId, shape: CodeShape) -> ChunkSet {
        let Some(lost) = self.lost.get(&stripe) else { return ChunkSet::EMPTY };
        let suffices = lost.chunks.len() <= shape.tolerance();
        if suffices { lost.chunks } else { lost.chunks - lost.damaged }
    }

    /// The chunk is there, but damaged.
    pub(super) fn mark_damaged(&mut self, stripe: StripeId, chunk: usize, shape: CodeShape) {
        if !self.lacks(stripe).contains(chunk) {
            self.mark(stripe, chunk, shape);
            if let Some(lost) = self.lost.get_mut(&stripe) {
                lost.damaged.insert(chunk);
            }
        }
    }

    /// Was the chunk there, and damaged, when it was looked at last?
    pub(super) fn is_damaged(&self, stripe: StripeId, chunk: usize) -> bool {
        self.lost.get(&stripe).is_some_and(|lost| lost.damaged.contains(chunk))
    }

    /// Does any stripe lack chunks, or may one?
    pub(in crate::engine) fn lacks_any(&self) -> bool {
        self.lost_count > 0 || !self.losing.is_empty()
    }

    pub fn get_mut(&mut self, stripe: StripeId) -> Option<&mut Lost> {
        self.lost.get_mut(&stripe)
    }

    pub fn get(&self, stripe: StripeId) -> Option<&Lost> {
        self.lost.get(&stripe)
    }

    /// Is there something to rebuild that need not wait?
    pub(in crate::engine) fn is_pressing(&self) -> bool {
        !self.queue.is_empty() || self.orders.count() > 0 || !self.losing.is_empty()
    }

    pub(super) fn take_order_number(&mut self) -> OrderNumber {
        self.next_order = self.next_order.next();
        self.next_order
    }

    /// The members of a stripe know of the order for it.
    pub(super) fn note_told(&mut self, stripe: StripeId, order: OrderNumber) {
        self.told.push_back((stripe, order));
    }

    /// Is a turn to follow at once?
    pub(in crate::engine) fn wants_turn(&self) -> bool {
        !self.told.is_empty() || self.goes_on || !self.losing.is_empty()
    }

    /// The next stripe whose order is to be sent.
    pub(super) fn next_told(&mut self) -> Option<StripeId> {
        while let Some((stripe, number)) = self.told.pop_front() {
            // It may be over meanwhile.
            if self.orders.get(stripe).is_some_and(|order| order.number() == number) {
                return Some(stripe);
            }
        }
        None
    }

    /// Is there something to rebuild that nobody was told to?
    pub(super) fn has_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Stripes for which no order can be given; the next ones to be looked at come first.
    pub(in crate::engine) fn stuck(&self) -> impl Iterator<Item = StripeId> {
        self.stuck.iter().map(|&(_, stripe)| stripe)
    }

    /// Most chunks that one stripe lost.
    pub(in crate::engine) fn lost_of_stripe_max(&self) -> u64 {
        self.stripes_by_lost.last_key_value().map_or(0, |(&count, _)| count as u64)
    }

    /// Most chunks that one stripe lost, of those that lost so many at most.
    pub(in crate::engine) fn lost_of_stripe_max_through(&self, count: usize) -> u64 {
        self.stripes_by_lost.range(..=count).next_back().map_or(0, |(&count, _)| count as u64)
    }

    /// A stripe has lost other chunks than before.
    fn recount(&mut self, shape: CodeShape, before: ChunkSet, after: ChunkSet) {
        let (count_before, count_after) = (before.len(), after.len());
        count_other(&mut self.stripes_by_lost, Some(count_before), Some(count_after).filter(|&count| count > 0));
        // Without groups nothing decodes what lost more than may be lost.
        let pattern = |lost: ChunkSet| {
            let is_beyond = shape.local_count() > 0 && lost.len() > shape.tolerance();
            is_beyond.then_some((shape, lost))
        };
        count_other(&mut self.stripes_beyond, pattern(before), pattern(after));
        self.lost_count = self.lost_count + count_after as u64 - count_before as u64;
    }

    /// What stripes with local groups lost that lost more than may be lost whichever it is, each pattern once.
    pub(in crate::engine) fn patterns_beyond(&self) -> impl Iterator<Item = (CodeShape, ChunkSet)> {
        self.stripes_beyond.keys().copied()
    }

    /// Of many stripes the count of what is away takes a while: what it found so far counts.
    pub fn missing_count(&self) -> u64 {
        let found = self.counting.as_ref().map_or(0, |count| count.chunks);
        self.lost_count + self.away_count.max(found) + u64::from(!self.losing.is_empty())
    }

    /// Lost chunks that are being rebuilt, or wait for their turn.
    pub(in crate::engine) fn to_rebuild_count(&self) -> u64 {
        self.lost_count - self.stuck_count
    }

    fn set_stuck(&mut self, stripe: StripeId, is_stuck: bool) {
        let Some(lost) = self.lost.get_mut(&stripe) else { return };
        let count = lost.chunks.len() as u64;
        match (std::mem::replace(&mut lost.is_stuck, is_stuck), is_stuck) {
            (false, true) => self.stuck_count += count,
            (true, false) => self.stuck_count -= count,
            _ => {}
        }
    }

    /// No order can be given for the stripe now: it is looked at again at this time.
    pub(super) fn rest_stuck(&mut self, stripe: StripeId, until_us: u64) {
        self.take_out(stripe);
        self.set_stuck(stripe, true);
        if let Some(lost) = self.lost.get_mut(&stripe) {
            lost.rests_until_us = Some(until_us);
            self.stuck.insert((until_us, stripe));
        }
    }

    /// An order can perhaps be given for the stripe: it has its place in the queue.
    pub(super) fn unstick(&mut self, stripe: StripeId) {
        if self.is_stuck(stripe) {
            self.take_out(stripe);
            self.set_stuck(stripe, false);
            self.queue.extend(self.place_of(stripe));
        }
    }

    /// Does the stripe lack chunks for which no order could be given at the last look?
    pub(super) fn is_stuck(&self, stripe: StripeId) -> bool {
        self.lost.get(&stripe).is_some_and(|lost| lost.is_stuck)
    }

    /// A lost chunk is to be rebuilt on another node than on this one, or than on whichever an earlier owner knew of.
    /// Until it is, it counts as that one's.
    pub(super) fn note_had_by(&mut self, stripe: StripeId, chunk: usize, node: Option<NodeId>) {
        let had = (chunk as u8, node);
        if let Some(lost) = self.lost.get_mut(&stripe)
            && lost.chunks.contains(chunk)
            && !lost.had_by.contains(&had)
        {
            lost.had_by.push(had);
        }
    }

    /// Nodes that had chunks that are lost and are to be elsewhere, one for each chunk.
    pub(super) fn had_by(&self) -> impl Iterator<Item = Option<NodeId>> {
        self.lost.values().flat_map(|lost| lost.had_by.iter().map(|&(_, node)| node))
    }

    pub(in crate::engine) fn mark(&mut self, stripe: StripeId, chunk: usize, shape: CodeShape) {
        self.note(stripe, chunk, shape);
        self.queue.extend(self.place_of(stripe));
    }

    /// Some hundred or thousand stripes will be marked, one after another.
    pub(super) fn expect(&mut self, stripe_count: usize) {
        self.lost.reserve(stripe_count);
    }

    /// As [`Repair::mark`], of all that a node had at once: clients wait for it.
    pub(super) fn mark_all(&mut self, lost: &[(StripeId, usize, CodeShape)]) {
        self.lost.reserve(lost.len());
        lost.iter().for_each(|&(stripe, chunk, shape)| self.note(stripe, chunk, shape));
        // Made at once and joined at once, which takes a fraction of the time of one insertion after the other, unless
        // there are few beside those that are queued: both are gone through.
        let mut places: BTreeSet<_> = lost.iter().filter_map(|&(stripe, ..)| self.place_of(stripe)).collect();
        self.queue.append(&mut places);
    }

    /// Where a stripe is to be in the queue, if it is.
    fn place_of(&self, stripe: StripeId) -> Option<(usize, StripeId)> {
        let lost = self.lost.get(&stripe).filter(|lost| lost.rests_until_us.is_none() && !lost.is_stuck)?;
        (!self.orders.contains(stripe)).then_some((lost.spare, stripe))
    }

    /// The chunk is lost; the stripe is in the queue no more.
    fn note(&mut self, stripe: StripeId, chunk: usize, shape: CodeShape) {
        let lacks = self.lacks(stripe);
        if !lacks.contains(chunk) && lacks.len() < shape.tolerance() {
            // It is more urgent now, if anything can be done.
            self.unstick(stripe);
        }
        let lost = self.lost.entry(stripe).or_default();
        lost.damaged.remove(chunk);
        if lost.chunks.contains(chunk) {
            return;
        }
        if !lost.chunks.is_empty() {
            self.queue.remove(&(lost.spare, stripe));
        }
        self.stuck_count += u64::from(lost.is_stuck);
        let before = lost.chunks;
        lost.chunks.insert(chunk);
        lost.shape = shape;
        lost.count();
        let is_given_up = lost.is_stuck && lost.rests_until_us.is_none();
        let after = lost.chunks;
        self.recount(shape, before, after);
        if is_given_up {
            self.set_stuck(stripe, false);
        }
    }

    /// The chunk is there.
    pub(in crate::engine) fn clear(&mut self, stripe: StripeId, chunk: usize) {
        if !self.lacks(stripe).contains(chunk) {
            return;
        }
        // What could not be rebuilt without it perhaps can.
        self.unstick(stripe);
        let Some(lost) = self.lost.get_mut(&stripe) else { return };
        self.queue.remove(&(lost.spare, stripe));
        let (shape, before) = (lost.shape, lost.chunks);
        lost.chunks.remove(chunk);
        lost.damaged.remove(chunk);
        lost.avoided.remove(chunk);
        lost.failures = 0;
        lost.refused.clear();
        lost.had_by.retain(|(had, _)| usize::from(*had) != chunk);
        lost.count();
        let after = lost.chunks;
        self.stranded.remove(&stripe);
        self.recount(shape, before, after);
        if after.is_empty() {
            self.forget(stripe);
        } else {
            self.queue.extend(self.place_of(stripe));
        }
    }

    /// The stripe is gone, or whole.
    pub(in crate::engine) fn forget(&mut self, stripe: StripeId) {
        self.give_up(stripe);
        self.set_stuck(stripe, false);
        self.orders.remove(stripe);
        if let Some(lost) = self.lost.remove(&stripe) {
            self.recount(lost.shape, lost.chunks, ChunkSet::EMPTY);
        }
    }

    /// Stripes of which a chunk is lost, or being rebuilt.
    pub(in crate::engine) fn stripes(&self) -> impl Iterator<Item = StripeId> {
        self.lost.keys().copied().chain(self.orders.stripes())
    }

    /// Nothing is to be done about the stripe, though it lacks chunks.
    pub(super) fn give_up(&mut self, stripe: StripeId) {
        self.stranded.remove(&stripe);
        self.take_out(stripe);
        self.set_stuck(stripe, true);
    }

    /// It is not looked at any more, at no time.
    fn take_out(&mut self, stripe: StripeId) {
        if let Some(lost) = self.lost.get_mut(&stripe) {
            self.queue.remove(&(lost.spare, stripe));
            if let Some(until_us) = lost.rests_until_us.take() {
                let among = if lost.is_stuck { &mut self.stuck } else { &mut self.resting };
                among.remove(&(until_us, stripe));
            }
        }
    }

    /// The stripe is looked at again at this time.
    pub(super) fn rest(&mut self, stripe: StripeId, until_us: u64) {
        self.take_out(stripe);
        self.set_stuck(stripe, false);
        if let Some(lost) = self.lost.get_mut(&stripe) {
            lost.rests_until_us = Some(until_us);
            self.resting.insert((until_us, stripe));
        }
    }

    /// A node is in use again: what rests now need not wait any longer, and what found no node may find this one.
    pub(in crate::engine) fn wake_resting(&mut self) {
        self.stranded.clear();
        (self.woken_count, self.woken_stuck_count) = (self.resting.len(), self.stuck.len());
        if self.woken_count + self.woken_stuck_count > 0 {
            self.due_us = 0;
        }
    }

    /// Stripes to look at, most urgent first.
    pub(super) fn due(&mut self, now_us: u64, count: usize) -> Vec<StripeId> {
        let mut woken = self.woken_count.min(count);
        self.woken_count -= woken;
        while let Some(&(until_us, stripe)) = self.resting.first() {
            if until_us > now_us {
                if woken == 0 {
                    break;
                }
                woken -= 1;
            }
            self.resting.remove(&(until_us, stripe));
            if let Some(lost) = self.lost.get_mut(&stripe) {
                lost.rests_until_us = None;
                self.queue.insert((lost.spare, stripe));
            }
        }
        self.queue.iter().take(count).map(|&(_, stripe)| stripe).collect()
    }

    /// The next of all others in turn: what is most urgent may wait for nodes that these do not need.
    pub(super) fn behind(&mut self, count: usize) -> Vec<StripeId> {
        let from = (Bound::Excluded(self.passed), Bound::Unbounded);
        let next: Vec<_> = self.queue.range(from).take(count).copied().collect();
        self.passed = next.last().copied().filter(|_| next.len() == count).unwrap_or_default();
        next.into_iter().map(|(_, stripe)| stripe).collect()
    }

    /// Stuck stripes whose turn it is; each of them is to be found stuck again, or not.
    pub(super) fn due_stuck(&mut self, now_us: u64, count: usize) -> Vec<StripeId> {
        let woken = self.woken_stuck_count.min(count);
        let in_turn = self.stuck.iter().take(count).enumerate();
        let due = in_turn.take_while(|&(place, &(until_us, _))| place < woken || until_us <= now_us);
        let due: Vec<_> = due.map(|(_, &(_, stripe))| stripe).collect();
        self.woken_stuck_count = self.woken_stuck_count.saturating_sub(due.len());
        due
    }

    /// Takes the stripe out of the queue while an order for it is under way.
    pub(super) fn begin(&mut self, stripe: StripeId, order: Order) {
        self.take_out(stripe);
        self.set_stuck(stripe, false);
        self.orders.insert(stripe, order);
    }

    /// The order for the stripe is over: should it still lack chunks, it is looked at again.
    pub(super) fn end_order(&mut self, stripe: StripeId) {
        self.orders.remove(stripe);
        self.queue.extend(self.place_of(stripe));
    }

    pub(super) fn take_rate(&mut self, now_us: u64) {
        self.rate.take(now_us, self.rebuilt_bytes, self.to_rebuild_count() > 0);
    }

    /// Begins to count the chunks that are away if it is time to.
    pub(super) fn begin_count(&mut self, now_us: u64) {
        if std::mem::take(&mut self.is_away_stale) || self.counting.is_none() && now_us >= self.away_due_us {
            self.away_due_us = now_us + AWAY_COUNT_US;
            self.counting = Some(AwayCount::default());
        }
    }

    /// May chunks be missing?
    pub(in crate::engine) fn may_miss(&self) -> bool {
        self.is_away_stale || self.counting.is_some() || self.missing_count() > 0
    }

    pub(in crate::engine) fn check_invariants(&self) {
        let count: u64 = self.lost.values().map(|lost| lost.chunks.len() as u64).sum();
        assert_eq!(self.lost_count, count, "lost chunks are counted");
        for (stripe, lost) in &self.lost {
            assert!(!lost.chunks.is_empty(), "{stripe:?} lacks nothing");
            assert!((lost.damaged - lost.chunks).is_empty(), "{stripe:?}: a damaged chunk is lacking");
            let among = if lost.is_stuck { &self.stuck } else { &self.resting };
            let rests = lost.rests_until_us.is_some_and(|until_us| among.contains(&(until_us, *stripe)));
            assert_eq!(rests, lost.rests_until_us.is_some(), "{stripe:?} rests");
            let is_lost = |(chunk, _): &(u8, Option<NodeId>)| lost.chunks.contains((*chunk).into());
            assert!(lost.had_by.iter().all(is_lost), "{stripe:?}: who had what is not lost");
        }
        let is_queued = |&(spare, stripe): &(usize, StripeId)| {
            let lost = self.lost.get(&stripe);
            lost.is_some_and(|lost| lost.spare == spare && !lost.is_stuck && lost.rests_until_us.is_none())
        };
        assert!(self.queue.iter().all(is_queued), "a stripe is queued that rests, is stuck or is not what it was");
        let resting = self.lost.values().filter(|lost| lost.rests_until_us.is_some()).count();
        assert_eq!(self.resting.len() + self.stuck.len(), resting, "each rests once");
        let stuck = self.lost.values().filter(|lost| lost.is_stuck);
        let count: u64 = stuck.map(|lost| lost.chunks.len() as u64).sum();
        assert_eq!(self.stuck_count, count, "chunks that cannot be rebuilt are counted");
        assert!(self.orders.stripes().all(|stripe| self.lost.contains_key(&stripe)), "an order for nothing lost");
        self.orders.check_invariants();
        assert!(self.stranded.iter().all(|stripe| self.lost.contains_key(stripe)), "nothing of it is lost");
        let mut counts = BTreeMap::new();
        self.lost.values().for_each(|lost| *counts.entry(lost.chunks.len()).or_default() += 1);
        assert_eq!(self.stripes_by_lost, counts, "stripes are counted by what they lost");
        let is_counted = |lost: &Lost| self.stripes_beyond.contains_key(&(lost.shape, lost.chunks));
        let is_beyond = |lost: &&Lost| lost.shape.local_count() > 0 && lost.chunks.len() > lost.shape.tolerance();
        assert!(self.lost.values().filter(is_beyond).all(is_counted), "what lost more is counted by what it lost");
    }
}

/// One stripe is counted under another key than before.
fn count_other<K: Ord>(counts: &mut BTreeMap<K, u64>, before: Option<K>, after: Option<K>) {
    if let Some(before) = before
        && let Some(count) = counts.get_mut(&before)
    {
        *count -= 1;
        if *count == 0 {
            counts.remove(&before);
        }
    }
    if let Some(after) = after {
        *counts.entry(after).or_default() += 1;
    }
}

/// What has to be known of a stripe to describe a chunk of it to a node, or to have one rebuilt.
#[derive(Clone, Debug)]
pub(in crate::engine) struct StripeFacts {
    pub partition: PartitionId,
    pub kind: ChunkKind,
    pub shape: CodeShape,
    pub chunk_bytes: usize,
    pub configuration: Configuration,
    pub members: Arc<[NodeId]>,
}

impl StripeFacts {
    /// The members, in order, but for those of these chunks.
    pub fn members_without(&self, chunks: ChunkSet) -> impl Iterator<Item = NodeId> {
        self.members.iter().enumerate().filter(move |&(chunk, _)| !chunks.contains(chunk)).map(|(_, &node)| node)
    }
}

/// Can a stripe be repaired?
#[derive(Debug)]
pub(in crate::engine) enum Reparable {
    Whole(StripeFacts),
    /// Its object does not exist yet.
    NotYet,
    /// It is void or was left unsealed, or does not exist.
    Over,
}

#[cfg(test)]
mod tests;

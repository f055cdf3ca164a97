//! Requests that nobody can take at present: their partition has no owner, or it is still taking over, or
//! cannot be reached.
//!
//! Those of one [`Lane`] keep their order, also when some come back that were asked in vain.
//!
//! Must not know: why a request waits.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shorttail_gateway::engine::Token;
use shorttail_gateway::forward::Ask;
use shorttail_gateway::request::Request;

use super::table::Owner;

/// Microseconds for which a request waits: what it takes to find a gateway silent (1.5 s), until what nodes promised it
/// is over (1 s), and to take over. An error in time is better than a later answer.
pub const WAIT_US_MAX: u64 = 4_000_000;
/// The same of a question how much there is, which holds up what stands behind it on its connection, and which some
/// clients ask before anything else: most take-overs are over by then.
pub const STATS_WAIT_US_MAX: u64 = 3_000_000;
/// Requests that wait in a gateway, over all its cores: in a planned hand-over all that clients ask of a tenure, of
/// which one core may have most.
const WAITING_MAX: usize = 65_536;
/// Bytes of them. Values may be large, and a gateway that has memory for an index must not end because another one did.
pub const WAITING_BYTES_MAX: usize = 256 << 20;
/// Microseconds for which a request waits for an owner that answers, and less than it is asked. What it is asked by
/// then it has time to do before [`WAIT_US_MAX`] is over.
pub const BEHIND_US_MAX: u64 = 1_000_000;
/// Microseconds after the end of a tenure by which a gateway that the coordinator hears knows who is to follow; with
/// the time that a core may be late. One that does not know is cut off, and clients that can ask elsewhere had better
/// do.
pub const NEWS_US_MAX: u64 = 1_000_000;
/// Microseconds after which an owner is asked again that said it is none, at least and at most: a quarter of the time
/// that the request has waited. One that has yet to hear that it is the owner hears of it in a moment, or is cut off;
/// and what very many ask it in vain keeps it from hearing.
const REST_US_MIN: u64 = 5_000;
const REST_US_MAX: u64 = 50_000;

/// A request on its way.
#[derive(Debug)]
pub struct Waiter {
    pub token: Token,
    pub ask: Ask,
    /// Place among those of its lane: in the order in which they came.
    pub number: u64,
    pub deadline_us: u64,
    /// The owner that was asked last.
    pub asked: Option<Owner>,
    /// It is not to be asked again before.
    pub rests_until_us: u64,
    /// May another gateway be asked? Not, if another one asked.
    pub may_travel: bool,
}

impl Waiter {
    /// When its time began.
    pub fn came_us(&self) -> u64 {
        self.deadline_us.saturating_sub(WAIT_US_MAX)
    }

    /// The owner that was asked has just said that it is none.
    pub fn rest(self, now_us: u64) -> Self {
        let rest_us = (now_us.saturating_sub(self.came_us()) / 4).clamp(REST_US_MIN, REST_US_MAX);
        Waiter { rests_until_us: now_us + rest_us, ..self }
    }

    fn rests(&self, now_us: u64, owner: Option<Owner>) -> bool {
        self.rests_until_us > now_us && owner == self.asked
    }
}

/// Requests that wait for each other: reads of a partition are not to wait because writes to it cannot be done. What
/// is asked about all keys goes with the writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Lane {
    pub partition: u16,
    is_of_reads: bool,
}

impl Lane {
    const MIN: Lane = Lane { partition: 0, is_of_reads: false };

    pub fn of(ask: &Ask) -> Self {
        let is_of_reads = !ask.is_write() && !matches!(ask.request, Request::Keyspace(_));
        Lane { partition: ask.partition, is_of_reads }
    }

    fn places(self) -> RangeInclusive<(Lane, u64)> {
        (self, 0)..=(self, u64::MAX)
    }
}

/// What waits in all cores of a gateway.
#[derive(Debug, Default)]
pub struct WaitingTotal {
    count: AtomicUsize,
    bytes: AtomicUsize,
}

#[derive(Debug)]
pub struct Waiting {
    /// With the bytes that each takes.
    waiters: BTreeMap<(Lane, u64), (Waiter, usize)>,
    total: Arc<WaitingTotal>,
}

impl WaitingTotal {
    #[cfg(test)]
    pub fn full() -> Arc<Self> {
        Arc::new(WaitingTotal { count: AtomicUsize::new(WAITING_MAX), bytes: AtomicUsize::new(0) })
    }

    fn add(&self, bytes: usize) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn remove(&self, bytes: usize) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Cores that look at the same time may go beyond it by one request each.
    fn is_full(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= WAITING_MAX || self.bytes.load(Ordering::Relaxed) >= WAITING_BYTES_MAX
    }
}

impl Waiting {
    pub fn new(total: Arc<WaitingTotal>) -> Self {
        Waiting { waiters: BTreeMap::new(), total }
    }

    /// Do as many wait in this gateway as may?
    pub fn is_full(&self) -> bool {
        self.total.is_full()
    }

    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Does one of its lane wait that came before?
    pub fn is_behind(&self, waiter: &Waiter) -> bool {
        let lane = Lane::of(&waiter.ask);
        self.waiters.range((lane, 0)..(lane, waiter.number)).next().is_some()
    }

    pub fn put(&mut self, waiter: Waiter) {
        let bytes = waiter.ask.bytes();
        self.total.add(bytes);
        self.waiters.insert((Lane::of(&waiter.ask), waiter.number), (waiter, bytes));
    }

    pub fn has_of(&self, lane: Lane) -> bool {
        self.first_of(lane).is_some()
    }

    /// The lanes of those that wait.
    pub fn lanes(&self) -> Vec<Lane> {
        let mut lanes = Vec::new();
        let mut from = Bound::Included((Lane::MIN, 0));
        // From one to the next: of each there may be very many.
        while let Some((&(lane, _), _)) = self.waiters.range((from, Bound::Unbounded)).next() {
            lanes.push(lane);
            from = Bound::Excluded((lane, u64::MAX));
        }
        lanes
    }

    /// When the first lane goes on of those whose first rests.
    pub fn rest_over_us(&self, now_us: u64) -> Option<u64> {
        let firsts = self.lanes().into_iter().filter_map(|lane| self.first_of(lane));
        firsts.map(|first| first.rests_until_us).filter(|&until_us| until_us > now_us).min()
    }

    fn first_of(&self, lane: Lane) -> Option<&Waiter> {
        self.waiters.range(lane.places()).next().map(|(_, (first, _))| first)
    }

    /// The first of a lane, unless it rests. `owner`: of its partition.
    pub fn take_first(&mut self, lane: Lane, now_us: u64, owner: Option<Owner>) -> Option<Waiter> {
        let first = self.first_of(lane).filter(|first| !first.rests(now_us, owner))?;
        let (waiter, bytes) = self.waiters.remove(&(lane, first.number))?;
        self.total.remove(bytes);
        Some(waiter)
    }

    pub fn take_expired(&mut self, now_us: u64) -> Vec<Waiter> {
        let expired = self.waiters.extract_if(.., |_, (waiter, _)| waiter.deadline_us <= now_us);
        let without_bytes = |(waiter, bytes)| {
            self.total.remove(bytes);
            waiter
        };
        expired.map(|(_, expired)| without_bytes(expired)).collect()
    }
}

#[cfg(test)]
mod tests {
    use shorttail_gateway::request::{KeyspaceRequest, RequestId};

    use super::*;

    fn waiter(partition: u16, number: u64) -> Waiter {
        let request = Request::Keyspace(KeyspaceRequest::Count);
        Waiter {
            token: Token { connection: number, id: RequestId { seq: 0, part: 0 } },
            ask: Ask { partition, epoch: 0, request },
            number,
            deadline_us: 100 + number,
            asked: None,
            rests_until_us: 0,
            may_travel: true,
        }
    }

    /// That of what [`waiter`] asks.
    fn lane(partition: u16) -> Lane {
        Lane { partition, is_of_reads: false }
    }

    fn counted(total: &WaitingTotal) -> (usize, bool) {
        (total.count.load(Ordering::Relaxed), total.bytes.load(Ordering::Relaxed) > 0)
    }

    #[test]
    fn those_of_a_lane_keep_their_order() {
        let mut waiting = Waiting::new(Arc::default());
        assert!(!waiting.is_behind(&waiter(1, 9)));
        for number in [5, 2, 7] {
            waiting.put(waiter(1, number));
        }
        waiting.put(waiter(3, 1));
        assert!(
            waiting.is_behind(&waiter(1, 3)) && !waiting.is_behind(&waiter(1, 2)) && !waiting.is_behind(&waiter(0, 9))
        );
        assert_eq!(waiting.lanes(), [lane(1), lane(3)]);
        waiting.put(waiter(u16::MAX, 4));
        assert_eq!(waiting.lanes(), [1, 3, u16::MAX].map(lane));
        let numbers: Vec<u64> =
            std::iter::from_fn(|| waiting.take_first(lane(1), 0, None)).map(|waiter| waiter.number).collect();
        assert_eq!((numbers, waiting.lanes()), (vec![2, 5, 7], vec![lane(3), lane(u16::MAX)]));
        assert!(waiting.has_of(lane(3)) && !waiting.has_of(lane(1)));
    }

    #[test]
    fn one_that_rests_holds_those_behind_it_and_none_waits_for_ever() {
        let owner = |gateway| Some(Owner { epoch: 7, gateway });
        let total = Arc::default();
        let mut waiting = Waiting::new(Arc::clone(&total));
        waiting.put(Waiter { asked: owner(3), rests_until_us: 50, ..waiter(1, 1) });
        waiting.put(waiter(1, 2));
        assert!(waiting.take_first(lane(1), 49, owner(3)).is_none());
        assert_eq!(counted(&total), (2, true));
        let first = waiting.take_first(lane(1), 49, owner(4)).expect("another one may be asked at once");
        waiting.put(first);
        assert_eq!(waiting.take_expired(101).len(), 1);
        assert_eq!(counted(&total), (1, true));
        assert_eq!(waiting.take_first(lane(1), 49, owner(3)).map(|waiter| waiter.number), Some(2));
        assert!(waiting.is_empty());
        assert_eq!(counted(&total), (0, false));
    }

    #[test]
    fn all_cores_of_a_gateway_have_the_same_room() {
        let total = Arc::default();
        let [mut one, mut other] = [(); 2].map(|()| Waiting::new(Arc::clone(&total)));
        for number in 1..WAITING_MAX as u64 {
            one.put(waiter(1, number));
        }
        assert!(!one.is_full() && !other.is_full(), "one core may have nearly all");
        other.put(waiter(2, 1));
        assert!(one.is_full() && other.is_full());
        one.take_first(lane(1), 0, None).expect("one that waits");
        assert!(!one.is_full() && !other.is_full());
    }
}

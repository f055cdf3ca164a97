//! The monitor itself: nodes, their requests, and what the engine asks about them.
//!
//! Must not know: how verdicts are reached (see `judge.rs`).

use std::collections::VecDeque;

use shorttail_units::NodeId;

use crate::adaptive::Comparison;
use crate::class::{CLASSES, Class};
use crate::clock::Clock;
use crate::config::MonitorConfig;
use crate::histogram::Histogram;
use crate::lane::Lane;
use crate::limits::{NODES_MAX, VERDICTS_MAX};
use crate::peers::Sums;
use crate::size::size_of_bytes;
use crate::slice::Ended;
use crate::ticket::Ticket;
use crate::track::Track;
use crate::verdict::{Judgement, Verdict};

/// Node numbers without a place in the table.
const NO_PLACE: u16 = u16::MAX;

static NO_LATENCIES: Histogram = Histogram::new();

pub(crate) struct Node {
    pub id: NodeId,
    pub session: u8,
    pub bytes: u64,
    pub flagged_since_us: Option<u64>,
    pub flagged_us: u64,
    pub tracks: [Track; CLASSES],
}

/// Watches the requests of one gateway core. See the crate's description.
pub struct Monitor {
    pub(crate) config: MonitorConfig,
    pub(crate) clock: Clock,
    pub(crate) lanes: [Lane; CLASSES],
    pub(crate) comparisons: [Comparison; CLASSES],
    pub(crate) nodes: Vec<Node>,
    /// Requests under way, by class.
    pub(crate) outstanding: [u32; CLASSES],
    /// Place of a node, by its number.
    places: Vec<u16>,
    /// Places of the nodes that are fail-slow, slowest first.
    pub(crate) slowest: Vec<u16>,
    pub(crate) verdicts: VecDeque<Verdict>,
    pub(crate) slices_judged: u64,
    pub(crate) window_comparison: Comparison,
    /// Room for one judgement, kept so that none allocates.
    pub(crate) seen: Vec<Sums>,
    pub(crate) changes: Vec<(usize, Judgement)>,
    pub(crate) p95s: Vec<u64>,
    pub(crate) window_end_us: u64,
    pub(crate) refresh_us: u64,
    pub(crate) fade_us: u64,
    /// Of the middle node, scaled.
    pub(crate) peers_p95_us: [Option<u64>; CLASSES],
}

impl Monitor {
    pub fn new(config: MonitorConfig, now_us: u64) -> Self {
        Monitor {
            config,
            clock: Clock::new(now_us),
            lanes: Class::ALL.map(|_| Lane::new(&config, now_us)),
            comparisons: Default::default(),
            nodes: Vec::new(),
            outstanding: [0; CLASSES],
            places: Vec::new(),
            slowest: Vec::new(),
            verdicts: VecDeque::new(),
            slices_judged: 0,
            window_comparison: Comparison::default(),
            seen: Vec::new(),
            changes: Vec::new(),
            p95s: Vec::new(),
            window_end_us: now_us + config.adaptive.window_us,
            refresh_us: now_us,
            fade_us: now_us,
            peers_p95_us: [None; CLASSES],
        }
    }

    /// Makes a node known. Without effect if it is, or if there are [`NODES_MAX`].
    pub fn add_node(&mut self, id: NodeId) {
        if self.place(id).is_some() || self.nodes.len() >= NODES_MAX {
            return;
        }
        let number = usize::from(id.0);
        if self.places.len() <= number {
            self.places.resize(number + 1, NO_PLACE);
        }
        // Below NODES_MAX, so it fits.
        self.places[number] = self.nodes.len() as u16;
        let node = Node { id, session: 0, bytes: 0, flagged_since_us: None, flagged_us: 0, tracks: Default::default() };
        self.nodes.push(node);
    }

    /// The session with a node ended: what it was asked is forgotten, and it is no longer fail-slow.
    pub fn node_lost(&mut self, id: NodeId) {
        let Some(place) = self.place(id) else { return };
        let node = &mut self.nodes[place];
        node.session = node.session.wrapping_add(1);
        node.bytes = 0;
        for (track, outstanding) in node.tracks.iter_mut().zip(&mut self.outstanding) {
            *outstanding -= track.outstanding;
            track.forget();
        }
        self.forget_standing(place);
    }

    /// A request goes out. Its ticket is to be handed back when the request ends, once.
    #[inline]
    pub fn sent(&mut self, id: NodeId, class: Class, bytes: u32, now_us: u64) -> Ticket {
        let now_us = self.clock.at(now_us);
        let lane = &mut self.lanes[class.index()];
        let slice = lane.slice_at(now_us);
        let size = size_of_bytes(bytes);
        let expected_us = u32::try_from(lane.sizes.expected_us(size)).unwrap_or(u32::MAX);
        let kind = Ticket::kind(class, size);
        let place = self.places.get(usize::from(id.0)).copied().unwrap_or(NO_PLACE);
        let Some(node) = self.nodes.get_mut(usize::from(place)) else {
            return Ticket { start_us: now_us, slice, bytes, expected_us, place: Ticket::NOBODY, session: 0, kind };
        };
        if !self.clock.is_asked() {
            // Not for a time that is over: it would count as lost.
            self.clock.ask(lane.due_us().max(now_us));
        }
        lane.count();
        self.outstanding[class.index()] += 1;
        node.bytes += u64::from(bytes);
        let track = &mut node.tracks[class.index()];
        track.cells.start(slice, now_us, u64::from(expected_us));
        track.outstanding += 1;
        track.sent_us = Some(now_us);
        Ticket { start_us: now_us, slice, bytes, expected_us, place, session: node.session, kind }
    }

    /// The answer to a request came.
    #[inline]
    pub fn answered(&mut self, ticket: Ticket, now_us: u64) {
        let now_us = self.clock.at(now_us);
        self.end(ticket, now_us);
    }

    /// A request was withdrawn, or lost a race and its answer is of no interest any more. Its age up to now counts: if
    /// it did not, hedging would hide slowness.
    ///
    /// If the answer will come all the same, it is better to wait for it and call [`Self::answered`]: the request is
    /// judged by its age meanwhile, and by its whole latency then.
    pub fn cancelled(&mut self, ticket: Ticket) {
        self.end(ticket, self.clock.now_us());
    }

    #[inline]
    fn end(&mut self, ticket: Ticket, now_us: u64) {
        let Some(node) = self.nodes.get_mut(usize::from(ticket.place)) else { return };
        if node.session != ticket.session {
            return;
        }
        let class = ticket.class().index();
        let lane = &mut self.lanes[class];
        let track = &mut node.tracks[class];
        let latency_us = now_us.saturating_sub(ticket.start_us);
        let clipped_us = latency_us.min(lane.clip_us);
        let expected_us = u64::from(ticket.expected_us);
        let (slice, start_us) = (ticket.slice, ticket.start_us);
        if !track.cells.end(&Ended { slice, start_us, latency_us, clipped_us, expected_us }) {
            return;
        }
        node.bytes = node.bytes.saturating_sub(u64::from(ticket.bytes));
        track.outstanding -= 1;
        self.outstanding[class] -= 1;
        track.work = track.work.saturating_add(u32::from(ticket.bytes > 0));
        track.window.samples += 1;
        track.window.sum_us += latency_us;
        track.window.expected_us += expected_us;
        track.latencies.record(latency_us, lane.sizes.scale(ticket.size(), latency_us));
        if track.is_slow() {
            track.end_slow(latency_us);
        } else {
            lane.sizes.learn(ticket.size(), latency_us);
        }
        if self.deadline_us() == u64::MAX {
            self.clock.ask_nobody();
        }
    }

    /// When [`Self::tick`] is to be called; `u64::MAX`: not before the next request. A caller that comes much later was
    /// kept from running, and that time is nobody's.
    pub fn poll_deadline(&self) -> u64 {
        self.clock.real_us(self.deadline_us())
    }

    pub(crate) fn deadline_us(&self) -> u64 {
        let is_busy = |class: &&Class| self.outstanding[class.index()] > 0 || !self.slowest.is_empty();
        let busy = Class::ALL.iter().filter(is_busy);
        busy.map(|class| self.lanes[class.index()].due_us()).min().unwrap_or(u64::MAX)
    }

    /// The oldest verdict that was not taken yet.
    pub fn poll_verdict(&mut self) -> Option<Verdict> {
        self.verdicts.pop_front()
    }

    pub(crate) fn say(&mut self, verdict: Verdict) {
        if self.verdicts.len() >= VERDICTS_MAX {
            self.verdicts.pop_front();
        }
        self.verdicts.push_back(verdict);
    }

    #[inline]
    pub(crate) fn place(&self, id: NodeId) -> Option<usize> {
        let place = self.places.get(usize::from(id.0)).copied().unwrap_or(NO_PLACE);
        (place != NO_PLACE).then_some(usize::from(place))
    }

    fn node(&self, id: NodeId) -> Option<&Node> {
        self.place(id).map(|place| &self.nodes[place])
    }

    /// True if reads or writes of the node are fail-slow.
    #[inline]
    pub fn is_fail_slow(&self, id: NodeId) -> bool {
        self.node(id).is_some_and(|node| node.flagged_since_us.is_some())
    }

    /// True if requests of this class are fail-slow on the node.
    #[inline]
    pub fn is_class_fail_slow(&self, id: NodeId, class: Class) -> bool {
        self.node(id).is_some_and(|node| node.tracks[class.index()].is_slow())
    }

    /// The nodes that are fail-slow, slowest first, at most as many as may be avoided for one stripe.
    pub fn avoided(&self) -> impl Iterator<Item = NodeId> {
        self.slowest.iter().take(self.config.avoid_max).map(|&place| self.nodes[usize::from(place)].id)
    }

    /// All nodes that are fail-slow, slowest first.
    pub fn fail_slow(&self) -> impl Iterator<Item = NodeId> {
        self.slowest.iter().map(|&place| self.nodes[usize::from(place)].id)
    }

    /// True if the node is fail-slow for this class and should get such a request.
    pub fn wants_class_probe(&self, id: NodeId, class: Class, now_us: u64) -> bool {
        self.node(id).is_some_and(|node| {
            let track = &node.tracks[class.index()];
            track.is_slow() && self.is_probe_due(track.sent_us, now_us)
        })
    }

    fn is_probe_due(&self, sent_us: Option<u64>, now_us: u64) -> bool {
        let now_us = now_us.saturating_sub(self.clock.lag_us());
        sent_us.is_none_or(|sent_us| now_us.saturating_sub(sent_us) >= self.config.probe_interval_us)
    }

    /// How long to wait for an answer before a hedge: about what 95 of 100 such requests take at that node, but not
    /// much more than at the middle node, or a node that turns slow would put off its own hedges.
    pub fn hedge_delay_us(&self, id: NodeId, class: Class, bytes: u32) -> u64 {
        let own = self.node(id).and_then(|node| node.tracks[class.index()].latencies.scaled_p95_us);
        let peers = self.peers_p95_us[class.index()];
        let scaled_us = match (own, peers) {
            (Some(own), Some(peers)) => own.min(2 * peers),
            (own, peers) => match own.or(peers) {
                Some(only) => only,
                None => return self.config.hedge_us_max,
            },
        };
        let size = size_of_bytes(bytes);
        let delay_us = self.lanes[class.index()].sizes.unscale(size, scaled_us);
        delay_us.clamp(self.config.hedge_us_min, self.config.hedge_us_max.max(self.config.hedge_us_min))
    }

    /// All latencies since the node was added; none of a node that is not known.
    pub fn latency(&self, id: NodeId, class: Class) -> &Histogram {
        self.node(id).map_or(&NO_LATENCIES, |node| &node.tracks[class.index()].latencies.total)
    }

    /// Requests and their bytes that the node owes an answer to.
    #[inline]
    pub fn outstanding(&self, id: NodeId) -> (u32, u64) {
        self.node(id).map_or((0, 0), |node| (node.tracks.iter().map(|track| track.outstanding).sum(), node.bytes))
    }

    /// For how long the node has been fail-slow, all verdicts together.
    pub fn flagged_us(&self, id: NodeId) -> u64 {
        let running = |since_us: u64| self.clock.now_us().saturating_sub(since_us);
        self.node(id).map_or(0, |node| node.flagged_us + node.flagged_since_us.map_or(0, running))
    }

    /// Periods in which a class was judged.
    pub fn slices_judged(&self) -> u64 {
        self.slices_judged
    }

    pub fn config(&self) -> &MonitorConfig {
        &self.config
    }

    /// Changes the settings. What was measured is kept; with another detector all nodes are normal at first.
    pub fn set_config(&mut self, config: MonitorConfig) {
        let is_other = self.config.detector != config.detector;
        self.config = config;
        if is_other {
            (0..self.nodes.len()).for_each(|place| self.forget_standing(place));
        }
    }
}

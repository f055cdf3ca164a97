//! What the request monitor is told, and what its verdicts cause.
//!
//! ```text
//! ask, append ---sent---> monitor ---verdict---> reads: those that wait are hedged, new ones go round
//! reply ------answered-->    |                   writes: open stripes leave, placement avoids
//! withdrawn --cancelled-->   '--probe due------> one more request beside the one that goes round
//! ```
//! A node is gone round when it is fail-slow (the monitor's verdict), or at its bound (more is outstanding than may be)
//! while others are not busy. It is *late* while it owes an answer that is older than its hedge delay; then other ways
//! are preferred, within the budget.
//!
//! Must not know: what requests carry.

use shorttail_monitor::{Class, Histogram, MonitorConfig, Opinions, Verdict};
use shorttail_policy::Policy;
use shorttail_units::{NodeId, Now, PartitionId};
use shorttail_wire::node::NodeRequest;

use crate::engine::limits::{OUTSTANDING_BYTES_MAX, OUTSTANDING_MAX, VERDICTS_KEPT_MAX};
use crate::engine::state::pool::PoolKey;
use crate::engine::{Engine, What};

/// Requests at most this long are late after the node's usual delay.
const SHORT_BYTES: u32 = 4096;

/// The class of a request that the monitor should see, and the bytes that it moves.
pub(super) fn class_of(request: &NodeRequest<'_>, guess_bytes: u32) -> Option<(Class, u32)> {
    match request {
        NodeRequest::ReadRecord { .. } => Some((Class::Read, guess_bytes)),
        NodeRequest::ReadRange { length, .. } => Some((Class::Read, *length)),
        NodeRequest::Ping => Some((Class::Read, 0)),
        NodeRequest::Install { bytes, .. } => Some((Class::Write, bytes.len() as u32)),
        NodeRequest::Append { bytes, .. } => Some((Class::Write, bytes.len() as u32)),
        // It is work, unlike a sign of life: with rings no other is seen of packed writes.
        NodeRequest::Seal { .. } => Some((Class::Write, 1)),
        NodeRequest::ProbeWrite => Some((Class::Write, 0)),
        _ => None,
    }
}

/// What is known of a node's speed.
#[derive(Clone, Copy, Debug)]
pub struct Watched<'a> {
    pub fail_slow: bool,
    /// Requests that it owes an answer to.
    pub outstanding: u32,
    /// How long it was fail-slow so far.
    pub flagged_us: u64,
    /// Chunks that it took in the place of slow nodes.
    pub redirect_count: u64,
    /// Latencies of all its requests by class.
    pub reads: &'a Histogram,
    pub writes: &'a Histogram,
}

impl Engine {
    pub fn watched(&self, node: NodeId) -> Watched<'_> {
        Watched {
            fail_slow: self.monitor.is_fail_slow(node),
            outstanding: self.monitor.outstanding(node).0,
            flagged_us: self.monitor.flagged_us(node),
            redirect_count: self.nodes.get(node).map_or(0, |node| node.redirect_count),
            reads: self.monitor.latency(node, Class::Read),
            writes: self.monitor.latency(node, Class::Write),
        }
    }

    /// What this engine measured itself, for the others of its gateway.
    pub fn opinions(&self) -> Opinions {
        self.monitor.opinions()
    }

    /// What the engines of a gateway found, merged: counts for nodes that this one did not ask lately.
    pub fn handle_opinions(&mut self, now: Now, merged: &Opinions) {
        self.set_now(now);
        self.monitor.take_opinions(merged, now.mono_us);
        self.take_verdicts();
        self.run_work();
    }

    /// Verdicts since the last call, oldest first: for logs and metrics.
    pub fn poll_verdict(&mut self) -> Option<Verdict> {
        self.verdicts.pop_front()
    }

    /// Changes what is done for a partition. What is under way goes on as it began.
    pub fn set_policy(&mut self, partition: PartitionId, policy: Policy) {
        self.policies[usize::from(partition.0)] = policy;
        self.refresh_hampered();
    }

    /// Hedges for each request, at most, in the long run: 0 to 1.
    pub fn set_hedge_budget(&mut self, share: f64) {
        self.hedging.budget.set_share(share);
    }

    /// Changes the detector; what was measured is kept.
    pub fn set_monitor(&mut self, config: MonitorConfig) {
        self.monitor.set_config(MonitorConfig { avoid_max: self.config.tolerance(), ..config });
        self.take_verdicts();
    }

    /// Judges what is over, once a turn.
    pub(in crate::engine) fn watch(&mut self) {
        if self.now.mono_us >= self.monitor_due_us {
            self.monitor.tick(self.now.mono_us);
            self.take_verdicts();
        }
        self.monitor_due_us = self.monitor.poll_deadline();
    }

    fn take_verdicts(&mut self) {
        while let Some(verdict) = self.monitor.poll_verdict() {
            if self.verdicts.len() >= VERDICTS_KEPT_MAX {
                self.verdicts.pop_front();
            }
            self.verdicts.push_back(verdict);
            if verdict.fail_slow {
                self.turned_slow(verdict.node);
            } else {
                self.refresh_hampered();
            }
        }
    }

    fn turned_slow(&mut self, node: NodeId) {
        self.hedge_all_of(node);
        self.refresh_hampered();
        self.race_all_of(node);
        self.race_values_of(node);
        self.leave_slow(node);
    }

    /// What usually takes how long: looked up now and then, used for every request.
    pub(in crate::engine) fn refresh_delays(&mut self) {
        let monitor = &self.monitor;
        for node in self.nodes.iter_mut() {
            node.read_delay_us = monitor.hedge_delay_us(node.id, Class::Read, 0);
            node.write_delay_us = monitor.hedge_delay_us(node.id, Class::Write, 0);
        }
    }

    /// After how long such a request is late.
    pub(in crate::engine) fn hedge_delay_us(&self, id: NodeId, class: Class, bytes: u32) -> u64 {
        let Some(node) = self.nodes.get(id) else { return u64::MAX };
        let usual_us = match class {
            _ if bytes > SHORT_BYTES => self.monitor.hedge_delay_us(id, class, bytes),
            Class::Read => node.read_delay_us,
            Class::Write => node.write_delay_us,
        };
        self.hedging.budget.stretch(usual_us)
    }

    /// Does the node owe an answer that is older than usual?
    pub(in crate::engine) fn is_late(&self, id: NodeId) -> bool {
        let Some(node) = self.nodes.get(id) else { return false };
        let Some(before_us) = self.now.mono_us.checked_sub(self.hedging.budget.stretch(node.read_delay_us)) else {
            return false;
        };
        let is_owed = |tag: PoolKey| self.awaited.get(tag).is_some_and(|awaited| !awaited.is_unhurried);
        node.sessions.iter().any(|session| {
            // Almost always the first one decides.
            let oldest = session.asked.iter().take_while(|asked| asked.0 < before_us);
            oldest.into_iter().any(|&(_, tag)| is_owed(tag))
        })
    }

    /// Is so much outstanding that others are better asked, if they are not busy themselves?
    pub(in crate::engine) fn is_full(&self, id: NodeId) -> bool {
        let (requests, bytes) = self.monitor.outstanding(id);
        requests >= OUTSTANDING_MAX || bytes >= OUTSTANDING_BYTES_MAX
    }

    /// May this read go to the fail-slow node too, to see how it answers?
    pub(in crate::engine) fn takes_probe(&self, node: NodeId) -> bool {
        self.monitor.wants_class_probe(node, Class::Read, self.now.mono_us)
    }

    /// Fail-slow nodes that no request of the slow class came by are asked something small of it. Without, one that is
    /// slow in writing would be tried with the writes of clients, who would wait.
    pub(in crate::engine) fn probe(&mut self) {
        let now_us = self.now.mono_us;
        let fail_slow = self.monitor.fail_slow().filter(|&node| self.nodes.is_ready(node));
        let due: Vec<_> = fail_slow
            .flat_map(|node| Class::ALL.map(|class| (node, class)))
            .filter(|&(node, class)| self.monitor.wants_class_probe(node, class, now_us))
            .collect();
        for (node, class) in due {
            let request = match class {
                Class::Read => NodeRequest::Ping,
                Class::Write => NodeRequest::ProbeWrite,
            };
            // One core may be slow, and the others not.
            for session in self.nodes.sessions_of(node) {
                self.ask_session(session, &request, What::Ping);
            }
        }
    }

    /// Takes a token of the budget.
    pub(in crate::engine) fn take_token(&mut self) -> bool {
        let is_taken = self.hedging.budget.take();
        if is_taken {
            self.stats.totals.hedges_sent_total += 1;
        } else {
            self.stats.totals.hedge_budget_exhausted_total += 1;
        }
        is_taken
    }

    /// The answer to a request is of no interest any more: taken back if it is still queued, else awaited for the
    /// monitor's sake.
    pub(in crate::engine) fn let_go_of(&mut self, tag: PoolKey) {
        let Some(awaited) = self.awaited.get_mut(tag) else { return };
        self.stats.totals.cancelled_total += 1;
        awaited.what = What::Nothing;
        let (session, at) = (awaited.session, awaited.at);
        if self.nodes.session_mut(session).is_some_and(|session| session.withdraw(at)) {
            let ticket = self.awaited.remove(tag).and_then(|awaited| awaited.ticket);
            if let Some(ticket) = ticket {
                self.monitor.cancelled(ticket);
            }
        }
    }
}

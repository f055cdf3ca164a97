//! What a core does now and then: closes what is silent, exchanges opinions, tells of itself.
//!
//! Must not know: what its numbers are used for, whose requests are under way.

use std::sync::atomic::Ordering;

use super::Core;
use super::sessions::Until;
use crate::gateway::CoreReport;
use crate::locks::lock;

/// Microseconds between two looks at housekeeping: gauges, idle clients, lost nodes.
const HOUSEKEEPING_US: u64 = 50_000;

impl Core {
    pub(super) fn housekeep(&mut self) {
        // Others wait for what an engine has come to.
        let has_changed = self.exchange.tenures.has_changed();
        if self.now.mono_us < self.housekeeping_us && !has_changed {
            return;
        }
        self.housekeeping_us = self.now.mono_us + HOUSEKEEPING_US;
        self.close_hung_sessions();
        self.exchange.housekeep(self.now, self.poll.registry());
        self.connect_peers();
        self.write_sessions(Until::End);
        self.exchange.write_neighbours(self.now, self.poll.registry());
        self.drop_idle_clients();
        self.drop_late_clients();
        self.drop_silent_guests();
        self.share_opinions();
        self.log_verdicts();
        self.publish();
    }

    /// Engines tell each other which nodes are slow: one that asks a node rarely need not find out by itself.
    fn share_opinions(&mut self) {
        let mut own: Vec<_> = self.exchange.tenures.iter().map(|tenure| tenure.engine.opinions()).collect();
        if self.exchange.core_count() == 1 && own.len() <= 1 {
            return;
        }
        let merged = {
            let mut opinions = lock(&self.totals.opinions);
            opinions.resize_with(self.exchange.core_count(), Default::default);
            std::mem::swap(&mut opinions[self.core], &mut own);
            shorttail_monitor::merge(&opinions.concat())
        };
        for tenure in self.exchange.tenures.iter_mut() {
            tenure.engine.handle_opinions(self.now, &merged);
        }
    }

    fn log_verdicts(&mut self) {
        for tenure in self.exchange.tenures.iter_mut() {
            while let Some(verdict) = tenure.engine.poll_verdict() {
                // Whoever was told that it began is to be told that it is over.
                tracing::warn!("{verdict}");
            }
        }
    }

    pub(super) fn tell_counters(&mut self) {
        self.count_connections();
        self.shared.elsewhere = self.teller.exchange(&mut self.shared.counters);
    }

    /// As they are in all cores.
    pub(super) fn count_connections(&mut self) {
        let counters = &mut self.shared.counters;
        counters.connections_current = self.totals.connections.load(Ordering::Relaxed) as u64;
        counters.connections_total = self.totals.connections_total.load(Ordering::Relaxed);
        counters.connections_rejected = self.totals.connections_rejected.load(Ordering::Relaxed);
    }

    fn publish(&mut self) {
        let counters = &mut self.shared.counters;
        if let Some((user_us, system_us)) = crate::clock::cpu_times_us() {
            counters.cpu_user_us = user_us;
            counters.cpu_system_us = system_us;
        }
        self.tell_counters();
        let (stats, nodes) = (self.exchange.tenures.stats(), self.exchange.tenures.nodes_seen());
        let hurt_total = self.exchange.hurt_total() + self.hurt_by_guests;
        if self.reports_node_memory {
            if let Some(stats) = stats.as_ref().filter(|_| !self.exchange.tenures.is_empty()) {
                self.totals.memory_limit_bytes.store(stats.bytes_limit, Ordering::Relaxed);
            }
            // A core that owns nothing knows no node.
            self.shared.settings.memory_limit_bytes = self.totals.memory_limit_bytes.load(Ordering::Relaxed);
        }
        let shares = self.exchange.tenures.shares(self.now);
        let serves = self.exchange.table.is_complete() && self.exchange.tenures.do_all_serve(self.now);
        self.gauges.is_serving.store(serves, Ordering::Release);
        let mut published = lock(&self.gauges.published);
        *published = CoreReport { stats, nodes, shares, hurt_total, at_us: self.now.mono_us };
    }
}

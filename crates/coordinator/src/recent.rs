//! What a gateway saw of the nodes in the last ten to twenty seconds, and rebuilt in the last few: its reports count
//! from its start.
//!
//! ```text
//! reports   |----.----.----.----|----.----.----.----|----.----> now
//!           base                next
//! recent    <-------------------------------------------------->   until `next` is ten seconds old and becomes `base`
//! ```

use std::collections::BTreeMap;

use shorttail_wire::control::{NodeSeen, StoreTotals};

/// Microseconds between two reports that are kept to compare with.
const KEEP_EVERY_US: u64 = 10_000_000;

/// Microseconds for which a refusal is told: long enough to be seen, and for who stores now and then.
const REFUSED_US: u64 = 10_000_000;

/// Microseconds between two counts of what was rebuilt: some reports.
const REBUILT_EVERY_US: u64 = 2_000_000;

/// Chunks that were rebuilt, and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rebuilt {
    pub chunks: u64,
    pub bytes: u64,
}

/// Two earlier reports of one gateway.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    base: Vec<NodeSeen>,
    next: Vec<NodeSeen>,
    next_us: u64,
    /// Stores that it had refused at the last report, and when they became more.
    refused_total: Option<u64>,
    refused_us: Option<u64>,
    /// What was rebuilt until the last two counts, the earlier one first, and when the later one was.
    rebuilt: Option<[Rebuilt; 2]>,
    rebuilt_us: u64,
}

impl Recent {
    /// Notes a report.
    pub fn note(&mut self, now_us: u64, report: &[NodeSeen]) {
        if now_us.saturating_sub(self.next_us) >= KEEP_EVERY_US {
            self.base.clone_from(&self.next);
            self.next_us = now_us;
            // Who owns nothing tells of no nodes, and counts on from there later.
            if !report.is_empty() {
                self.next = report.to_vec();
            }
        }
    }

    /// Notes how many stores were refused for want of memory so far.
    pub fn note_refused(&mut self, now_us: u64, total: u64) {
        if self.refused_total.is_some_and(|before| total > before) {
            self.refused_us = Some(now_us);
        }
        self.refused_total = Some(total);
    }

    /// Were stores refused in the last seconds?
    pub fn refuses(&self, now_us: u64) -> bool {
        self.refused_us.is_some_and(|since_us| now_us.saturating_sub(since_us) < REFUSED_US)
    }

    /// Notes what was rebuilt so far.
    pub fn note_repair(&mut self, now_us: u64, totals: &StoreTotals) {
        let all = Rebuilt { chunks: totals.chunks_rebuilt_total, bytes: totals.bytes_rebuilt_total };
        let Some([_, later]) = self.rebuilt else {
            (self.rebuilt, self.rebuilt_us) = (Some([all; 2]), now_us);
            return;
        };
        if now_us.saturating_sub(self.rebuilt_us) >= REBUILT_EVERY_US {
            (self.rebuilt, self.rebuilt_us) = (Some([later, all]), now_us);
        }
    }

    /// What was rebuilt in the last two to four seconds before the latest report.
    pub fn rebuilt(&self, latest: &StoreTotals) -> Rebuilt {
        let [before, _] = self.rebuilt.unwrap_or_default();
        Rebuilt {
            chunks: latest.chunks_rebuilt_total.saturating_sub(before.chunks),
            bytes: latest.bytes_rebuilt_total.saturating_sub(before.bytes),
        }
    }

    /// What the latest report counts beyond the older of those kept, of each node.
    pub fn of(&self, latest: &[NodeSeen]) -> Vec<NodeSeen> {
        let base: BTreeMap<u16, &NodeSeen> = self.base.iter().map(|earlier| (earlier.id, earlier)).collect();
        let of_node =
            |latest: &NodeSeen| base.get(&latest.id).map_or_else(|| latest.clone(), |base| latest.since(base));
        latest.iter().map(of_node).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(count: u64) -> NodeSeen {
        let mut seen = NodeSeen { id: 3, ..NodeSeen::default() };
        seen.read_latency.add(100, count);
        seen
    }

    #[test]
    fn what_is_older_than_twenty_seconds_is_forgotten() {
        let mut recent = Recent::default();
        for second in 0..60 {
            // One request a second.
            recent.note(second * 1_000_000, &[report(second)]);
            let counted = recent.of(&[report(second)])[0].read_latency.count();
            assert!(counted <= 20 && counted >= second.min(10), "{counted} in second {second}");
        }
    }

    #[test]
    fn what_was_refused_before_anybody_looked_or_long_ago_says_nothing_of_now() {
        let mut recent = Recent::default();
        recent.note_refused(0, 5);
        recent.note_refused(1, 5);
        assert!(!recent.refuses(1));
        recent.note_refused(2, 6);
        recent.note_refused(3, 6);
        assert!(recent.refuses(2 + REFUSED_US - 1) && !recent.refuses(2 + REFUSED_US));
    }

    #[test]
    fn what_was_rebuilt_long_ago_or_before_anybody_looked_is_not_recent() {
        let told = |chunks| StoreTotals {
            chunks_rebuilt_total: chunks,
            bytes_rebuilt_total: chunks * 10,
            ..StoreTotals::default()
        };
        let mut recent = Recent::default();
        for second in 0..9 {
            let latest = told(1_000 + 7 * second);
            recent.note_repair(second * 1_000_000, &latest);
            let Rebuilt { chunks, bytes } = recent.rebuilt(&latest);
            assert!(chunks >= 7 * second.min(2) && chunks <= 28 && bytes == chunks * 10, "{chunks} in second {second}");
        }
    }

    #[test]
    fn what_was_counted_before_a_gateway_owned_nothing_is_not_recent() {
        let mut recent = Recent::default();
        recent.note(10_000_000, &[report(1_000)]);
        (2..9).for_each(|tens| recent.note(tens * 10_000_000, &[]));
        assert_eq!(recent.of(&[report(1_005)])[0].read_latency.count(), 5);
    }

    #[test]
    fn a_node_that_is_new_counts_from_its_start() {
        let mut recent = Recent::default();
        recent.note(0, &[]);
        recent.note(20_000_000, &[report(5)]);
        assert_eq!(recent.of(&[report(7)])[0].read_latency.count(), 7);
    }
}

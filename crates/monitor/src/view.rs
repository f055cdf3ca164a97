//! What the engines of one gateway tell each other of nodes.
//!
//! An engine tells only what it measured itself, so an opinion never comes back as its own confirmation. Most of the
//! engines that have an opinion must agree: what one engine alone sees may be its own way to the node. An engine that
//! asks the node itself trusts what it sees; the others take what was merged, until it runs out.
//!
//! Must not know: how opinions travel.

use std::collections::BTreeMap;

use shorttail_units::NodeId;

use crate::Class;

/// How long merged opinions hold if no newer ones come, us: the cores that have them may stand still.
pub const REPORT_US: u64 = 10_000_000;

/// One engine's opinion of a node's class, or the merged one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    pub node: NodeId,
    pub class: Class,
    pub fail_slow: bool,
    /// Of the evidence; of a merged report, that of the engine with the median excess.
    pub latency_us: u64,
    pub peers_us: u64,
}

/// Opinions of one engine, or the merged ones. A node that is not named is one without opinion.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct View {
    pub reports: Vec<Report>,
}

/// Merges what engines measured: a class of a node is fail-slow if more than half of those with an opinion say so.
pub fn merge(views: &[View]) -> View {
    let mut opinions: BTreeMap<(NodeId, Class), (usize, Vec<Report>)> = BTreeMap::new();
    for report in views.iter().flat_map(|view| &view.reports) {
        let (count, slow) = opinions.entry((report.node, report.class)).or_default();
        *count += 1;
        if report.fail_slow {
            slow.push(*report);
        }
    }
    let merged = opinions.into_iter().map(|((node, class), (count, mut slow))| {
        slow.sort_by_key(|report| report.latency_us.saturating_sub(report.peers_us));
        let median = slow.get(slow.len() / 2);
        Report {
            node,
            class,
            fail_slow: 2 * slow.len() > count,
            latency_us: median.map_or(0, |report| report.latency_us),
            peers_us: median.map_or(0, |report| report.peers_us),
        }
    });
    View { reports: merged.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(opinions: &[(u16, bool)]) -> View {
        let report = |&(node, fail_slow): &(u16, bool)| Report {
            node: NodeId(node),
            class: Class::Read,
            fail_slow,
            latency_us: 50_000,
            peers_us: 300,
        };
        View { reports: opinions.iter().map(report).collect() }
    }

    #[test]
    fn most_of_those_with_an_opinion_must_agree() {
        let merged =
            merge(&[view(&[(1, true), (2, true), (3, true)]), view(&[(1, false), (2, true)]), view(&[(2, false)])]);
        let slow: Vec<_> = merged.reports.iter().map(|report| (report.node.0, report.fail_slow)).collect();
        assert_eq!(slow, [(1, false), (2, true), (3, true)]);
        assert_eq!(merge(&[]), View::default());
    }
}

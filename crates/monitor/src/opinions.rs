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
pub struct Opinion {
    pub node: NodeId,
    pub class: Class,
    pub fail_slow: bool,
    /// Of the evidence; of a merged one, that of the engine with the median excess.
    pub latency_us: u64,
    pub peers_us: u64,
}

/// Opinions of one engine, or the merged ones. A node that is not named is one without opinion.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Opinions {
    pub reports: Vec<Opinion>,
}

/// Merges what engines measured: a class of a node is fail-slow if more than half of those with an opinion say so.
pub fn merge(told: &[Opinions]) -> Opinions {
    let mut classes: BTreeMap<(NodeId, Class), (usize, Vec<Opinion>)> = BTreeMap::new();
    for opinion in told.iter().flat_map(|opinions| &opinions.reports) {
        let (count, slow) = classes.entry((opinion.node, opinion.class)).or_default();
        *count += 1;
        if opinion.fail_slow {
            slow.push(*opinion);
        }
    }
    let merged = classes.into_iter().map(|((node, class), (count, mut slow))| {
        slow.sort_by_key(|opinion| opinion.latency_us.saturating_sub(opinion.peers_us));
        let median = slow.get(slow.len() / 2);
        Opinion {
            node,
            class,
            fail_slow: 2 * slow.len() > count,
            latency_us: median.map_or(0, |opinion| opinion.latency_us),
            peers_us: median.map_or(0, |opinion| opinion.peers_us),
        }
    });
    Opinions { reports: merged.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_nodes(verdicts: &[(u16, bool)]) -> Opinions {
        let opinion = |&(node, fail_slow): &(u16, bool)| Opinion {
            node: NodeId(node),
            class: Class::Read,
            fail_slow,
            latency_us: 50_000,
            peers_us: 300,
        };
        Opinions { reports: verdicts.iter().map(opinion).collect() }
    }

    #[test]
    fn most_of_those_with_an_opinion_must_agree() {
        let merged = merge(&[
            of_nodes(&[(1, true), (2, true), (3, true)]),
            of_nodes(&[(1, false), (2, true)]),
            of_nodes(&[(2, false)]),
        ]);
        let slow: Vec<_> = merged.reports.iter().map(|report| (report.node.0, report.fail_slow)).collect();
        assert_eq!(slow, [(1, false), (2, true), (3, true)]);
        assert_eq!(merge(&[]), Opinions::default());
    }
}

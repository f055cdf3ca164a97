//! Which nodes hold the chunks of a stripe.
//!
//! The least loaded nodes are taken, and their order within the stripe turns from stripe to stripe, so that each node
//! holds data and parity chunks alike. Distinct nodes by construction: a stripe loses at most one chunk with a node.
//!
//! Must not know: sessions, time, or why a node is a candidate.

use shorttail_units::NodeId;

/// A node that could hold a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    pub node: NodeId,
    /// Bytes in use, or any measure in which less is better.
    pub load: u64,
}

/// Members for a stripe: the `count` least loaded candidates; `turn` decides ties and the order. `None`: too few.
pub fn choose(candidates: &[Candidate], count: usize, turn: u64) -> Option<Vec<NodeId>> {
    if candidates.len() < count || count == 0 {
        return None;
    }
    let shift = usize::try_from(turn % candidates.len() as u64).expect("below a length");
    let mut order: Vec<_> = (0..candidates.len()).map(|step| candidates[(step + shift) % candidates.len()]).collect();
    order.sort_by_key(|candidate| candidate.load);
    order.truncate(count);
    let turned = usize::try_from(turn % count as u64).expect("below a count");
    order.rotate_left(turned);
    Some(order.into_iter().map(|candidate| candidate.node).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn candidates(loads: &[u64]) -> Vec<Candidate> {
        let candidate = |(node, &load): (usize, &u64)| Candidate { node: NodeId(node as u16), load };
        loads.iter().enumerate().map(candidate).collect()
    }

    #[test]
    fn the_least_loaded_are_taken_once_each() {
        let members = choose(&candidates(&[5, 1, 9, 2, 3]), 3, 7).expect("enough");
        let mut sorted = members.clone();
        sorted.sort();
        assert_eq!(sorted, [1, 3, 4].map(NodeId));
        assert_eq!(choose(&candidates(&[1, 1]), 3, 0), None);
    }

    #[test]
    fn roles_and_load_even_out() {
        let mut loads = vec![0u64; 8];
        let mut parities: BTreeMap<NodeId, u64> = BTreeMap::new();
        for turn in 0..800 {
            let members = choose(&candidates(&loads), 6, turn).expect("enough");
            members.iter().for_each(|node| loads[usize::from(node.0)] += 1);
            members[4..].iter().for_each(|&node| *parities.entry(node).or_default() += 1);
        }
        assert!(loads.iter().all(|load| load.abs_diff(600) <= 1), "{loads:?}");
        assert!(parities.values().all(|&count| (100..300).contains(&count)), "{parities:?}");
    }
}

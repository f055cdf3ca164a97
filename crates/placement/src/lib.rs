//! Which nodes hold the chunks of a stripe.
//!
//! The least loaded nodes are taken, and their order within the stripe turns from stripe to stripe, so that each node
//! holds data and parity chunks alike. Distinct nodes by construction: a stripe loses at most one chunk with a node.
//!
//! Nodes that are evaded (slow, say) are chosen like any other and then replaced. Who stands in is who did so least
//! often: load says what a node holds, the redirection count what was put on it for the sake of others.
//!
//! Source: ShortTail 3.2.2, the fault tolerance rule and the load-balancing rule of redirected writes. Deviation: of nodes
//! with the same redirection count the less loaded one is taken.
//!
//! Must not know: sessions, time, or why a node is a candidate or evaded.

use shorttail_units::NodeId;

/// A node that could hold a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    pub node: NodeId,
    /// Bytes in use, or any measure in which less is better.
    pub load: u64,
    /// Taken only if there are too few others.
    pub is_evaded: bool,
    /// Chunks that it took in the place of evaded nodes.
    pub redirect_count: u64,
}

/// Who holds a stripe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// In the order of the chunks. Evaded nodes come first, where data chunks are.
    pub members: Vec<NodeId>,
    /// Members that stand in for evaded nodes.
    pub stand_ins: Vec<NodeId>,
}

/// Members for a stripe: the `count` least loaded candidates, with stand-ins for the evaded ones among them; `turn` decides
/// ties and the order. `None`: too few.
pub fn choose_around(candidates: &[Candidate], count: usize, turn: u64) -> Option<Choice> {
    if candidates.len() < count || count == 0 {
        return None;
    }
    let shift = usize::try_from(turn % candidates.len() as u64).expect("below a length");
    let mut order: Vec<_> = (0..candidates.len()).map(|step| candidates[(step + shift) % candidates.len()]).collect();
    order.sort_by_key(|candidate| candidate.load);
    let mut others: Vec<_> = order.split_off(count).into_iter().filter(|candidate| !candidate.is_evaded).collect();
    others.sort_by_key(|candidate| std::cmp::Reverse((candidate.redirect_count, candidate.load)));
    let mut stand_ins = Vec::new();
    for member in order.iter_mut().filter(|member| member.is_evaded) {
        let Some(other) = others.pop() else { break };
        *member = other;
        stand_ins.push(other.node);
    }
    let turned = usize::try_from(turn % count as u64).expect("below a count");
    order.rotate_left(turned);
    order.sort_by_key(|member| !member.is_evaded);
    Some(Choice { members: order.into_iter().map(|candidate| candidate.node).collect(), stand_ins })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn candidates(loads: &[u64]) -> Vec<Candidate> {
        let candidate = |(node, &load): (usize, &u64)| Candidate {
            node: NodeId(node as u16),
            load,
            is_evaded: false,
            redirect_count: 0,
        };
        loads.iter().enumerate().map(candidate).collect()
    }

    fn sorted(mut members: Vec<NodeId>) -> Vec<u16> {
        members.sort();
        members.into_iter().map(|node| node.0).collect()
    }

    #[test]
    fn the_least_loaded_are_taken_once_each() {
        let choice = choose_around(&candidates(&[5, 1, 9, 2, 3]), 3, 7).expect("enough");
        assert_eq!(sorted(choice.members), [1, 3, 4]);
        assert_eq!(choice.stand_ins, []);
        assert_eq!(choose_around(&candidates(&[1, 1]), 3, 0), None);
    }

    #[test]
    fn roles_and_load_even_out() {
        let mut loads = vec![0u64; 8];
        let mut parities: BTreeMap<NodeId, u64> = BTreeMap::new();
        for turn in 0..800 {
            let members = choose_around(&candidates(&loads), 6, turn).expect("enough").members;
            members.iter().for_each(|node| loads[usize::from(node.0)] += 1);
            members[4..].iter().for_each(|&node| *parities.entry(node).or_default() += 1);
        }
        assert!(loads.iter().all(|load| load.abs_diff(600) <= 1), "{loads:?}");
        assert!(parities.values().all(|&count| (100..300).contains(&count)), "{parities:?}");
    }

    /// The paper's figure 4: eight nodes, node 2 is fail-slow, node 5 has the smallest redirection count.
    #[test]
    fn who_stood_in_least_often_stands_in() {
        let mut nodes = candidates(&[1, 1, 1, 1, 1, 2, 2, 2]);
        nodes[2].is_evaded = true;
        for (node, count) in [(5, 1), (6, 4), (7, 2)] {
            nodes[node].redirect_count = count;
        }
        let choice = choose_around(&nodes, 5, 0).expect("enough");
        assert_eq!(sorted(choice.members), [0, 1, 3, 4, 5]);
        assert_eq!(choice.stand_ins, [NodeId(5)]);
    }

    #[test]
    fn stand_ins_take_turns() {
        let mut nodes = candidates(&[0; 8]);
        nodes[3].is_evaded = true;
        for turn in 0..700 {
            let choice = choose_around(&nodes, 6, turn).expect("enough");
            assert!(!choice.members.contains(&NodeId(3)));
            assert_eq!(sorted(choice.members.clone()).windows(2).filter(|pair| pair[0] == pair[1]).count(), 0);
            choice.stand_ins.iter().for_each(|node| nodes[usize::from(node.0)].redirect_count += 1);
            choice.members.iter().for_each(|node| nodes[usize::from(node.0)].load += 1);
        }
        let counts: Vec<u64> = nodes.iter().map(|node| node.redirect_count).collect();
        let (least, most) = (counts.iter().enumerate().filter(|(node, _)| *node != 3))
            .fold((u64::MAX, 0), |(least, most), (_, &count)| (least.min(count), most.max(count)));
        assert!(most - least <= 2 + most / 10, "{counts:?}");
    }

    #[test]
    fn evaded_nodes_stay_when_there_are_no_others_and_hold_data() {
        let mut nodes = candidates(&[0; 6]);
        nodes[1].is_evaded = true;
        nodes[4].is_evaded = true;
        for turn in 0..12 {
            let choice = choose_around(&nodes, 6, turn).expect("enough");
            assert_eq!(sorted(choice.members[..2].to_vec()), [1, 4]);
            assert_eq!(sorted(choice.members), [0, 1, 2, 3, 4, 5]);
        }
    }
}

//! Members that the coordinator takes for dead although their processes run: stopped, or cut off. Each is told once,
//! and that it answers again.
//!
//! What is there at one look only is not told: of a process that dies the coordinator may know first.
//!
//! Must not know: where lines go, or what a member is called.

use std::collections::BTreeSet;

use shorttail_wire::control::{ClusterStatus, NodeState};

/// What was told so far. Members are known by their processes.
#[derive(Default)]
pub struct Silent {
    seen: BTreeSet<u32>,
    told: BTreeSet<u32>,
}

/// What a look shows.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct News {
    pub silent: Vec<u32>,
    pub back: Vec<u32>,
}

impl Silent {
    /// `running`: processes of members that have not ended.
    pub fn note(&mut self, running: &BTreeSet<u32>, status: &ClusterStatus) -> News {
        let nodes = status.nodes.iter().map(|node| (node.pid, node.state));
        let all: Vec<_> = nodes.chain(status.gateways.iter().map(|gateway| (gateway.pid, gateway.state))).collect();
        let which = |holds: fn(NodeState) -> bool| -> BTreeSet<u32> {
            all.iter().filter(|&&(pid, state)| holds(state) && running.contains(&pid)).map(|&(pid, _)| pid).collect()
        };
        let dead = which(|state| matches!(state, NodeState::Dead | NodeState::Retired));
        let alive = which(|state| matches!(state, NodeState::Normal));
        let before = std::mem::replace(&mut self.seen, dead);
        self.told.retain(|pid| running.contains(pid));
        let news = self.seen.intersection(&before).copied().filter(|&pid| self.told.insert(pid)).collect();
        let back: Vec<u32> = self.told.intersection(&alive).copied().collect();
        self.told.retain(|pid| !back.contains(pid));
        News { silent: news, back }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorttail_wire::control::{GatewayStatusEntry, NodeStatusEntry};

    /// A node with process 7, and a gateway with process 8.
    fn status(node: NodeState, gateway: NodeState) -> ClusterStatus {
        ClusterStatus {
            nodes: vec![NodeStatusEntry { pid: 7, state: node, ..NodeStatusEntry::default() }],
            gateways: vec![GatewayStatusEntry { pid: 8, state: gateway, ..GatewayStatusEntry::default() }],
            ..ClusterStatus::default()
        }
    }

    #[test]
    fn who_is_dead_and_runs_is_told_once_and_when_it_is_back() {
        use NodeState::{Dead, Normal, Retired, Suspect};
        let mut silent = Silent::default();
        let running = BTreeSet::from([7, 8]);
        let mut note = |node, gateway| {
            let News { silent, back } = silent.note(&running, &status(node, gateway));
            (silent, back)
        };
        assert_eq!(note(Suspect, Normal), (vec![], vec![]));
        assert_eq!(note(Dead, Normal), (vec![], vec![]), "it may have ended just now");
        assert_eq!(note(Dead, Dead), (vec![7], vec![]));
        assert_eq!(note(Retired, Dead), (vec![8], vec![]));
        assert_eq!(note(Retired, Normal), (vec![], vec![8]));
        assert_eq!(note(Retired, Dead), (vec![], vec![]));
        assert_eq!(note(Retired, Dead), (vec![8], vec![]), "again");
    }

    #[test]
    fn who_ended_is_not_told() {
        let mut silent = Silent::default();
        let nobody = BTreeSet::new();
        let dead = status(NodeState::Dead, NodeState::Dead);
        for running in [&nobody, &nobody, &BTreeSet::from([7]), &nobody, &BTreeSet::from([7])] {
            assert_eq!(silent.note(running, &dead), News::default());
        }
    }
}

//! Scenarios: nodes that are drained die, and so do owners.

use super::*;

/// They were stopped before they were taken out. With them more would be missing than a later owner can do without.
#[test]
fn who_died_drained_has_no_voice_when_its_owner_dies() {
    let mut cluster = Cluster::new(9);
    for id in [0, 1] {
        cluster.drain(id).expect("enough others");
        cluster.reports(id, 0, 0);
    }
    let drained = [(0, 0), (1, 0)];
    (0..2).for_each(|_| cluster.counts(&drained, 0));
    assert_eq!(cluster.voter_counts(), [7]);
    (0..2).for_each(|id| cluster.die(id));
    cluster.counts(&drained, 0);
    assert_eq!(cluster.voter_counts(), [7]);
    let there: Vec<u16> = (2..9).collect();
    cluster.is_followed(&there);
    assert_eq!(cluster.voter_counts(), [7], "nobody says that they held nothing");
    cluster.counts(&[], 0);
    assert_eq!(cluster.voter_counts(), [7], "nor has the next owner counted");
    // What is used again and lives has a voice.
    cluster.nodes[0] = cluster.scene.node(node(1, Some(0))).0;
    cluster.reports(0, 1, 1 << 16);
    cluster.counts(&[], 0);
    assert_eq!(cluster.voter_counts(), [8]);
}

#[test]
fn who_died_before_it_was_drained_has_a_voice_when_its_owner_dies() {
    let mut cluster = Cluster::new(9);
    cluster.drain(0).expect("enough others");
    cluster.counts(&[(0, 10)], 0);
    cluster.die(0);
    cluster.is_followed(&(1..9).collect::<Vec<_>>());
    assert_eq!(cluster.voter_counts(), [9]);
}

const DRAINED: [(u16, u64); 3] = [(0, 0), (1, 0), (2, 0)];

/// Of nine nodes three are drained.
fn three_drained() -> Cluster {
    let mut cluster = Cluster::new(9);
    for (id, _) in DRAINED {
        cluster.drain(id).expect("enough others");
        cluster.reports(id, 0, 0);
    }
    (0..2).for_each(|_| cluster.counts(&DRAINED, 0));
    assert_eq!(cluster.voter_counts(), [6]);
    cluster
}

impl Cluster {
    /// The coordinator begins anew, and nodes and a gateway come to it that never owned anything.
    fn restart_without_owner(mut self, there: std::ops::Range<u16>) -> Self {
        self.scene.watcher = None;
        let mut scene = self.scene.restart();
        there.for_each(|id| self.nodes[usize::from(id)] = scene.node(node(1, Some(id))).0);
        let gateway = scene.gateway(None).0;
        Cluster { scene, gateway, ..self }
    }

    /// Sizes of all sets that a later owner is to be accepted by.
    fn set_counts(&self) -> Vec<usize> {
        let tenure = self.scene.persisted.tenures.values().next().expect("a tenure");
        tenure.before.iter().chain(&tenure.voters).map(Vec::len).collect()
    }
}

/// They are stopped while the next owner takes over, before it can say that they hold nothing.
#[test]
fn who_is_drained_has_no_voice_when_its_owner_dies() {
    let mut cluster = three_drained();
    cluster.is_followed(&(0..9).collect::<Vec<_>>());
    assert_eq!(cluster.voter_counts(), [6], "nobody says that they are used");
    (0..3).for_each(|id| cluster.die(id));
    cluster.is_followed(&(3..9).collect::<Vec<_>>());
    assert_eq!(cluster.set_counts(), [6, 6], "all can be accepted by six");
}

#[test]
fn who_is_drained_has_no_voice_when_the_coordinator_begins_anew() {
    let mut cluster = three_drained().restart_without_owner(0..9);
    cluster.takes_over(&(0..9).collect::<Vec<_>>());
    assert_eq!(cluster.set_counts(), [6, 6]);
    cluster = cluster.restart_without_owner(3..9);
    cluster.takes_over(&(3..9).collect::<Vec<_>>());
    assert_eq!(cluster.set_counts(), [6, 6]);
    // Another life of one drains, too.
    cluster.nodes[0] = cluster.scene.node(node(2, Some(0))).0;
    assert_eq!(cluster.set_counts(), [6, 6]);
    cluster.order(0, Wanted::DrainNode { cancel: true }).expect("it drains");
    assert_eq!(cluster.voter_counts(), [6, 7]);
}

#[test]
fn who_is_drained_and_used_has_a_voice_when_its_owner_dies() {
    let mut cluster = three_drained();
    cluster.is_followed(&(0..9).collect::<Vec<_>>());
    cluster.reports(0, 1, 1 << 16);
    assert_eq!(cluster.voter_counts(), [6, 7]);
    cluster.reports(0, 0, 0);
    cluster.is_followed(&(0..9).collect::<Vec<_>>());
    assert_eq!(cluster.voter_counts(), [7], "nobody says that it is empty again");
}

/// It reaches the node, and counts nothing there: it uses it, unless it has not served yet.
#[test]
fn who_is_drained_has_a_voice_as_soon_as_an_owner_uses_it() {
    let mut cluster = three_drained();
    for (state, voters) in [(TenureState::TakingOver, vec![6]), (TenureState::Serving, vec![6, 9])] {
        cluster.report(reached(0..9), StoreTotals::default(), state);
        assert_eq!(cluster.voter_counts(), voters, "{state:?}");
    }
}

#[test]
fn a_node_that_is_drained_is_none_that_is_to_be_reached() {
    let mut cluster = Cluster::new(9);
    cluster.drain(8).expect("enough others");
    cluster.reports(8, 0, 0);
    (0..2).for_each(|_| cluster.counts(&[(8, 0)], 0));
    assert_eq!(cluster.voter_counts(), [8]);
    cluster.scene.watcher = None;
    for _ in 0..SHORT_MS_MAX / HEARTBEAT_MS + 2 {
        let nodes = cluster.nodes.clone();
        cluster.scene.pass_ms(HEARTBEAT_MS, &nodes);
        let seen = |id| NodeSeen { id, connected: id >= 3, chunks_left: Some(0), ..NodeSeen::default() };
        cluster.report((0..9).map(seen).collect(), StoreTotals::default(), TenureState::Serving);
    }
    let problems = cluster.problems();
    let why = "gateway 0 reaches 5 of 8 nodes, and 6 are needed";
    assert!(problems.len() == 1 && problems[0].starts_with(why), "{problems:?}");
}

//! Scenarios: nodes come, and are gone again before anybody stored there.

use super::*;

impl Cluster {
    /// A process begins without a number, and is gone in a moment; its number.
    fn comes_and_goes(&mut self, incarnation: u64) -> u16 {
        let (connection, session) = self.scene.node(node(incarnation, None));
        let id = session.expect("let in").node_id.0;
        self.scene.handle(Input::Closed { connection });
        id
    }

    /// Sizes of the sets that the next owner is to be accepted by.
    fn before_counts(&self) -> Vec<usize> {
        let tenure = self.scene.persisted.tenures.values().next().expect("a tenure");
        tenure.before.iter().map(Vec::len).collect()
    }
}

/// One that ends at each start gets another number each time.
#[test]
fn who_comes_and_goes_does_not_keep_a_later_owner_out() {
    let mut cluster = Cluster::new(6);
    cluster.counts(&[], 0);
    (0..3).for_each(|start| _ = cluster.comes_and_goes(100 + start));
    (0..2).for_each(|_| cluster.counts(&[], 0));
    assert_eq!(cluster.voter_counts(), [6]);
    cluster.is_followed(&[0, 1, 2, 3, 4, 5]);
    assert_eq!((cluster.before_counts(), cluster.voter_counts()), (vec![6], vec![6]));
    (0..3).for_each(|start| _ = cluster.comes_and_goes(200 + start));
    cluster.pass_taking_over(2 * LOSS_TOLD_MS, &[0, 1, 2, 3, 4, 5]);
    assert_eq!((cluster.before_counts(), cluster.voter_counts()), (vec![6], vec![6]), "nor while it takes over");
}

#[test]
fn who_died_and_held_nothing_has_no_voice() {
    let mut cluster = Cluster::new(6);
    cluster.counts(&[], 0);
    let (connection, session) = cluster.scene.node(node(7, None));
    let id = session.expect("let in").node_id.0;
    let seen = |id| NodeSeen { id, connected: true, ..NodeSeen::default() };
    let standings = cluster.standings(TenureState::Serving);
    let nodes = (0..=id).map(seen).collect();
    let status = GatewayStatus { nodes, standings, ..GatewayStatus::default() };
    cluster.scene.tell(cluster.gateway, ToCoordinator::GatewayStatus(status));
    (0..2).for_each(|_| cluster.counts(&[], 0));
    assert_eq!(cluster.voter_counts(), [7], "its owner reaches it");
    cluster.scene.handle(Input::Closed { connection });
    (0..2).for_each(|_| cluster.counts(&[(id, 1)], 0));
    assert_eq!(cluster.voter_counts(), [7], "it holds something");
    (0..2).for_each(|_| cluster.counts(&[(id, 0)], 0));
    assert_eq!(cluster.voter_counts(), [6]);
}

#[test]
fn who_lives_for_a_while_has_a_voice() {
    let mut cluster = Cluster::new(6);
    cluster.counts(&[], 0);
    cluster.nodes.push(cluster.scene.node(node(7, None)).0);
    cluster.pass_telling(LOSS_TOLD_MS - HEARTBEAT_MS, 0, &[], 0);
    assert_eq!(cluster.voter_counts(), [6]);
    cluster.pass_telling(2 * HEARTBEAT_MS, 0, &[], 0);
    cluster.counts(&[], 0);
    assert_eq!(cluster.voter_counts(), [7], "though its owner does not reach it");
}

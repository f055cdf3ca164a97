//! Who may be taken out while later owners wait for it.

use super::*;

/// A later owner must be accepted by all but two of those that the present one was proven by.
#[test]
fn no_more_nodes_leave_at_once_than_a_later_owner_can_do_without() {
    let mut cluster = Cluster::new(12);
    for id in 0..5 {
        cluster.drain(id).expect("enough others");
        cluster.reports(id, 0, 0);
    }
    assert_eq!(cluster.voter_counts(), [12], "they may hold something");
    let drained: Vec<(u16, u64)> = (0..5).map(|id| (id, 0)).collect();
    cluster.counts(&drained, 0);
    assert_eq!(cluster.voter_counts(), [12, 7], "until the owner is proven without them");
    for id in [0, 1] {
        cluster.remove(id, false).expect("two of twelve are gone at most");
    }
    let third = cluster.remove(2, false).expect_err("its owner is proven by all twelve");
    assert!(third.contains("gateway 0 is not confirmed yet") && third.contains("no more than 2"), "{third}");
    assert!(cluster.remove(2, true).expect_err("holding nothing is no help").contains("not confirmed yet"));
    cluster.counts(&drained, 0);
    for id in 2..5 {
        cluster.remove(id, false).expect("the owner is proven by those that stay");
    }
}

/// Nobody owns anything until one of three that were given up comes back with another life: a number that was taken out
/// never does.
#[test]
fn who_is_given_up_is_not_taken_out_while_a_later_owner_waits_for_its_number() {
    let after_given_up = |count: u16| {
        let mut durable = Durable::new(CLUSTER.0);
        let retired_through = |id| u64::from(id < count);
        let node = |id| DurableNode { incarnation: 1, retired_through: retired_through(id), ..DurableNode::default() };
        durable.nodes = (0..8).map(|id| (id, node(id))).collect();
        let voters = vec![(0..8).map(|id| (id, 1)).collect()];
        let tenure = DurableTenure { partitions: vec![0, 1, 2, 3], terms: 1, voters, ..DurableTenure::default() };
        durable.tenures.insert(1, tenure);
        durable.epoch = 1;
        Scene::from_disk(durable).order(0, Wanted::RemoveNode { lost: true })
    };
    let refused = after_given_up(3).expect_err("it is the third");
    assert!(refused.contains("start node 0 empty instead"), "{refused}");
    after_given_up(2).expect("all but two are enough");
}

#[test]
fn a_drained_node_is_taken_out_although_none_may_be_missing() {
    let code: CodeShape = "rs:3+0".parse().expect("a code");
    let mut cluster = Cluster::with(Settings { code, node_count_expected: 5, ..settings() });
    cluster.drain(4).expect("enough others");
    cluster.reports(4, 0, 0);
    cluster.counts(&[(4, 0)], 0);
    assert_eq!(cluster.voter_counts(), [5, 4]);
    assert!(cluster.remove(4, false).expect_err("its owner is proven by all five").contains("not confirmed yet"));
    cluster.counts(&[(4, 0)], 0);
    cluster.remove(4, false).expect("its owner is proven without it");
}

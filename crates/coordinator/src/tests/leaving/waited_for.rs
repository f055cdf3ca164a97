//! Scenarios: what the operator is told of nodes that are waited for.

use super::*;

#[test]
fn nobody_is_told_to_wait_until_a_node_is_rebuilt_that_is_waited_for() {
    let mut cluster = Cluster::new(12);
    cluster.counts(&[], 0);
    (0..3).for_each(|id| cluster.die(id));
    let holds_some = [(0, 9), (1, 9), (2, 9)];
    cluster.pass_telling(RETIRE_AFTER_MS + 1_000, 3, &holds_some, 0);
    cluster.pass_telling(LOSS_TOLD_MS, 3, &holds_some, 2);
    assert_eq!(cluster.states(1..3), [NodeState::Retired, NodeState::Dead]);
    let given_up = [cluster.drain(1), cluster.remove(1, false)].map(|answer| answer.expect_err("it is gone"));
    assert!(given_up.iter().all(|why| why.contains("rebuilt")), "{given_up:?}");
    let why = cluster.drain(2).expect_err("it is away");
    assert!(why.starts_with("node 2 is dead and waited for, with what it holds: start it again"), "{why}");
    assert!(!why.contains("  "), "{why}");
    let why = cluster.remove(2, false).expect_err("what it holds is nowhere else");
    assert!(why.contains("nothing that it holds is rebuilt") && why.contains("--lost"), "{why}");
    cluster.remove(2, true).expect("the operator knows better");
}

//! Scenarios: a node that is started again and again, and was not given a number.

use super::*;

impl Cluster {
    /// A process begins there without a number, and is gone in a moment.
    fn comes_and_goes(&mut self, incarnation: u64, address: &str) -> Result<u16, Refusal> {
        let registration = NodeRegistration { address: address.into(), ..node(incarnation, None) };
        let (connection, session) = self.scene.node(registration);
        self.scene.handle(Input::Closed { connection });
        session.map(|session| session.node_id.0)
    }

    /// Tells what an owner reaches that serves.
    fn serves_and_reaches(&mut self, ids: &[u16]) {
        self.report(reached(ids.iter().copied()), StoreTotals::default(), TenureState::Serving);
    }
}

const SIX: [u16; 6] = [0, 1, 2, 3, 4, 5];
const THERE: &str = "10.0.0.9:7001";

/// More voters than may be missing would have come and gone.
#[test]
fn who_begins_again_and_again_does_not_keep_a_later_owner_out() {
    let mut cluster = Cluster::new(6);
    cluster.counts(&[], 0);
    let numbers = [100, 101, 102].map(|life| cluster.comes_and_goes(life, THERE).expect("let in"));
    assert_eq!(numbers, [6; 3]);
    assert_eq!(cluster.scene.persisted.nodes.len(), 7);
    (0..2).for_each(|_| cluster.counts(&[], 0));
    assert_eq!(cluster.voter_counts(), [7]);
    cluster.is_followed(&SIX);
    let tenure = cluster.scene.persisted.tenures.values().next().expect("a tenure");
    assert!(tenure.before.iter().all(|set| set.iter().filter(|voter| voter.0 < 6).count() + 2 >= set.len()));
    assert_eq!(cluster.comes_and_goes(50, THERE), Err(Refusal::Retired { retired_through: 102 }), "no later life");
    assert_eq!(cluster.comes_and_goes(103, "10.0.0.9:7002"), Ok(7), "another one");
}

#[test]
fn a_number_is_taken_only_of_a_process_that_is_surely_over() {
    let mut cluster = Cluster::new(6);
    let there = |address: &str, incarnation| NodeRegistration { address: address.into(), ..node(incarnation, None) };
    // One that is here.
    let (connection, session) = cluster.scene.node(there(THERE, 100));
    session.expect("let in");
    assert_eq!(cluster.comes_and_goes(101, THERE), Ok(7));
    cluster.scene.handle(Input::Closed { connection });
    // Of the two that are gone the one that came last.
    (102..110).for_each(|life| assert_eq!(cluster.comes_and_goes(life, THERE), Ok(7)));
    // One that gateways reach.
    let other = "10.0.0.10:7001";
    assert_eq!(cluster.comes_and_goes(203, other), Ok(8));
    let there = cluster.nodes.clone();
    cluster.scene.watcher = None;
    for _ in 0..=REACH_TOLD_MS / HEARTBEAT_MS {
        cluster.serves_and_reaches(&[8]);
        cluster.scene.pass_ms(HEARTBEAT_MS, &there);
    }
    assert_eq!(cluster.comes_and_goes(204, other), Err(Refusal::NodeIdTaken(8)));
    cluster.serves_and_reaches(&[]);
    assert_eq!(cluster.comes_and_goes(205, other), Ok(8));
    // Each machine has these addresses.
    for (number, address) in [(9, "127.0.0.1:7009"), (11, "unix:/run/node.sock"), (13, "[::1]:7009")] {
        for number in [number, number + 1] {
            assert_eq!(cluster.comes_and_goes(300 + u64::from(number), address), Ok(number), "{address}");
        }
    }
}

#[test]
fn the_number_of_a_node_that_drains_or_was_removed_is_not_taken() {
    let mut cluster = Cluster::new(8);
    let registration = NodeRegistration { address: THERE.into(), ..node(100, None) };
    let (connection, session) = cluster.scene.node(registration);
    assert_eq!(session.expect("let in").node_id, NodeId(8));
    cluster.drain(8).expect("enough others");
    cluster.scene.handle(Input::Closed { connection });
    (101..105).for_each(|life| assert_eq!(cluster.comes_and_goes(life, THERE), Ok(9)));
    cluster.counts(&[], 0);
    cluster.remove(8, true).expect("the code survives it");
    assert_eq!(cluster.comes_and_goes(105, THERE), Ok(9), "the only one there");
}

/// Processes that were not told of the files in which the memory of those before them lies.
#[test]
fn no_more_memory_is_given_up_for_a_place_than_may_be_missing() {
    let mut cluster = Cluster::new(6);
    let places = [7001, 7002, 7003].map(|port| format!("10.0.0.9:{port}"));
    let first = [0, 1, 2].map(|at| cluster.comes_and_goes(100 + at as u64, &places[at]).expect("let in"));
    assert_eq!(first, [6, 7, 8]);
    let again = [0, 1, 2].map(|at| cluster.comes_and_goes(200 + at as u64, &places[at]).expect("let in"));
    assert_eq!(again, [6, 7, 9], "what two of them had may be lost");
    let retired = |id: u16| cluster.scene.persisted.nodes[&id].retired_through;
    assert_eq!([6, 7, 8].map(retired), [100, 101, 0]);
    cluster.counts(&[(8, 5), (9, 0)], 0);
    assert_eq!(cluster.comes_and_goes(300, &places[2]), Ok(9), "it has nothing");
}

#[test]
fn who_was_given_up_keeps_nobody_from_a_place() {
    let mut cluster = Cluster::new(7);
    let there = |incarnation| NodeRegistration { address: THERE.into(), ..node(incarnation, None) };
    let (connection, session) = cluster.scene.node(there(100));
    session.expect("let in");
    assert_eq!(cluster.comes_and_goes(101, THERE), Ok(8), "the first is here");
    cluster.scene.handle(Input::Closed { connection });
    let is_retired = |cluster: &Cluster, id: u16| cluster.scene.persisted.nodes[&id].retired_through > 0;
    cluster.pass_telling(3 * RETIRE_AFTER_MS, 0, &[], 0);
    assert!(is_retired(&cluster, 7) && is_retired(&cluster, 8));
    assert_eq!(cluster.comes_and_goes(102, THERE), Ok(8));
}

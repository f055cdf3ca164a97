//! Who proves an owner, as nodes lose their memory.

use super::*;
use crate::limits::UNPROVEN_MS_MAX;

/// How many of the voters that the first owner is told of are a node's second life.
fn newcomers(stage: &Stage) -> usize {
    let told = stage.scene.persisted.tenures[&1].voters_told();
    told.iter().filter(|(_, incarnation)| *incarnation == 2).count()
}

/// All nodes lose their memory, one after the other, and the owner is proven by nobody meanwhile.
#[test]
fn an_owner_is_told_of_voters_that_can_prove_it() {
    let mut stage = Stage::new(1, 4);
    stage.join();
    stage.serve();
    for node_id in 0..NODES {
        stage.close_node(node_id);
    }
    for node_id in 0..NODES {
        stage.nodes[usize::from(node_id)] = stage.scene.node(node(2, Some(node_id))).0;
        // Three of them are enough to prove it: then it is waited for.
        assert_eq!(newcomers(&stage), usize::from(node_id + 1).min(3));
    }
    let past = |stage: &Stage| stage.scene.persisted.tenures[&1].voters_past().len();
    assert_eq!(past(&stage), 3, "it may have been proven by each");
    stage.pass_ms(PROMISE_OVER_MS);
    assert_eq!((past(&stage), newcomers(&stage)), (1, 8), "too few of the old lives are left in the others");
    stage.serve();
    assert_eq!((past(&stage), newcomers(&stage)), (0, 8));
}

/// Some nodes lose their memory, and of the others the owner does not reach all that are heard here. It reaches enough,
/// but asks no life for a promise that no set names.
#[test]
fn an_owner_that_is_not_proven_is_told_of_all_who_came() {
    let mut stage = Stage::new(1, 4);
    stage.join();
    stage.serve();
    for node_id in 0..4 {
        stage.close_node(node_id);
        stage.nodes[usize::from(node_id)] = stage.scene.node(node(2, Some(node_id))).0;
    }
    assert_eq!(newcomers(&stage), 1, "it may be proven by those");
    for actor in stage.gateways.values_mut() {
        actor.standings.values_mut().for_each(|standing| standing.proven_by = 0);
    }
    stage.beat();
    stage.pass_ms(UNPROVEN_MS_MAX - 100);
    assert_eq!(newcomers(&stage), 1);
    stage.pass_ms(200);
    assert_eq!(newcomers(&stage), 4);
    let sets = stage.scene.persisted.tenures[&1].voters.len();
    stage.pass_ms(2 * UNPROVEN_MS_MAX);
    assert!(stage.scene.persisted.tenures[&1].voters.len() <= sets, "no set is told twice");
    stage.serve();
    assert_eq!(stage.scene.persisted.tenures[&1].voters.len(), 1);
}

/// The owner was unproven for long before, and hears of none of them.
#[test]
fn nodes_that_come_one_by_one_to_an_unproven_owner_are_told_together() {
    let mut stage = Stage::new(1, 4);
    stage.join();
    stage.serve();
    for actor in stage.gateways.values_mut() {
        actor.standings.values_mut().for_each(|standing| standing.proven_by = 0);
    }
    stage.beat();
    stage.pass_ms(UNPROVEN_MS_MAX + 200);
    for number in 0..50 {
        stage.join_node();
        stage.pass_ms(if number % 10 == 0 { 100 } else { 0 });
    }
    let sets = |stage: &Stage| stage.scene.persisted.tenures[&1].voters.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(sets(&stage), [8, 9], "the first, and no other for each");
    stage.pass_ms(UNPROVEN_MS_MAX);
    assert_eq!(sets(&stage), [8, 9, 58]);
}

/// One node loses its memory again and again, while the others are away.
#[test]
fn sets_of_voters_do_not_heap_up() {
    let mut stage = Stage::new(1, 4);
    stage.join();
    stage.serve();
    for node_id in 1..NODES {
        stage.close_node(node_id);
    }
    for incarnation in 2..50 {
        stage.close_node(0);
        stage.nodes[0] = stage.scene.node(node(incarnation, Some(0))).0;
        stage.pass_ms(PROMISE_OVER_MS);
    }
    let sets: Vec<usize> = stage.scene.persisted.tenures[&1].voters.iter().map(Vec::len).collect();
    // One is given up at a time, as one came back with nothing.
    assert_eq!(sets, [7, 6, 5, 4, 3, 3], "the others may have proven it, with any of those lives");
}

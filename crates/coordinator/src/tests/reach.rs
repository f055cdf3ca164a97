//! Scenarios: gateways that the coordinator hears and the nodes do not.

use shorttail_units::Epoch;

use super::tenures::{NODES, Stage};
use super::*;

const EVERY: u16 = NODES;
/// Of eight nodes two may be missing when another owner is accepted.
const ENOUGH: u16 = NODES - 2;

impl Stage {
    /// From now on a gateway tells of nodes, and that it reaches the first so many.
    fn reaches(&mut self, id: u16, count: u16) {
        let actor = self.actor(id);
        actor.nodes = (0..NODES).map(|node| (node, node < count)).collect();
    }

    /// A gateway tells of its tenures that they are so far, and by nobody or all confirmed.
    fn tells(&mut self, id: u16, state: TenureState, is_proven: bool) {
        let own = self.scene.persisted.tenures.iter().filter(|(_, tenure)| tenure.gateway == id);
        let standing = |(&epoch, tenure): (&u32, &DurableTenure)| {
            let proven_by = if is_proven { tenure.terms } else { 0 };
            (epoch, Standing { epoch: Epoch(epoch), proven_by, state })
        };
        self.actor(id).standings = own.map(standing).collect();
    }

    fn is_cut(&mut self, id: u16) {
        self.reaches(id, 0);
        self.tells(id, TenureState::Serving, false);
    }

    fn is_well(&mut self, id: u16) {
        self.reaches(id, EVERY);
        self.tells(id, TenureState::Serving, true);
    }

    fn problems(&self) -> Vec<String> {
        self.scene.coordinator.status().problems
    }
}

/// Three gateways that have served for a while, with four partitions each.
fn served() -> (Stage, [u16; 3]) {
    let mut stage = Stage::new(3, 12);
    let ids = [stage.join(), stage.join(), stage.join()];
    stage.serve();
    ids.iter().for_each(|&id| stage.reaches(id, EVERY));
    stage.pass_ms(2 * UNPROVEN_MS_MAX);
    (stage, ids)
}

#[test]
fn what_a_gateway_cannot_prove_goes_to_those_that_reach_enough_nodes() {
    let (mut stage, [one, two, three]) = served();
    stage.is_cut(three);
    stage.pass_ms(UNPROVEN_MS_MAX);
    assert_eq!(stage.loads()[&three], 4, "it may be a pause");
    assert!(stage.problems()[0].contains(&format!("confirm gateway {three} as the owner of 4 of 12")));
    assert!(stage.problems()[0].contains("the network"), "every node is alive: {:?}", stage.problems());
    stage.pass_ms(200);
    assert_eq!(stage.loads(), [(one, 6), (two, 6)].into());
    assert!(stage.terms_told(one).iter().any(|terms| terms.before.len() == 1), "its promises end first");
    let status = stage.scene.coordinator.status();
    assert_eq!((status.tenures_handed_over_total, status.tenures_lost_total), (0, 1));
    [one, two].iter().for_each(|&id| stage.is_well(id));
    stage.beat();
    assert_eq!(stage.problems().len(), 1);
    let why = format!("gateway {three} reaches 0 of 8 nodes: no more is given to it until it reaches 6 of 8 for 2 s");
    assert!(stage.problems()[0].starts_with(&why), "{:?}", stage.problems());
    stage.reaches(three, EVERY);
    stage.beat();
    let why = format!("gateway {three} was not confirmed by nodes in time: no more is given to it");
    assert!(stage.problems()[0].starts_with(&why), "{:?}", stage.problems());
}

/// The epoch that it is to prepare for may be that of a gateway that has not told of its own yet.
#[test]
fn nobody_is_cut_off_before_all_that_are_there_told_of_their_epochs() {
    let (mut stage, [_, _, three]) = served();
    stage.is_cut(three);
    stage.pass_ms(UNPROVEN_MS_MAX);
    let session = GatewaySession { cluster_id: CLUSTER, gateway_id: 40 };
    let (unheard, _) = stage.scene.gateway(Some(session));
    let epoch = stage.scene.persisted.epoch;
    stage.pass_ms(200);
    assert_eq!((stage.scene.persisted.epoch, stage.loads()[&three]), (epoch, 4));
    stage.scene.report(unheard, sees(&[]));
    assert_eq!(stage.loads().get(&three), None);
}

/// It owns nothing by then, and is asked all the same what it reaches.
#[test]
fn a_gateway_that_was_cut_off_is_dealt_nothing_until_it_reaches_enough_nodes() {
    let (mut stage, [one, two, three]) = served();
    stage.is_cut(three);
    stage.pass_ms(UNPROVEN_MS_MAX + 200);
    let (epochs, last) = (stage.to_come(three), stage.scene.persisted.epoch);
    assert_eq!(epochs.len(), 1, "it is to prepare for one that never comes");
    for reached in [0, ENOUGH - 1] {
        [one, two].iter().for_each(|&id| stage.is_well(id));
        stage.reaches(three, reached);
        stage.tells(three, TenureState::Serving, true);
        stage.pass_ms(2 * PREPARE_MS_MAX);
        assert_eq!(stage.loads(), [(one, 6), (two, 6)].into());
        assert_eq!(stage.scene.persisted.epoch, last, "nothing is tried");
    }
    stage.die(two);
    assert_eq!(stage.loads(), [(one, 12)].into(), "nor does it inherit");
    stage.is_well(one);
    stage.reaches(three, ENOUGH);
    stage.pass_ms(UNPROVEN_MS_MAX - 100);
    assert_eq!(stage.to_come(three), epochs, "it may be for a moment");
    stage.scene.outputs.clear();
    stage.pass_ms(300);
    let to_come = stage.to_come(three);
    assert!(!to_come.is_empty() && !to_come.contains(&epochs[0]), "a share is handed over to it: {to_come:?}");
    assert!(stage.problems().is_empty(), "{:?}", stage.problems());
}

#[test]
fn nobody_is_drained_whom_only_those_could_follow_that_are_cut_off() {
    let (mut stage, [one, two, three]) = served();
    stage.is_cut(three);
    stage.pass_ms(UNPROVEN_MS_MAX + 200);
    stage.die(two);
    assert_eq!(stage.loads(), [(one, 12)].into());
    let refused = stage.order_drain(one, false);
    let why = format!("gateway {one} cannot hand over what it owns: the others reach too few nodes to own it");
    assert_eq!(refused, Err(why));
    assert!(stage.scene.persisted.draining.is_empty());
}

#[test]
fn nothing_moves_when_nobody_reaches_enough_nodes() {
    let (mut stage, ids) = served();
    let owners = stage.owners();
    ids.iter().for_each(|&id| stage.is_cut(id));
    stage.pass_ms(5 * UNPROVEN_MS_MAX);
    // The first is the only one that is back, and could not follow.
    stage.reaches(ids[0], ENOUGH - 1);
    stage.tells(ids[0], TenureState::Serving, true);
    stage.pass_ms(5 * UNPROVEN_MS_MAX);
    assert_eq!(stage.owners(), owners);
    // Now all are, and the first was so first: it must have been for a while.
    ids.iter().for_each(|&id| stage.is_well(id));
    stage.tells(ids[2], TenureState::Serving, false);
    stage.beat();
    stage.tells(ids[2], TenureState::Serving, true);
    stage.pass_ms(5 * UNPROVEN_MS_MAX);
    assert_eq!(stage.owners(), owners);
}

/// Those that were given up may live on the other side of a cut, with the owner.
#[test]
fn nobody_follows_where_nodes_that_were_given_up_may_prove_the_owner() {
    let (mut stage, [one, two, three]) = served();
    let owners = stage.owners();
    (5..NODES).for_each(|node| stage.close_node(node));
    stage.reaches(three, 5);
    // The third is not proven yet without them.
    for _ in 0..RETIRE_AFTER_MS / 1000 + 10 {
        for id in [one, two] {
            stage.reaches(id, 5);
            stage.tells(id, TenureState::Serving, true);
        }
        stage.pass_ms(1000);
    }
    assert_eq!(stage.scene.state(7), NodeState::Retired, "the gateways reach every node that is left");
    stage.is_cut(three);
    stage.pass_ms(5 * UNPROVEN_MS_MAX);
    assert_eq!(stage.owners(), owners);
}

/// All of them may live on the other side of a cut, with the gateways that are not heard here.
#[test]
fn nodes_are_not_given_up_by_a_gateway_that_reaches_too_few_to_own_anything() {
    let (mut stage, [one, two, three]) = served();
    (0..NODES).for_each(|node| stage.close_node(node));
    [one, two].iter().for_each(|&id| stage.die(id));
    let are_all_dead = |stage: &Stage| (0..NODES).all(|id| stage.scene.state(id) == NodeState::Dead);
    for reached in [0, ENOUGH - 1] {
        stage.reaches(three, reached);
        stage.tells(three, TenureState::TakingOver, false);
        stage.pass_ms(2 * RETIRE_AFTER_MS);
        assert!(are_all_dead(&stage), "{reached} reached");
    }
    let problems = stage.problems().join("\n");
    assert!(
        problems.contains("nodes 5, 6, 7 are away for long and are not given up, as no gateway reaches"),
        "{problems}"
    );
    // One that serves what it has by itself cannot rebuild anything either.
    stage.is_cut(three);
    stage.pass_ms(2 * RETIRE_AFTER_MS);
    assert!(are_all_dead(&stage));
    stage.reaches(three, ENOUGH);
    stage.tells(three, TenureState::TakingOver, false);
    stage.pass_ms(2 * RETIRE_AFTER_MS);
    assert_eq!([6, 7].map(|id| stage.scene.state(id)), [NodeState::Retired; 2], "the rest is enough to take over from");
}

#[test]
fn with_nobody_else_a_gateway_that_was_cut_off_owns_all_the_same() {
    let (mut stage, [one, two, three]) = served();
    stage.is_cut(three);
    stage.pass_ms(UNPROVEN_MS_MAX + 200);
    stage.die(one);
    stage.die(two);
    assert_eq!(stage.loads(), [(three, 12)].into());
}

/// While it takes over it may wait for the owner before, which is no reason.
#[test]
fn who_takes_over_and_reaches_enough_nodes_is_waited_for() {
    for reached in [EVERY, ENOUGH, ENOUGH - 1, 2] {
        let (mut stage, [one, two, three]) = served();
        stage.die(one);
        stage.is_well(two);
        stage.tells(three, TenureState::TakingOver, false);
        stage.reaches(three, reached);
        stage.pass_ms(UNPROVEN_MS_MAX + 200);
        let is_left = stage.loads().contains_key(&three);
        assert_eq!(is_left, reached >= ENOUGH, "{reached} reached, {:?}", stage.loads());
    }
}

/// What it says of itself was said before.
#[test]
fn a_coordinator_that_stood_still_takes_nothing_for_unproven() {
    let (mut stage, ids) = served();
    let owners = stage.owners();
    stage.is_cut(ids[2]);
    stage.pass_ms(500);
    stage.scene.now.mono_us += 10_000_000;
    stage.beat();
    stage.is_well(ids[2]);
    stage.pass_ms(5 * UNPROVEN_MS_MAX);
    assert_eq!(stage.owners(), owners);
}

/// Otherwise it would be given what it cannot serve, once the time to prepare is over.
#[test]
fn an_heir_that_reaches_too_few_nodes_is_not_followed_to() {
    let (mut stage, [one, two, three]) = served();
    [one, two, three].iter().for_each(|&id| stage.reaches(id, ENOUGH - 1));
    stage.drain(one);
    stage.prepare();
    stage.pass_ms(PREPARE_MS_MAX + 200);
    assert_eq!(stage.lets_go(one), [], "nobody could follow");
    [one, two].iter().for_each(|&id| stage.reaches(id, EVERY));
    stage.pass_ms(UNPROVEN_MS_MAX + 200);
    assert_eq!(stage.lets_go(one), [], "nor the one that is cut off");
    assert!(stage.problems()[0].starts_with(&format!("gateway {three} reaches 5 of 8")), "{:?}", stage.problems());
    stage.prepare();
    assert_eq!(stage.lets_go(one), [1], "another plan was made");
    stage.tells(one, TenureState::LetGo, false);
    stage.beat();
    assert_eq!(stage.loads(), [(two, 8), (three, 4)].into());
}

/// A core of it stood still for a moment.
#[test]
fn an_heir_that_told_once_of_too_few_nodes_is_waited_for() {
    let (mut stage, [one, two, three]) = served();
    stage.drain(one);
    stage.reaches(three, 0);
    stage.prepare();
    assert_eq!(stage.lets_go(one), [], "it may be for a moment");
    stage.reaches(three, EVERY);
    stage.beat();
    assert_eq!((stage.lets_go(one), stage.problems()), (vec![1], vec![]));
    stage.tells(one, TenureState::LetGo, false);
    stage.beat();
    assert_eq!(stage.loads(), [(two, 6), (three, 6)].into(), "those that were to follow do");
}

/// A core of it may stand still, or it is cut off from the nodes that are to release what it had.
#[test]
fn who_lets_go_and_does_not_come_to_an_end_is_followed() {
    for reached in [0, EVERY] {
        let (mut stage, [one, two, three]) = served();
        stage.drain(one);
        stage.prepare();
        assert_eq!(stage.lets_go(one), [1]);
        stage.tells(one, TenureState::LettingGo, true);
        stage.pass_ms(2 * UNPROVEN_MS_MAX);
        assert_eq!(stage.loads()[&one], 4, "it ends what is under way");
        stage.tells(one, TenureState::LettingGo, false);
        stage.reaches(one, reached);
        stage.pass_ms(UNPROVEN_MS_MAX);
        assert_eq!(stage.loads()[&one], 4, "nodes may be late");
        stage.pass_ms(UNPROVEN_MS_MAX);
        assert_eq!(stage.loads(), [(two, 6), (three, 6)].into());
    }
}

/// A core of it stands still since it was prepared, and never hears that it is to take over.
/// A tenure is dealt to an heir, which says this of it; another gateway could follow. Who they are, and its epoch.
fn dealt_to_heir(state: TenureState) -> (Stage, [u16; 2], u32) {
    let mut stage = Stage::new(2, 4);
    let (one, two) = (stage.join(), stage.join());
    stage.serve();
    [one, two].iter().for_each(|&id| stage.reaches(id, EVERY));
    stage.pass_ms(2 * UNPROVEN_MS_MAX);
    stage.drain(one);
    stage.prepare();
    assert_eq!(stage.lets_go(one), [1]);
    let third = stage.join();
    stage.reaches(third, EVERY);
    stage.tells(one, TenureState::LetGo, false);
    stage.beat();
    assert_eq!(stage.loads(), [(two, 4)].into());
    let heir = *stage.scene.persisted.tenures.keys().last().expect("its tenure");
    let standing = Standing { epoch: Epoch(heir), proven_by: 0, state };
    stage.actor(two).standings.insert(heir, standing);
    (stage, [two, third], heir)
}

#[test]
fn an_heir_that_does_not_begin_is_followed() {
    for state in [TenureState::Prepared, TenureState::Preparing, TenureState::TakingOver] {
        let (mut stage, [two, third], heir) = dealt_to_heir(state);
        // So a gateway tells of nodes of which a core stands still.
        stage.reaches(two, if state == TenureState::TakingOver { 0 } else { EVERY });
        stage.pass_ms(UNPROVEN_MS_MAX - 100);
        assert_eq!(stage.loads().get(&third), None, "{state:?}: it may begin yet");
        stage.pass_ms(UNPROVEN_MS_MAX);
        let owners = stage.owners();
        let is_dealt = owners.iter().all(|&(epoch, ..)| epoch != heir) && stage.loads().get(&third) == Some(&2);
        assert!(is_dealt, "{state:?}: {owners:?}");
    }
}

/// It is not told to begin while nothing can be saved.
#[test]
fn an_heir_that_cannot_be_told_is_not_followed() {
    let (mut stage, [two, third], heir) = dealt_to_heir(TenureState::Prepared);
    stage.reaches(two, EVERY);
    stage.scene.coordinator.hold(true);
    stage.pass_ms(4 * UNPROVEN_MS_MAX);
    stage.scene.coordinator.hold(false);
    stage.pass_ms(UNPROVEN_MS_MAX - 100);
    assert!(stage.owners().iter().any(|&(epoch, ..)| epoch == heir), "it may begin yet");
    stage.pass_ms(UNPROVEN_MS_MAX);
    assert_eq!(stage.loads().get(&third), Some(&2));
}

/// A few nodes confirm it, and it can neither read everything nor store anything.
#[test]
fn what_is_proven_of_a_gateway_that_reaches_too_few_nodes_is_handed_over() {
    let (mut stage, [one, two, three]) = served();
    stage.reaches(three, 3);
    stage.pass_ms(SHORT_MS_MAX - 100);
    assert_eq!(stage.to_come(one), [], "it may be for a moment");
    stage.pass_ms(300);
    let why =
        format!("gateway {three} reaches 3 of 8 nodes, and hands over 4 partitions: no more is given to it until");
    assert!(stage.problems()[0].starts_with(&why), "{:?}", stage.problems());
    assert_eq!(stage.loads()[&three], 4, "it serves what it can meanwhile");
    stage.prepare();
    assert_eq!(stage.lets_go(three), [3]);
    let mut standing = stage.gateways[&three].standings[&3];
    standing.state = TenureState::LetGo;
    stage.actor(three).standings.insert(3, standing);
    stage.beat();
    assert_eq!(stage.loads(), [(one, 6), (two, 6)].into());
    let status = stage.scene.coordinator.status();
    assert_eq!((status.tenures_handed_over_total, status.tenures_lost_total), (1, 0));
    [one, two].iter().for_each(|&id| stage.is_well(id));
    stage.pass_ms(2 * PREPARE_MS_MAX);
    assert_eq!(stage.loads(), [(one, 6), (two, 6)].into(), "nothing comes back");
    stage.reaches(three, ENOUGH);
    stage.scene.outputs.clear();
    stage.pass_ms(UNPROVEN_MS_MAX + 200);
    assert!(!stage.to_come(three).is_empty() && stage.problems().is_empty(), "{:?}", stage.problems());
}

/// Six suffice to store, and four of ten are missing.
#[test]
fn a_gateway_that_can_store_and_not_read_everything_is_short() {
    let (mut stage, [one, _, three]) = served();
    (0..2).for_each(|_| stage.join_node());
    let sees = |stage: &mut Stage, id: u16, count: u16| {
        let actor = stage.actor(id);
        actor.nodes = (0..NODES + 2).map(|node| (node, node < count)).collect();
    };
    for id in stage.gateways.keys().copied().collect::<Vec<_>>() {
        sees(&mut stage, id, NODES + 2);
    }
    sees(&mut stage, three, NODES);
    stage.pass_ms(2 * SHORT_MS_MAX);
    assert_eq!(stage.to_come(one), [], "two may be missing");
    sees(&mut stage, three, 6);
    stage.pass_ms(SHORT_MS_MAX + 200);
    let why =
        format!("gateway {three} reaches 6 of 10 nodes, and hands over 4 partitions: no more is given to it until");
    assert!(stage.problems()[0].starts_with(&why), "{:?}", stage.problems());
}

/// Two may be missing, and six are needed to store.
#[test]
fn a_gateway_that_cannot_store_is_short_although_it_could_follow() {
    let mut stage = Stage::new(2, 4);
    let (one, two) = (stage.join(), stage.join());
    stage.serve();
    [0, 1].iter().for_each(|&id| stage.close_node(id));
    let sees = |stage: &mut Stage, id: u16, first: u16| {
        let actor = stage.actor(id);
        actor.nodes = (0..NODES).map(|node| (node, node >= first)).collect();
    };
    sees(&mut stage, one, 2);
    sees(&mut stage, two, 2);
    stage.pass_ms(RETIRE_AFTER_MS + 2 * SHORT_MS_MAX);
    assert_eq!((stage.scene.state(1), stage.to_come(one)), (NodeState::Retired, vec![]), "both reach all that live");
    sees(&mut stage, two, 3);
    stage.pass_ms(SHORT_MS_MAX + 200);
    let epoch = stage.scene.persisted.epoch;
    stage.pass_ms(10 * UNPROVEN_MS_MAX);
    assert_eq!(stage.scene.persisted.epoch, epoch, "it is cut off once");
    let problems = stage.problems();
    assert!(problems[0].starts_with(&format!("gateway {two} reaches 5 of 6 nodes")), "{problems:?}");
    stage.prepare();
    assert_eq!(stage.lets_go(two).len(), 1);
}

#[test]
fn nothing_is_handed_over_when_nobody_reaches_more() {
    let (mut stage, ids) = served();
    let owners = stage.owners();
    ids.iter().for_each(|&id| stage.reaches(id, 4));
    stage.pass_ms(5 * SHORT_MS_MAX);
    assert_eq!(stage.owners(), owners);
    assert!(ids.iter().all(|&id| stage.to_come(id).is_empty()));
    let problems = stage.problems();
    let why = "gateway 0 reaches 4 of 8 nodes, gateway 1 reaches 4 of 8 nodes, gateway 2 reaches 4 of 8 nodes, and 6 are needed";
    assert!(problems.len() == 1 && problems[0].starts_with(why), "{problems:?}");
    // Neither when the nodes are away: that is told otherwise.
    (4..NODES).for_each(|id| stage.close_node(id));
    stage.beat();
    assert!(stage.problems().iter().all(|line| !line.contains("gateway")), "{:?}", stage.problems());
}

/// They may be stopped, and are only late for the coordinator.
#[test]
fn a_gateway_that_reaches_too_few_nodes_to_store_is_told_of_at_once() {
    let (mut stage, [one, two, _]) = served();
    stage.reaches(one, ENOUGH);
    stage.beat();
    assert_eq!(stage.problems(), [""; 0], "six are enough");
    stage.reaches(one, ENOUGH - 1);
    stage.beat();
    let why = format!("gateway {one} reaches 5 of 8 nodes and a stripe needs 6: nothing new is stored in what it owns");
    let problems = stage.problems();
    assert!(problems.len() == 1 && problems[0].starts_with(&why), "{problems:?}");
    assert!(problems[0].contains("let run what was stopped of nodes 5, 6, 7,"), "{problems:?}");
    stage.reaches(two, 0);
    stage.beat();
    assert!(
        stage.problems()[0].starts_with(&format!("gateway {one} reaches 5 of 8, gateway {two} reaches 0 of 8 nodes"))
    );
    (5..NODES).for_each(|id| stage.close_node(id));
    let problems = stage.problems();
    assert!(problems.iter().any(|problem| problem.starts_with("only 5 nodes are alive")), "{problems:?}");
}

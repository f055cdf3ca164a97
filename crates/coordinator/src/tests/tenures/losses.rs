//! Scenarios of memory that goes while no owner is there that knows what it held. The code survives the loss of two.

use super::*;

impl Stage {
    /// A cluster whose only gateway stored something and is dead.
    fn left_by_its_owner() -> Self {
        let mut stage = Stage::new(1, 4);
        let owner = stage.join();
        stage.serve();
        stage.die(owner);
        stage
    }

    /// A node dies and comes back with another memory.
    fn lose_memory_of(&mut self, id: u16) {
        self.close_node(id);
        let known = self.scene.persisted.nodes[&id].incarnation;
        let (connection, session) = self.scene.node(node(known + 1, Some(id)));
        session.expect("let in");
        self.nodes[usize::from(id)] = connection;
    }

    /// The next gateway takes over and serves.
    fn follow(&mut self) -> u16 {
        let next = self.join();
        self.serve();
        next
    }

    fn lossy(&self) -> (u16, bool) {
        let status = self.scene.coordinator.status();
        (status.partitions_lossy, status.problems.iter().any(|problem| problem.contains("shorttail acknowledge")))
    }

    fn acknowledge(&mut self) -> Result<String, String> {
        self.scene.order(0, Wanted::AcknowledgeLosses)
    }
}

const ALL: (u16, bool) = (4, true);
const NONE: (u16, bool) = (0, false);

#[test]
fn memory_that_goes_while_nobody_serves_is_a_problem_until_it_is_acknowledged() {
    let mut stage = Stage::left_by_its_owner();
    (0..3).for_each(|id| stage.lose_memory_of(id));
    let next = stage.join();
    assert_eq!(stage.lossy(), NONE, "some nodes may be waited for");
    stage.serve();
    assert_eq!(stage.lossy(), ALL);
    let problem = stage.scene.coordinator.lossy_problem().expect("lossy");
    assert!(problem.starts_with("4 of 4 partitions were taken over when 3 nodes had lost the memory"), "{problem}");
    stage.pass_ms(60_000);
    stage.die(next);
    let mut stage = stage.restart();
    let last = stage.follow();
    assert_eq!(stage.lossy(), ALL, "it outlives the owner and the coordinator");
    stage.acknowledge().expect("there is something");
    stage.serve();
    assert_eq!(stage.lossy(), NONE);
    assert!(stage.acknowledge().is_err(), "nothing is left");
    stage.die(last);
    let mut stage = stage.restart();
    stage.follow();
    assert_eq!(stage.lossy(), NONE);
}

/// What happened to them before the last owner is its business, and what happens to them later that of the next.
#[test]
fn as_many_as_the_code_survives_are_no_problem() {
    let mut stage = Stage::left_by_its_owner();
    (0..2).for_each(|id| stage.lose_memory_of(id));
    let next = stage.follow();
    (2..4).for_each(|id| stage.lose_memory_of(id));
    // One set of voters after the other.
    (0..2).for_each(|_| stage.serve());
    assert_eq!(stage.lossy(), NONE, "the owner knows what the second two held");
    stage.die(next);
    (4..6).for_each(|id| stage.lose_memory_of(id));
    stage.follow();
    assert_eq!(stage.lossy(), NONE, "all but two were made up for");
}

#[test]
fn nodes_that_come_new_and_those_that_lose_one_life_after_another_count_once_or_not() {
    let mut stage = Stage::left_by_its_owner();
    for _ in 0..3 {
        (0..2).for_each(|id| stage.lose_memory_of(id));
    }
    (NODES..NODES + 3).for_each(|id| stage.nodes.push(stage.scene.node(node(1, Some(id))).0));
    (NODES..NODES + 3).for_each(|id| stage.lose_memory_of(id));
    stage.follow();
    assert_eq!(stage.lossy(), NONE);
}

/// Whoever has not served has rebuilt nothing.
#[test]
fn what_was_lost_before_an_owner_that_never_served_is_not_forgotten() {
    let mut stage = Stage::left_by_its_owner();
    (0..2).for_each(|id| stage.lose_memory_of(id));
    let next = stage.join();
    stage.report(|_| TenureState::TakingOver);
    stage.pass_ms(PROMISE_OVER_MS);
    stage.die(next);
    let mut stage = stage.restart();
    stage.lose_memory_of(2);
    stage.follow();
    assert_eq!(stage.lossy(), ALL);
}

/// It was deposed, and is dealt the same again.
#[test]
fn what_an_owner_stored_that_ended_is_not_forgotten() {
    let mut stage = Stage::new(1, 4);
    let owner = stage.join();
    stage.serve();
    stage.report(|_| TenureState::Ended);
    assert_eq!(stage.owners(), [(2, owner, 4)]);
    (0..3).for_each(|id| stage.lose_memory_of(id));
    stage.serve();
    assert_eq!(stage.lossy(), ALL);
}

/// Before anything is stored nothing is lost.
#[test]
fn an_owner_that_never_served_and_has_no_predecessor_leaves_nothing() {
    let mut stage = Stage::new(1, 4);
    let first = stage.join();
    stage.report(|_| TenureState::TakingOver);
    stage.die(first);
    (0..4).for_each(|id| stage.lose_memory_of(id));
    stage.follow();
    assert_eq!(stage.lossy(), NONE);
}

#[test]
fn memory_that_is_given_up_before_the_next_owner_serves_is_lost() {
    let mut stage = Stage::left_by_its_owner();
    (0..3).for_each(|id| stage.close_node(id));
    stage.nodes.drain(..3);
    let next = stage.join();
    stage.report(|_| TenureState::TakingOver);
    // The third one is only out of the coordinator's sight.
    stage.actor(next).nodes = (0..NODES).map(|id| (id, id >= 2)).collect();
    stage.pass_ms(RETIRE_AFTER_MS + 1_000);
    assert_eq!([0, 1, 2].map(|id| stage.scene.state(id)), [NodeState::Retired, NodeState::Retired, NodeState::Dead]);
    stage.actor(next).nodes = (0..NODES).map(|id| (id, id >= 3)).collect();
    stage.beat();
    stage.scene.node(node(2, Some(2))).1.expect("let in, with another memory");
    stage.serve();
    assert_eq!(stage.lossy(), ALL);
}

/// They may come back with what they held: that is told otherwise.
#[test]
fn nodes_that_are_away_have_lost_nothing() {
    let mut stage = Stage::left_by_its_owner();
    (0..3).for_each(|id| stage.close_node(id));
    stage.nodes.drain(..3);
    stage.follow();
    assert_eq!(stage.lossy(), NONE);
}

impl Stage {
    /// A gateway tells how many chunks of a stripe it lost, and how far it is.
    fn tells_lost(&mut self, id: u16, state: TenureState, lost_of_stripe_max: u64) {
        let standings = self.gateways[&id].standings.values().map(|&standing| Standing { state, ..standing }).collect();
        let totals = StoreTotals { lost_of_stripe_max, ..StoreTotals::default() };
        let status = GatewayStatus { standings, totals, ..GatewayStatus::default() };
        self.scene.report(self.gateways[&id].connection, status);
    }
}

/// An owner that misses more than can be made up for says so itself; the next one may find no trace of it.
#[test]
fn what_an_owner_knew_to_be_lost_is_a_problem_when_it_is_gone() {
    for (lost_of_stripe_max, expected) in [(2, NONE), (3, ALL)] {
        let mut stage = Stage::new(1, 4);
        let owner = stage.join();
        stage.serve();
        stage.tells_lost(owner, TenureState::Serving, lost_of_stripe_max);
        assert_eq!(stage.lossy(), NONE, "it tells what it lost");
        stage.die(owner);
        stage.follow();
        assert_eq!(stage.lossy(), expected, "{lost_of_stripe_max}");
    }
}

/// Or whoever acknowledges would take what `status` tells for nothing.
#[test]
fn what_an_owner_knows_to_be_lost_is_nothing_to_acknowledge() {
    for (lost_of_stripe_max, told) in [(2, "no loss is known"), (3, "keys that cannot be read stay errors")] {
        let mut stage = Stage::new(1, 4);
        let owner = stage.join();
        stage.serve();
        stage.tells_lost(owner, TenureState::Serving, lost_of_stripe_max);
        let answer = stage.acknowledge().expect_err("nothing is remembered");
        assert!(answer.contains(told), "{answer}");
    }
}

/// Its gateway is forgotten at once where another one serves at its addresses.
#[test]
fn what_an_owner_knew_to_be_lost_outlives_its_gateway_and_the_coordinator() {
    let place = Some("127.0.0.1:7200");
    for begins_anew in [false, true] {
        let mut stage = Stage::new(1, 4);
        let owner = stage.join_at(place);
        stage.serve();
        stage.tells_lost(owner, TenureState::Serving, 3);
        stage.die(owner);
        if begins_anew {
            stage = stage.restart();
        }
        stage.join_at(place);
        stage.serve();
        stage.pass_ms(GATEWAY_RETURN_MS + GATEWAY_RETURN_SPREAD_MS);
        stage.serve();
        assert_eq!((stage.loads().len(), stage.lossy()), (1, ALL), "{begins_anew}");
    }
}

#[test]
fn what_an_owner_counts_when_it_has_let_go_is_not_what_it_knew() {
    let mut stage = Stage::new(2, 4);
    let (one, two) = (stage.join(), stage.join());
    stage.serve();
    stage.drain(one);
    stage.prepare();
    stage.tells_lost(one, TenureState::Serving, 3);
    for state in [TenureState::Serving, TenureState::LettingGo, TenureState::LetGo] {
        stage.tells_lost(one, state, 0);
    }
    assert_eq!((stage.loads(), stage.lossy()), ([(two, 4)].into(), (2, true)), "another core had let go first");
}

#[test]
fn what_an_owner_misses_no_more_is_not_lost() {
    let mut stage = Stage::new(1, 4);
    let owner = stage.join();
    stage.serve();
    [3, 0].iter().for_each(|&lost| stage.tells_lost(owner, TenureState::Serving, lost));
    stage.die(owner);
    stage.follow();
    assert_eq!(stage.lossy(), NONE, "it was stored anew, or deleted");
}

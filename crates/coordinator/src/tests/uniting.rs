//! Several tenures of a gateway become one.

use shorttail_wire::control::StoreTotals;
use shorttail_wire::control::TenureState::{self, LetGo, LettingGo, Serving};

use super::RETIRE_AFTER_MS;
use super::tenures::Stage;
use crate::limits::{FORGET_GATEWAY_AFTER_MS, PREPARE_MS_MAX, UNITE_AFTER_MS, UNITE_OBJECTS_MAX, UNPROVEN_MS_MAX};

/// Two gateways are left of three: the first has tenures 1 and 4, the second 3 and 5.
fn split() -> (Stage, u16, u16) {
    let mut stage = Stage::new(3, 12);
    let ids: Vec<u16> = (0..3).map(|_| stage.join()).collect();
    stage.serve();
    stage.die(ids[1]);
    stage.serve();
    assert_eq!(stage.owners(), [(1, ids[0], 4), (3, ids[2], 4), (4, ids[0], 2), (5, ids[2], 2)]);
    (stage, ids[0], ids[2])
}

/// As [`split`]; the first is told to let go of both, and to follow itself.
fn ordered() -> (Stage, u16, u16) {
    let (mut stage, first, second) = split();
    pass_ms(&mut stage, UNITE_AFTER_MS);
    stage.prepare();
    assert_eq!(stage.lets_go(first), [1, 4]);
    (stage, first, second)
}

/// With as few heartbeats as members send.
fn pass_ms(stage: &mut Stage, ms: u64) {
    stage.pass_ms(ms % 500);
    for _ in 0..ms / 500 {
        stage.scene.pass_ms(500, &[]);
        stage.beat();
    }
}

fn report(stage: &mut Stage, of_one: TenureState, of_four: TenureState) {
    stage.report(|epoch| match epoch {
        1 => of_one,
        4 => of_four,
        _ => Serving,
    });
}

#[test]
fn several_tenures_of_a_gateway_become_one_once_nothing_changed_for_long() {
    let (mut stage, first, second) = split();
    pass_ms(&mut stage, UNITE_AFTER_MS - 100);
    assert_eq!(stage.to_come(first), []);
    stage.pass_ms(100);
    assert_eq!((stage.to_come(first), stage.lets_go(first)), (vec![6], vec![]));
    stage.prepare();
    assert_eq!((stage.lets_go(first), stage.lets_go(second)), (vec![1, 4], vec![]));
    report(&mut stage, LetGo, LettingGo);
    assert_eq!(stage.owners().len(), 4, "it has not let go of all");
    report(&mut stage, LetGo, LetGo);
    assert_eq!(stage.owners(), [(3, second, 4), (5, second, 2), (6, first, 6)]);
    assert_eq!(stage.scene.coordinator.status().tenures_handed_over_total, 2);
    stage.serve();
    pass_ms(&mut stage, UNITE_AFTER_MS - 100);
    assert_eq!(stage.to_come(second), []);
    stage.pass_ms(100);
    stage.prepare();
    assert_eq!(stage.lets_go(second), [3, 5]);
    stage.report(|epoch| if epoch == 6 { Serving } else { LetGo });
    assert_eq!(stage.owners(), [(6, first, 6), (7, second, 6)]);
    stage.serve();
    pass_ms(&mut stage, 2 * UNITE_AFTER_MS);
    assert_eq!(stage.owners().len(), 2, "it rests");
}

/// It would be read while nobody answers.
#[test]
fn who_is_not_prepared_in_time_does_not_follow_itself() {
    let (mut stage, first, second) = split();
    pass_ms(&mut stage, UNITE_AFTER_MS + PREPARE_MS_MAX - 100);
    assert_eq!((stage.to_come(first), stage.to_come(second)), (vec![6], vec![]));
    pass_ms(&mut stage, UNITE_AFTER_MS);
    assert_eq!((stage.to_come(first), stage.lets_go(first)), (vec![], vec![]));
    stage.pass_ms(100);
    assert_eq!((stage.to_come(first), stage.to_come(second)), (vec![], vec![7]), "another one does");
    pass_ms(&mut stage, PREPARE_MS_MAX + UNITE_AFTER_MS);
    assert_eq!((stage.to_come(first), stage.to_come(second)), (vec![8], vec![]), "it is tried again");
    pass_ms(&mut stage, PREPARE_MS_MAX + UNITE_AFTER_MS);
    assert_eq!((stage.to_come(first), stage.to_come(second)), (vec![], vec![9]), "in turn");
}

/// It would take over while it hands over, and have two tenures again.
#[test]
fn who_gets_something_else_meanwhile_does_not_follow_itself_yet() {
    let (mut stage, first, second) = split();
    pass_ms(&mut stage, UNITE_AFTER_MS);
    assert_eq!(stage.to_come(first), [6]);
    stage.die(second);
    assert_eq!((stage.loads(), stage.to_come(first)), ([(first, 12)].into(), vec![]));
    stage.serve();
    pass_ms(&mut stage, UNITE_AFTER_MS - 100);
    assert_eq!(stage.to_come(first), []);
}

/// The node may be late every few seconds.
#[test]
fn a_node_that_was_away_puts_it_off() {
    let (mut stage, first, _) = split();
    pass_ms(&mut stage, UNITE_AFTER_MS);
    assert_eq!(stage.to_come(first), [6]);
    stage.close_node(7);
    stage.beat();
    assert_eq!(stage.to_come(first), []);
    pass_ms(&mut stage, RETIRE_AFTER_MS);
    assert_eq!(stage.to_come(first), []);
    pass_ms(&mut stage, UNITE_AFTER_MS - RETIRE_AFTER_MS);
    assert_eq!(stage.to_come(first), [7]);
}

/// It needs memory for all of it twice; and what is lost it may know no more.
#[test]
fn who_owns_much_or_lost_something_does_not_follow_itself() {
    let much = StoreTotals { objects: UNITE_OBJECTS_MAX + 1, ..StoreTotals::default() };
    let lost = StoreTotals { lost_of_stripe_max: 3, ..StoreTotals::default() };
    for totals in [much, lost] {
        let (mut stage, first, second) = split();
        [first, second].iter().for_each(|&id| stage.actor(id).totals = totals);
        pass_ms(&mut stage, 2 * UNITE_AFTER_MS);
        assert_eq!((stage.to_come(first), stage.to_come(second)), (vec![], vec![]));
        stage.actor(second).totals = StoreTotals::default();
        stage.pass_ms(100);
        assert_eq!((stage.to_come(first), stage.to_come(second)), (vec![], vec![6]));
    }
}

/// A node that does not answer is waited for when an owner lets go.
#[test]
fn tenures_become_one_only_while_all_nodes_are_there() {
    let (mut stage, first, _) = split();
    pass_ms(&mut stage, UNITE_AFTER_MS - 1_000);
    stage.close_node(7);
    stage.pass_ms(2_000);
    assert_eq!(stage.to_come(first), []);
    pass_ms(&mut stage, RETIRE_AFTER_MS);
    assert_eq!(stage.to_come(first), [6], "it was given up");
}

#[test]
fn what_is_let_go_of_does_not_wait_for_long_for_the_rest() {
    let (mut stage, first, second) = ordered();
    report(&mut stage, LetGo, LettingGo);
    stage.pass_ms(UNPROVEN_MS_MAX - 100);
    assert_eq!(stage.owners().len(), 4);
    stage.pass_ms(100);
    assert_eq!(stage.owners(), [(3, second, 4), (4, first, 2), (5, second, 2), (7, first, 4)]);
    assert_eq!(stage.lets_go(first), [], "it may go on, or let go");
    report(&mut stage, LetGo, LetGo);
    assert_eq!(stage.loads(), [(first, 6), (second, 6)].into());
}

/// The order may have been long on its way: it waited for the store.
#[test]
fn how_long_the_order_takes_does_not_count() {
    let (mut stage, first, _) = ordered();
    stage.pass_ms(UNPROVEN_MS_MAX);
    report(&mut stage, LetGo, LettingGo);
    assert_eq!(stage.owners().len(), 4);
    report(&mut stage, LetGo, LetGo);
    assert!(stage.owners().contains(&(6, first, 6)), "{:?}", stage.owners());
}

#[test]
fn what_a_gateway_had_that_dies_as_it_lets_go_goes_to_others() {
    let (mut stage, first, second) = ordered();
    report(&mut stage, LetGo, LettingGo);
    stage.die(first);
    assert_eq!(stage.loads(), [(second, 12)].into());
}

/// One core deposes itself, say: the plan does not hold any more.
#[test]
fn a_tenure_that_ends_before_the_order_is_dealt_at_once() {
    let (mut stage, first, _) = split();
    pass_ms(&mut stage, UNITE_AFTER_MS);
    assert_eq!(stage.to_come(first), [6]);
    report(&mut stage, TenureState::Ended, Serving);
    assert_eq!(stage.to_come(first), []);
    assert_eq!(stage.owners().len(), 4);
    assert!(stage.owners().iter().all(|&(epoch, ..)| epoch != 1));
}

/// What it was not told to let go of it hands over as any drained gateway.
#[test]
fn a_gateway_that_is_drained_before_the_order_unites_nothing() {
    let (mut stage, first, second) = split();
    pass_ms(&mut stage, UNITE_AFTER_MS);
    stage.drain(first);
    assert_eq!((stage.to_come(first), stage.to_come(second).len()), (vec![], 1));
}

/// Nobody is left, and it is forgotten.
#[test]
fn a_gateway_that_is_gone_unites_nothing() {
    let (mut stage, first, second) = split();
    stage.die(first);
    stage.serve();
    stage.die(second);
    pass_ms(&mut stage, UNITE_AFTER_MS + FORGET_GATEWAY_AFTER_MS + 100);
    assert_eq!(stage.loads(), [(second, 12)].into());
    assert!(stage.owners().len() > 1);
}

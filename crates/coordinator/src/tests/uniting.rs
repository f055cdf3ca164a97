//! Several tenures of a gateway become one.

use shorttail_wire::control::TenureState::{self, LetGo, LettingGo, Serving};

use super::RETIRE_AFTER_MS;
use super::tenures::Stage;
use crate::limits::{FORGET_GATEWAY_AFTER_MS, UNITE_AFTER_MS, UNPROVEN_MS_MAX};

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
    stage.pass_ms(UNITE_AFTER_MS);
    stage.prepare();
    assert_eq!(stage.lets_go(first), [1, 4]);
    (stage, first, second)
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
    stage.pass_ms(UNITE_AFTER_MS - 100);
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
    stage.pass_ms(UNITE_AFTER_MS - 100);
    assert_eq!(stage.to_come(second), []);
    stage.pass_ms(100);
    stage.prepare();
    assert_eq!(stage.lets_go(second), [3, 5]);
    stage.report(|epoch| if epoch == 6 { Serving } else { LetGo });
    assert_eq!(stage.owners(), [(6, first, 6), (7, second, 6)]);
    stage.serve();
    stage.pass_ms(2 * UNITE_AFTER_MS);
    assert_eq!(stage.owners().len(), 2, "it rests");
}

/// A node that does not answer is waited for when an owner lets go.
#[test]
fn tenures_become_one_only_while_all_nodes_are_there() {
    let (mut stage, first, _) = split();
    stage.pass_ms(UNITE_AFTER_MS - 1_000);
    stage.close_node(7);
    stage.pass_ms(2_000);
    assert_eq!(stage.to_come(first), []);
    stage.pass_ms(RETIRE_AFTER_MS);
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
    stage.pass_ms(UNITE_AFTER_MS);
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
    stage.pass_ms(UNITE_AFTER_MS);
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
    stage.pass_ms(UNITE_AFTER_MS + FORGET_GATEWAY_AFTER_MS + 100);
    assert_eq!(stage.loads(), [(second, 12)].into());
    assert!(stage.owners().len() > 1);
}

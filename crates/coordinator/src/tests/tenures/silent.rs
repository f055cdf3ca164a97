//! Gateways that fall silent one after the other, as when it is the coordinator that is cut off.

use super::*;

/// Gateways beat at different moments, and fall silent at different ones.
fn silent_one_after_the_other() -> (Stage, Vec<u16>) {
    let mut stage = Stage::new(3, 12);
    let ids: Vec<u16> = (0..3).map(|_| stage.join()).collect();
    stage.serve();
    stage.pass_ms(2 * GATEWAY_RETURN_MS);
    for &id in &ids {
        stage.silence(id, true);
        stage.pass_ms(200);
    }
    (stage, ids)
}

/// It was the coordinator that was cut off, as above.
#[test]
fn the_first_that_falls_silent_is_not_dealt_to_those_that_follow() {
    let (mut stage, ids) = silent_one_after_the_other();
    let owners = stage.owners();
    stage.pass_ms(GATEWAY_DEAD_AFTER_MS - 500);
    assert_eq!(stage.scene.coordinator.alive_gateways().collect::<Vec<_>>(), ids[1..], "the first is dead");
    assert_eq!(stage.owners(), owners);
    stage.pass_ms(2 * GATEWAY_DEAD_AFTER_MS);
    for &id in &ids {
        stage.return_of(id).expect("let in");
        stage.silence(id, false);
        stage.serve();
        stage.pass_ms(GATEWAY_RETURN_SPREAD_MS / 3);
    }
    stage.pass_ms(2 * GATEWAY_RETURN_MS);
    assert_eq!(stage.owners(), owners);
}

/// The cut is over when only the first is dead.
#[test]
fn who_is_heard_again_before_it_is_dead_gets_nothing_of_those_that_come_back() {
    for comes_back in [true, false] {
        let (mut stage, ids) = silent_one_after_the_other();
        let owners = stage.owners();
        stage.pass_ms(GATEWAY_DEAD_AFTER_MS - 500);
        ids[1..].iter().for_each(|&id| stage.silence(id, false));
        stage.beat();
        stage.pass_ms(GATEWAY_RETURN_SPREAD_MS - 150);
        assert_eq!(stage.owners(), owners);
        if comes_back {
            stage.return_of(ids[0]).expect("let in");
            stage.silence(ids[0], false);
            stage.serve();
        }
        stage.pass_ms(200);
        assert_eq!(stage.owners() == owners, comes_back);
        assert_eq!(stage.loads().len(), if comes_back { 3 } else { 2 });
    }
}

/// Nobody hears the other one either, at first.
#[test]
fn what_a_gateway_had_whose_connection_ended_is_dealt_when_another_one_is_heard() {
    let mut stage = Stage::new(2, 8);
    let ids: Vec<u16> = (0..2).map(|_| stage.join()).collect();
    stage.serve();
    stage.silence(ids[1], true);
    stage.pass_ms(GATEWAY_SUSPECT_AFTER_MS);
    stage.die(ids[0]);
    assert_eq!(stage.loads().len(), 2, "the other one is late");
    stage.silence(ids[1], false);
    stage.beat();
    stage.pass_ms(GATEWAY_RETURN_SPREAD_MS + 50);
    assert_eq!(stage.loads(), [(ids[1], 8)].into());
}

//! Gateways that come back, and what they keep.

use super::*;

/// A cluster that three gateways share.
fn of_three() -> (Stage, Vec<u16>) {
    let mut stage = Stage::new(3, 12);
    let ids: Vec<u16> = (0..3).map(|_| stage.join()).collect();
    stage.serve();
    (stage, ids)
}

#[test]
fn connections_that_end_together_move_nothing() {
    let (mut stage, ids) = of_three();
    stage.pass_ms(2 * GATEWAY_RETURN_MS);
    let owners = stage.owners();
    stage.scene.pass_ms(100, &[]);
    ids.iter().for_each(|&id| stage.close(id));
    for &id in &ids {
        stage.scene.pass_ms(100, &[]);
        stage.return_of(id).expect("let in");
        stage.serve();
        assert_eq!(stage.owners(), owners);
    }
    stage.pass_ms(2 * GATEWAY_RETURN_SPREAD_MS);
    assert_eq!(stage.owners(), owners);
}

/// They gave up a coordinator that stood still, and it finds out one after the other.
#[test]
fn connections_that_ended_while_the_coordinator_stood_still_move_nothing() {
    let (mut stage, ids) = of_three();
    stage.pass_ms(2 * GATEWAY_RETURN_MS);
    let owners = stage.owners();
    stage.scene.now.mono_us += 10_000_000;
    for &id in &ids {
        stage.close(id);
        assert_eq!(stage.owners(), owners);
    }
    for &id in &ids {
        stage.return_of(id).expect("let in");
        stage.serve();
        assert_eq!(stage.owners(), owners);
    }
    stage.pass_ms(2 * GATEWAY_RETURN_SPREAD_MS);
    assert_eq!(stage.owners(), owners);
}

/// Whoever is left is heard later.
#[test]
fn a_connection_that_ends_alone_is_a_death_soon() {
    let (mut stage, ids) = of_three();
    stage.pass_ms(2 * GATEWAY_RETURN_MS);
    stage.scene.pass_ms(100, &[]);
    let owners = stage.owners();
    stage.close(ids[1]);
    let due_us = stage.scene.coordinator.poll_deadline();
    assert_eq!(due_us, Some(stage.scene.now.mono_us + ENDED_TOGETHER_MS * 1000), "whoever else is heard");
    stage.scene.pass_ms(ENDED_TOGETHER_MS - 1, &[]);
    assert_eq!(stage.owners(), owners);
    stage.scene.pass_ms(1, &[]);
    assert_eq!(stage.loads(), [(ids[0], 6), (ids[2], 6)].into());
}

/// The others fall silent, too, half a second later at most, as they beat at other moments.
#[test]
fn gateways_that_fall_silent_together_keep_what_they_own() {
    let (mut stage, ids) = of_three();
    stage.pass_ms(2 * GATEWAY_RETURN_MS);
    let owners = stage.owners();
    stage.silence(ids[0], true);
    stage.scene.pass_ms(499, &[]);
    stage.beat();
    stage.gateways.values_mut().for_each(|actor| actor.is_silent = true);
    stage.scene.pass_ms(GATEWAY_DEAD_AFTER_MS + 2 * ENDED_TOGETHER_MS, &[]);
    assert_eq!(stage.owners(), owners);
}

#[test]
fn a_gateway_that_comes_back_keeps_what_nobody_took() {
    let mut stage = Stage::new(1, 4);
    let id = stage.join();
    stage.serve();
    stage.close(id);
    stage.return_of(id).expect("let in");
    assert_eq!(stage.owners(), [(1, id, 4)]);
    assert_eq!(stage.terms_told(id)[0].epoch, Epoch(1));
    let other = stage.join();
    stage.close(id);
    assert_eq!(stage.owners(), [(2, other, 4)]);
    stage.return_of(id).expect("let in, with nothing");
    assert_eq!(stage.terms_told(id), []);
}

#[test]
fn a_restarted_coordinator_gives_gateways_time_to_come_back() {
    let (stage, ids) = of_three();
    let owners = stage.owners();
    let mut stage = stage.restart();
    stage.return_of(ids[0]).expect("let in");
    stage.return_of(ids[1]).expect("let in");
    stage.gateways.remove(&ids[2]);
    stage.serve();
    assert_eq!(stage.owners(), owners);
    stage.pass_ms(GATEWAY_RETURN_MS);
    assert_eq!(stage.loads(), [(ids[0], 6), (ids[1], 6)].into());
}

/// All of them lost sight of the coordinator for longer than it waits.
#[test]
fn gateways_come_back_one_after_the_other() {
    let (stage, ids) = of_three();
    let owners = stage.owners();
    let mut stage = stage.restart();
    ids.iter().for_each(|&id| stage.silence(id, true));
    stage.pass_ms(10 * GATEWAY_RETURN_MS);
    for &id in &ids[..2] {
        stage.return_of(id).expect("let in");
        stage.silence(id, false);
        stage.serve();
        stage.pass_ms(GATEWAY_RETURN_SPREAD_MS / 2);
        assert_eq!(stage.owners(), owners);
    }
    stage.pass_ms(GATEWAY_RETURN_SPREAD_MS);
    assert_eq!(stage.loads(), [(ids[0], 6), (ids[1], 6)].into());
}

/// More gateways than were announced: who comes first may be one of several.
#[test]
fn who_comes_back_first_gets_nothing_of_those_that_follow() {
    for announced in [1, 3] {
        let mut stage = Stage::new(3, 12);
        let ids: Vec<u16> = (0..3).map(|_| stage.join()).collect();
        stage.serve();
        let owners = stage.owners();
        stage.scene.settings.gateway_count_expected = announced;
        let mut stage = stage.restart();
        ids.iter().for_each(|&id| stage.silence(id, true));
        for &id in &ids {
            stage.return_of(id).expect("let in");
            stage.silence(id, false);
            stage.serve();
            assert_eq!(stage.owners(), owners, "{announced}");
        }
        stage.pass_ms(2 * GATEWAY_RETURN_MS);
        assert_eq!(stage.owners(), owners, "{announced}");
    }
}

/// It was the coordinator that was cut off.
#[test]
fn gateways_that_were_all_out_of_sight_have_time_to_come_back() {
    let (mut stage, ids) = of_three();
    let owners = stage.owners();
    stage.pass_ms(2 * GATEWAY_RETURN_MS);
    ids.iter().for_each(|&id| stage.silence(id, true));
    stage.pass_ms(2 * GATEWAY_DEAD_AFTER_MS);
    assert_eq!(stage.scene.coordinator.status().partitions_served, 0, "nobody is seen");
    for (&id, passed_ms) in ids[..2].iter().zip([200, GATEWAY_RETURN_SPREAD_MS - 350]) {
        stage.return_of(id).expect("let in");
        stage.silence(id, false);
        stage.serve();
        stage.pass_ms(passed_ms);
        assert_eq!(stage.owners(), owners);
    }
    stage.pass_ms(200);
    assert_eq!(stage.loads(), [(ids[0], 6), (ids[1], 6)].into(), "the third is dead");
    stage.die(ids[1]);
    assert_eq!(stage.loads(), [(ids[0], 12)].into(), "at once, as another one is there");
}

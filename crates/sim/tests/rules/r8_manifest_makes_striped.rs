//! R8: a striped object exists by its manifest alone.
//!
//! Holds by `installed` (gateway/src/engine/write/striped.rs): the manifest is appended when every chunk of every
//! stripe is held; by `is_void_manifest` (takeover/recovery.rs); and by `leave_stripes` (write/round.rs). With the
//! manifest sent when all pieces but one are held, a new owner voids what was acknowledged; with such a manifest
//! believed, an object has fewer pieces than it promises; with pieces freed of which nobody knows whether they are an
//! object, one that was shown is gone.

use super::*;

#[test]
fn a_large_value_is_whole_or_not_there_when_its_owner_dies_while_writing() {
    for seed in 0..24 {
        let mut world = cluster(seed);
        set(&mut world, "large", &value(1, 3_000));
        let op = world.request(0, "large", Action::Set(value(2, 3_900)));
        pass(&mut world, 60 * seed);
        world.crash_gateway(5_000);
        pass(&mut world, 10_000);
        _ = world.await_op(op);
        world.await_serving();
        let found = get(&mut world, "large");
        assert!(found == Some(value(1, 3_000)) || found == Some(value(2, 3_900)), "seed {seed}: {found:?}");
        concludes(world);
    }
}

/// One node does not hear of its piece, and the owner dies: what was acknowledged is there.
#[test]
fn a_large_value_is_acknowledged_when_every_piece_is_held() {
    let mut answered = 0;
    for deaf in 0..8 {
        for seed in 0..3 {
            let mut world = cluster(seed);
            set(&mut world, "large", &value(1, 3_000));
            world.cut_requests_to(deaf, 80_000);
            let op = world.request(0, "large", Action::Set(value(2, 3_900)));
            pass(&mut world, 2_000 + 20_000 * seed);
            let is_stored = world.outcome(op) == Some(&Outcome::Answered(Answer::Done));
            answered += u32::from(is_stored);
            take_over(&mut world, 5_000);
            let found = get(&mut world, "large");
            let is_legal = found == Some(value(2, 3_900)) || !is_stored && found == Some(value(1, 3_000));
            assert!(is_legal, "node {deaf} deaf, seed {seed}: {found:?}");
            concludes(world);
        }
    }
    assert!((4..24).contains(&answered), "{answered} of 24 are answered");
}

/// All hold the manifest, its owner hears of one node alone and gives up; so does the next owner of all others, and
/// shows the value. It stays what it is when the one node is back.
#[test]
fn a_large_value_of_unknown_outcome_that_was_shown_stays() {
    let (mut unknown, mut shown) = (0, 0);
    for beside in 0..8 {
        for offset_us in (0..1_200).step_by(100) {
            let mut world = cluster(offset_us);
            set(&mut world, "large", &value(1, 60));
            let op = world.request(0, "large", Action::Set(value(2, 3_900)));
            pass(&mut world, offset_us);
            (0..8).filter(|&node| node != beside).for_each(|node| world.cut_replies_of(node, 10_000_000));
            unknown += u32::from(world.await_op(op) == Outcome::Unknown);
            pass(&mut world, 5_000);
            world.mend_all();
            world.cut_gateway_from(0, beside, 10_000_000);
            take_over(&mut world, 5_000);
            let found = get(&mut world, "large");
            shown += u32::from(found == Some(value(2, 3_900)));
            assert_eq!(world.ask("large", Action::Touch), Outcome::Answered(Answer::Applied(true)));
            world.mend_all();
            take_over(&mut world, 5_000);
            assert_eq!(get(&mut world, "large"), found, "beside {beside}, after {offset_us} us");
            concludes(world);
        }
    }
    assert!(unknown >= 8 && shown >= 8, "{unknown} are unknown, {shown} are shown");
}

#[test]
fn a_large_value_survives_any_two_nodes() {
    for (first, second) in [(0, 1), (2, 3), (4, 5), (6, 7), (0, 5), (3, 6)] {
        let mut world = cluster(50 + first as u64);
        for name in 0..8 {
            set(&mut world, &format!("large{name}"), &value(name, 1_200 + 300 * name as usize));
        }
        world.crash_node(first, 400_000);
        world.crash_node(second, 400_000);
        for name in 0..8 {
            let expected = value(name, 1_200 + 300 * name as usize);
            assert_eq!(get(&mut world, &format!("large{name}")), Some(expected), "without {first} and {second}");
        }
        concludes(world);
    }
}

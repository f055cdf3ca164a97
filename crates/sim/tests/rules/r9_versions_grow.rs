//! R9: versions grow over owners, a flush is a floor that lasts, a touch is a new version.
//!
//! Holds by `take_version` (gateway/src/engine/mod.rs): the epoch is the version's upper part; and by `take_keyed`
//! (gateway/src/engine/takeover/picture.rs), which leaves out what lies below the floor. With the epoch left out of
//! versions a new owner's writes lose against older ones at the next take-over; without the floor flushed objects
//! return.

use super::*;

#[test]
fn the_newest_value_wins_over_any_number_of_owners() {
    for seed in 0..8 {
        let mut world = cluster(seed);
        for name in 0..30 {
            set(&mut world, "key", &value(name, 60));
        }
        for owner in 0..4 {
            take_over(&mut world, 5_000);
            // Fewer writes than the owner before made.
            set(&mut world, "key", &value(100 + owner, 60));
        }
        take_over(&mut world, 5_000);
        assert_eq!(get(&mut world, "key"), Some(value(103, 60)), "seed {seed}");
        concludes(world);
    }
}

#[test]
fn what_was_flushed_does_not_return_with_a_new_owner() {
    for seed in 0..8 {
        let mut world = cluster(seed);
        fill(&mut world, 0, 70);
        let op = world.request_flush(0);
        assert_eq!(world.await_op(op), Outcome::Answered(Answer::Done));
        set(&mut world, "fill3", &value(500, 60));
        take_over(&mut world, 5_000);
        for name in [0, 1, 2, 30, 69] {
            assert_eq!(get(&mut world, &format!("fill{name}")), None, "seed {seed}, fill{name}");
        }
        assert_eq!(get(&mut world, "fill3"), Some(value(500, 60)));
        concludes(world);
    }
}

#[test]
fn a_touched_object_keeps_its_value_over_owners() {
    let mut world = cluster(1);
    set(&mut world, "key", &value(1, 60));
    set(&mut world, "large", &value(2, 3_000));
    for key in ["key", "large"] {
        assert_eq!(world.ask(key, Action::Touch), Outcome::Answered(Answer::Applied(true)));
    }
    take_over(&mut world, 5_000);
    assert_eq!(get(&mut world, "key"), Some(value(1, 60)));
    assert_eq!(get(&mut world, "large"), Some(value(2, 3_000)));
    concludes(world);
}

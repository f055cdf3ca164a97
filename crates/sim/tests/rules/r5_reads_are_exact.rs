//! R5: a seal names the final operation, and every read that is decoded is exact.
//!
//! Holds by `ChunkMut::seal` (store/src/chunk.rs), which refuses with `Gap` what it was not sent, and by
//! `seal_confirmed` (gateway/src/engine/write/log.rs), which keeps the owner's bytes until all members confirmed. With
//! the bytes let go at the first confirmation, reads of a stripe that some members never sealed are refused.

use super::*;

#[test]
fn every_record_of_sealed_stripes_is_read_rightly_without_any_two_nodes() {
    for (first, second) in [(0, 1), (2, 5), (3, 7), (4, 6), (1, 6), (0, 7)] {
        let mut world = cluster(first as u64 * 8 + second as u64);
        fill(&mut world, 0, 240);
        assert!(world.counts().seals >= 6, "stripes are sealed");
        world.stall_node(first, 3_000_000);
        world.stall_node(second, 3_000_000);
        for name in 0..240 {
            assert_eq!(get(&mut world, &format!("fill{name}")), Some(value(name, 120)), "without {first} and {second}");
        }
        assert!(world.counts().degraded_reads > 0, "some reads were decoded");
        concludes(world);
    }
}

#[test]
fn a_node_lost_while_stripes_are_being_sealed_loses_nothing() {
    for seed in 0..16 {
        let mut world = cluster(seed);
        let node = (seed % 8) as usize;
        world.cut_replies_of(node, 20_000);
        let ops: Vec<_> =
            (0..60).map(|name| world.request(0, &format!("fill{name}"), Action::Set(value(name, 120)))).collect();
        pass(&mut world, 1_000 * (seed + 1));
        world.crash_node(node, 50_000);
        let stored: Vec<bool> =
            ops.into_iter().map(|op| world.await_op(op) == Outcome::Answered(Answer::Done)).collect();
        for (name, stored) in (0..60).zip(stored) {
            let found = get(&mut world, &format!("fill{name}"));
            assert!(!stored || found == Some(value(name, 120)), "seed {seed}, fill{name}");
        }
        concludes(world);
    }
}

/// Three members never hear of the seal, more than the code tolerates: the owner's bytes are what reads rest on.
#[test]
fn a_stripe_that_members_did_not_seal_is_read_from_its_owner() {
    // The same seed is the same run: this many writes fill the first stripe.
    let (mut world, mut fitting) = (cluster(5), 0);
    while world.counts().seals == 0 {
        set(&mut world, &format!("fill{fitting}"), &value(fitting, 120));
        pass(&mut world, 5_000);
        fitting += 1;
    }
    for first in 0..4 {
        let mut world = cluster(5);
        for name in 0..fitting - 1 {
            set(&mut world, &format!("fill{name}"), &value(name, 120));
            pass(&mut world, 5_000);
        }
        let holders = world.holders_of_open();
        assert_eq!((world.counts().seals, holders.len()), (0, 6));
        let deaf = &holders[first..first + 3];
        deaf.iter().for_each(|&node| world.cut_requests_to(node, 10_000_000));
        world.request(0, "last", Action::Set(value(fitting, 120)));
        pass(&mut world, 5_000);
        assert!(world.counts().seals > 0, "the others sealed it");
        deaf.iter().for_each(|&node| world.break_all_of(node));
        world.mend_all();
        pass(&mut world, 200_000);
        for name in 0..fitting - 1 {
            assert_eq!(get(&mut world, &format!("fill{name}")), Some(value(name, 120)), "without {deaf:?}");
        }
        concludes(world);
    }
}

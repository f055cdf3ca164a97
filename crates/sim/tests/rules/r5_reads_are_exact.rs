//! R5: a seal names the final operation, and every read that is decoded is exact.
//!
//! Holds by `ChunkMut::seal` (store/src/chunk.rs), which refuses with `Gap` what it was not sent, and by
//! `seal_confirmed` (gateway/src/engine/log.rs), which keeps the owner's bytes until all members confirmed. With the
//! bytes let go at the first confirmation, reads of a stripe that a member never sealed are refused or wrong.

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
        world.run_until(world.now_us() + 1_000 * (seed + 1));
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

//! R4: a new owner closes every inherited unsealed stripe before it serves, and never appends to one.
//!
//! Holds by `synchronise` and `end_gathering_when_done` (gateway/src/engine/recovery.rs): serving waits for the closes,
//! and what the new owner decided is what a later one finds. Without the closes, a member that was away at the first
//! take-over adds operations to the second one's picture.

use super::*;

#[test]
fn what_one_owner_answered_the_next_one_answers_too() {
    for seed in 0..24 {
        let mut world = cluster(seed);
        set(&mut world, "key", &value(1, 60));
        let away = (seed % 8) as usize;
        // One member holds operations that the first new owner cannot see.
        world.cut_replies_of(away, 900_000);
        let ops: Vec<_> = (2..6).map(|name| world.request(0, "key", Action::Set(value(name, 60)))).collect();
        world.run_until(world.now_us() + 300 * (seed % 5));
        world.crash_gateway(5_000);
        world.run_until(world.now_us() + 10_000);
        ops.into_iter().for_each(|op| _ = world.await_op(op));
        world.await_serving();
        let seen = get(&mut world, "key");
        world.run_until(world.now_us() + 1_000_000);
        world.crash_gateway(5_000);
        world.run_until(world.now_us() + 10_000);
        world.await_serving();
        assert_eq!(get(&mut world, "key"), seen, "seed {seed}");
        concludes(world);
    }
}

//! R10: a reply that depends on an operation in flight waits for it, and a failure after sending is "unknown".
//!
//! Holds by `read` (gateway/src/engine/lookup.rs): a read of a key whose write is under way queues behind it. With the
//! read answered from the round in hand, it shows what dies with the owner.

use super::*;

#[test]
fn a_read_beside_a_write_shows_nothing_that_a_new_owner_forgets() {
    for seed in 0..40 {
        let mut world = cluster(seed);
        set(&mut world, "key", &value(1, 60));
        // No node hears of the write; some read is asked while it waits.
        for node in 0..8 {
            world.cut_requests_to(node, 40_000);
        }
        let write = world.request(0, "key", Action::Set(value(2, 60)));
        let read = world.request(1, "key", Action::Get);
        let later = world.request(2, "key", Action::Add(value(3, 60)));
        world.run_until(world.now_us() + 500 + 100 * seed);
        world.crash_gateway(45_000);
        world.run_until(world.now_us() + 50_000);
        [write, read, later].into_iter().for_each(|op| _ = world.await_op(op));
        world.await_serving();
        _ = get(&mut world, "key");
        concludes(world);
    }
}

//! R1: parities fold only what every participant confirmed.
//!
//! Holds by `OpenStripe::acknowledge` (gateway/src/engine/write/open_stripe.rs): `stable` moves over the front of the
//! operations only while that front is confirmed by its data node and all parities. With `stable` taken from the
//! parities alone, a data node that is cut off lacks what parities folded: the audit says so.

use super::*;

#[test]
fn a_laggard_data_node_holds_back_every_fold() {
    for seed in 0..8 {
        let mut world = cluster(seed);
        set(&mut world, "key", &value(1, 60));
        // Each node in turn is late: it gets nothing for a while, while writes to others go on.
        for node in 0..8 {
            world.cut_requests_to(node, 30_000);
            let ops: Vec<_> = (0..12)
                .map(|name| world.request(0, &format!("key{name}"), Action::Set(value(100 * node as u64 + name, 50))))
                .collect();
            let until_us = world.now_us() + 25_000;
            world.run_until(until_us);
            ops.into_iter().for_each(|op| _ = world.await_op(op));
        }
        assert!(world.counts().folds > 0, "something was folded");
        concludes(world);
    }
}

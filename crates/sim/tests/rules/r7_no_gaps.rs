//! R7: no participant ever holds an operation without the one before it; a new session ends the older one.
//!
//! Holds by `check_order` (store/src/chunk.rs), which refuses a gap, and by `handle_session_closed` and `reconcile`
//! (gateway/src/engine): a stripe that lost a session is left, and its chunks are dropped when the node is back. With
//! appends going on after a reconnection, chunks differ from what parities hold: the audit says so.

use super::*;

#[test]
fn a_broken_session_leaves_no_gap_behind() {
    for seed in 0..20 {
        let (mut world, mut answered) = (cluster(seed), 0);
        for step in 0..10 {
            let names = 10 * step..10 * step + 10;
            let ops: Vec<_> = names
                .map(|name| world.request(0, &format!("key{}", name % 17), Action::Set(value(name, 80))))
                .collect();
            pass(&mut world, 150 * (step % 4));
            world.break_session_of(((seed + step) % 8) as usize);
            // With three nodes away at once a write may have no place: then it says so.
            pass(&mut world, 40_000);
            answered += ops.into_iter().filter(|&op| world.await_op(op) == Outcome::Answered(Answer::Done)).count();
        }
        assert!(answered >= 80, "seed {seed}: {answered} of 100");
        concludes(world);
    }
}

//! Flushes that were ordered for later.

use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Action, Answer, Value};
use shorttail_sim::scenario::*;
use shorttail_sim::world::Outcome;

/// The owner slept over the time of one flush and woke with the order of another: both happen. The floor of the first
/// was younger than the second order, and ended it.
#[test]
fn a_flush_that_is_overdue_does_not_end_one_that_is_ordered() {
    for order_us in [21_000, 50_000, 99_000, 99_900] {
        let mut world = cluster_of(SimConfig::scripted(), order_us);
        set(&mut world, "key", &Value::bytes(b"first"));
        let start_us = world.now_us();
        world.order_flush(0, 40);
        world.run_until(start_us + 20_000);
        world.stall_gateway(0, 100_000);
        world.run_until(start_us + 20_000 + order_us);
        world.order_flush(1, 300);
        world.run_until(start_us + 140_000);
        set(&mut world, "key", &Value::bytes(b"second"));
        assert_eq!(get(&mut world, "key"), Some(Value::bytes(b"second")));
        world.run_until(start_us + 800_000);
        assert_eq!(get(&mut world, "key"), None, "ordered after {order_us} us of sleep");
        concludes(world);
    }
}

/// What is stored once a flush is over its time is not what was ordered to go: whether its owner slept meanwhile, or
/// another one takes over. It was acknowledged, and went with the floor that was declared after it.
#[test]
fn a_late_flush_does_not_end_what_was_stored_after_its_time() {
    for is_taken_over in [true, false] {
        for seed in 0..6 {
            let mut world = cluster_of(SimConfig::scripted(), seed);
            set(&mut world, "key", &Value::bytes(b"first"));
            set(&mut world, "other", &Value::bytes(b"first"));
            let start_us = world.now_us();
            world.order_flush(0, 40);
            world.run_until(start_us + 30_000 + seed * 1_000);
            match is_taken_over {
                true => world.crash_gateway(5_000),
                false => world.stall_gateway(0, 60_000),
            }
            world.run_until(start_us + 45_000);
            let op = world.request(1, "key", Action::Set(Value::bytes(b"second")));
            let mut outcome = world.await_op(op);
            while is_taken_over && outcome == Outcome::Refused {
                // Nobody serves yet: at the first moment that somebody does.
                pass(&mut world, 200);
                outcome = world.ask("key", Action::Set(Value::bytes(b"second")));
            }
            assert_eq!(outcome, Outcome::Answered(Answer::Done), "taken over: {is_taken_over}, seed {seed}");
            pass(&mut world, 100_000);
            let found = get(&mut world, "key");
            assert_eq!(found, Some(Value::bytes(b"second")), "taken over: {is_taken_over}, seed {seed}");
            assert_eq!(get(&mut world, "other"), None, "it was flushed");
            concludes(world);
        }
    }
}

/// A new owner finds the order and carries it out; an immediate flush after it ends it.
#[test]
fn an_order_outlives_its_owner_and_a_flush_ends_it() {
    for is_cancelled in [false, true] {
        let mut world = cluster_of(SimConfig::scripted(), 7);
        set(&mut world, "key", &Value::bytes(b"first"));
        let start_us = world.now_us();
        world.order_flush(0, 2_000);
        world.run_until(start_us + 20_000);
        if is_cancelled {
            let flush = world.request_flush(0);
            assert_eq!(world.await_op(flush), Outcome::Answered(Answer::Done));
        }
        take_over(&mut world, 5_000);
        set(&mut world, "key", &Value::bytes(b"second"));
        world.run_until(start_us + 3_000_000);
        assert_eq!(get(&mut world, "key").is_some(), is_cancelled);
        concludes(world);
    }
}

//! Flushes that were ordered for later.

use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Action, Answer, Value};
use shorttail_sim::world::{Outcome, World};

fn set(world: &mut World, value: &str) {
    let outcome = world.ask("key", Action::Set(Value::bytes(value.as_bytes())));
    assert_eq!(outcome, Outcome::Answered(Answer::Done));
}

fn get(world: &mut World) -> Option<Value> {
    match world.ask("key", Action::Get) {
        Outcome::Answered(Answer::Found(found)) => found,
        other => panic!("get: {other:?}"),
    }
}

/// The owner slept over the time of one flush and woke with the order of another: both happen. The floor of the first was
/// younger than the second order, and ended it.
#[test]
fn a_flush_that_is_overdue_does_not_end_one_that_is_ordered() {
    for order_us in [21_000, 50_000, 99_000, 99_900] {
        let mut world = World::with_config(SimConfig::scripted(), order_us);
        world.await_serving();
        set(&mut world, "first");
        let start_us = world.now_us();
        world.order_flush(0, 40);
        world.run_until(start_us + 20_000);
        world.stall_gateway(0, 100_000);
        world.run_until(start_us + 20_000 + order_us);
        world.order_flush(1, 300);
        world.run_until(start_us + 140_000);
        set(&mut world, "second");
        assert_eq!(get(&mut world), Some(Value::bytes(b"second")));
        world.run_until(start_us + 800_000);
        assert_eq!(get(&mut world), None, "ordered after {order_us} us of sleep");
        world.conclude().unwrap_or_else(|violation| panic!("{violation}"));
    }
}

/// A new owner finds the order and carries it out; an immediate flush after it ends it.
#[test]
fn an_order_outlives_its_owner_and_a_flush_ends_it() {
    for is_cancelled in [false, true] {
        let mut world = World::with_config(SimConfig::scripted(), 7);
        world.await_serving();
        set(&mut world, "first");
        let start_us = world.now_us();
        world.order_flush(0, 2_000);
        world.run_until(start_us + 20_000);
        if is_cancelled {
            let flush = world.request_flush(0);
            assert_eq!(world.await_op(flush), Outcome::Answered(Answer::Done));
        }
        world.crash_gateway(5_000);
        world.run_until(world.now_us() + 10_000);
        world.await_serving();
        set(&mut world, "second");
        world.run_until(start_us + 3_000_000);
        assert_eq!(get(&mut world).is_some(), is_cancelled);
        world.conclude().unwrap_or_else(|violation| panic!("{violation}"));
    }
}

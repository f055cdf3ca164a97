//! One scenario per rule of the store, each with the line that makes it hold; without that line it fails.

mod r10_committed_replies;
mod r1_fold_confirmed_prefix;
mod r2_one_owner;
mod r3_nothing_returns;
mod r4_close_before_serving;
mod r5_reads_are_exact;
mod r6_folding_survives_a_crash;
mod r7_no_gaps;
mod r8_manifest_makes_striped;
mod r9_versions_grow;

use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Action, Answer, Value};
use shorttail_sim::world::{Outcome, World};

/// A serving cluster, RS(4,2) on eight nodes.
fn cluster(seed: u64) -> World {
    cluster_of(SimConfig::scripted(), seed)
}

fn cluster_of(config: SimConfig, seed: u64) -> World {
    let mut world = World::with_config(config, seed);
    world.await_serving();
    world
}

fn value(name: u64, length: usize) -> Value {
    let mut bytes = format!("value{name:06}.").into_bytes();
    let named = bytes.len();
    bytes.extend((named..length).map(|at| b'a' + (at % 23) as u8));
    Value::bytes(&bytes)
}

fn set(world: &mut World, key: &str, value: &Value) {
    assert_eq!(world.ask(key, Action::Set(value.clone())), Outcome::Answered(Answer::Done), "set of {key}");
}

fn get(world: &mut World, key: &str) -> Option<Value> {
    match world.ask(key, Action::Get) {
        Outcome::Answered(Answer::Found(found)) => found,
        other => panic!("get of {key}: {other:?}"),
    }
}

/// Writes until some stripes are full and sealed.
fn fill(world: &mut World, first: u64, count: u64) {
    for name in first..first + count {
        set(world, &format!("fill{name}"), &value(name, 120));
    }
}

/// A write whose operation reaches one node alone; its client does not hear of it.
fn send_to_one(world: &mut World, node: usize, key: &str, value: &Value) {
    (0..8).filter(|&other| other != node).for_each(|other| world.cut_requests_to(other, 10_000_000));
    world.request(0, key, Action::Set(value.clone()));
    // Longer than a message takes, shorter than until it is late.
    world.run_until(world.now_us() + 3_000);
}

fn take_over(world: &mut World) {
    world.crash_gateway(5_000);
    world.run_until(world.now_us() + 10_000);
    world.await_serving();
}

fn concludes(mut world: World) {
    if let Err(violation) = world.conclude() {
        panic!("{violation}\n{}", world.trace());
    }
}

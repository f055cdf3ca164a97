//! One scenario per rule of the store, each with the line that makes it hold; without that line it fails.

mod r10_committed_replies;
mod r1_fold_confirmed_prefix;
mod r3_nothing_returns;
mod r4_close_before_serving;
mod r5_reads_are_exact;
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

fn concludes(mut world: World) {
    if let Err(violation) = world.conclude() {
        panic!("{violation}\n{}", world.trace());
    }
}

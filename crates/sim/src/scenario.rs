//! The words that scripted scenarios are told in: a cluster, keys that are stored and read, nodes and owners that die,
//! what is waited for, and the look at the end.
//!
//! ```text
//! cluster_of(config) -> fill, set -> kill, take_over, pass -> await_whole -> holds, get -> concludes
//! ```
//! Each function panics, with the trace of the run, when what it says does not hold: a scenario is a list of claims.
//!
//! Must not know: what a scenario is about. What one scenario needs alone is in its file.

use shorttail_gateway::engine::LeaseConfig;

use crate::config::SimConfig;
use crate::model::{Action, Answer, Value};
use crate::world::{Outcome, World};

/// A node that is not to return within the scenario.
pub const FOR_GOOD_US: u64 = 3_600_000_000;
/// A death is noticed by everybody in less.
pub const NOTICED_US: u64 = 50_000;
/// Repair of a few dozen chunks takes far less.
pub const REPAIR_US: u64 = 20_000_000;
/// Whatever happened, with real coordinators everything is served again within this.
pub const SERVED_US: u64 = 15_000_000;
/// Length of a value of which many lie in a chunk.
pub const SMALL_BYTES: usize = 120;
/// Length of a value that is striped.
pub const STRIPED_BYTES: usize = 1500;

/// A cluster that serves.
pub fn cluster_of(config: SimConfig, seed: u64) -> World {
    let mut world = World::with_config(config, seed);
    world.await_serving();
    world
}

/// So many nodes that store by this code.
///
/// # Panics
/// When that is no code's name.
pub fn nodes_of(code: &str, node_count: u16) -> SimConfig {
    SimConfig { code: code.parse().expect("a shape"), node_count, ..SimConfig::scripted() }
}

/// Eight nodes, two gateways, four partitions, so many coordinators.
pub fn coordinated(coordinator_count: usize) -> SimConfig {
    let mut config = SimConfig { partition_count: 4, coordinator_count, ..SimConfig::scripted() };
    config.share(2);
    config.coordinated = true;
    config.lease = Some(LeaseConfig::USUAL);
    config.audit_events = 1_000;
    config
}

/// `length` bytes that say which value they are.
pub fn value(name: u64, length: usize) -> Value {
    repeated(&format!("value{name:06}."), length)
}

/// What key `name` holds after this round; every fifth is striped.
pub fn value_of(name: u64, round: u64) -> Value {
    let length = if name.is_multiple_of(5) { STRIPED_BYTES } else { SMALL_BYTES };
    repeated(&format!("value{name:04}of{round:04}."), length)
}

fn repeated(text: &str, length: usize) -> Value {
    Value::bytes(&text.bytes().cycle().take(length).collect::<Vec<_>>())
}

/// Stores one value.
///
/// # Panics
/// When it is not stored.
pub fn set(world: &mut World, key: &str, value: &Value) {
    let outcome = world.ask(key, Action::Set(value.clone()));
    assert_eq!(outcome, Outcome::Answered(Answer::Done), "set of {key}\n{}", world.trace());
}

/// What a key holds.
///
/// # Panics
/// When there is no answer.
pub fn get(world: &mut World, key: &str) -> Option<Value> {
    match world.ask(key, Action::Get) {
        Outcome::Answered(Answer::Found(found)) => found,
        other => panic!("get of {key}: {other:?}\n{}", world.trace()),
    }
}

/// Deletes a key.
///
/// # Panics
/// When it did not exist, or there is no answer.
pub fn delete(world: &mut World, key: &str) {
    let outcome = world.ask(key, Action::Delete);
    assert_eq!(outcome, Outcome::Answered(Answer::Existed(true)), "delete of {key}\n{}", world.trace());
}

/// Stores the values of the first round under these keys.
///
/// # Panics
/// When one is not stored.
pub fn fill(world: &mut World, names: impl IntoIterator<Item = u64>) {
    fill_round(world, names, 0);
}

/// Stores the values of a round under these keys.
///
/// # Panics
/// When one is not stored.
pub fn fill_round(world: &mut World, names: impl IntoIterator<Item = u64>, round: u64) {
    names.into_iter().for_each(|name| set(world, &format!("key{name}"), &value_of(name, round)));
}

/// These keys hold the values of the first round.
///
/// # Panics
/// When one does not.
pub fn holds(world: &mut World, names: impl IntoIterator<Item = u64>) {
    holds_round(world, names, 0);
}

/// These keys hold the values of a round.
///
/// # Panics
/// When one does not.
pub fn holds_round(world: &mut World, names: impl IntoIterator<Item = u64>, round: u64) {
    for name in names {
        let found = get(world, &format!("key{name}"));
        assert_eq!(found, Some(value_of(name, round)), "key{name} in round {round}\n{}", world.trace());
    }
}

/// Lets time pass.
pub fn pass(world: &mut World, us: u64) {
    world.run_until(world.now_us() + us);
}

/// These nodes die for good, all at once.
pub fn crash_for_good(world: &mut World, nodes: &[usize]) {
    nodes.iter().for_each(|&node| world.crash_node(node, FOR_GOOD_US));
}

/// The same, and everybody notices.
pub fn kill(world: &mut World, nodes: &[usize]) {
    crash_for_good(world, nodes);
    pass(world, NOTICED_US);
}

/// The owner dies; its next process is there after so long, and takes over.
pub fn take_over(world: &mut World, away_us: u64) {
    world.crash_gateway(away_us);
    pass(world, 2 * away_us);
    world.await_serving();
}

/// Waits until this holds.
///
/// # Panics
/// When it does not in so many microseconds.
pub fn await_within(world: &mut World, us: u64, what: &str, mut holds: impl FnMut(&World) -> bool) {
    let until_us = world.now_us() + us;
    if !world.run_while(until_us, |world| !holds(world)) {
        let (counts, loads, stats) = (world.counts(), world.loads(), world.all_stats());
        panic!("not {what}: {counts:?} {loads:?} {stats:?}\n{}", world.trace());
    }
}

/// Waits until every stripe has all its chunks.
///
/// # Panics
/// When that takes longer than any repair.
pub fn await_whole(world: &mut World) {
    await_within(world, REPAIR_US, "whole", World::is_whole);
}

/// Waits until the first twenty keys are served.
///
/// # Panics
/// When that takes longer than it may with real coordinators.
pub fn await_served(world: &mut World) {
    await_within(world, SERVED_US, "served", |world| (0..20).all(|name| world.serves(&format!("key{name}"))));
}

/// Chunks that owners miss.
pub fn missing(world: &World) -> u64 {
    world.all_stats().iter().map(|stats| stats.totals.chunks_missing).sum()
}

/// The end: everything heals, and what clients saw and nodes hold is judged.
///
/// # Panics
/// When a rule was broken.
pub fn concludes(mut world: World) {
    if let Err(violation) = world.conclude() {
        panic!("{violation}\n{}", world.trace());
    }
}

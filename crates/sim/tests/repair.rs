//! Lost chunks are rebuilt by nodes: deaths may follow each other as long as repair is done in between.

use shorttail_sim::command::run_seed;
use shorttail_sim::config::{Profile, SimConfig};
use shorttail_sim::model::{Action, Answer, Value};
use shorttail_sim::world::{Outcome, World};

/// A node that is not to return within the scenario.
const FOR_GOOD_US: u64 = 3_600_000_000;
/// Repair of a few dozen chunks takes far less.
const REPAIR_US: u64 = 20_000_000;

fn cluster_of(config: SimConfig, seed: u64) -> World {
    let mut world = World::with_config(config, seed);
    world.await_serving();
    world
}

fn config(code: &str, node_count: u16) -> SimConfig {
    SimConfig { code: code.parse().expect("a shape"), node_count, ..SimConfig::scripted() }
}

fn value(name: u64) -> Value {
    let mut bytes = format!("value{name:06}.").into_bytes();
    // Every fifth is striped.
    let length = if name.is_multiple_of(5) { 1500 } else { 120 };
    let named = bytes.len();
    bytes.extend((named..length).map(|at| b'a' + (at % 23) as u8));
    Value::bytes(&bytes)
}

fn fill(world: &mut World, names: std::ops::Range<u64>) {
    for name in names {
        let outcome = world.ask(&format!("key{name}"), Action::Set(value(name)));
        assert_eq!(outcome, Outcome::Answered(Answer::Done), "set of key {name}");
    }
}

fn holds(world: &mut World, names: std::ops::Range<u64>) {
    for name in names {
        let outcome = world.ask(&format!("key{name}"), Action::Get);
        assert_eq!(outcome, Outcome::Answered(Answer::Found(Some(value(name)))), "get of key {name}");
    }
}

fn kill(world: &mut World, nodes: &[usize]) {
    nodes.iter().for_each(|&node| world.crash_node(node, FOR_GOOD_US));
    // Until everybody noticed.
    world.run_until(world.now_us() + 50_000);
}

fn await_whole(world: &mut World) {
    let until_us = world.now_us() + REPAIR_US;
    let is_done = world.run_while(until_us, |world| !world.is_whole());
    assert!(is_done, "not whole: {:?}\n{}", world.engine_stats(), world.trace());
}

fn concludes(mut world: World) {
    if let Err(violation) = world.conclude() {
        panic!("{violation}\n{}", world.trace());
    }
}

/// Without repair the third and fourth death would take most stripes below `k` chunks.
#[test]
fn twice_as_many_nodes_die_as_the_code_tolerates() {
    for (code, node_count, victims) in [
        ("rs:4+2", 10, vec![[0, 1], [2, 3]]),
        ("rs:4+2", 12, vec![[9, 4], [1, 7], [11, 0]]),
        ("rs:2+2", 8, vec![[6, 2], [3, 0]]),
        ("lrc:4+2+1", 11, vec![[0, 5], [7, 2]]),
        ("rs:1+2", 7, vec![[0, 1], [2, 3]]),
    ] {
        let mut world = cluster_of(config(code, node_count), 1);
        fill(&mut world, 0..60);
        for pair in victims {
            kill(&mut world, &pair);
            await_whole(&mut world);
        }
        assert!(world.counts().rebuilds > 0, "{code}: nothing was rebuilt");
        holds(&mut world, 0..60);
        concludes(world);
    }
}

/// What was rebuilt counts for a new owner as well: it finds who holds it.
#[test]
fn a_new_owner_finds_what_was_rebuilt() {
    for seed in 0..4 {
        let mut world = cluster_of(config("rs:4+2", 10), seed);
        fill(&mut world, 0..60);
        for pair in [[0, 1], [2, 3]] {
            kill(&mut world, &pair);
            await_whole(&mut world);
            world.crash_gateway(10_000);
            world.run_until(world.now_us() + 20_000);
            world.await_serving();
        }
        holds(&mut world, 0..60);
        concludes(world);
    }
}

/// Whoever dies in the middle, nothing is lost, and repair comes to its end: `break_us` after it began the node that
/// rebuilds, one that it reads from, or the owner dies.
#[test]
fn deaths_in_the_middle_of_repair() {
    for (seed, break_us) in [0u64, 300, 1_000, 2_000, 4_000, 8_000].into_iter().enumerate() {
        for dies in ["target", "owner", "returning"] {
            // So slow that the death falls into it.
            let slow = SimConfig { repair_bytes_per_s: 2_000_000, ..config("rs:4+2", 10) };
            let mut world = cluster_of(slow, seed as u64);
            fill(&mut world, 0..60);
            kill(&mut world, &[4]);
            world.run_until(world.now_us() + break_us);
            match dies {
                // Any node is a target of some stripes and a source of others.
                "target" => kill(&mut world, &[7]),
                "owner" => {
                    world.crash_gateway(5_000);
                    world.run_until(world.now_us() + 10_000);
                    world.await_serving();
                }
                _ => {
                    world.crash_node(7, 3_000);
                    world.run_until(world.now_us() + 50_000);
                }
            }
            await_whole(&mut world);
            holds(&mut world, 0..60);
            kill(&mut world, &[1, 2]);
            holds(&mut world, 0..60);
            concludes(world);
        }
    }
}

/// Rule R11: keys are overwritten and stripes cleaned while their chunks are rebuilt; no late install brings one back,
/// and all memory returns.
#[test]
fn stripes_are_freed_while_their_chunks_are_rebuilt() {
    for seed in 0..6 {
        let slow = SimConfig { repair_bytes_per_s: 1_000_000, ..config("rs:4+2", 9) };
        let mut world = cluster_of(slow, seed);
        fill(&mut world, 0..60);
        kill(&mut world, &[seed as usize]);
        for _ in 0..3 {
            fill(&mut world, 0..60);
        }
        await_whole(&mut world);
        holds(&mut world, 0..60);
        concludes(world);
    }
}

/// With no node to spare nothing can be rebuilt, and that is said; a node that comes back empty gets its chunks again.
#[test]
fn without_a_spare_node_repair_waits_for_one() {
    let mut world = cluster_of(config("rs:4+2", 7), 3);
    fill(&mut world, 0..60);
    kill(&mut world, &[0, 1]);
    world.run_until(world.now_us() + 3_000_000);
    let stats = world.engine_stats();
    assert!(stats.chunks_stranded > 0 && stats.chunks_missing > 0, "{stats:?}");
    assert!(!world.is_whole());
    world.start_again(0);
    world.start_again(1);
    await_whole(&mut world);
    kill(&mut world, &[2, 3]);
    holds(&mut world, 0..60);
    concludes(world);
}

/// A node was given up while reads of it were under way; what it owed was let go in a session that did not know it any
/// more.
#[test]
fn what_a_node_owes_when_it_is_given_up_fails_at_once() {
    let report = run_seed(Profile::Full, 200_197);
    assert!(report.failure.is_none(), "{}", report.explain(60));
}

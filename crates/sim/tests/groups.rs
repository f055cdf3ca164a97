//! Groups: several keys that one request stores, however long they are.

use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Answer, Value};
use shorttail_sim::scenario::*;
use shorttail_sim::world::{Outcome, World};

const CHUNK_BYTES: usize = 24 << 10;

fn cluster() -> World {
    cluster_of(SimConfig { chunk_bytes: CHUNK_BYTES, block_bytes: 4096, ..SimConfig::scripted() }, 1)
}

fn store(world: &mut World, pairs: &[(&str, Value)], only_if_absent: bool) -> Outcome {
    let op = world.request_group(0, pairs, only_if_absent);
    world.await_op(op)
}

const STORED: Outcome = Outcome::Answered(Answer::Applied(true));

/// Two records that are longer than half a chunk do not share one: packed, they would leave so much room wherever
/// cleaning put them that it would begin anew, for ever.
#[test]
fn cleaning_comes_to_rest_after_groups_with_long_values() {
    let mut world = cluster();
    let keys: Vec<[String; 2]> = (0..100).map(|name| ["a", "b"].map(|end| format!("{{{name}}}{end}"))).collect();
    let value_of = |name: usize| value(name as u64, CHUNK_BYTES / 2 + 500);
    for (name, [long, short]) in keys.iter().enumerate() {
        let pairs = [(long.as_str(), value_of(name)), (short.as_str(), value(name as u64, 1))];
        assert_eq!(store(&mut world, &pairs, false), STORED);
    }
    pass(&mut world, 2_000_000);
    let held = world.stripes_held();
    pass(&mut world, 3_000_000);
    assert_eq!(world.stripes_held(), held, "nothing is stored, and nothing moves");
    for (name, [long, short]) in keys.iter().enumerate() {
        assert_eq!(get(&mut world, long), Some(value_of(name)));
        assert_eq!(get(&mut world, short), Some(value(name as u64, 1)));
    }
    concludes(world);
}

/// A group finds no room beside what little there is in each chunk, and others do.
#[test]
fn groups_leave_no_stripes_behind_that_are_nearly_empty() {
    const GROUPS: u64 = 40;
    let mut world = cluster();
    for name in 0..GROUPS {
        set(&mut world, &format!("small {name}"), &value(name, SMALL_BYTES));
        let keys = ["a", "b", "c", "d"].map(|end| format!("{{{name}}}{end}"));
        let pairs = keys.each_ref().map(|key| (key.as_str(), value(name, CHUNK_BYTES / 5)));
        assert_eq!(store(&mut world, &pairs, false), STORED);
    }
    let held = world.stripes_held();
    assert!(held.len() as u64 <= GROUPS / 2, "four groups fit into a stripe: {}", held.len());
    concludes(world);
}

#[test]
fn what_one_operation_does_not_take_is_stored_apart_or_not_at_all() {
    let mut world = cluster();
    let many: Vec<String> = (0..60).map(|name| format!("{{t}}{name}")).collect();
    for length in [500, 2_000, 7_000, 16_000] {
        let all: Vec<(&str, Value)> = many.iter().map(|key| (key.as_str(), value(length as u64, length))).collect();
        let pairs = &all[..all.len().min(16 * CHUNK_BYTES / length)];
        assert_eq!(store(&mut world, pairs, true), Outcome::Refused, "{length}");
        assert_eq!(store(&mut world, pairs, false), STORED, "{length}");
        for (key, value) in pairs {
            assert_eq!(get(&mut world, key), Some(value.clone()), "{length}");
        }
    }
    concludes(world);
}

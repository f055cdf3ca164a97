//! Records that more failures than the code tolerates took away while their owner lived: whose keys can be written all
//! the same, and deleted, as often as anybody likes.

use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Action, Answer};
use shorttail_sim::scenario::*;
use shorttail_sim::world::{Outcome, World};

/// One more than RS(4,2) survives.
const VICTIMS: [usize; 3] = [0, 1, 2];

/// They lose their memory at once, and are back.
fn lose_three(world: &mut World) {
    VICTIMS.iter().for_each(|&node| world.crash_node(node, 50_000));
    pass(world, 2_000_000);
}

fn is_lost(world: &mut World, key: &str) -> bool {
    world.ask(key, Action::Get) == Outcome::Refused
}

fn objects(world: &World) -> u64 {
    world.all_stats().iter().map(|stats| stats.totals.objects).sum()
}

#[test]
fn a_lost_key_is_written_and_deleted_like_any_other() {
    let mut world = cluster_of(SimConfig::scripted(), 1);
    fill(&mut world, 0..200);
    lose_three(&mut world);
    let lost: Vec<u64> = (0..200).filter(|name| is_lost(&mut world, &format!("key{name}"))).collect();
    assert!((20..180).contains(&lost.len()), "{} are lost", lost.len());
    for round in 1..3 {
        fill_round(&mut world, lost.iter().copied(), round);
        holds_round(&mut world, lost.iter().copied(), round);
    }
    assert_eq!(objects(&world), 200, "each once");
    let (gone, kept) = lost.split_at(lost.len() / 2);
    for name in gone {
        let key = format!("key{name}");
        delete(&mut world, &key);
        assert_eq!(get(&mut world, &key), None);
        assert_eq!(world.ask(&key, Action::Delete), Outcome::Answered(Answer::Existed(false)));
    }
    assert_eq!(objects(&world), 200 - gone.len() as u64);
    // The next owner may not know which keys were lost, but does not bring back what was deleted.
    take_over(&mut world, 10_000);
    for name in gone {
        let seen = world.ask(&format!("key{name}"), Action::Get);
        assert!(matches!(seen, Outcome::Refused | Outcome::Answered(Answer::Found(None))), "key{name}: {seen:?}");
    }
    fill_round(&mut world, lost.iter().copied(), 3);
    holds_round(&mut world, lost.iter().copied(), 3);
    assert!(!kept.is_empty());
}

/// The index does not tell the two apart: what is written of one says nothing of the other.
#[test]
fn a_key_that_is_like_a_lost_one_is_written_and_deleted_and_the_lost_one_stays_an_error() {
    let mut world = cluster_of(SimConfig::scripted(), 2);
    let pairs = world.alike_keys(40);
    for (number, [key, _]) in (0..).zip(&pairs) {
        set(&mut world, key, &value(1, SMALL_BYTES));
        fill(&mut world, 5 * number..5 * number + 5);
    }
    lose_three(&mut world);
    let lost: Vec<&[String; 2]> = pairs.iter().filter(|[key, _]| is_lost(&mut world, key)).collect();
    assert!(lost.len() > 3, "{} are lost", lost.len());
    for [key, other] in lost {
        for name in 2..4 {
            set(&mut world, other, &value(name, SMALL_BYTES));
            assert_eq!(get(&mut world, other), Some(value(name, SMALL_BYTES)));
        }
        assert!(is_lost(&mut world, key), "{key}");
        delete(&mut world, other);
        assert_eq!(get(&mut world, other), None);
        assert!(is_lost(&mut world, key), "{key}");
        set(&mut world, key, &value(4, SMALL_BYTES));
        delete(&mut world, key);
        assert_eq!((get(&mut world, key), get(&mut world, other)), (None, None));
    }
}

/// Several keys at once, too: what they held does not matter.
#[test]
fn lost_keys_are_written_together() {
    let mut world = cluster_of(SimConfig::scripted(), 3);
    let keys: Vec<String> = (0..150).map(|name| format!("{{t}}{name}")).collect();
    keys.iter().for_each(|key| set(&mut world, key, &value(1, SMALL_BYTES)));
    lose_three(&mut world);
    let lost: Vec<&str> = keys.iter().map(String::as_str).filter(|key| is_lost(&mut world, key)).collect();
    assert!(lost.len() > 3, "{} are lost", lost.len());
    for pair in lost.chunks_exact(2) {
        let pairs: Vec<_> = pair.iter().map(|&key| (key, value(2, SMALL_BYTES))).collect();
        let op = world.request_group(0, &pairs, true);
        assert_eq!(world.await_op(op), Outcome::Refused, "whether they exist matters");
        let op = world.request_group(0, &pairs, false);
        assert_eq!(world.await_op(op), Outcome::Answered(Answer::Applied(true)));
        for key in pair {
            assert_eq!(get(&mut world, key), Some(value(2, SMALL_BYTES)));
            delete(&mut world, key);
            assert_eq!(get(&mut world, key), None);
        }
    }
}

/// Whether an earlier owner lost it or the one that flushes.
#[test]
fn what_was_lost_and_then_flushed_is_over_for_any_later_owner() {
    for seed in 0..8 {
        let mut world = cluster_of(SimConfig::scripted(), seed);
        fill(&mut world, 0..40);
        lose_three(&mut world);
        if seed % 2 == 0 {
            take_over(&mut world, 10_000);
        }
        assert!((0..40).any(|name| is_lost(&mut world, &format!("key{name}"))), "seed {seed}");
        let op = world.request_flush(0);
        assert_eq!(world.await_op(op), Outcome::Answered(Answer::Done), "seed {seed}");
        if seed % 2 == 1 {
            // What is left of such stripes is void soon.
            pass(&mut world, 3_000_000);
        }
        for owner in 0..3 {
            take_over(&mut world, 10_000);
            for name in 0..40 {
                assert_eq!(
                    get(&mut world, &format!("key{name}")),
                    None,
                    "seed {seed}, owner {owner}\n{}",
                    world.trace()
                );
            }
        }
    }
}

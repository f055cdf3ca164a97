//! Keys of one slot and one tag: the index does not tell them apart, their records do. A read looks at one after the
//! other, and what it is to look at next may be gone by then.

use shorttail_chaos::{Class, Fault, FaultKind, Slow};
use shorttail_policy::{Hedge, Policy};
use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Action, Answer};
use shorttail_sim::scenario::*;
use shorttail_sim::world::{Op, Outcome, World};

/// Longer than anything takes that is done meanwhile, shorter than a node is waited for.
const SLOW_US: u64 = 95_000;

/// A cluster where reads wait for the node that they are for.
fn patient(seed: u64) -> World {
    let policy = Policy { read_sidestep: false, hedge: Hedge::Off, ..Policy::default() };
    cluster_of(SimConfig { policy, ..SimConfig::scripted() }, seed)
}

/// A key, of which a read looks at another one's record first; both lie in sealed stripes.
fn store_both(world: &mut World) -> String {
    let [other, wanted] = world.alike_keys(1).remove(0);
    set(world, &other, &value(1, SMALL_BYTES));
    fill(world, 100..180);
    set(world, &wanted, &value(2, SMALL_BYTES));
    fill(world, 0..80);
    pass(world, 100_000);
    wanted
}

/// The values of the next round.
fn store_at_once(world: &mut World, names: std::ops::Range<u64>) -> Vec<Op> {
    names.map(|name| world.request(3, &format!("key{name}"), Action::Set(value_of(name, 1)))).collect()
}

fn slow_reads(world: &mut World, node: usize) {
    let slow = Slow { delay_us: SLOW_US, only: Some(Class::Read), ..Slow::default() };
    world.apply_fault(node, Fault { kind: FaultKind::Slow(slow), for_us: None });
}

#[test]
fn a_read_does_not_go_on_to_what_was_flushed_meanwhile() {
    let mut restarts = 0;
    for seed in 0..6 {
        let mut world = patient(seed);
        let wanted = store_both(&mut world);
        (0..8).for_each(|node| slow_reads(&mut world, node));
        let began_us = world.now_us();
        let read = world.request(1, &wanted, Action::Get);
        let flush = world.request_flush(2);
        assert!(matches!(world.await_op(flush), Outcome::Answered(_)), "seed {seed}");
        let was_quick = world.now_us() < began_us + SLOW_US;
        // What is stored now takes the places of what was flushed.
        let stored = store_at_once(&mut world, 0..seed * 10);
        let Outcome::Answered(Answer::Found(found)) = world.await_op(read) else { panic!("seed {seed}") };
        if was_quick {
            // One record was fetched, and nothing was there to go on to.
            assert_eq!((found, world.now_us() < began_us + 2 * SLOW_US), (None, true), "seed {seed}");
            restarts += 1;
        }
        (0..8).for_each(|node| world.clear_fault(node));
        stored.into_iter().for_each(|op| assert_eq!(world.await_op(op), Outcome::Answered(Answer::Done)));
        holds_round(&mut world, 0..seed * 10, 1);
        concludes(world);
    }
    assert!(restarts > 0);
}

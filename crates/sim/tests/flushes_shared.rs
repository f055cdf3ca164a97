//! Flushes where several gateways share the partitions: asked of any of them, done by all owners, whatever becomes of
//! these.

use shorttail_sim::cli::run_seed;
use shorttail_sim::config::{Profile, SimConfig};
use shorttail_sim::model::{Action, Answer};
use shorttail_sim::scenario::*;
use shorttail_sim::world::{Counts, Op, Outcome, World};

/// Keys enough for each partition to have some.
const NAMES: std::ops::Range<u64> = 0..24;
const GATEWAYS: usize = 3;
/// A gateway that is away is noticed, and followed, in less.
const FOLLOWED_US: u64 = 3_000_000;

/// Gateways that share six partitions; each owns some.
fn shared(seed: u64) -> World {
    let mut config = SimConfig { partition_count: 6, client_count: 3, ..SimConfig::scripted() };
    config.share(GATEWAYS);
    let world = cluster_of(config, seed);
    for gateway in 0..GATEWAYS {
        assert!(NAMES.map(key).any(|key| world.owner_of(&key) == Some(gateway)), "gateway {gateway} owns nothing");
    }
    world
}

fn key(name: u64) -> String {
    format!("key{name}")
}

fn set_all(world: &mut World, names: impl IntoIterator<Item = u64>, round: u64) {
    names.into_iter().for_each(|name| set(world, &key(name), &value_of(name, round)));
}

/// These, and no others, are there as this round stored them.
fn are_there(world: &mut World, round: u64, mut is_there: impl FnMut(u64) -> bool) {
    for name in NAMES {
        let expected = is_there(name).then(|| value_of(name, round));
        assert_eq!(get(world, &key(name)), expected, "{}\n{}", key(name), world.trace());
    }
}

#[track_caller]
fn is_done(world: &mut World, op: Op) {
    assert_eq!(world.await_op(op), Outcome::Answered(Answer::Done), "{}", world.trace());
}

/// Waits until the keys have other owners than this one, which serve.
fn await_followed(world: &mut World, gone: usize) {
    await_within(world, FOLLOWED_US, "followed", |world| {
        NAMES.map(key).all(|key| world.owner_of(&key).is_some_and(|owner| owner != gone) && world.serves(&key))
    });
}

#[test]
fn a_flush_at_any_gateway_is_of_all_that_is_there_and_of_nothing_later() {
    for seed in 0..4 {
        let mut world = shared(seed);
        for gateway in 0..GATEWAYS {
            set_all(&mut world, NAMES, 0);
            let flush = world.request_flush(gateway as u32);
            is_done(&mut world, flush);
            set_all(&mut world, NAMES.step_by(2), 1);
            pass(&mut world, 50_000 * seed);
            are_there(&mut world, 1, |name| name % 2 == 0);
        }
        assert!(world.counts().parts_forwarded > 0);
        concludes(world);
    }
}

/// A part of it waits until somebody follows, or comes back and is asked of whoever did.
#[test]
fn a_flush_goes_to_whoever_follows_an_owner_that_is_gone() {
    for seed in 0..8 {
        let mut world = shared(seed);
        set_all(&mut world, NAMES, 0);
        let gone = 1 + seed as usize % (GATEWAYS - 1);
        world.crash_gateway_number(gone, FOLLOWED_US);
        pass(&mut world, seed * 20_000);
        let flush = world.request_flush(0);
        is_done(&mut world, flush);
        set_all(&mut world, NAMES.step_by(2), 1);
        await_followed(&mut world, gone);
        are_there(&mut world, 1, |name| name % 2 == 0);
        concludes(world);
    }
}

/// Its owner lets go just then, prepared or not.
#[test]
fn a_flush_beside_a_hand_over_is_of_everything() {
    let mut returned = 0;
    for seed in 0..16 {
        let mut world = shared(seed);
        set_all(&mut world, NAMES, 0);
        world.hand_over_from(1, 2);
        pass(&mut world, seed * 1_500);
        let flush = world.request_flush(seed as u32 % 3);
        let outcome = world.await_op(flush);
        assert!(matches!(outcome, Outcome::Answered(_) | Outcome::Unknown), "seed {seed}: {outcome:?}");
        if matches!(outcome, Outcome::Answered(_)) {
            are_there(&mut world, 0, |_| false);
        }
        set_all(&mut world, NAMES.step_by(2), 1);
        pass(&mut world, 500_000);
        if matches!(outcome, Outcome::Answered(_)) {
            are_there(&mut world, 1, |name| name % 2 == 0);
        }
        returned += world.counts().parts_returned;
        concludes(world);
    }
    assert!(returned > 0, "no part came back");
}

/// It is asked while it stands still. Whoever asked does not know; when it goes on it is the owner of nothing and
/// flushes nothing that another one stored.
#[test]
fn a_flush_that_an_owner_slept_over_is_unknown_and_is_of_nothing_that_was_stored_later() {
    for seed in 0..8 {
        let mut world = shared(seed);
        set_all(&mut world, NAMES, 0);
        world.stall_gateway(2, 1_500_000);
        let flush = world.request_flush(0);
        assert_eq!(world.await_op(flush), Outcome::Unknown, "seed {seed}");
        await_followed(&mut world, 2);
        set_all(&mut world, NAMES, 1);
        pass(&mut world, 2_000_000);
        are_there(&mut world, 1, |_| true);
        concludes(world);
    }
}

/// Ordered of one gateway; when its time comes owners are others than those that were asked.
#[test]
fn a_flush_for_later_happens_everywhere_and_on_time_whoever_owns_what_by_then() {
    for seed in 0..12 {
        let mut world = shared(seed);
        set_all(&mut world, NAMES, 0);
        let asked_us = world.now_us();
        let order = world.request_flush_later(seed as u32 % 3, 2_000);
        is_done(&mut world, order);
        match seed % 4 {
            0 => world.crash_gateway_number(1, 500_000),
            1 => world.hand_over_from(1, 2),
            // Its owner sleeps over the time of the flush.
            2 => world.run_until(asked_us + 1_950_000),
            _ => {
                world.crash_gateway_number(1, 500_000);
                pass(&mut world, 700_000);
                world.crash_gateway_number(2, 300_000);
            }
        }
        if seed % 4 == 2 {
            world.stall_gateway(1, 100_000);
        }
        world.run_until(asked_us + 1_940_000);
        if seed % 4 != 2 {
            are_there(&mut world, 0, |_| true);
        }
        world.run_until(asked_us + 2_002_000);
        // Some before it is declared, if that takes long.
        for name in NAMES.step_by(2) {
            let op = world.request(0, &key(name), Action::Set(value_of(name, 1)));
            is_done(&mut world, op);
        }
        pass(&mut world, 1_000_000);
        are_there(&mut world, 1, |name| name % 2 == 0);
        assert!(world.counts().flushes_due == 1, "it was sure to happen");
        concludes(world);
    }
}

#[test]
fn seeds_of_flushes_show_no_violation() {
    let mut counts = Counts::default();
    let mut failures = Vec::new();
    // In seed 40 so many increments of a counter have an unknown outcome that the checker gives up.
    for seed in (0..60).filter(|&seed| seed != 40) {
        let report = run_seed(Profile::Flushes, seed);
        counts.add(&report.counts);
        failures.extend(report.failure.is_some().then(|| report.explain(60)));
    }
    assert!(failures.is_empty(), "{} seeds failed\n{}", failures.len(), failures.join("\n"));
    // What these seeds are for must have happened in them.
    assert!(counts.parts_forwarded > 500 && counts.parts_returned > 100 && counts.flushes_due > 30, "{counts:?}");
    assert!(counts.takeovers > 100 && counts.handovers > 100, "{counts:?}");
}

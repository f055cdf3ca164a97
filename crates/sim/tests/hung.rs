//! Nodes that hang: their processes stand still, and no connection ends. What cannot be answered without them is
//! refused soon, and what they hold is made up for like that of the dead.

use shorttail_gateway::engine::LeaseConfig;
use shorttail_sim::config::SimConfig;
use shorttail_sim::model::Action;
use shorttail_sim::scenario::*;
use shorttail_sim::world::{Op, Outcome, World};

/// A node that answers nothing for twenty deadlines is waited for no longer; and until each of them is asked something,
/// one deadline after the other.
const HUNG_US: u64 = 2_500_000;
/// What needs nobody who hangs, or is refused for that.
const PROMPT_US: u64 = 150_000;
/// The coordinator takes it for dead, and gives it up.
const GIVEN_UP_US: u64 = 20_000_000;

/// Asks all of this at once: reads, writes that need the value before and that do not, and ends of objects.
fn ask_of_all(world: &mut World, names: std::ops::Range<u64>) -> Vec<(u64, Op)> {
    let action = |name: u64| match name / 5 % 4 {
        0 | 1 => Action::Get,
        2 => Action::Set(value_of(name, 1)),
        _ if name.is_multiple_of(2) => Action::Delete,
        _ => Action::Replace(value_of(name, 1)),
    };
    names.map(|name| (name, world.request(0, &format!("key{name}"), action(name)))).collect()
}

/// Each of these has an end within so long; how many of them were not answered.
fn end_within(world: &mut World, us: u64, ops: &[(u64, Op)]) -> usize {
    let until_us = world.now_us() + us;
    world.run_while(until_us, |world| ops.iter().any(|&(_, op)| world.outcome(op).is_none()));
    let open: Vec<_> = ops.iter().filter(|&&(_, op)| world.outcome(op).is_none()).collect();
    assert!(open.is_empty(), "{open:?} have no end\n{}", world.trace());
    ops.iter().filter(|&&(_, op)| !matches!(world.outcome(op), Some(Outcome::Answered(_)))).count()
}

#[test]
fn with_too_many_nodes_hung_everything_has_an_end_soon() {
    for (code, node_count, partition_count, seed) in
        [("rs:4+2", 8, 1, 1), ("rs:4+2", 12, 4, 2), ("lrc:4+2+1", 9, 2, 3), ("rs:1+2", 5, 2, 4), ("rs:2+1", 3, 1, 5)]
    {
        let config = SimConfig { partition_count, ..nodes_of(code, node_count) };
        let hung = 0..=config.code.tolerance();
        let mut world = cluster_of(config, seed);
        fill(&mut world, 0..160);
        hung.clone().for_each(|node| world.stall_node(node, 10_000_000));
        let ops = ask_of_all(&mut world, 0..160);
        let early = end_within(&mut world, HUNG_US, &ops);
        // Some are asked when nodes are known to be late, and some when it is known who hangs.
        let ops = ask_of_all(&mut world, 0..80);
        let later = end_within(&mut world, HUNG_US, &ops);
        pass(&mut world, HUNG_US);
        let ops = ask_of_all(&mut world, 0..80);
        let late = end_within(&mut world, PROMPT_US, &ops);
        let failed = [early, later, late];
        assert!(failed.iter().all(|&count| count > 0), "{code}: {failed:?}: did anything need those that hang?");
        pass(&mut world, 10_000_000);
        holds(&mut world, (0..160).filter(|name| name / 5 % 4 < 2));
        concludes(world);
    }
}

/// A node is dead, another one hangs, and a third is late for a moment: what needs the third waits for it, and is not
/// refused when the second is found to hang.
#[test]
fn what_a_late_node_owes_beside_a_dead_and_a_hung_one_is_read_from_it_after_all() {
    const LATE_US: u64 = 400_000;
    for (seed, hung, late) in [(1, 2, 4), (2, 4, 1), (3, 0, 5), (4, 5, 0), (5, 8, 2), (6, 6, 7)] {
        let mut world = cluster_of(nodes_of("rs:4+2", 9), seed);
        fill(&mut world, 0..100);
        pass(&mut world, 1_000_000);
        world.crash_node(3, FOR_GOOD_US);
        world.stall_node(late, LATE_US);
        world.stall_node(hung, 10_000_000);
        let ops: Vec<_> = (0..100).map(|name| (name, world.request(0, &format!("key{name}"), Action::Get))).collect();
        assert_eq!(end_within(&mut world, HUNG_US, &ops), 0, "seed {seed}\n{}", world.trace());
        pass(&mut world, 10_000_000);
        holds(&mut world, 0..100);
        concludes(world);
    }
}

/// As many nodes are dead as may be, and a third is late for a moment: what it holds cannot be decoded, and is waited
/// for.
#[test]
fn what_a_late_node_holds_beside_two_dead_ones_is_waited_for() {
    const LATE_US: u64 = 400_000;
    for (seed, dead, late) in [(1, 2, 4), (2, 4, 1), (3, 0, 5), (4, 5, 0), (5, 8, 2), (6, 6, 7)] {
        let mut world = cluster_of(nodes_of("rs:4+2", 9), seed);
        fill(&mut world, 0..100);
        pass(&mut world, 1_000_000);
        world.crash_node(3, FOR_GOOD_US);
        world.crash_node(dead, FOR_GOOD_US);
        world.stall_node(late, LATE_US);
        let ask = |world: &mut World| -> Vec<(u64, Op)> {
            (0..100).map(|name| (name, world.request(0, &format!("key{name}"), Action::Get))).collect()
        };
        let mut ops = ask(&mut world);
        // Some are asked when it is known to be late.
        pass(&mut world, LATE_US / 2);
        ops.extend(ask(&mut world));
        assert_eq!(end_within(&mut world, HUNG_US, &ops), 0, "seed {seed}\n{}", world.trace());
        concludes(world);
    }
}

/// The owner dies while a node hangs, and another one hangs once its next owner has heard it: what that one would tell
/// is made up for after half a second, whether slow nodes are gone round or not, and whether there is a node to write
/// to instead.
#[test]
fn a_take_over_waits_for_a_node_that_hangs_for_half_a_second() {
    const HEARD_US: u64 = 400_000;
    /// Half a second for the one that was never heard, and half a second for the other.
    const SERVED_US: u64 = 1_200_000;
    let mut owed = 0;
    for (node_count, read_sidestep, seed) in [(8, false, 1), (8, true, 2), (6, false, 3), (6, true, 4)] {
        let mut config = nodes_of("rs:4+2", node_count);
        config.policy.read_sidestep = read_sidestep;
        let mut world = cluster_of(config, seed);
        fill(&mut world, 0..100);
        world.stall_node(0, 10_000_000);
        let begun_us = world.now_us();
        world.crash_gateway(1_000);
        pass(&mut world, HEARD_US);
        world.stall_node(1, 10_000_000);
        let left_us = begun_us + SERVED_US - world.now_us();
        await_within(&mut world, left_us, "served", World::is_settled);
        owed += usize::from(world.now_us() > begun_us + SERVED_US / 2);
        if node_count > 6 {
            // Without a node to write to, what was under way may be refused until they are back.
            holds(&mut world, 0..100);
        }
        pass(&mut world, 10_000_000);
        holds(&mut world, 0..100);
        concludes(world);
    }
    assert!(owed >= 2, "it mostly did not matter");
}

/// One node alone holds the second value of a key, its owner died, and the next one begins. No node is there in the
/// place of another. Which node stops later on.
fn taken_over(seed: u64) -> (World, usize) {
    let mut world = cluster_of(nodes_of("rs:4+2", 6), seed);
    fill(&mut world, 0..40);
    set(&mut world, "key", &value(1, 60));
    let holders = world.holders_of_open();
    let [alone, late] = [0, 1].map(|place| holders[(seed as usize + place) % holders.len()]);
    pass(&mut world, 100_000);
    (0..6).filter(|&other| other != alone).for_each(|other| world.cut_requests_to(other, 10_000_000));
    world.request(0, "key", Action::Set(value(2, 60)));
    pass(&mut world, 3_000);
    world.crash_gateway(5_000);
    pass(&mut world, 3_000);
    world.mend_all();
    pass(&mut world, 3_000);
    (world, late)
}

/// A node stands still while a new owner reads what it inherits, or writes anew what is not certain, which it cannot do
/// without that one. The node goes on soon: it is waited for, and nothing is refused.
#[test]
fn a_take_over_waits_for_a_node_that_it_needs_to_write_while_it_may_answer() {
    const STALL_US: u64 = 700_000;
    let mut waited = 0;
    for seed in 0..24 {
        let (mut undisturbed, _) = taken_over(seed);
        await_within(&mut undisturbed, STALL_US, "served", World::is_settled);
        let (mut world, late) = taken_over(seed);
        world.run_until(undisturbed.now_us() - 200 * (1 + seed % 10));
        let begun_us = world.now_us();
        world.stall_node(late, STALL_US);
        await_within(&mut world, 2 * STALL_US, "served", World::is_settled);
        waited += u32::from(world.now_us() > begun_us + STALL_US);
        let seen = get(&mut world, "key");
        assert!([1, 2].iter().any(|&name| seen == Some(value(name, 60))), "seed {seed}");
        holds(&mut world, 0..40);
        concludes(world);
    }
    assert!(waited >= 6, "it was waited for in {waited} runs");
}

/// The owner died, and the next one begins; nodes have two cores each. And a node that holds a chunk of an open stripe.
fn taken_over_from_cores(seed: u64) -> (World, usize) {
    let config = SimConfig { node_core_count: 2, partition_count: 4, ..nodes_of("rs:4+2", 8) };
    let mut world = cluster_of(config, seed);
    fill(&mut world, 0..60);
    let holders = world.holders_of_open();
    world.crash_gateway(5_000);
    pass(&mut world, 5_500);
    (world, holders[seed as usize % holders.len()])
}

/// One core of a node stands still once it told a new owner what it holds; the other one goes on and answers.
#[test]
fn a_take_over_waits_for_no_core_that_hangs_while_another_of_its_node_answers() {
    const SERVED_US: u64 = 2_000_000;
    let mut owed = 0;
    for seed in 0..48 {
        let (mut undisturbed, _) = taken_over_from_cores(seed);
        await_within(&mut undisturbed, SERVED_US, "served", World::is_settled);
        let (mut world, node) = taken_over_from_cores(seed);
        world.run_until(undisturbed.now_us() - 300 * (1 + seed / 2 % 8));
        let begun_us = world.now_us();
        world.stall_core(node, seed as usize % 2);
        await_within(&mut world, SERVED_US, "served", World::is_settled);
        owed += u32::from(world.now_us() > begun_us + SERVED_US / 40);
        holds(&mut world, 0..60);
        world.core_goes_on(node);
        holds(&mut world, 0..60);
        concludes(world);
    }
    assert!(owed >= 10, "it mattered in {owed} runs");
}

/// A node is as good as hung when one of its cores is, whatever the others answer.
#[test]
fn a_node_one_core_of_which_hangs_is_found_to_hang() {
    for seed in 0..4 {
        let mut world = cluster_of(SimConfig { node_core_count: 2, ..nodes_of("rs:4+2", 8) }, seed);
        fill(&mut world, 0..100);
        let missing = |world: &World| world.all_stats().iter().map(|stats| stats.totals.chunks_missing).sum::<u64>();
        let core = seed as usize % 2;
        world.stall_core(5, core);
        let begun_us = world.now_us();
        fill_round(&mut world, 0..50, 1);
        await_within(&mut world, 2 * HUNG_US, "counted", |world| missing(world) > 0);
        world.run_until(begun_us + 10_000_000);
        assert!(missing(&world) > 0, "seed {seed}: it hangs still");
        holds(&mut world, 50..100);
        world.core_goes_on(5);
        await_within(&mut world, HUNG_US, "back", |world| missing(world) == 0 && world.is_whole());
        holds_round(&mut world, 0..50, 1);
        concludes(world);
    }
}

/// Nothing fails for as many nodes as the code tolerates, and what they hold counts as missing.
#[test]
fn what_is_on_hung_nodes_is_missing_until_they_answer() {
    let mut world = cluster_of(nodes_of("rs:4+2", 8), 1);
    fill(&mut world, 0..100);
    let missing = |world: &World| world.all_stats().iter().map(|stats| stats.totals.chunks_missing).sum::<u64>();
    let stripe_count = world.stripe_nodes().len() as u64;
    [2, 6].into_iter().for_each(|node| world.stall_node(node, 15_000_000));
    holds(&mut world, 0..100);
    // More than one node may have: both count.
    let is_counted = |world: &World| missing(world) > stripe_count && !world.is_whole();
    await_within(&mut world, 2 * HUNG_US, "counted", is_counted);
    fill_round(&mut world, 0..20, 1);
    await_within(&mut world, GIVEN_UP_US, "whole", |world| missing(world) == 0 && world.is_whole());
    holds(&mut world, 20..100);
    concludes(world);
}

/// It took orders to copy chunks, and hangs before it carried them out: others take them, long before it is given up.
#[test]
fn a_node_is_drained_although_one_that_takes_its_chunks_hangs() {
    for (seed, hung) in [(1, 4), (2, 5), (3, 8)] {
        let slow = SimConfig { repair_bytes_per_s: 20_000, ..nodes_of("rs:4+2", 9) };
        let mut world = cluster_of(slow, seed);
        fill(&mut world, 0..100);
        world.drain_node(3, true);
        await_within(&mut world, HUNG_US, "moving", |world| world.counts().rebuilds > 0);
        world.stall_node(hung, FOR_GOOD_US);
        await_within(&mut world, GIVEN_UP_US, "drained", |world| world.is_drained(3));
        assert!(world.is_stalled(hung));
        holds(&mut world, 0..100);
    }
}

/// It is given up, its chunks are rebuilt while it hangs, and when it goes on it starts anew: nobody uses what it had.
#[test]
fn a_hung_node_is_given_up_and_comes_back_empty() {
    for seed in 0..4 {
        let mut config = SimConfig { partition_count: 4, ..SimConfig::scripted() };
        config.share(2);
        config.coordinated = true;
        config.lease = Some(LeaseConfig::USUAL);
        config.audit_events = 1_000;
        let mut world = cluster_of(config, seed);
        fill(&mut world, 0..100);
        let hung = world.victims()[0];
        world.stall_node(hung, 2 * GIVEN_UP_US);
        pass(&mut world, HUNG_US);
        assert!(!world.is_whole(), "what it holds is away\n{}", world.trace());
        fill_round(&mut world, 0..30, 1);
        await_within(&mut world, GIVEN_UP_US, "rebuilt", World::is_whole);
        assert!(world.counts().rebuilds > 0 && world.is_stalled(hung), "{:?}", world.counts());
        fill_round(&mut world, 20..50, 2);
        pass(&mut world, 3 * GIVEN_UP_US);
        assert!(!world.is_stalled(hung));
        holds_round(&mut world, 0..20, 1);
        holds_round(&mut world, 20..50, 2);
        holds(&mut world, 50..100);
        concludes(world);
    }
}

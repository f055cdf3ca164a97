//! R2: nodes grant the lease; at any time one owner at most answers for a partition, whatever stands
//! still or is cut off.
//!
//! Holds by the gate in `Engine::poll_reply` (gateway/src/engine/mod.rs), which lets replies leave while the owner is
//! proven as of a time read after what arrived: without it a gateway that stood still shows what others replaced
//! meanwhile. And by `Fences::supersede` (node/src/fences.rs), which keeps a later epoch out while a promise holds:
//! without it the next owner serves beside one that is still proven.

use std::collections::BTreeMap;

use shorttail_gateway::engine::Step;

use super::*;

/// Two gateways and some partitions; the lease is 150 ms.
fn shared(seed: u64) -> World {
    let mut config = SimConfig { partition_count: 4, client_count: 2, ..SimConfig::scripted() };
    config.share(2);
    cluster_of(config, seed)
}

/// The gateway that owns a key, and the other one. A client asks the gateway of its own number.
pub fn owner_and_other(world: &World, key: &str) -> (usize, usize) {
    let owner = world.owner_of(key).expect("everything is dealt");
    (owner, 1 - owner)
}

fn await_owner(world: &mut World, key: &str, gateway: usize) {
    let until_us = world.now_us() + 3_000_000;
    assert!(
        world.run_while(until_us, |world| world.owner_of(key) != Some(gateway) || !world.serves(key)),
        "a new owner"
    );
}

fn ends_well(op: shorttail_sim::world::Op, world: &mut World) {
    assert_eq!(world.await_op(op), Outcome::Answered(Answer::Done));
}

/// The owner stands still for longer than its lease. Meanwhile another takes over and acknowledges a write; reads of
/// the old value wait at the first gateway, some of them asked before the pause and some during it.
#[test]
fn a_gateway_that_stood_still_shows_nothing_stale() {
    for seed in 0..12 {
        let mut world = shared(seed);
        set(&mut world, "key", &value(1, 60));
        let (owner, other) = owner_and_other(&world, "key");
        let before = world.request(owner as u32, "key", Action::Get);
        pass(&mut world, 30 * seed);
        world.stall_gateway(owner, 800_000);
        await_owner(&mut world, "key", other);
        let write = world.request(other as u32, "key", Action::Set(value(2, 60)));
        ends_well(write, &mut world);
        let during: Vec<_> = (0..4).map(|_| world.request(owner as u32, "key", Action::Get)).collect();
        let late_write = world.request(owner as u32, "key", Action::Add(value(3, 60)));
        pass(&mut world, 1_000_000);
        during.into_iter().chain([before, late_write]).for_each(|op| _ = world.await_op(op));
        assert_eq!(get(&mut world, "key"), Some(value(2, 60)), "seed {seed}");
        concludes(world);
    }
}

/// Only the coordinator loses sight of the owner, which goes on serving its own clients. The next one waits until the
/// nodes' promises have ended, and the two never answer at the same time.
#[test]
fn an_owner_that_only_the_coordinator_lost_gives_way_in_one_lease() {
    for seed in 0..12 {
        let mut world = shared(seed);
        set(&mut world, "key", &value(1, 60));
        let (owner, other) = owner_and_other(&world, "key");
        world.cut_coordinator(owner, 1_500_000);
        let began_us = world.now_us();
        let (mut name, mut ops) = (2, Vec::new());
        while world.now_us() < began_us + 900_000 {
            // Writes through the gateway that is to own it, reads through the one that did.
            ops.push(world.request(other as u32, "key", Action::Set(value(name, 60))));
            ops.push(world.request(owner as u32, "key", Action::Get));
            name += 1;
            pass(&mut world, 4_000);
        }
        assert!(world.serves("key") && world.owner_of("key") == Some(other), "seed {seed}: nobody took over");
        ops.into_iter().for_each(|op| _ = world.await_op(op));
        concludes(world);
    }
}

/// The owner is cut off from so many nodes that it cannot be proven: it answers nothing it could be wrong about, and
/// all is well when the nodes are back.
#[test]
fn an_owner_without_nodes_answers_nothing_and_goes_on_when_they_are_back() {
    for seed in 0..6 {
        let mut world = shared(seed);
        set(&mut world, "key", &value(1, 60));
        let (owner, _) = owner_and_other(&world, "key");
        (0..8).for_each(|node| world.cut_gateway_from(owner, node, 400_000));
        pass(&mut world, 200_000);
        // It has the value in its own memory.
        let read = world.request(owner as u32, "key", Action::Get);
        pass(&mut world, 100_000);
        assert_eq!(world.outcome(read), None, "seed {seed}: answered without a proof");
        assert_eq!(world.await_op(read), Outcome::Answered(Answer::Found(Some(value(1, 60)))), "seed {seed}");
        concludes(world);
    }
}

/// A planned hand-over fails no request: those that come meanwhile wait.
#[test]
fn a_hand_over_fails_no_request() {
    let mut longest_us = Vec::new();
    for seed in 0..8 {
        let mut world = shared(seed);
        fill(&mut world, 0, 80);
        set(&mut world, "key", &value(1, 60));
        let (owner, other) = owner_and_other(&world, "key");
        // All that the owner has, tenure by tenure.
        world.hand_over_from(owner, other);
        let (mut name, mut ops) = (2, Vec::new());
        let until_us = world.now_us() + 400_000;
        while world.now_us() < until_us {
            ops.push((name, world.request(name as u32, "key", Action::Set(value(name, 60)))));
            name += 1;
            pass(&mut world, 2_000);
        }
        for (name, op) in ops {
            assert_eq!(world.await_op(op), Outcome::Answered(Answer::Done), "seed {seed}, write {name}");
        }
        assert_eq!(world.owner_of("key"), Some(other), "seed {seed}");
        longest_us.push(world.stretches().iter().copied().max().expect("it was handed over"));
        concludes(world);
    }
    println!("nobody answered for {longest_us:?} us");
    // In virtual time: reading what is stored, a stripe or two, and a few messages.
    assert!(longest_us.iter().all(|&us| us < 100_000), "{longest_us:?}");
}

/// An owner that is over owes nobody an answer. It slept over the time of a flush while another took over; when it goes
/// on it tries in vain to make the flush durable, and one that is ordered for later waits for that. Without
/// `Engine::give_up_all` it would wait for ever.
#[test]
fn an_owner_that_is_over_leaves_no_client_without_an_answer() {
    for seed in 0..12 {
        let mut world = shared(seed);
        set(&mut world, "key", &value(1, 60));
        let (owner, other) = owner_and_other(&world, "key");
        let first = world.request_flush_later(owner as u32, 150);
        ends_well(first, &mut world);
        world.stall_gateway(owner, 700_000);
        await_owner(&mut world, "key", other);
        let order = world.request_flush_later(owner as u32, 2_000);
        let write = world.request(owner as u32, "key", Action::Set(value(2, 60)));
        pass(&mut world, 1_500_000);
        for op in [order, write] {
            assert!(world.outcome(op).is_some(), "seed {seed}: {op:?} was never answered");
        }
        concludes(world);
    }
}

/// A node is back, and its owner stands still before it looks whether anything is missing. Meanwhile another takes over
/// and frees what is stored: the first one, which knows nothing of that when it goes on, does not tell that all is
/// there.
#[test]
fn an_owner_that_stood_still_does_not_tell_that_nothing_is_missing() {
    for seed in 0..8 {
        let mut config = SimConfig { partition_count: 1, client_count: 2, ..SimConfig::scripted() };
        config.share(2);
        let mut world = cluster_of(config, seed);
        fill(&mut world, 0, 80);
        let told = |world: &World, step: Step| world.counts().steps[step as usize];
        world.break_all_of(seed as usize);
        await_within(&mut world, NOTICED_US, "back", |world| told(world, Step::InUseAgain) > 0);
        let (owner, other) = owner_and_other(&world, "fill0");
        world.stall_gateway(owner, 1_500_000);
        await_owner(&mut world, "fill0", other);
        let flush = world.request_flush(other as u32);
        ends_well(flush, &mut world);
        pass(&mut world, 2_000_000);
        assert_eq!(told(&world, Step::Whole), 0, "seed {seed}: told by an owner that is over\n{}", world.trace());
        concludes(world);
    }
}

/// Keys that one owner has, by their numbers.
fn names_of(world: &World, owner: usize) -> Vec<u64> {
    (0..800).filter(|&name| world.owner_of(&key(name)) == Some(owner)).collect()
}

fn key(name: u64) -> String {
    format!("fill{name}")
}

/// An heir that prepared reads under its fence what changed since, and sees every change of it: overwrites, deletes
/// whose tombstones went with the stripes they lay in, stripes that were emptied and declared void, a flush.
#[test]
fn what_was_prepared_is_brought_up_to_date() {
    for seed in 0..8 {
        let mut world = shared(seed);
        let (owner, other) = owner_and_other(&world, "fill0");
        // All of one owner's: what is flushed is what one owner has.
        let names = names_of(&world, owner);
        names.iter().for_each(|&name| set(&mut world, &key(name), &value(name, 120)));
        world.prepare_hand_over(owner, other);
        pass(&mut world, 300_000);
        let is_flushed = seed % 4 == 3;
        if is_flushed {
            let flush = world.request_flush(owner as u32);
            ends_well(flush, &mut world);
        }
        // Of those up to here a third is written anew again and again, so that stripes are emptied; a third is deleted.
        let old = names[names.len() / 4];
        for turn in 1..4 {
            for &name in names.iter().filter(|&&name| name < old) {
                match name % 3 {
                    0 if turn == 2 => drop_key(&mut world, &key(name)),
                    1 => set(&mut world, &key(name), &value(1000 * turn + name, 120)),
                    _ => {}
                }
            }
            pass(&mut world, 30_000 * (seed % 5));
        }
        world.go_on_with_hand_over();
        await_owner(&mut world, "fill0", other);
        for &name in &names {
            let expected = match name % 3 {
                0 if name < old => None,
                1 if name < old => Some(value(3000 + name, 120)),
                _ => (!is_flushed).then(|| value(name, 120)),
            };
            assert_eq!(get(&mut world, &key(name)), expected, "seed {seed}, key {name}");
        }
        let (stripes, read) = world.stripes_read(other, "fill0").expect("it serves");
        println!("seed {seed}: {read} of {stripes} stripes were read");
        concludes(world);
    }
}

/// What an heir read twice stays when one copy goes, whichever of them its owner's index named: nodes are late, so that
/// writes are raced, and much is emptied while the heir prepares.
#[test]
fn what_lies_twice_outlives_the_stripe_of_one_copy() {
    let mut raced = 0;
    for seed in 0..8 {
        let mut world = shared(seed);
        let (owner, other) = owner_and_other(&world, "fill0");
        let names = names_of(&world, owner);
        for (turn, names) in names.chunks(8).enumerate() {
            if turn % 2 == 0 {
                world.stall_node((seed as usize + turn) % 8, 6_000);
            }
            names.iter().for_each(|&name| set(&mut world, &key(name), &value(name, 120)));
        }
        raced += world.all_stats().iter().map(|stats| stats.totals.redirected_writes_total).sum::<u64>();
        world.prepare_hand_over(owner, other);
        pass(&mut world, 300_000);
        // Two of three are written anew again and again, so that stripes are emptied.
        for turn in 1..4 {
            for &name in names.iter().filter(|&&name| name % 3 > 0) {
                set(&mut world, &key(name), &value(1000 * turn + name, 120));
            }
            pass(&mut world, 30_000 * (seed % 5));
        }
        world.go_on_with_hand_over();
        await_owner(&mut world, "fill0", other);
        for &name in &names {
            let expected = if name % 3 > 0 { value(3000 + name, 120) } else { value(name, 120) };
            assert_eq!(get(&mut world, &key(name)), Some(expected), "seed {seed}, key {name}");
        }
        concludes(world);
    }
    println!("{raced} writes were raced");
    assert!(raced > 20, "{raced} writes were raced");
}

fn drop_key(world: &mut World, key: &str) {
    let outcome = world.ask(key, Action::Delete);
    assert!(matches!(outcome, Outcome::Answered(Answer::Existed(_))), "delete of {key}: {outcome:?}");
}

/// With nothing written in between, an heir that prepared reads next to nothing under its fence.
#[test]
fn an_heir_reads_what_changed_and_not_what_is_stored() {
    let mut world = shared(1);
    fill(&mut world, 0, 600);
    let (owner, other) = owner_and_other(&world, "key");
    world.prepare_hand_over(owner, other);
    pass(&mut world, 500_000);
    world.go_on_with_hand_over();
    await_owner(&mut world, "key", other);
    let (stripes, read) = world.stripes_read(other, "key").expect("it serves");
    assert!(stripes >= 12 && read <= 4, "{read} of {stripes} stripes were read");
    concludes(world);
}

/// Who follows an owner that died reads while nodes keep what they promised that one, and next to nothing afterwards.
#[test]
fn who_follows_an_owner_that_died_reads_ahead() {
    for seed in 0..4 {
        let mut world = shared(seed);
        fill(&mut world, 0, 600);
        let (owner, other) = owner_and_other(&world, "key");
        world.crash_gateway_number(owner, 2_000_000);
        await_owner(&mut world, "key", other);
        let (stripes, read) = world.stripes_read(other, "key").expect("it serves");
        println!("seed {seed}: {read} of {stripes} stripes were read");
        assert!(stripes >= 12 && read <= 4, "seed {seed}: {read} of {stripes} stripes were read");
        concludes(world);
    }
}

/// That one may be alive, and heard by nodes: what it does meanwhile counts.
#[test]
fn what_an_owner_does_while_the_next_one_reads_ahead_counts() {
    for seed in 0..8 {
        let mut world = shared(seed);
        let (owner, other) = owner_and_other(&world, "fill0");
        let names = names_of(&world, owner);
        names.iter().for_each(|&name| set(&mut world, &key(name), &value(name, 120)));
        world.cut_coordinator(owner, 10_000_000);
        let until_us = world.now_us() + 3_000_000;
        assert!(world.run_while(until_us, |world| world.owner_of("fill0") == Some(owner)), "seed {seed}: not dealt");
        let mut expected: BTreeMap<u64, Option<Value>> =
            names.iter().map(|&name| (name, Some(value(name, 120)))).collect();
        let mut changes = (1..).flat_map(|turn| names.iter().map(move |&name| (turn, name)));
        let mut done = 0;
        while !world.serves("fill0") {
            let (turn, name) = changes.next().expect("there is no end of them");
            let (action, changed) = match name % 3 {
                0 if turn == 1 => (Action::Delete, None),
                1 => (Action::Set(value(1000 * turn + name, 120)), Some(value(1000 * turn + name, 120))),
                _ => continue,
            };
            let op = world.request(owner as u32, &key(name), action);
            if matches!(world.await_op(op), Outcome::Answered(_)) {
                expected.insert(name, changed);
                done += 1;
            } else {
                // Its proof is over.
                expected.remove(&name);
            }
        }
        println!("seed {seed}: {done} changes while the next owner read ahead");
        assert!(done > 20, "seed {seed}: {done}");
        for (name, expected) in expected {
            assert_eq!(get(&mut world, &key(name)), expected, "seed {seed}, key {name}");
        }
        let (stripes, read) = world.stripes_read(other, "fill0").expect("it serves");
        println!("seed {seed}: {read} of {stripes} stripes were read");
        concludes(world);
    }
}

/// A node that is away keeps nobody waiting: who prepared knows that it is.
#[test]
fn a_hand_over_does_not_wait_for_a_node_that_is_away() {
    for seed in 0..4 {
        let mut world = shared(seed);
        fill(&mut world, 0, 200);
        let (owner, other) = owner_and_other(&world, "key");
        world.stall_node(seed as usize, 3_000_000);
        world.break_all_of(seed as usize);
        pass(&mut world, 100_000);
        world.prepare_hand_over(owner, other);
        pass(&mut world, 1_500_000);
        world.go_on_with_hand_over();
        await_owner(&mut world, "key", other);
        let longest_us = world.stretches().iter().copied().max().expect("it was handed over");
        println!("nobody answered for {longest_us} us");
        assert!(longest_us < 150_000, "seed {seed}: {longest_us} us");
        concludes(world);
    }
}

/// Nor does one that falls silent at any step of the hand-over: it stands still, or is cut off from the owner alone and
/// keeps its promise to it. There are no more nodes than a stripe needs: then it is long until a silent one is left.
/// Without the limit of `Engine::advance_letting_go` nobody answers for a second or two.
#[test]
fn a_hand_over_does_not_wait_for_a_node_that_falls_silent_in_it() {
    let mut longest_us = Vec::new();
    for step in 0..10 {
        for is_cut in [false, true] {
            let mut config = SimConfig { partition_count: 4, client_count: 2, ..nodes_of("rs:4+2", 6) };
            config.share(2);
            let mut world = cluster_of(config, step);
            fill(&mut world, 0, 80);
            let (owner, other) = owner_and_other(&world, "key");
            world.prepare_hand_over(owner, other);
            pass(&mut world, 500_000);
            world.go_on_with_hand_over();
            pass(&mut world, 150 * step);
            match is_cut {
                true => world.cut_gateway_from(owner, step as usize % 6, 3_000_000),
                false => world.stall_node(step as usize % 6, 3_000_000),
            }
            await_owner(&mut world, "key", other);
            longest_us.push((step, is_cut, world.stretches().iter().copied().max().expect("it was handed over")));
            concludes(world);
        }
    }
    println!("nobody answered for {longest_us:?} us");
    assert!(longest_us.iter().all(|&(_, _, us)| us < 150_000), "{longest_us:?}");
}

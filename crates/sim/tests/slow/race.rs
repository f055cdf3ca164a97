//! An owner dies while a record lies in two stripes, one copy confirmed or none: what the next owner says of the key is
//! what every later one says, and neither copy comes back from the dead.

use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Action, Answer, Value};
use shorttail_sim::world::{Outcome, World};

/// Longer than it takes until an append is late, even before anything is known of the nodes' speed.
const LATE_US: u64 = 60_000;

fn value(name: &str, seed: u64) -> Value {
    Value::bytes(format!("{name}, seed {seed}").as_bytes())
}

/// A node that holds a parity of the open stripe no longer gets appends, or gets them and is not heard.
fn cut_a_parity(world: &mut World, seed: u64) {
    let node = world.holder_of_open(true).expect("a stripe is open");
    if seed.is_multiple_of(2) { world.cut_replies_of(node, 900_000) } else { world.cut_requests_to(node, 900_000) }
}

fn take_over(world: &mut World) {
    world.crash_gateway(5_000);
    world.run_until(world.now_us() + 10_000);
    world.await_serving();
}

fn get(world: &mut World) -> Option<Value> {
    match world.ask("key", Action::Get) {
        Outcome::Answered(Answer::Found(found)) => found,
        other => panic!("get: {other:?}"),
    }
}

#[test]
fn an_owner_that_dies_in_a_race_leaves_one_record() {
    let (mut answered, mut unanswered) = (0, 0);
    for seed in 0..30 {
        let mut world = World::with_config(SimConfig::scripted(), seed);
        world.await_serving();
        let old = value("old", seed);
        assert_eq!(world.ask("key", Action::Set(old.clone())), Outcome::Answered(Answer::Done));
        cut_a_parity(&mut world, seed);
        let new = value("new", seed);
        let set = world.request(0, "key", Action::Set(new.clone()));
        let raced =
            world.run_while(world.now_us() + LATE_US, |world| world.engine_stats().totals.hedges_sent_total == 0);
        assert!(raced, "seed {seed}: the append was not made again");
        // From "the second copy is on its way" to "it is confirmed, its client knows".
        world.run_until(world.now_us() + seed % 10 * 150);
        let was_answered = world.outcome(set).is_some();
        (answered, unanswered) = (answered + u32::from(was_answered), unanswered + u32::from(!was_answered));
        take_over(&mut world);
        let seen = get(&mut world);
        let is_legal = seen.as_ref() == Some(&new) || !was_answered && seen.as_ref() == Some(&old);
        assert!(is_legal, "seed {seed}: {seen:?}");
        // The node that nobody heard is back: what it holds of either copy changes nothing.
        world.run_until(world.now_us() + 1_500_000);
        take_over(&mut world);
        assert_eq!(get(&mut world), seen, "seed {seed}");
        assert!(matches!(world.ask("key", Action::Delete), Outcome::Answered(_)), "seed {seed}");
        take_over(&mut world);
        assert_eq!(get(&mut world), None, "seed {seed}");
        world.conclude().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
    assert!(answered > 3 && unanswered > 3, "{answered} answered, {unanswered} not: too few of one kind");
}

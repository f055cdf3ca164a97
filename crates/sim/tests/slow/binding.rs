//! Late binding (Hydra 4.1.2) and hedging, at the same extra load: every node answers one reply in a hundred late,
//! nobody is slow for good, values lie in four pieces of RS(4,2). Reads follow one another slowly, so that none waits
//! for what another one left behind.
//!
//! Late binding pays before it knows that anything is late, so it must pay for every read; a hedge pays for those
//! that are. At the few percent that hedges cost, late binding reaches few reads and leaves the 99th percentile
//! where it was. Where a quarter more requests are no matter, it needs no delay after which something is late, and
//! so is the faster one.

use shorttail_chaos::{Fault, FaultKind, Slow, Tail};
use shorttail_policy::{Hedge, Policy};
use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Action, Answer, Value};
use shorttail_sim::world::{Outcome, World};

const LATE_US: u64 = 20_000;
const PIECES: f64 = 4.0;
const READS: u64 = 4_000;
const KEYS: u64 = 50;

#[derive(Debug)]
struct Seen {
    p99_us: u64,
    /// Requests to nodes for each read; pings are among them.
    requests: f64,
}

impl Seen {
    /// Requests beyond those without any race, in parts of what reads take.
    fn extra(&self, off: &Seen) -> f64 {
        (self.requests - off.requests) / PIECES
    }
}

fn value(key: u64) -> Value {
    Value::bytes(&vec![b'a' + (key % 20) as u8; 2_000])
}

fn seen(hedge: Hedge) -> Seen {
    let policy = Policy { hedge, ..Policy::default() };
    let mut world = World::with_config(SimConfig { policy, audit_events: 50_000, ..SimConfig::scripted() }, 7);
    world.await_serving();
    for key in 0..KEYS {
        let outcome = world.ask(&format!("key {key}"), Action::Set(value(key)));
        assert_eq!(outcome, Outcome::Answered(Answer::Done));
    }
    let tail = Some(Tail { share_ppm: 10_000, extra_us: LATE_US });
    for node in 0..usize::from(world.config().node_count) {
        world.apply_fault(node, Fault { kind: FaultKind::Slow(Slow { tail, ..Slow::default() }), for_us: None });
    }
    let read = |world: &mut World, round: u64| {
        let (key, from_us) = (round * 7 % KEYS, world.now_us());
        let found = world.ask(&format!("key {key}"), Action::Get);
        assert_eq!(found, Outcome::Answered(Answer::Found(Some(value(key)))));
        let latency_us = world.now_us() - from_us;
        world.run_until(from_us + 2 * LATE_US);
        latency_us
    };
    // Hedge delays are learnt, and the bucket is no longer full as at the start.
    (0..READS / 2).for_each(|round| _ = read(&mut world, round));
    let before = world.reads_answered();
    let mut latencies: Vec<u64> = (0..READS).map(|round| read(&mut world, round)).collect();
    let requests = (world.reads_answered() - before) as f64 / READS as f64;
    assert!(world.verdicts().iter().all(|(_, verdict)| !verdict.fail_slow), "nobody is slower than the others");
    world.conclude().unwrap_or_else(|violation| panic!("{hedge}: {violation}"));
    latencies.sort_unstable();
    let at = |share: f64| latencies[(latencies.len() as f64 * share) as usize];
    println!("{hedge}: p50 {}, p99 {}, p99.9 {} us, {requests:.3} requests a read", at(0.5), at(0.99), at(0.999));
    Seen { p99_us: at(0.99), requests }
}

#[test]
fn at_equal_extra_load_hedging_has_the_shorter_tail_and_late_binding_where_load_is_no_matter() {
    let off = seen(Hedge::Off);
    let hedged = seen(Hedge::Adaptive);
    // One more for so many reads costs what the hedges did.
    let percent = 100.0 * PIECES * hedged.extra(&off);
    let bound = seen(format!("late-binding:1:{percent:.1}%").parse().expect("a rule"));
    let always = seen(Hedge::late_binding(1));
    let extra = |seen: &Seen| seen.extra(&off);
    assert!(off.p99_us >= LATE_US, "{off:?}");
    assert!(extra(&hedged) > 0.005 && extra(&hedged) < 0.06, "{hedged:?}");
    assert!((extra(&bound) / extra(&hedged) - 1.0).abs() < 0.1, "not the same load: {bound:?} {hedged:?}");
    assert!(bound.p99_us >= LATE_US && hedged.p99_us < LATE_US / 4, "{bound:?} {hedged:?}");
    assert!((extra(&always) - 0.25).abs() < 0.02 && always.p99_us <= hedged.p99_us, "{always:?} {hedged:?}");
}

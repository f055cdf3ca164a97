//! The catalogue of slowness: each entry is a way in which a node, or all of them, may answer late, and what
//! clients may notice of it.
//!
//! A run is healthy for a while, has the fault, and is compared with the run of the same seed that stays healthy:
//! the 99th percentile of reads and of writes in the second in which the fault begins, and afterwards. Safety is
//! judged as in every run.
//!
//! Must not know: how slowness is found out or sidestepped.

use shorttail_chaos::{Class, Cycle, Fault, FaultKind, Ramp, Slow, Stall, Tail};
use shorttail_gateway::request::StoreStats;
use shorttail_policy::Policy;

use crate::config::SimConfig;
use crate::model::{Action, Value};
use crate::world::{Counts, Sample, Violation, World};

const SECOND_US: u64 = 1_000_000;
/// Healthy load before the fault: the detector is calibrated, hedge delays are known.
const WARM_US: u64 = 2 * SECOND_US;
/// What counts as the onset.
const ONSET_US: u64 = SECOND_US;

/// One way to be slow.
pub struct Scenario {
    pub name: &'static str,
    /// Does it to the node.
    pub begin: fn(&mut World, usize),
    /// How long it is watched after the onset.
    pub after_us: u64,
    /// Bounds of the 99th percentile as ratios to the healthy run's.
    pub onset: Ratios,
    pub after: Ratios,
    /// Must the node be found out? `None`: it may or may not.
    pub is_found: Option<bool>,
}

/// Of reads, of writes, and of those writes that store a striped value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ratios {
    pub reads: f64,
    pub writes: f64,
    pub striped: f64,
}

/// 99th percentiles in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tails {
    pub reads_us: u64,
    pub writes_us: u64,
    /// 0 when there are too few of them to say.
    pub striped_us: u64,
}

/// How large values are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Values {
    /// One write in a hundred is striped.
    Small,
    /// Nearly every third is.
    Large,
}

/// What values are longer than when they are striped, with the chunks of this cluster.
const PACKED_BYTES_MAX: usize = 2_048;

/// What a run showed.
#[derive(Debug)]
pub struct Observed {
    pub onset: Tails,
    pub after: Tails,
    /// Verdicts that made a node fail-slow, of whichever node.
    pub found: Vec<usize>,
    pub slow_node: usize,
    pub stats: StoreStats,
    pub counts: Counts,
    pub requests: u64,
}

impl Observed {
    /// This run's tails as multiples of the healthy run's.
    pub fn ratios(&self, healthy: &Observed) -> (Ratios, Ratios) {
        let of = |own: Tails, other: Tails| Ratios {
            reads: own.reads_us as f64 / other.reads_us as f64,
            writes: own.writes_us as f64 / other.writes_us as f64,
            striped: own.striped_us as f64 / other.striped_us.max(1) as f64,
        };
        (of(self.onset, healthy.onset), of(self.after, healthy.after))
    }
}

fn config() -> SimConfig {
    SimConfig {
        node_memory_bytes: 4 << 20,
        partition_count: 2,
        chunk_bytes: 4_000,
        block_bytes: 512,
        key_count: 300,
        client_count: 16,
        client_window: 64,
        think_us_mean: 8_000,
        value_bytes_max: 3_000,
        large_value_ppm: 30_000,
        flush_ppm: 0,
        audit_events: 20_000,
        ..SimConfig::scripted()
    }
}

/// Which node a scenario strikes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    Data,
    Parity,
}

/// What a run is made of beside its scenario.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Setting {
    pub target: Target,
    pub node_count: u16,
    pub policy: Policy,
    pub values: Values,
}

/// Runs a scenario, or with `None` the healthy run of the same length.
///
/// # Errors
/// What any run may show to be wrong.
pub fn run(scenario: Option<&Scenario>, after_us: u64, setting: Setting, seed: u64) -> Result<Observed, Violation> {
    let Setting { target, node_count, policy, values } = setting;
    let mut config = SimConfig { node_count, policy, ..config() };
    if values == Values::Large {
        (config.large_value_ppm, config.value_bytes_max) = (400_000, 8_000);
    }
    if usize::from(node_count) == config.code.chunk_count() {
        // A striped object waits for every node, as it must: there is no other.
        config.large_value_ppm = 0;
    }
    let mut world = World::with_config(config, seed);
    world.await_serving();
    for key in 0..300 {
        let value = Value::bytes(&vec![b'a' + (key % 23) as u8; 100 + key * 7 % 200]);
        world.request(0, &format!("key{key}"), Action::Set(value));
    }
    world.start_clients();
    let warm_us = world.now_us() + WARM_US;
    world.run_until(warm_us);
    let slow_node = world.holder_of_open(target == Target::Parity).unwrap_or(0);
    let start_us = world.now_us();
    let before = world.engine_stats();
    if let Some(scenario) = scenario {
        (scenario.begin)(&mut world, slow_node);
    }
    world.run_until(start_us + ONSET_US + after_us);
    let mut stats = world.engine_stats();
    stats.totals.hedges_sent_total -= before.totals.hedges_sent_total;
    let found = world.verdicts().iter().filter(|(_, verdict)| verdict.fail_slow);
    let found = found.map(|(_, verdict)| usize::from(verdict.node.0)).collect();
    world.conclude()?;
    let tails = |from_us: u64, to_us: u64| Tails {
        reads_us: p99_us(&world, from_us, to_us, |sample| sample.is_read),
        writes_us: p99_us(&world, from_us, to_us, |sample| !sample.is_read),
        striped_us: match values {
            Values::Small => 0,
            Values::Large => {
                let is_striped = |bytes: usize| bytes > PACKED_BYTES_MAX;
                p99_us(&world, from_us, to_us, |sample| sample.stored_bytes.is_some_and(is_striped))
            }
        },
    };
    let after_from_us = start_us + ONSET_US;
    Ok(Observed {
        onset: tails(start_us, after_from_us),
        after: tails(after_from_us, after_from_us + after_us),
        found,
        slow_node,
        requests: world.samples().len() as u64,
        counts: world.counts(),
        stats,
    })
}

fn p99_us(world: &World, from_us: u64, to_us: u64, counts: impl Fn(&Sample) -> bool) -> u64 {
    let asked = world.samples().iter().filter(|sample| (from_us..to_us).contains(&sample.asked_us));
    let mut latencies: Vec<u64> = asked.filter(|sample| counts(sample)).map(|sample| sample.latency_us).collect();
    assert!(latencies.len() >= 100, "{} requests say little of the 99th percentile", latencies.len());
    latencies.sort_unstable();
    latencies[latencies.len() * 99 / 100]
}

fn slow(slow: Slow) -> Fault {
    Fault { kind: FaultKind::Slow(slow), for_us: None }
}

fn delay(delay_us: u64) -> Fault {
    slow(Slow { delay_us, ..Slow::default() })
}

fn stopped_for(for_us: u64) -> Fault {
    Fault { kind: FaultKind::Stall(Stall { cycle: None }), for_us: Some(for_us) }
}

/// The usual bounds of a median run: within twice in the second in which it happens, a fifth more afterwards, and a
/// little for the chance in a 99th percentile.
const ONSET: Ratios = Ratios { reads: 1.8, writes: 1.6, striped: 3.0 };
const AFTER: Ratios = Ratios { reads: 1.25, writes: 1.25, striped: 1.5 };

const fn entry(name: &'static str, begin: fn(&mut World, usize)) -> Scenario {
    Scenario { name, begin, after_us: 2 * SECOND_US, onset: ONSET, after: AFTER, is_found: Some(true) }
}

/// All entries.
pub const CATALOGUE: &[Scenario] = &[
    // As much as a healthy read takes at most: too little to be found out, and too often late for the budget.
    Scenario {
        is_found: None,
        onset: Ratios { reads: 2.3, writes: 2.0, striped: 2.5 },
        after: Ratios { reads: 2.3, writes: 2.0, striped: 2.5 },
        ..entry("+1 ms", |world, node| world.apply_fault(node, delay(1_000)))
    },
    entry("+5 ms", |world, node| world.apply_fault(node, delay(5_000))),
    entry("+50 ms", |world, node| world.apply_fault(node, delay(50_000))),
    entry("+500 ms", |world, node| world.apply_fault(node, delay(500_000))),
    Scenario {
        is_found: None,
        ..entry("1 % of replies +200 ms", |world, node| {
            let tail = Some(Tail { share_ppm: 10_000, extra_us: 200_000 });
            world.apply_fault(node, slow(Slow { tail, ..Slow::default() }));
        })
    },
    entry("ramp to 50 ms in a second", |world, node| {
        let ramp = Some(Ramp { from_us: 0, to_us: 50_000, over_us: SECOND_US });
        world.apply_fault(node, slow(Slow { ramp, ..Slow::default() }));
    }),
    Scenario {
        after_us: 20 * SECOND_US,
        ..entry("square wave, 5 s of +50 ms in 10", |world, node| {
            let square = Some(Cycle { bad_us: 5 * SECOND_US, good_us: 5 * SECOND_US });
            world.apply_fault(node, slow(Slow { delay_us: 50_000, square, ..Slow::default() }));
        })
    },
    entry("link of 20 KiB/s", |world, node| {
        world.apply_fault(node, slow(Slow { bandwidth: 20 << 10, ..Slow::default() }));
    }),
    Scenario {
        // Single seeds lie between 0.98 and 1.30; of seventeen the median is 1.10, of few it may be one of those.
        after: Ratios { reads: 1.35, ..AFTER },
        ..entry("+50 ms, reads only", |world, node| {
            let only = Some(Class::Read);
            world.apply_fault(node, slow(Slow { delay_us: 50_000, only, ..Slow::default() }));
        })
    },
    entry("+50 ms, writes only", |world, node| {
        let only = Some(Class::Write);
        world.apply_fault(node, slow(Slow { delay_us: 50_000, only, ..Slow::default() }));
    }),
    Scenario {
        is_found: None,
        ..entry("1 % of segments lost, sent again after 200 ms", |world, node| {
            let tail = Some(Tail { share_ppm: 10_000, extra_us: 200_000 });
            world.apply_fault_in_order(node, slow(Slow { tail, ..Slow::default() }));
        })
    },
    Scenario {
        is_found: None,
        ..entry("stopped for 100 ms", |world, node| world.apply_fault(node, stopped_for(100_000)))
    },
    entry("stopped for 1 s", |world, node| world.apply_fault(node, stopped_for(SECOND_US))),
    entry("stopped for 30 s", |world, node| world.apply_fault(node, stopped_for(30 * SECOND_US))),
    entry("stopped 50 ms, running 2 ms", |world, node| {
        let cycle = Some(Cycle { bad_us: 50_000, good_us: 2_000 });
        world.apply_fault(node, Fault { kind: FaultKind::Stall(Stall { cycle }), for_us: None });
    }),
    entry("not heard for 1 s", |world, node| world.cut_replies_of(node, SECOND_US)),
    entry("hears nothing for 1 s", |world, node| world.cut_requests_to(node, SECOND_US)),
    entry("+50 ms, and another node crashes", |world, node| {
        world.apply_fault(node, delay(50_000));
        world.crash_node((node + 1) % 6, 10 * SECOND_US);
    }),
    Scenario {
        is_found: None,
        ..entry("pauses of 40 ms every second", |world, node| {
            let cycle = Some(Cycle { bad_us: 40_000, good_us: 960_000 });
            world.apply_fault(node, Fault { kind: FaultKind::Stall(Stall { cycle }), for_us: None });
        })
    },
];

/// Everybody is slow: nobody is to blame, and nothing is there to go round to. 20 ms are some 33 times the healthy
/// tail; an operation waits for them once, and once more behind a write of its key.
pub const ALL_SLOW: Scenario = Scenario {
    onset: Ratios { reads: 85.0, writes: 60.0, striped: f64::INFINITY },
    after: Ratios { reads: 80.0, writes: 45.0, striped: f64::INFINITY },
    is_found: Some(false),
    ..entry("all nodes +20 ms", |world, _| {
        for node in 0..usize::from(world.config().node_count) {
            world.apply_fault(node, delay(20_000));
        }
    })
};

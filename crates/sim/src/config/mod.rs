//! What one run is like: shape of the cluster, workload, faults. A profile and a seed decide all of it.
//!
//! Must not know: the world that runs it.

mod long;
mod profile;

use shorttail_gateway::engine::limits::READ_BYTES_MAX;
use shorttail_gateway::engine::{LeaseConfig, WhenFull};
use shorttail_placement::Placement;
use shorttail_policy::{Hedge, Policy, SmallWrite, Update};
use shorttail_units::CodeShape;

use crate::rng::Rng;
pub use profile::{PROFILES, Profile};

/// Relative weights of the faults; 0: never.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultWeights {
    pub crash: u32,
    pub stall: u32,
    pub break_session: u32,
    pub slow: u32,
    pub cut: u32,
    pub gateway_crash: u32,
    pub gateway_stall: u32,
    /// With several gateways: one hands a tenure over to another, and the coordinator loses sight of one.
    pub hand_over: u32,
    pub cut_coordinator: u32,
    /// A node's process ends and another one goes on with its memory; now and then those of all nodes.
    pub restart: u32,
    /// A node joins, is drained, or is taken out.
    pub membership: u32,
    /// Bits turn over anywhere in the memory of a node that may lose it.
    pub rot: u32,
    /// Such a node reads its memory wrong for some time.
    pub misread: u32,
    /// Of a node's answers some are lost for some time, though its sessions stand.
    pub lose: u32,
    /// Nodes lose sight of each other; everybody else sees both.
    pub part_nodes: u32,
    /// One core of a node stands still while the others go on.
    pub stall_core: u32,
    /// A real coordinator crashes, stands still or is cut off from its metadata store, that is away, or a node loses
    /// sight of a coordinator.
    pub coordinator: u32,
}

/// Everything that a run is made of, apart from its random draws.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimConfig {
    /// What the run is about: its profile, or the one that a long run drew.
    pub kind: Profile,
    pub code: CodeShape,
    pub node_count: u16,
    /// So many of them are not there at first.
    pub late_node_count: u16,
    pub node_core_count: u16,
    pub gateway_count: usize,
    /// The coordinator's own machine decides who owns what, not the scripted stand-in.
    pub coordinated: bool,
    /// Several share a store, and one leads; one has it alone.
    pub coordinator_count: usize,
    /// Seconds until one of several that the store does not hear of leads no more.
    pub leader_lease_s: i64,
    /// What nodes promise owners; none if there is one gateway.
    pub lease: Option<LeaseConfig>,
    /// Memory of one core of a node, in bytes.
    pub node_memory_bytes: usize,
    /// Nodes that have half as much, the last ones.
    pub halved_node_count: u16,
    pub partition_count: u16,
    pub chunk_bytes: usize,
    pub block_bytes: usize,
    /// Bytes of striped values that an engine reads at once.
    pub read_bytes_max: usize,
    /// How often, at a fault, the policy is another one.
    pub switch_ppm: u32,
    pub key_count: usize,
    /// Each key has another one that the index does not tell it apart from.
    pub keys_are_alike: bool,
    pub client_count: u32,
    /// Operations that a client has in flight at most.
    pub client_window: usize,
    pub think_us_mean: u64,
    pub value_bytes_max: usize,
    /// How often a value is larger than a few dozen bytes.
    pub large_value_ppm: u32,
    /// How often a client flushes everything instead.
    pub flush_ppm: u32,
    /// How many of the plain stores and touches give the value a lifetime.
    pub lifetime_ppm: u32,
    /// How often a client orders a flush for later instead.
    pub delayed_flush_ppm: u32,
    pub when_full: WhenFull,
    /// How long clients and faults go on, in virtual microseconds.
    pub active_us: u64,
    pub fault_us_mean: u64,
    /// How many times longer than usual faults last.
    pub fault_length: u64,
    pub faults: FaultWeights,
    /// How often a bit of a message between gateways, nodes and the coordinator turns over on its way.
    pub flip_ppm: u32,
    /// What the clock of a process gains or loses in a second, at most, in microseconds.
    pub clock_gain_ppm_max: u32,
    /// Gateways may read the nodes' memory without asking them.
    pub shares_memory: bool,
    /// What they read there lies so much further on, as if all of it had been moved.
    pub near_shift_bytes: u64,
    /// Nodes disturbed at the same time, at most.
    pub disturbed_max: usize,
    /// Events between two checks of what nodes and owner hold together, at least: a check that looks at much is
    /// followed by more.
    pub audit_events: u64,
    /// Who holds what is acknowledged is looked at now and then. Whoever is asked takes what lies in its rings first.
    pub audits_acknowledgements: bool,
    /// What the gateway does about slow nodes.
    pub policy: Policy,
    /// How the members of stripes are chosen.
    pub placement: Placement,
    /// Failure domains, to which the nodes belong in turn; 0: none.
    pub domain_count: u16,
    /// What a core of a node may fetch to rebuild chunks, in bytes a second.
    pub repair_bytes_per_s: u64,
    /// Nodes have memory that outlives their processes.
    pub keeps_memory: bool,
    /// While the process is down, bits flip in fields that are stored twice; nothing may be lost by that.
    pub hurts_kept_memory: bool,
    /// What a core of a node scrubs, in bytes a second; 0: nothing.
    pub scrub_bytes_per_s: u64,
    /// When every stripe is whole again, other nodes may lose their memory.
    pub victims_change: bool,
    /// Only nodes that may lose their memory are disturbed in any way: never more at once than the code tolerates.
    pub spares_others: bool,
    /// Every operation of a client is answered, not refused, within so many microseconds; none: it may take its time.
    pub latency_us_max: Option<u64>,
}

/// Codes with numbers of nodes.
const SHAPES: [(&str, u16); 9] = [
    ("rs:4+2", 8),
    ("rs:4+2", 8),
    ("rs:4+2", 7),
    ("rs:2+1", 5),
    ("rs:2+1", 4),
    ("rs:8+2", 12),
    ("rs:1+2", 5),
    ("rs:2+2", 6),
    ("rs:3+0", 5),
];

/// Codes with local groups, which take the place of the others in a quarter of the runs.
const GROUPED: [(&str, u16); 4] = [("lrc:4+2+1", 9), ("lrc:4+2+1", 8), ("lrc:5+2+2", 11), ("lrc:4+1+1", 7)];

/// What clocks gain or lose: nothing; so much that two of them run apart by a percent, which is what the lease's margin
/// is made for; and as much as it bears at all, as nothing else takes time of it here. By its clock an owner relies on
/// nine tenths of a lease, and nodes keep all of it by theirs: 0.9 / (1 - gain) <= 1 / (1 + gain).
const CLOCK_GAINS_PPM: [u32; 3] = [0, 5_000, 52_000];

fn code(name: &str) -> CodeShape {
    name.parse().expect("a legal shape")
}

/// Every technique on or off, whatever the others are.
pub fn draw_policy(rng: &mut Rng) -> Policy {
    let hedges = [Hedge::Off, Hedge::Adaptive, Hedge::Adaptive, Hedge::late_binding(1), Hedge::late_binding(2)];
    Policy {
        read_sidestep: rng.chance_ppm(500_000),
        write_sidestep: rng.chance_ppm(500_000),
        hedge: *rng.choose(&hedges).expect("some"),
        reads_least_loaded: rng.chance_ppm(300_000),
        small_write: *rng.choose(&[SmallWrite::Packed, SmallWrite::Replicate, SmallWrite::Pad]).expect("some"),
        update: *rng.choose(&[Update::Log, Update::InPlace]).expect("some"),
    }
}

impl SimConfig {
    /// The run that a profile makes of a seed.
    pub fn draw(profile: Profile, seed: u64) -> Self {
        let rng = &mut Rng::new(seed ^ 0xC0F1);
        let usual = rng.choose(&SHAPES).expect("shapes");
        // Drawn beside the rest, so that seeds without groups are the runs that they were.
        let mut beside = Rng::new(seed ^ 0x10CA1);
        let &(name, node_count) =
            if beside.chance_ppm(250_000) { beside.choose(&GROUPED).expect("shapes") } else { usual };
        let code = code(name);
        let mut config = SimConfig {
            kind: profile,
            code,
            node_count,
            late_node_count: 0,
            node_core_count: 1 + u16::from(rng.chance_ppm(200_000)),
            gateway_count: 1,
            coordinated: false,
            coordinator_count: 1,
            leader_lease_s: 2,
            lease: None,
            node_memory_bytes: 1 << 20,
            halved_node_count: 0,
            partition_count: *rng.choose(&[1, 2, 4]).expect("counts"),
            chunk_bytes: *rng.choose(&[1024, 2048, 2048, 4000]).expect("sizes"),
            block_bytes: *rng.choose(&[128, 512]).expect("sizes"),
            read_bytes_max: if seed.is_multiple_of(3) { 2_500 } else { READ_BYTES_MAX },
            switch_ppm: 0,
            key_count: 3 + rng.index(12),
            keys_are_alike: false,
            client_count: 3 + rng.below(6) as u32,
            client_window: 1 + rng.index(4),
            think_us_mean: rng.range(3_000..20_000),
            value_bytes_max: 4_000,
            large_value_ppm: 200_000,
            flush_ppm: if rng.chance_ppm(300_000) { 5_000 } else { 0 },
            lifetime_ppm: 0,
            delayed_flush_ppm: 0,
            when_full: WhenFull::Error,
            active_us: rng.range(300_000..1_200_000),
            fault_us_mean: rng.range(20_000..150_000),
            fault_length: 1,
            faults: FaultWeights {
                crash: 3,
                stall: 3,
                break_session: 4,
                slow: 2,
                cut: 2,
                gateway_crash: 0,
                gateway_stall: 1,
                ..FaultWeights::default()
            },
            flip_ppm: 0,
            clock_gain_ppm_max: 0,
            shares_memory: false,
            near_shift_bytes: 0,
            disturbed_max: 1 + rng.index(code.tolerance() + 2),
            audit_events: 500,
            audits_acknowledgements: true,
            policy: Policy::default(),
            placement: Placement::default(),
            domain_count: 0,
            keeps_memory: false,
            hurts_kept_memory: false,
            scrub_bytes_per_s: 0,
            repair_bytes_per_s: *beside.choose(&[100_000, 1_000_000, 100_000_000]).expect("rates"),
            victims_change: beside.chance_ppm(500_000),
            spares_others: false,
            latency_us_max: None,
        };
        config.apply(profile, rng);
        let profile = config.kind;
        if beside.chance_ppm(150_000) {
            config.switch_ppm = 200_000;
            config.policy = draw_policy(&mut beside);
        }
        if profile == Profile::Prompt {
            // With a technique switched off clients may wait for a request's deadline.
            (config.switch_ppm, config.policy) = (0, Policy::default());
        }
        config.draw_ends(profile, &mut beside);
        config.draw_flips(profile, &mut Rng::new(seed ^ 0xF11B));
        config.draw_misreads(profile, &mut Rng::new(seed ^ 0xB1D5));
        config.clock_gain_ppm_max = *Rng::new(seed ^ 0xC10D).choose(&CLOCK_GAINS_PPM).expect("some");
        if profile == Profile::Flushes {
            config.draw_flushes(&mut Rng::new(seed ^ 0xF1A5));
        } else if config.gateway_count > 1 {
            // See `share`.
            config.delayed_flush_ppm = 0;
        }
        config
    }

    /// The same run where nothing ends by itself.
    pub fn endless(profile: Profile, seed: u64) -> Self {
        let mut config = Self::draw(profile, seed);
        if std::mem::replace(&mut config.when_full, WhenFull::Error) == WhenFull::Evict {
            config.faults.gateway_crash = 0;
        }
        SimConfig { lifetime_ppm: 0, delayed_flush_ppm: 0, ..config }
    }

    /// A scenario's cluster: RS(4,2) on eight nodes, one partition, nobody acting but the scenario.
    pub fn scripted() -> Self {
        SimConfig {
            code: CodeShape::default(),
            node_count: 8,
            node_core_count: 1,
            partition_count: 1,
            chunk_bytes: 1024,
            block_bytes: 128,
            disturbed_max: 2,
            faults: FaultWeights::default(),
            repair_bytes_per_s: 100_000_000,
            keeps_memory: false,
            hurts_kept_memory: false,
            scrub_bytes_per_s: 0,
            clock_gain_ppm_max: 0,
            audit_events: 20,
            ..Self::endless(Profile::Calm, 0)
        }
    }

    /// Several gateways, with a lease that is short enough to run out often.
    pub fn share(&mut self, gateway_count: usize) {
        self.gateway_count = gateway_count;
        self.lease = Some(LeaseConfig { lease_us: 150_000, margin_us: 15_000 });
        // A profile of its own flushes these: seeds of the others are the runs that they were.
        self.flush_ppm = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_has_a_name_that_names_it() {
        for (name, profile) in PROFILES {
            assert_eq!(name.parse(), Ok(profile));
            assert_eq!(profile.to_string(), name);
        }
        assert!("nothing".parse::<Profile>().unwrap_err().contains("takeover"));
    }

    #[test]
    fn a_seed_draws_the_same_run_and_one_with_enough_nodes() {
        for seed in 0..500 {
            for (_, profile) in PROFILES {
                let config = SimConfig::draw(profile, seed);
                assert_eq!(config, SimConfig::draw(profile, seed));
                assert!(usize::from(config.node_count - config.late_node_count) > config.code.chunk_count());
            }
        }
    }
}

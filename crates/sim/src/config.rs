//! What one run is like: shape of the cluster, workload, faults. A profile and a seed decide all of it.
//!
//! Must not know: the world that runs it.

use std::fmt;
use std::str::FromStr;

use shorttail_gateway::engine::{LeaseConfig, WhenFull};
use shorttail_placement::Placement;
use shorttail_policy::{Hedge, Policy, SmallWrite, Update};
use shorttail_units::CodeShape;

use crate::rng::Rng;

/// A family of runs; what is left open is drawn from the seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Profile {
    /// Every shape and every fault.
    #[default]
    Mixed,
    /// No faults but delays: what goes wrong here is wrong without anybody's failure.
    Calm,
    /// Nodes lose their memory.
    Crash,
    /// Nodes stall, slow down, are cut off; no memory is lost.
    Stall,
    /// Memory is short all the time.
    Full,
    /// Values above the small-write threshold.
    Large,
    /// The gateway crashes and a new one with a higher epoch takes over.
    Takeover,
    /// Several gateways share the partitions: they crash, stall, are cut off, and hand over.
    Gateways,
    /// Minutes instead of a second: few operations, faults that last, repairs and leases with their usual times.
    Long,
    /// Processes of nodes end and others go on with their memory, one or all of them, gateways too.
    Restart,
    /// Nodes join, are drained and taken out, while memory is lost and gateways crash.
    Members,
}

/// Names of the profiles, as the command line takes them.
pub const PROFILES: [(&str, Profile); 11] = [
    ("mixed", Profile::Mixed),
    ("calm", Profile::Calm),
    ("crash", Profile::Crash),
    ("stall", Profile::Stall),
    ("full", Profile::Full),
    ("large", Profile::Large),
    ("takeover", Profile::Takeover),
    ("gateways", Profile::Gateways),
    ("long", Profile::Long),
    ("restart", Profile::Restart),
    ("members", Profile::Members),
];

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = PROFILES.iter().find(|(_, profile)| profile == self).map(|(name, _)| *name);
        f.write_str(name.expect("every profile is listed"))
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = PROFILES.iter().find(|(known, _)| *known == name).map(|(_, profile)| *profile);
        found.ok_or_else(|| {
            let names: Vec<_> = PROFILES.iter().map(|(name, _)| *name).collect();
            format!("no such profile; there are {}", names.join(", "))
        })
    }
}

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
}

/// Everything that a run is made of, apart from its random draws.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimConfig {
    pub code: CodeShape,
    pub node_count: u16,
    /// So many of them are not there at first.
    pub late_node_count: u16,
    pub node_core_count: u16,
    pub gateway_count: usize,
    /// What nodes promise owners; none if there is one gateway.
    pub lease: Option<LeaseConfig>,
    /// Memory of one core of a node, in bytes.
    pub node_memory_bytes: usize,
    pub partition_count: u16,
    pub chunk_bytes: usize,
    pub block_bytes: usize,
    /// How often, at a fault, the policy is another one.
    pub switch_ppm: u32,
    pub key_count: usize,
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
    /// Nodes disturbed at the same time, at most.
    pub disturbed_max: usize,
    /// Events between two checks of what nodes and owner hold together.
    pub audit_events: u64,
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
    /// What a core of a node scrubs, in bytes a second; 0: nothing.
    pub scrub_bytes_per_s: u64,
    /// When every stripe is whole again, other nodes may lose their memory.
    pub victims_change: bool,
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
            code,
            node_count,
            late_node_count: 0,
            node_core_count: 1 + u16::from(rng.chance_ppm(200_000)),
            gateway_count: 1,
            lease: None,
            node_memory_bytes: 1 << 20,
            partition_count: *rng.choose(&[1, 2, 4]).expect("counts"),
            chunk_bytes: *rng.choose(&[1024, 2048, 2048, 4000]).expect("sizes"),
            block_bytes: *rng.choose(&[128, 512]).expect("sizes"),
            switch_ppm: 0,
            key_count: 3 + rng.index(12),
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
            disturbed_max: 1 + rng.index(code.tolerance() + 2),
            audit_events: 500,
            policy: Policy::default(),
            placement: Placement::default(),
            domain_count: 0,
            keeps_memory: false,
            scrub_bytes_per_s: 0,
            repair_bytes_per_s: *beside.choose(&[100_000, 1_000_000, 100_000_000]).expect("rates"),
            victims_change: beside.chance_ppm(500_000),
        };
        config.apply(profile, rng);
        if beside.chance_ppm(150_000) {
            config.switch_ppm = 200_000;
            config.policy = draw_policy(&mut beside);
        }
        config.draw_ends(profile, &mut beside);
        if config.gateway_count > 1 {
            // See `share`.
            config.delayed_flush_ppm = 0;
        }
        config
    }

    /// Values end by themselves: in some of the runs.
    fn draw_ends(&mut self, profile: Profile, rng: &mut Rng) {
        if rng.chance_ppm(400_000) {
            self.lifetime_ppm = *rng.choose(&[100_000, 500_000]).expect("shares");
        }
        if rng.chance_ppm(300_000) {
            self.delayed_flush_ppm = 5_000;
        }
        if profile == Profile::Restart {
            // A conditional store whose outcome is unknown, since too few nodes are there, may take effect when the value
            // that it saw is over and was missed: see docs/INVARIANTS.md.
            self.lifetime_ppm = 0;
        }
        if profile == Profile::Full && rng.chance_ppm(500_000) {
            self.when_full = WhenFull::Evict;
        }
    }

    /// The same run where nothing ends by itself.
    pub fn endless(profile: Profile, seed: u64) -> Self {
        SimConfig { lifetime_ppm: 0, delayed_flush_ppm: 0, when_full: WhenFull::Error, ..Self::draw(profile, seed) }
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
            scrub_bytes_per_s: 0,
            audit_events: 20,
            ..Self::endless(Profile::Calm, 0)
        }
    }

    fn apply(&mut self, profile: Profile, rng: &mut Rng) {
        let none = FaultWeights::default();
        match profile {
            Profile::Mixed => {
                // A quarter of the runs have one kind of fault only, so that it is not masked by the others.
                let special = [Profile::Calm, Profile::Crash, Profile::Stall, Profile::Full, Profile::Large];
                if rng.chance_ppm(350_000) {
                    let special = special[rng.index(special.len())];
                    self.apply(special, rng);
                }
            }
            Profile::Calm => self.faults = none,
            Profile::Crash => self.faults = FaultWeights { crash: 1, break_session: 1, ..none },
            Profile::Stall => self.faults = FaultWeights { crash: 0, gateway_crash: 0, ..self.faults },
            Profile::Full => self.shrink(rng),
            Profile::Large => {
                self.large_value_ppm = 800_000;
                self.block_bytes = 128;
                self.chunk_bytes = 1024;
            }
            Profile::Takeover => {
                self.faults.gateway_crash = 4;
            }
            Profile::Gateways => {
                self.share(2 + rng.index(2));
                let active_us = rng.range(800_000..2_500_000);
                self.active_us = active_us;
                self.partition_count = *rng.choose(&[2, 4, 6]).expect("counts");
                self.faults.gateway_crash = 3;
                self.faults.gateway_stall = 3;
                self.faults.hand_over = 4;
                self.faults.cut_coordinator = 2;
            }
            Profile::Long => {
                let kinds = [Profile::Mixed, Profile::Takeover, Profile::Gateways, Profile::Gateways];
                self.apply(kinds[rng.index(kinds.len())], rng);
                self.stretch(rng);
            }
            Profile::Restart => {
                if rng.chance_ppm(400_000) {
                    self.apply(Profile::Gateways, rng);
                }
                self.keeps_memory = true;
                self.faults.restart = 8;
                self.faults.gateway_crash = 2;
            }
            Profile::Members => {
                self.late_node_count = 1 + rng.below(3) as u16;
                self.node_count += self.late_node_count;
                if rng.chance_ppm(500_000) {
                    self.share(2);
                    self.partition_count = 4;
                }
                // Who has how much in use is looked at once in two seconds.
                self.active_us = rng.range(4_000_000..10_000_000);
                self.fault_us_mean = rng.range(100_000..400_000);
                self.key_count = 20 + rng.index(60);
                self.faults = FaultWeights { membership: 6, gateway_crash: 2, ..self.faults };
            }
        }
    }

    /// Minutes of work, with no more operations than a history can be judged with.
    fn stretch(&mut self, rng: &mut Rng) {
        const OPERATIONS: u64 = 2_500;
        self.active_us = rng.range(120_000_000..600_000_000);
        self.think_us_mean = self.active_us * u64::from(self.client_count) / OPERATIONS;
        self.fault_us_mean = rng.range(500_000..4_000_000);
        self.fault_length = 10;
        self.audit_events = 20_000;
        self.lease = self.lease.map(|_| LeaseConfig { lease_us: 1_000_000, margin_us: 100_000 });
    }

    /// Several gateways, with a lease that is short enough to run out often.
    pub fn share(&mut self, gateway_count: usize) {
        self.gateway_count = gateway_count;
        self.lease = Some(LeaseConfig { lease_us: 150_000, margin_us: 15_000 });
        // To flush everything is a request to every gateway, which is theirs to gather.
        self.flush_ppm = 0;
    }

    /// So little memory that the store is often full, and chunks so large that few of them fit.
    fn shrink(&mut self, rng: &mut Rng) {
        (self.code, self.node_count) = (code("rs:2+1"), 4 + rng.below(2) as u16);
        self.disturbed_max = self.disturbed_max.min(2);
        self.node_core_count = 1;
        self.node_memory_bytes = 256 << 10;
        self.partition_count = 1;
        self.chunk_bytes = 15 * 1024;
        self.key_count = 40 + rng.index(60);
        self.large_value_ppm = 900_000;
        self.think_us_mean = 2_000;
        self.client_count = 8;
        self.active_us = 600_000;
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

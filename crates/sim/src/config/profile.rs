//! Families of runs, and what is special about each.

use std::fmt;
use std::str::FromStr;

use shorttail_gateway::engine::{LeaseConfig, WhenFull};

use super::{FaultWeights, SimConfig, code};
use crate::rng::Rng;

/// The longest that a client waits while nodes fail, in virtual microseconds: until a request's deadline, 100 ms, where
/// too little is asked for a node to be noticed sooner, and for what is asked instead.
const LATENCY_US_MAX: u64 = 150_000;

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
    /// Minutes instead of a second, of all that the others are about: few operations, faults that last, repairs and
    /// leases with their usual times.
    Long,
    /// Processes of nodes end and others go on with their memory, one or all of them, gateways too.
    Restart,
    /// Nodes join, are drained and taken out, while memory is lost and gateways crash.
    Members,
    /// Memory decays while gateways crash and hand over; keys are hard to tell apart.
    Rot,
    /// Gateways read the nodes' memory past them, whatever else goes wrong.
    Near,
    /// As several gateways, for a minute, but coordinators' own machines decide who owns what, one of them or one of
    /// several over a store: they crash and stand still, the store is away, members lose sight of them, nodes join and
    /// are drained.
    Coordinated,
    /// Answers of nodes are lost, whatever else goes wrong.
    Lossy,
    /// Nodes lose sight of each other, single cores stand still, whatever else goes wrong. Some nodes share a domain.
    Apart,
    /// Nodes fail in every way, no more of them at once than the code tolerates: no client waits for long.
    Prompt,
    /// Memory is short for a store of several partitions and gateways, whatever else goes wrong: who takes over finds
    /// no room.
    Cramped,
    /// Clients flush everything, now and later, while several gateways share it, whatever else goes wrong.
    Flushes,
}

/// Names of the profiles, as the command line takes them.
pub const PROFILES: [(&str, Profile); 19] = [
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
    ("rot", Profile::Rot),
    ("near", Profile::Near),
    ("coordinated", Profile::Coordinated),
    ("lossy", Profile::Lossy),
    ("apart", Profile::Apart),
    ("prompt", Profile::Prompt),
    ("cramped", Profile::Cramped),
    ("flushes", Profile::Flushes),
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

impl SimConfig {
    /// Values end by themselves: in some of the runs.
    pub(super) fn draw_ends(&mut self, profile: Profile, rng: &mut Rng) {
        if rng.chance_ppm(400_000) {
            self.lifetime_ppm = *rng.choose(&[100_000, 500_000]).expect("shares");
        }
        if rng.chance_ppm(300_000) {
            self.delayed_flush_ppm = 5_000;
        }
        if matches!(profile, Profile::Full | Profile::Cramped) && rng.chance_ppm(500_000) {
            self.when_full = WhenFull::Evict;
        }
        if profile == Profile::Full && self.when_full == WhenFull::Evict {
            // What was evicted must stay away from the next owner, too.
            self.faults.gateway_crash = *rng.choose(&[0, 4]).expect("weights");
        }
    }

    /// Messages are hurt on their way: in half of the runs with faults that are about sessions more than about memory.
    pub(super) fn draw_flips(&mut self, profile: Profile, rng: &mut Rng) {
        let has_flips = matches!(
            profile,
            Profile::Gateways
                | Profile::Restart
                | Profile::Members
                | Profile::Coordinated
                | Profile::Flushes
                | Profile::Apart
        );
        if has_flips && rng.chance_ppm(500_000) {
            self.flip_ppm = *rng.choose(&[200, 2_000]).expect("rates");
        }
    }

    /// Nodes read their memory wrong: in half of the runs that move and mend chunks.
    pub(super) fn draw_misreads(&mut self, profile: Profile, rng: &mut Rng) {
        if matches!(profile, Profile::Members | Profile::Rot) && rng.chance_ppm(500_000) {
            self.faults.misread = *rng.choose(&[2, 8]).expect("weights");
        }
    }

    pub(super) fn apply(&mut self, profile: Profile, rng: &mut Rng) {
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
            Profile::Long => self.lengthen(rng),
            Profile::Restart => {
                if rng.chance_ppm(400_000) {
                    self.apply(Profile::Gateways, rng);
                }
                (self.keeps_memory, self.hurts_kept_memory) = (true, true);
                self.faults.restart = 8;
                self.faults.gateway_crash = 2;
            }
            Profile::Rot => {
                if rng.chance_ppm(400_000) {
                    self.apply(Profile::Gateways, rng);
                }
                self.keeps_memory = rng.chance_ppm(500_000);
                self.keys_are_alike = rng.chance_ppm(500_000);
                self.scrub_bytes_per_s = *rng.choose(&[0, 1_000_000, 50_000_000]).expect("rates");
                // What decayed and was not found yet is lost: it stays with the same nodes.
                self.victims_change = false;
                let restart = if self.keeps_memory { 3 } else { 0 };
                self.faults = FaultWeights { rot: 8, crash: 1, gateway_crash: 4, restart, ..self.faults };
            }
            Profile::Near => {
                use Profile::{Gateways, Members, Mixed, Restart, Rot, Takeover};
                let kinds = [Mixed, Takeover, Gateways, Restart, Members, Rot];
                self.apply(kinds[rng.index(kinds.len())], rng);
                self.shares_memory = true;
                if rng.chance_ppm(500_000) {
                    // Nodes look into their rings for an audit, too.
                    self.audit_events = u64::MAX;
                    self.audits_acknowledgements = false;
                }
            }
            Profile::Lossy => {
                use Profile::{Gateways, Members, Mixed, Restart, Rot, Takeover};
                let kinds = [Mixed, Takeover, Gateways, Restart, Members, Rot];
                self.apply(kinds[rng.index(kinds.len())], rng);
                self.faults.lose = *rng.choose(&[2, 8]).expect("weights");
            }
            Profile::Apart => {
                use Profile::{Coordinated, Gateways, Members, Mixed, Restart, Rot};
                let kinds = [Mixed, Members, Members, Restart, Rot, Gateways, Coordinated];
                self.apply(kinds[rng.index(kinds.len())], rng);
                self.faults.part_nodes = *rng.choose(&[3, 10]).expect("weights");
                if rng.chance_ppm(500_000) {
                    self.node_core_count = 2;
                    self.faults.stall_core = *rng.choose(&[2, 6]).expect("weights");
                }
                self.domain_count = *rng.choose(&[0, 3, 4, 6]).expect("counts");
            }
            Profile::Cramped => {
                use Profile::{Gateways, Members, Restart, Takeover};
                let kinds = [Takeover, Gateways, Members, Restart];
                self.apply(kinds[rng.index(kinds.len())], rng);
                self.cramp(rng);
            }
            Profile::Prompt => {
                // Enough nodes are left for new stripes.
                self.node_count = (self.code.chunk_count() + self.code.tolerance().max(1)) as u16;
                self.node_memory_bytes = 4 << 20;
                self.active_us = rng.range(1_000_000..4_000_000);
                self.faults = FaultWeights { gateway_stall: 0, ..self.faults };
                if self.code.tolerance() == 0 {
                    self.faults = none;
                }
                self.disturbed_max = self.code.tolerance();
                (self.victims_change, self.spares_others) = (false, true);
                self.latency_us_max = Some(LATENCY_US_MAX);
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
            Profile::Coordinated => self.coordinate(rng),
            Profile::Flushes => {
                use Profile::{Coordinated, Cramped, Gateways, Lossy, Members, Near, Restart, Rot};
                let kinds =
                    [Gateways, Gateways, Gateways, Restart, Restart, Members, Rot, Near, Lossy, Cramped, Coordinated];
                self.apply(kinds[rng.index(kinds.len())], rng);
                if self.gateway_count == 1 {
                    self.share(2 + rng.index(2));
                    self.partition_count = self.partition_count.max(2);
                    self.faults = FaultWeights { gateway_crash: 3, gateway_stall: 3, hand_over: 4, ..self.faults };
                }
            }
        }
    }

    /// Now, later, or both.
    pub(super) fn draw_flushes(&mut self, rng: &mut Rng) {
        let (now, later) = *rng.choose(&[(10_000, 0), (0, 10_000), (5_000, 10_000), (20_000, 20_000)]).expect("some");
        (self.flush_ppm, self.delayed_flush_ppm) = (now, later);
        self.active_us += self.active_us / 2;
    }

    /// The coordinator counts in seconds, and so do the faults: a silent gateway is dead after one and a half.
    fn coordinate(&mut self, rng: &mut Rng) {
        const OPERATIONS: u64 = 2_000;
        self.share(2 + rng.index(2));
        self.coordinated = true;
        self.lease = Some(LeaseConfig::USUAL);
        self.partition_count = *rng.choose(&[2, 4, 6]).expect("counts");
        self.active_us = rng.range(20_000_000..60_000_000);
        self.think_us_mean = self.active_us * u64::from(self.client_count) / OPERATIONS;
        self.fault_us_mean = rng.range(200_000..1_500_000);
        self.fault_length = 10;
        self.audit_events = 5_000;
        self.keeps_memory = rng.chance_ppm(500_000);
        self.hurts_kept_memory = self.keeps_memory;
        let restart = if self.keeps_memory { 4 } else { 0 };
        let of_gateways = FaultWeights { gateway_crash: 4, gateway_stall: 2, hand_over: 3, ..self.faults };
        self.faults = FaultWeights { cut_coordinator: 3, coordinator: 6, restart, ..of_gateways };
        self.coordinator_count = *rng.choose(&[1, 2, 2, 3]).expect("counts");
        // That of the server, a shorter one, which ends often in a minute, and a longer one.
        self.leader_lease_s = *rng.choose(&[1, 2, 5]).expect("seconds");
        if rng.chance_ppm(500_000) {
            self.late_node_count = 1 + rng.below(2) as u16;
            self.node_count += self.late_node_count;
            self.faults.membership = 6;
        }
    }

    /// The least memory that a node can have, and chunks so large that each partition has few stripes.
    fn cramp(&mut self, rng: &mut Rng) {
        let &(name, node_count) =
            rng.choose(&[("rs:2+1", 4), ("rs:2+1", 5), ("rs:2+2", 5), ("rs:1+2", 4)]).expect("shapes");
        (self.code, self.node_count) = (code(name), node_count + self.late_node_count);
        self.disturbed_max = self.disturbed_max.min(self.code.tolerance() + 1);
        self.node_core_count = 1;
        self.node_memory_bytes = 256 << 10;
        let (chunk_kib, partitions_max) = *rng.choose(&[(15, 4), (28, 1)]).expect("sizes");
        self.chunk_bytes = chunk_kib * 1024;
        self.partition_count = self.partition_count.min(partitions_max);
        self.key_count = 40 + rng.index(100);
        self.large_value_ppm = *rng.choose(&[300_000, 900_000]).expect("shares");
        self.value_bytes_max = *rng.choose(&[3_000, 6_000]).expect("lengths");
        self.client_count = 8;
        self.think_us_mean = (self.active_us * u64::from(self.client_count) / 2_500).max(2_000);
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

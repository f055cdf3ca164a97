//! Long runs: minutes of virtual time of what other profiles are about, with the times that things usually take.

use shorttail_gateway::engine::LeaseConfig;

use super::{FaultWeights, Profile, SimConfig};
use crate::rng::Rng;

/// What a long run may be about. Those with several gateways come more often: how long nobody serves a partition is
/// timed in them.
const KINDS: [Profile; 12] = [
    Profile::Mixed,
    Profile::Takeover,
    Profile::Gateways,
    Profile::Gateways,
    Profile::Restart,
    Profile::Members,
    Profile::Rot,
    Profile::Near,
    Profile::Coordinated,
    Profile::Coordinated,
    Profile::Prompt,
    Profile::Prompt,
];
/// No more operations in a run than its history can be judged with.
const OPERATIONS: u64 = 2_500;
/// Nodes that are not there at first, where nodes join: enough of them for minutes.
const LATE_NODES: std::ops::Range<u64> = 4..10;
/// How many of the runs with several gateways disturb nothing but gateways, and nothing at all but for planned
/// hand-overs: only beside few troubles can be said how long it may take.
const GATEWAYS_ONLY_PPM: u32 = 300_000;
const HAND_OVERS_ONLY_PPM: u32 = 150_000;

impl SimConfig {
    pub(super) fn lengthen(&mut self, rng: &mut Rng) {
        self.kind = KINDS[rng.index(KINDS.len())];
        self.apply(self.kind, rng);
        self.stretch(rng);
        if self.late_node_count > 0 {
            self.node_count -= self.late_node_count;
            self.late_node_count = rng.range(LATE_NODES) as u16;
            self.node_count += self.late_node_count;
        }
        if matches!(self.kind, Profile::Gateways | Profile::Coordinated) {
            let FaultWeights { gateway_crash, gateway_stall, hand_over, cut_coordinator, .. } = self.faults;
            let hand_overs = FaultWeights { hand_over, ..FaultWeights::default() };
            if rng.chance_ppm(GATEWAYS_ONLY_PPM) {
                self.faults = FaultWeights { gateway_crash, gateway_stall, cut_coordinator, ..hand_overs };
            } else if rng.chance_ppm(HAND_OVERS_ONLY_PPM) {
                self.faults = hand_overs;
            }
        }
    }

    fn stretch(&mut self, rng: &mut Rng) {
        self.active_us = rng.range(120_000_000..600_000_000);
        self.think_us_mean = self.active_us * u64::from(self.client_count) / OPERATIONS;
        self.fault_us_mean = rng.range(500_000..4_000_000);
        self.fault_length = 10;
        self.audit_events = self.audit_events.max(20_000);
        self.lease = self.lease.map(|_| LeaseConfig::USUAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn() -> Vec<SimConfig> {
        (0..300).map(|seed| SimConfig::draw(Profile::Long, seed)).collect()
    }

    #[test]
    fn long_runs_are_about_everything() {
        let drawn = drawn();
        let are = |what: &str, is: &dyn Fn(&SimConfig) -> bool| {
            let count = drawn.iter().filter(|config| is(config)).count();
            assert!(count >= 5, "{count} of {} long runs: {what}", drawn.len());
        };
        KINDS.iter().for_each(|kind| are(&kind.to_string(), &|config| config.kind == *kind));
        are("restarts", &|config| config.keeps_memory && config.faults.restart > 0);
        are("membership", &|config| config.late_node_count >= 4 && config.faults.membership > 0);
        are("rot", &|config| config.faults.rot > 0);
        are("memory that is read wrong", &|config| config.faults.misread > 0);
        are("near memory and rings", &|config| config.shares_memory);
        are("hurt messages", &|config| config.flip_ppm > 0);
        are("the real coordinator", &|config| config.coordinated && config.faults.coordinator > 0);
        are("a bound on each operation", &|config| config.latency_us_max.is_some());
        are("failures of gateways only", &|config| config.faults.crash == 0 && config.faults.gateway_crash > 0);
        are("hand-overs only", &|config| config.faults.gateway_crash == 0 && config.faults.hand_over > 0);
    }

    #[test]
    fn long_runs_take_minutes_and_their_faults_last() {
        for config in drawn() {
            assert!(config.active_us >= 120_000_000 && config.fault_length == 10, "{config:?}");
            assert!(config.lease.is_none_or(|lease| lease.lease_us == 1_000_000), "{config:?}");
        }
    }
}

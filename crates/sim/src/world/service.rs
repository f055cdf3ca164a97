//! How long nobody serves a partition, and how long requests wait for a hand-over, against what is promised.
//!
//! - A gateway dies, stands still, or is cut off from the coordinator: each partition is served again within
//!   [`OUTAGE_US_MAX`] and the lease, counted from when nobody served it; if no more nodes are in trouble than the code
//!   tolerates, and no other gateway, nor a coordinator or its store, is.
//! - A planned hand-over holds up no request for longer than [`HAND_OVER_US_MAX`], if nothing is in trouble and no
//!   write waits for memory when it begins.
//!
//! What was in trouble, or changed, a little before is taken for a trouble still. A gateway that loses sight of nodes
//! only, while the coordinator hears it, is not counted on: that is not noticed at once, and for some nodes not at all.
//!
//! Must not know: why a partition is not served.

use std::collections::BTreeMap;

use shorttail_gateway::engine::Standing;
use shorttail_units::PartitionId;

use super::{Violation, World};

/// How long a partition is not served when its gateway failed, beside the lease, in microseconds: the real coordinator
/// takes a silent gateway for dead after one and a half seconds; the rest is for reading what it owned.
const OUTAGE_US_MAX: u64 = 2_000_000;
/// How long nobody answers for a partition that is handed over, in microseconds.
const HAND_OVER_US_MAX: u64 = 100_000;
/// How long after a trouble everybody finds together again, beside two leases, in microseconds.
const AFTERMATH_US: u64 = 500_000;
/// A gateway's failure is watched for so long, beside the bound: it may hold its proof for a lease and more.
const WATCHED_US: u64 = 4_000_000;

/// A gateway's failure.
struct Failure {
    gateway: usize,
    begun_us: u64,
    /// Since when nobody serves a partition.
    since_us: BTreeMap<PartitionId, u64>,
}

#[derive(Default)]
pub(super) struct Service {
    failure: Option<Failure>,
    /// The last hand-over of each partition: since when its owner lets go, and when another one served.
    hand_overs: BTreeMap<PartitionId, (u64, Option<u64>)>,
}

impl World {
    /// Is what is promised looked after?
    pub(super) fn times_service(&self) -> bool {
        self.is_active && self.config.gateway_count > 1 && self.config.lease.is_some()
    }

    fn lease_us(&self) -> u64 {
        self.config.lease.map_or(0, |lease| lease.lease_us)
    }

    /// Troubles from then on count for what begins at this time.
    fn aftermath_from(&self, begun_us: u64) -> u64 {
        begun_us.saturating_sub(2 * self.lease_us() + AFTERMATH_US)
    }

    /// To be called after whatever may be a trouble.
    pub(super) fn watch_service(&mut self) {
        if !self.times_service() {
            return;
        }
        let now_us = self.schedule.now_us();
        let since_us = self.aftermath_from(now_us);
        let was_quiet = !self.troubles.is_gateway_since(since_us, None);
        self.look_at_troubles();
        let failing = self.failing_gateways();
        if !failing.is_empty() {
            let is_sole = was_quiet && self.troubles.was_settled && !self.troubles.is_other_since(since_us);
            self.service.failure = match failing[..] {
                [gateway] if is_sole => Some(Failure { gateway, begun_us: now_us, since_us: BTreeMap::new() }),
                _ => None,
            };
        }
        self.time_outage();
    }

    /// To be called whenever it may have changed who serves.
    pub(super) fn time_outage(&mut self) {
        let Some(mut failure) = self.service.failure.take().filter(|_| self.times_service()) else { return };
        let now_us = self.schedule.now_us();
        let max_us = OUTAGE_US_MAX + self.lease_us();
        let mut over = Vec::new();
        for partition in (0..self.config.partition_count).map(PartitionId) {
            if !self.is_served(partition) {
                let since_us = *failure.since_us.entry(partition).or_insert(now_us);
                if now_us - since_us > max_us {
                    over.push((partition, since_us));
                }
            } else if let Some(since_us) = failure.since_us.remove(&partition) {
                over.push((partition, since_us));
            }
        }
        if !over.is_empty() {
            self.look_at_troubles();
            if !self.is_alone_in_trouble(&failure) {
                return;
            }
        }
        for (partition, since_us) in over {
            let outage_us = now_us - since_us;
            self.counts.outages.note(outage_us);
            if outage_us > max_us {
                let text =
                    format!("{partition} is not served for {outage_us} us after gateway {} failed", failure.gateway);
                self.fail(Violation::NotPrompt(text));
            }
        }
        if now_us < failure.begun_us + max_us + WATCHED_US || !failure.since_us.is_empty() {
            self.service.failure = Some(failure);
        }
    }

    fn is_alone_in_trouble(&self, failure: &Failure) -> bool {
        let since_us = self.aftermath_from(failure.begun_us);
        !self.troubles.is_gateway_since(since_us, Some(failure.gateway))
            && !self.troubles.is_other_since(since_us)
            && self.troubles.nodes_since(since_us).len() <= self.config.code.tolerance()
    }

    /// Does a gateway that runs answer for the partition?
    fn is_served(&self, partition: PartitionId) -> bool {
        let runs = |gateway: &usize| {
            self.gateways[*gateway].is_up && !self.network.is_stalled(super::endpoint_of_gateway(*gateway))
        };
        (0..self.gateways.len()).filter(runs).any(|gateway| {
            let now = self.now_of_gateway(gateway);
            self.gateways[gateway].engines().any(|engine| {
                engine.standing() == Standing::Serving
                    && engine.is_proven(now)
                    && engine.config().partitions.contains(&partition)
            })
        })
    }

    /// An owner lets go of a partition, or another one serves it after that.
    pub(super) fn time_hand_over(&mut self, partition: PartitionId, standing: Standing) {
        let now_us = self.schedule.now_us();
        match standing {
            Standing::LettingGo => _ = self.service.hand_overs.insert(partition, (now_us, None)),
            Standing::Serving => {
                let Some((begun_us, ended)) = self.service.hand_overs.get_mut(&partition) else { return };
                if ended.replace(now_us).is_some() {
                    return;
                }
                let begun_us = *begun_us;
                if self.is_quiet_since(begun_us) {
                    let length_us = now_us - begun_us;
                    self.counts.hand_overs_timed.note(length_us);
                    self.check_hand_over(length_us, format_args!("{partition}"));
                }
            }
            _ => {}
        }
    }

    /// An owner lets go of a partition, and may take its time.
    pub(super) fn time_no_hand_over(&mut self, partition: PartitionId) {
        self.service.hand_overs.remove(&partition);
    }

    /// A request about a partition is answered, or not.
    pub(super) fn time_request(&mut self, partition: PartitionId, asked_us: u64) {
        let now_us = self.schedule.now_us();
        let Some(&(begun_us, ended_us)) = self.service.hand_overs.get(&partition) else { return };
        if ended_us.is_some_and(|ended_us| ended_us < asked_us) || !self.is_quiet_since(begun_us.min(asked_us)) {
            return;
        }
        self.counts.requests_timed.note(now_us - asked_us);
        self.check_hand_over(now_us - asked_us, format_args!("a request about {partition}"));
    }

    fn check_hand_over(&mut self, length_us: u64, what: std::fmt::Arguments<'_>) {
        if length_us > HAND_OVER_US_MAX {
            let text = format!("{what} waits {length_us} us for a planned hand-over");
            self.fail(Violation::NotPrompt(text));
        }
    }

    fn is_quiet_since(&mut self, begun_us: u64) -> bool {
        if !self.times_service() {
            return false;
        }
        self.look_at_troubles();
        let since_us = self.aftermath_from(begun_us);
        self.troubles.nodes_since(since_us).is_empty()
            && !self.troubles.is_gateway_since(since_us, None)
            && !self.troubles.is_other_since(since_us)
    }
}

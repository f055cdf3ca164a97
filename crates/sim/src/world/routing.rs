//! Where a gateway sends a request: to a tenure of its own, to another gateway, or nowhere for now.
//!
//! ```text
//! client --> any gateway --table: mine--> engine
//!                  |------another's-----> that gateway, once for each epoch
//!                  '------nobody's, or not serving yet: waits
//! ```

use shorttail_gateway::command::Command;
use shorttail_gateway::engine::{Engine, EngineConfig, Standing, Token};
use shorttail_gateway::request::Request;
use shorttail_units::{Epoch, PartitionId};

use super::{CLUSTER, Event, Violation, World};
use crate::command_of_model::SimCommand;

/// How long a request waits for somebody who serves it.
const WAIT_US: u64 = 500_000;
/// The same with the real coordinator: as long as the server's gateways wait.
const WAIT_US_COORDINATED: u64 = 4_000_000;
/// Messages between gateways take this long on average.
pub(super) const HOP_US: u64 = 100;

/// Where a request is to go.
enum Way {
    /// To the tenure of this epoch, here.
    Here(u32),
    /// To another gateway, which has it as of this epoch.
    Other(u32, usize),
    Wait,
}

impl World {
    pub(super) fn partition_of(&self, key: &[u8]) -> PartitionId {
        let config = EngineConfig {
            partition_count: self.config.partition_count,
            ..EngineConfig::new(self.config.code, Epoch(1), CLUSTER, self.config.node_count)
        };
        Engine::partition_of_key(&config, key)
    }

    pub(super) fn route(&mut self, gateway: usize, token: Token, request: Request<SimCommand>) {
        let until_us = self.schedule.now_us() + self.wait_us();
        self.route_until(gateway, until_us, token, request);
    }

    /// How long a request waits for somebody who serves it.
    pub(super) fn wait_us(&self) -> u64 {
        if self.config.coordinated { WAIT_US_COORDINATED } else { WAIT_US }
    }

    fn route_until(&mut self, gateway: usize, until_us: u64, token: Token, request: Request<SimCommand>) {
        let (now, now_us) = (self.now_of_gateway(gateway), self.schedule.now_us());
        match self.way_of(gateway, &request) {
            Way::Here(epoch) => {
                if let Some(hosted) = self.gateways[gateway].tenures.get_mut(&epoch) {
                    hosted.engine.handle_request(now, token, request);
                }
            }
            // Never twice for the same epoch: gateways that know of different owners would send it to and fro.
            Way::Other(epoch, other) if epoch > self.op_epoch(token.id.seq) => {
                self.op_moves(token.id.seq, epoch, other);
                let delay_us = self.rng.exponential_us(HOP_US, 50 * HOP_US);
                let forwarded = Event::Forwarded { gateway: other, token, request: Box::new(request) };
                self.schedule.after(delay_us, forwarded);
            }
            Way::Other(..) | Way::Wait if now_us < until_us => {
                self.gateways[gateway].waiting.push_back((until_us, token, request))
            }
            Way::Other(..) | Way::Wait => self.refuse_op(token.id.seq),
        }
    }

    fn way_of(&self, gateway: usize, request: &Request<SimCommand>) -> Way {
        let host = &self.gateways[gateway];
        let key = match request {
            Request::Key(command) => command.key(),
            Request::Group(group) => &group.pairs[0].0,
            // Everything that is here. One that is gathered is many of these (`gathering.rs`).
            Request::Keyspace(_) => {
                let serves = |epoch: &&u32| host.tenures[*epoch].engine.standing() == Standing::Serving;
                return host.tenures.keys().find(serves).map_or(Way::Wait, |&epoch| Way::Here(epoch));
            }
        };
        let place = host.table.get(usize::from(self.partition_of(key).0)).copied().flatten();
        match place {
            Some((epoch, owner)) if owner == gateway => match host.tenures.get(&epoch) {
                Some(hosted) if hosted.engine.standing() == Standing::Serving => Way::Here(epoch),
                _ => Way::Wait,
            },
            Some((epoch, owner)) => Way::Other(epoch, owner),
            None => Way::Wait,
        }
    }

    /// Looks anew at what waits.
    pub(super) fn route_waiting(&mut self, gateway: usize) {
        for (until_us, token, request) in std::mem::take(&mut self.gateways[gateway].waiting) {
            self.route_until(gateway, until_us, token, request);
        }
    }

    pub(super) fn forwarded_arrives(&mut self, gateway: usize, token: Token, request: Request<SimCommand>) {
        if !self.gateways[gateway].is_up {
            return self.refuse_op(token.id.seq);
        }
        self.ask_gateway(gateway, token, request);
    }

    /// Rule R2: at any time one owner at most is proven while it serves, whoever stands still.
    pub(super) fn check_sole_owner(&mut self) {
        let mut owners: Vec<(PartitionId, u32)> = Vec::new();
        for (gateway, host) in self.gateways.iter().enumerate() {
            let now = self.now_of_gateway(gateway);
            for (&epoch, hosted) in &host.tenures {
                let serves = matches!(hosted.engine.standing(), Standing::Serving | Standing::LettingGo);
                if serves && self.config.lease.is_some() && hosted.engine.is_proven(now) {
                    owners.extend(hosted.engine.config().partitions.iter().map(|&partition| (partition, epoch)));
                }
            }
        }
        owners.sort_unstable();
        if let Some(pair) = owners.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let text = format!("epochs {} and {} both may answer for {}", pair[0].1, pair[1].1, pair[0].0);
            self.fail(Violation::Audit(text));
        }
    }
}

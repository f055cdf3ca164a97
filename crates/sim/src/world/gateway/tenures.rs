//! The tenures at a gateway: an engine each, from the coordinator's word until all is answered.

use std::collections::BTreeSet;

use shorttail_gateway::engine::{Engine, EngineConfig, Standing, Terms};
use shorttail_gateway::terms::{TermsTaken, is_over, tell_nodes};
use shorttail_units::{Epoch, Incarnation, PartitionId};

use super::{Hosted, count};
use crate::world::nodes::NodeHost;
use crate::world::{CLUSTER, Violation, World, endpoint_of_gateway};

impl World {
    /// The gateway is to own these partitions from now on.
    pub(in crate::world) fn begin_tenure(
        &mut self,
        gateway: usize,
        epoch: u32,
        partitions: Vec<PartitionId>,
        terms: Terms,
    ) {
        if self.gateways[gateway].tenures.contains_key(&epoch) {
            return self.take_terms(gateway, epoch, terms);
        }
        if let Some((standing, voters)) = self.gateways[gateway].ended.get(&epoch).cloned() {
            return self.tell_coordinator(gateway, epoch, standing, voters);
        }
        let now = self.now_of_gateway(gateway);
        let mut engine = self.new_engine(gateway, epoch, partitions);
        engine.handle_terms(now, terms);
        self.host(gateway, epoch, engine);
        self.note(format_args!("gateway {gateway} begins epoch {epoch}"));
    }

    /// The gateway is to own these partitions later.
    pub(super) fn prepare_tenure(&mut self, gateway: usize, epoch: u32, partitions: Vec<PartitionId>) {
        let host = &self.gateways[gateway];
        if host.tenures.contains_key(&epoch) || host.ended.contains_key(&epoch) {
            return;
        }
        let mut engine = self.new_engine(gateway, epoch, partitions);
        engine.prepare();
        self.host(gateway, epoch, engine);
        self.note(format_args!("gateway {gateway} prepares epoch {epoch}"));
    }

    /// It is not to own them after all.
    pub(super) fn forget_tenure(&mut self, gateway: usize, epoch: u32) {
        let hosted = self.gateways[gateway].tenures.get(&epoch);
        let is_to_come = |hosted: &Hosted| matches!(hosted.engine.standing(), Standing::Preparing | Standing::Prepared);
        if hosted.is_some_and(is_to_come) {
            self.drop_tenure(gateway, epoch);
        }
    }

    pub(super) fn new_engine(&self, gateway: usize, epoch: u32, partitions: Vec<PartitionId>) -> Engine {
        let now = self.now_of_gateway(gateway);
        let engine_count = match self.config.coordinated {
            true => self.gateways[gateway].view.tenures.len().max(1),
            false => self.config.gateway_count,
        };
        let config = EngineConfig {
            owner: epoch,
            engine_count: engine_count as u16,
            partition_count: self.config.partition_count,
            partitions,
            lease: self.config.lease,
            chunk_bytes: self.config.chunk_bytes,
            block_bytes: self.config.block_bytes,
            read_bytes_max: self.config.read_bytes_max,
            when_full: self.config.when_full,
            gather_us: 500_000,
            policy: self.config.policy,
            placement: self.config.placement,
            ..EngineConfig::new(self.config.code, Epoch(epoch), CLUSTER, self.node_count_at_first())
        };
        let mut engine = Engine::new(config, now);
        if self.config.coordinated {
            let view = &self.gateways[gateway].view;
            engine.handle_node_count(view.node_count_expected);
            tell_nodes(&mut engine, view);
            return engine;
        }
        engine.handle_node_count(self.node_count_expected());
        let members = self.members();
        engine.handle_nodes(&members.iter().map(|&node| self.nodes[node].id).collect::<Vec<_>>());
        for &node in &members {
            engine.handle_domain(self.nodes[node].id, &self.domain_of(node));
        }
        engine.handle_draining(&self.draining_ids());
        let is_lost = |node: &&NodeHost| !node.is_up() && !node.is_kept();
        let met = members.iter().map(|&node| &self.nodes[node]).filter(|node| node.incarnation != Incarnation(0));
        met.for_each(|node| engine.handle_life(node.id, node.incarnation));
        for node in members.iter().map(|&node| &self.nodes[node]).filter(is_lost) {
            engine.handle_retired(node.id, node.incarnation);
        }
        for node in self.membership.removed.iter().map(|&node| &self.nodes[node]) {
            engine.handle_removed(node.id, node.incarnation);
        }
        engine
    }

    pub(super) fn host(&mut self, gateway: usize, epoch: u32, engine: Engine) {
        let hosted = Hosted {
            engine,
            connecting: Vec::new(),
            tried: BTreeSet::new(),
            told: None,
            terms: TermsTaken::default(),
            ending_since_us: None,
        };
        self.gateways[gateway].tenures.insert(epoch, hosted);
        self.demand_turn(gateway);
    }

    pub(super) fn take_terms(&mut self, gateway: usize, epoch: u32, terms: Terms) {
        let now = self.now_of_gateway(gateway);
        if let Some(hosted) = self.gateways[gateway].tenures.get_mut(&epoch) {
            hosted.engine.handle_terms(now, terms);
        }
    }

    /// The coordinator hears of what changed; what is over and answered is dropped.
    pub(super) fn tell_standings(&mut self, gateway: usize) {
        let mut news = Vec::new();
        for (&epoch, hosted) in &mut self.gateways[gateway].tenures {
            let now = (hosted.engine.standing(), hosted.engine.voters_in_use().clone());
            if hosted.told.as_ref() != Some(&now) {
                hosted.told = Some(now.clone());
                news.push((epoch, now));
            }
        }
        for (epoch, (standing, voters)) in news {
            self.note(format_args!("epoch {epoch} at gateway {gateway}: {standing:?}"));
            if standing == Standing::Serving {
                self.check_sole_owner();
            }
            self.note_stretch(gateway, epoch, standing);
            self.tell_coordinator(gateway, epoch, standing, voters);
        }
        let (is_coordinated, now) = (self.config.coordinated, self.now_of_gateway(gateway));
        let is_over = |hosted: &Hosted| match hosted.engine.standing() {
            _ if is_coordinated => is_over(&hosted.engine, hosted.ending_since_us, now),
            Standing::Deposed => true,
            Standing::Released => hosted.engine.outstanding_count() == 0,
            _ => false,
        };
        let over = self.gateways[gateway].tenures.iter().filter(|(_, hosted)| is_over(hosted));
        for epoch in over.map(|(&epoch, _)| epoch).collect::<Vec<_>>() {
            self.drop_tenure(gateway, epoch);
        }
    }

    fn drop_tenure(&mut self, gateway: usize, epoch: u32) {
        let now = self.now_of_gateway(gateway);
        let mut standing = Standing::Deposed;
        if let Some(hosted) = self.gateways[gateway].tenures.get_mut(&epoch) {
            // What it was before it gave up: one that let go did so.
            standing = hosted.engine.standing();
            hosted.engine.give_up_all(now);
            if hosted.engine.outstanding_count() > 0 {
                self.fail(Violation::Audit(format!("epoch {epoch} ends and owes answers")));
            }
        }
        self.pass_replies(gateway);
        let host = &mut self.gateways[gateway];
        let Some(hosted) = host.tenures.remove(&epoch) else { return };
        self.transitions.forget(epoch);
        count(&mut host.earlier, &hosted.engine);
        host.ended.insert(epoch, (standing, hosted.engine.voters_in_use().clone()));
        let sessions = host.links.iter().filter(|(_, link)| link.epoch == epoch).map(|(&session, _)| session);
        let sessions: Vec<_> = sessions.collect();
        for session in sessions {
            self.gateways[gateway].links.remove(&session);
            self.network.close(&mut self.schedule, endpoint_of_gateway(gateway), session);
        }
        self.note(format_args!("epoch {epoch} at gateway {gateway} is over"));
    }
}

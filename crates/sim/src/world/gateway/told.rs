//! What the real coordinator tells a gateway: views and terms, taken as the server's gateways take them.
//!
//! ```text
//! terms name it  -> engine begins -> takes over -> serves -> lets go, or a later epoch fenced -> dropped
//!  as one to come -> engine prepares --^
//! ```

use shorttail_gateway::terms::tell_nodes;
use shorttail_units::PartitionId;
use shorttail_wire::control::{Terms, View};

use super::Input;
use crate::world::{Violation, World};

impl World {
    pub(in crate::world) fn tell_view(&mut self, gateway: usize, view: View) {
        self.gateways[gateway].inputs.push_back(Input::View(view));
        self.demand_turn(gateway);
    }

    pub(in crate::world) fn tell_terms(&mut self, gateway: usize, terms: Vec<Terms>) {
        self.gateways[gateway].inputs.push_back(Input::Terms(terms));
        self.demand_turn(gateway);
    }

    pub(super) fn take_view(&mut self, gateway: usize, view: View) {
        let table = self.table_of_view(&view);
        let host = &mut self.gateways[gateway];
        host.table = table;
        for engine in host.engines_mut() {
            engine.handle_node_count(view.node_count_expected);
            tell_nodes(engine, &view);
        }
        host.view = view;
        self.ask_loose_parts(gateway);
    }

    /// All tenures of this gateway, as the coordinator has them now.
    pub(super) fn take_all_terms(&mut self, gateway: usize, all: &[Terms]) {
        let now = self.now_of_gateway(gateway);
        let host = &mut self.gateways[gateway];
        let is_named = |epoch: u32| all.iter().any(|terms| terms.epoch.0 == epoch);
        host.ended.retain(|&epoch, _| is_named(epoch));
        for (&epoch, hosted) in &mut host.tenures {
            let since_us = hosted.ending_since_us.unwrap_or(now.mono_us);
            hosted.ending_since_us = (!is_named(epoch)).then_some(since_us);
        }
        for terms in all {
            let epoch = terms.epoch.0;
            let host = &self.gateways[gateway];
            if host.ended.contains_key(&epoch) {
                continue;
            }
            if !host.tenures.contains_key(&epoch) {
                self.begin_by_terms(gateway, terms);
            }
            let Some(hosted) = self.gateways[gateway].tenures.get_mut(&epoch) else { continue };
            let let_go = hosted.terms.lets_go();
            hosted.terms.take(&mut hosted.engine, now, terms);
            if hosted.terms.lets_go() && !let_go {
                self.counts.handovers += 1;
            }
        }
    }

    fn begin_by_terms(&mut self, gateway: usize, terms: &Terms) {
        let epoch = terms.epoch.0;
        let partitions: Vec<PartitionId> = terms.partitions.iter().copied().map(PartitionId).collect();
        self.note(format_args!("gateway {gateway} begins epoch {epoch}: {partitions:?}, prepares: {}", terms.prepares));
        if !self.coordinators.begun.insert(epoch) {
            self.fail(Violation::Audit(format!("epoch {epoch} begins twice, now at gateway {gateway}")));
        }
        let mut engine = self.new_engine(gateway, epoch, partitions);
        if terms.prepares {
            engine.prepare();
        }
        self.host(gateway, epoch, engine);
    }
}

//! Taking over: a new owner learns from the nodes what the store holds, before it serves.

use std::collections::BTreeMap;

use shorttail_units::{NodeId, StripeId};
use shorttail_wire::node::{ChunkReport, InspectReport};

use super::fetch::FetchError;
use super::{Engine, Phase};
use crate::command::Command;

/// What was learnt so far.
#[derive(Debug)]
pub struct Gathering {
    started_us: u64,
    reports: BTreeMap<StripeId, Vec<(NodeId, ChunkReport)>>,
}

impl Gathering {
    pub fn new(started_us: u64) -> Self {
        Gathering { started_us, reports: BTreeMap::new() }
    }

    pub fn take(&mut self, node: NodeId, report: ChunkReport) {
        self.reports.entry(report.description.stripe).or_default().push((node, report));
    }
}

impl<C: Command> Engine<C> {
    pub(super) fn advance_gathering(&mut self) {
        let Phase::Gathering(gathering) = &self.phase else { return };
        let (ready, expected) = (self.nodes.ready_count(), usize::from(self.config.node_count));
        let waited = self.now.mono_us.saturating_sub(gathering.started_us) >= self.config.gather_us;
        let enough = ready >= expected || waited && ready + self.config.parity_count() >= expected && ready > 0;
        if enough {
            self.phase = Phase::Serving;
        }
    }

    pub(super) fn inspected(&mut self, _node: NodeId, _stripe: StripeId, _report: &InspectReport<'_>) {}

    pub(super) fn inspect_refused(&mut self, _node: NodeId, _stripe: StripeId) {}

    pub(super) fn gather_fetched(&mut self, _stripe: StripeId, _data_index: u8, _result: Result<&[u8], FetchError>) {}
}

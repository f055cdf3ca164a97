//! What gateways counted that are forgotten: no counter of the cluster falls while its coordinator leads.
//!
//! A gateway is told from others by its life, as its number may be another one's later: should it come back, it goes on
//! counting where it was, and is not counted twice.
//!
//! Must not know: why a gateway was forgotten.

use std::collections::VecDeque;

use shorttail_wire::control::StoreTotals;

use crate::limits::GONE_GATEWAYS_MAX;
use crate::members::GatewayMember;

#[derive(Clone, Debug, Default)]
pub(crate) struct Gone {
    /// Of those that nobody waits for any more.
    sum: StoreTotals,
    /// By life, of the last that were forgotten.
    last: VecDeque<(u64, StoreTotals)>,
}

impl Gone {
    pub fn keep(&mut self, gateway: &GatewayMember) {
        self.last.push_back((gateway.registration.life, gateway.status.totals.counters()));
        if self.last.len() > GONE_GATEWAYS_MAX
            && let Some((_, oldest)) = self.last.pop_front()
        {
            self.sum = self.sum.plus(oldest);
        }
    }

    /// What this life counted, which is back.
    pub fn take(&mut self, life: u64) -> Option<StoreTotals> {
        let place = self.last.iter().position(|(other, _)| *other == life)?;
        self.last.remove(place).map(|(_, counted)| counted)
    }

    pub fn counted(&self) -> StoreTotals {
        self.last.iter().fold(self.sum, |sum, (_, counted)| sum.plus(*counted))
    }
}

//! Hedged reads: what is late gets a second way, within the budget.
//!
//! Requests of a session grow old in the order in which they were made, whether they were sent or wait behind a batch.
//! So the first of its queue that was not looked at yet is the next that can be late, and one deadline for the engine
//! is the earliest of these. It may be too early, when what it was for is answered; it is never too late.
//!
//! Must not know: how a read is decoded, how a write is made durable.

use shorttail_monitor::Class;
use shorttail_units::NodeId;

use super::budget::Budget;
use crate::engine::limits::{HEDGE_LOOKS_MAX, HEDGE_RETRY_US};
use crate::engine::state::pool::PoolKey;
use crate::engine::{Engine, SessionId, What};

#[derive(Debug)]
pub struct Hedging {
    pub budget: Budget,
    /// When something may be late that is not hedged.
    pub due_us: u64,
    /// Late binding of a share of the reads: what of the next one is due.
    pub late_binding_due: u16,
}

impl Hedging {
    /// `share`: hedges for each request, 0 to 1.
    pub fn new(share: f64) -> Self {
        Hedging { budget: Budget::new(share), due_us: u64::MAX, late_binding_due: 0 }
    }

    /// Something may be late then.
    pub fn look_at(&mut self, due_us: u64) {
        self.due_us = self.due_us.min(due_us);
    }
}

impl Engine {
    /// A request to this node may be hedged when it is late.
    pub(super) fn note_hedgeable(&mut self, node: NodeId) {
        let due_us = self.now.mono_us.saturating_add(self.hedge_delay_us(node, Class::Read, 0));
        self.hedging.look_at(due_us);
    }

    /// Hedges what is late now.
    pub(in crate::engine) fn hedge_late(&mut self) {
        if self.now.mono_us < self.hedging.due_us {
            return;
        }
        self.hedging.due_us = u64::MAX;
        self.hedge_late_reads();
        self.hedge_late_writes();
        self.race_late_values();
    }

    fn hedge_late_reads(&mut self) {
        let sessions: Vec<_> = self.nodes.busy_sessions().collect();
        for id in sessions {
            while let Some((tag, what)) = self.next_late(id) {
                let is_done = match what {
                    What::Fetch { fetch, part } => self.hedge_fetch(fetch, part),
                    What::Piece { pieces, part } => self.hedge_pieces(pieces, part),
                    _ => true,
                };
                if !is_done {
                    // It is looked at again when there may be a token.
                    self.hedging.look_at(self.now.mono_us + HEDGE_RETRY_US);
                    break;
                }
                if let Some(awaited) = self.awaited.get_mut(tag) {
                    awaited.is_hedged = true;
                }
            }
        }
    }

    /// The next read of a session that is late and was not hedged; notes when the one after that is.
    fn next_late(&mut self, id: SessionId) -> Option<(PoolKey, What)> {
        let now_us = self.now.mono_us;
        let delay_us = self.hedge_delay_us(id.node, Class::Read, 0);
        let awaited = &self.awaited;
        let session = self.nodes.session_mut(id)?;
        let is_done = |tag: PoolKey| awaited.get(tag).is_none_or(|it| it.is_hedged || !it.what.is_read());
        while session.asked.get(session.looked_at).is_some_and(|&(_, tag)| is_done(tag)) {
            session.looked_at += 1;
        }
        let session = self.nodes.session(id)?;
        // Long reads are late later: those behind them are not kept waiting for that.
        for &(made_us, tag) in session.asked.iter().skip(session.looked_at).take(HEDGE_LOOKS_MAX) {
            let Some(awaited) = self.awaited.get(tag).filter(|awaited| !awaited.is_hedged) else { continue };
            if !awaited.what.is_read() {
                continue;
            }
            let due_us = made_us + delay_us.max(self.hedge_delay_us(id.node, Class::Read, awaited.bytes));
            if due_us <= now_us {
                return Some((tag, awaited.what));
            }
            self.hedging.look_at(due_us);
        }
        None
    }

    /// The node is fail-slow: whatever waits for it gets a second way, without a token.
    pub(in crate::engine) fn hedge_all_of(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get(id) else { return };
        let asked = node.sessions.iter().flat_map(|session| &session.asked);
        let waiting: Vec<_> = asked.filter_map(|&(_, tag)| Some(self.awaited.get(tag)?.what)).collect();
        for what in waiting {
            match what {
                What::Fetch { fetch, part } => self.sidestep_fetch(fetch, part),
                What::Piece { pieces, part } => self.sidestep_pieces(pieces, part),
                _ => {}
            }
        }
    }
}

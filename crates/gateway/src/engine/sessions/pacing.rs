//! Clients first: repair puts off what it has to do while clients are served, and what it says to nodes is gathered.
//!
//! Must not know: what repair does, or says.

use shorttail_units::NodeId;

use crate::engine::limits::{GATHER_US, GIVE_WAY_US_MAX};
use crate::engine::{Engine, SessionId};

#[derive(Debug)]
pub struct Pacing {
    /// A client asked something in this turn.
    is_for_clients: bool,
    /// Repair put off to the next turn what it had to do in the last one.
    is_put_off: bool,
    /// So long it does at most.
    gives_way_until_us: u64,
    /// Something is gathered for nodes.
    has_unhurried: bool,
    /// When some of it leaves.
    unhurried_due_us: u64,
    /// For whom some left last.
    unhurried_last: SessionId,
}

impl Default for Pacing {
    fn default() -> Self {
        Pacing {
            is_for_clients: false,
            is_put_off: false,
            gives_way_until_us: 0,
            has_unhurried: false,
            unhurried_due_us: 0,
            unhurried_last: SessionId { node: NodeId(0), core: 0 },
        }
    }
}

impl Pacing {
    pub fn note_client(&mut self) {
        self.is_for_clients = true;
    }

    pub fn note_unhurried(&mut self) {
        self.has_unhurried = true;
    }

    /// Is a turn to follow for what was put off?
    pub fn is_put_off(&self) -> bool {
        self.is_put_off
    }

    /// When some of what is gathered leaves; `u64::MAX`: nothing is.
    pub fn due_us(&self) -> u64 {
        if self.has_unhurried { self.unhurried_due_us } else { u64::MAX }
    }
}

impl Engine {
    /// Does repair put off what it has to do to the next turn? In this one clients were served: whoever gets a reply
    /// may be waiting for this very processor.
    pub(in crate::engine) fn gives_way(&mut self) -> bool {
        let (now_us, pacing) = (self.now.mono_us, &mut self.pacing);
        let gives_way = std::mem::take(&mut pacing.is_for_clients) && now_us < pacing.gives_way_until_us;
        if !gives_way {
            pacing.gives_way_until_us = now_us + GIVE_WAY_US_MAX;
        }
        pacing.is_put_off = gives_way && (pacing.has_unhurried || self.repair.is_pressing());
        gives_way
    }

    /// What repair says to nodes leaves now and then, so that each is woken for much of it at once; but one node after
    /// another: all of them at the same time would take the processors from clients.
    pub(in crate::engine) fn let_unhurried_go(&mut self) {
        if self.now.mono_us < self.pacing.due_us() {
            return;
        }
        let gathering: Vec<SessionId> = self.nodes.gathering().collect();
        self.pacing.has_unhurried = gathering.len() > 1;
        let Some(&first) = gathering.first() else { return };
        let last = self.pacing.unhurried_last;
        let next = gathering.iter().copied().find(|&session| session > last).unwrap_or(first);
        if let Some(session) = self.nodes.session_mut(next) {
            session.let_unhurried_go();
        }
        self.pacing.unhurried_last = next;
        self.pacing.unhurried_due_us = self.now.mono_us + GATHER_US / gathering.len() as u64;
    }
}

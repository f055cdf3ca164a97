//! When the whole cluster is looked at: what is due by now, and what may be done.
//!
//! After each input, but for heartbeats and registrations of very many nodes: these share a look. Each of them changes
//! little but that its node is there, which is known at once. Registrations come all at once when a leader follows
//! another one, and those of gateways among them must be heard in time.
//!
//! ```text
//! heartbeats   | | |  |  | | |  |        |
//! looks        |        |        |       |
//!              |<------>| 5 us for each node
//! ```
//!
//! Nodes that are away for long are many when a rack is: in a large cluster they are gone through at some looks only.
//!
//! Must not know: what is done at a look.

use shorttail_units::Now;
use shorttail_wire::control::NodeState;

use crate::coordinator::Coordinator;
use crate::limits::{DUE_EVERY_MS, FORGET_GATEWAY_AFTER_MS, LOOK_LATER_US, LOOKED_AT_ONCE_MAX, STOOD_STILL_MS};
use crate::members::NodeMember;

#[derive(Debug, Default)]
pub(crate) struct Looks {
    count: u64,
    last_us: u64,
    /// Heartbeats or registrations of nodes came since.
    is_owed: bool,
    /// When those that are due to be given up were gone through last, and whether that was too short a time ago at the
    /// last look.
    due_us: Option<u64>,
    due_count: u64,
    is_due_owed: bool,
}

impl Coordinator {
    pub(crate) fn look(&mut self, now: Now) {
        let looks = &mut self.looks;
        (looks.last_us, looks.is_owed, looks.is_due_owed) = (now.mono_us, false, false);
        looks.count += 1;
        self.handle_silence(now);
        self.end_late_orders(now);
        self.advance_tenures(now);
    }

    /// After a heartbeat or a registration of a node.
    pub(crate) fn look_later(&mut self, now: Now) {
        match now.mono_us < self.next_look_us() {
            true => self.looks.is_owed = true,
            false => self.look(now),
        }
    }

    fn next_look_us(&self) -> u64 {
        let count = if self.is_large() { self.nodes.len() as u64 } else { 0 };
        self.looks.last_us + count * LOOK_LATER_US
    }

    fn is_large(&self) -> bool {
        self.nodes.len() > LOOKED_AT_ONCE_MAX
    }

    /// Are those that are due to be given up gone through at this look?
    pub(crate) fn may_go_through_due(&mut self, now: Now) -> bool {
        let is_soon = self.is_large() && self.next_due_us().is_some_and(|at_us| now.mono_us < at_us);
        self.looks.is_due_owed = is_soon;
        if !is_soon {
            self.looks.due_us = Some(now.mono_us);
            self.looks.due_count += 1;
        }
        !is_soon
    }

    fn next_due_us(&self) -> Option<u64> {
        self.looks.due_us.map(|at_us| at_us + DUE_EVERY_MS * 1000)
    }

    #[cfg(test)]
    pub(crate) fn look_count(&self) -> u64 {
        self.looks.count
    }

    /// How often those that are due to be given up were gone through.
    #[cfg(test)]
    pub(crate) fn due_count(&self) -> u64 {
        self.looks.due_count
    }

    /// Monotonic microseconds at which `Input::Deadline` is due.
    pub fn poll_deadline(&self) -> Option<u64> {
        // What else is due can wait for that, and takes a look at everybody to know.
        if self.looks.is_owed {
            return Some(self.next_look_us());
        }
        let owed = self.next_due_us().filter(|_| self.looks.is_due_owed);
        self.due_us().into_iter().chain(owed).min()
    }

    /// When something is due, by members and tenures.
    fn due_us(&self) -> Option<u64> {
        let deadline_us = |node: &NodeMember| node.presence.deadline_us(self.settings.retire_after_ms);
        let nodes = self.nodes.values().filter_map(deadline_us);
        let gateways =
            self.gateways.values().filter_map(|gateway| gateway.presence.deadline_us(FORGET_GATEWAY_AFTER_MS));
        // Who is waited for, as a node or while the store is away, is looked at when something is heard.
        let members = nodes.chain(gateways).filter(|&at_us| at_us > self.now_us);
        let others = self.order_deadline_us().into_iter().chain(self.tenures_deadline_us());
        members.chain(others).min()
    }

    /// After it stood still itself, whoever was alive is given the time of silence anew, and for the dead that time
    /// does not count: what they sent is still to be read. Nor does it count as time in which owners told of losses.
    pub(crate) fn forgive_silence(&mut self, now: Now) {
        let is_late = |due_us: Option<u64>| due_us.is_some_and(|at_us| now.mono_us > at_us + STOOD_STILL_MS * 1000);
        // A look that is late is no reason by itself: nobody may have been late.
        if !is_late(self.poll_deadline()) || !is_late(self.due_us()) {
            return;
        }
        let stood_us = now.mono_us - self.now_us;
        let dead = self.nodes.values_mut().filter(|node| node.presence.state == NodeState::Dead);
        dead.for_each(|node| node.presence.since_us += stood_us);
        self.put_off_losses(stood_us);
        let nodes = self.nodes.values_mut().map(|node| &mut node.presence);
        let members = nodes.chain(self.gateways.values_mut().map(|gateway| &mut gateway.presence));
        // Just before: nobody was heard, and those whose connections are found to have ended now may be all.
        let forgiven_us = now.mono_us - 1;
        members.filter(|presence| presence.is_alive()).for_each(|presence| presence.since_us = forgiven_us);
        self.gateways.values_mut().for_each(|gateway| gateway.reach.begin_anew(now));
    }
}

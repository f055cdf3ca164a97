//! Members: what the coordinator remembers of each node and gateway.

use std::collections::BTreeMap;

use shorttail_units::Incarnation;
use shorttail_wire::control::{GatewayRegistration, GatewayStatus, NodeState, NodeStatus};

use crate::ConnectionId;
use crate::gone::NodeCounted;
use crate::lifecycle::{Event, transition};
use crate::limits::{
    DEAD_AFTER_MS, GATEWAY_DEAD_AFTER_MS, GATEWAY_SUSPECT_AFTER_MS, SUSPECT_AFTER_MS, UNITE_OBJECTS_MAX,
};
use crate::reach::Reach;
use crate::recent::Recent;

/// How long a member may be silent.
#[derive(Clone, Copy, Debug)]
pub struct Silence {
    suspect_after_ms: u64,
    dead_after_ms: u64,
}

impl Silence {
    pub const OF_NODE: Self = Silence { suspect_after_ms: SUSPECT_AFTER_MS, dead_after_ms: DEAD_AFTER_MS };
    pub const OF_GATEWAY: Self =
        Silence { suspect_after_ms: GATEWAY_SUSPECT_AFTER_MS, dead_after_ms: GATEWAY_DEAD_AFTER_MS };
}

/// When and how a member was last heard of.
#[derive(Clone, Debug)]
pub struct Presence {
    silence: Silence,
    pub state: NodeState,
    /// Whoever is alive has one, or has left a coordinator that may not lead any more.
    pub connection: Option<ConnectionId>,
    /// Monotonic microseconds of the last message, or of the death when dead.
    pub since_us: u64,
}

impl Presence {
    pub fn registered(silence: Silence, now_us: u64, connection: ConnectionId) -> Self {
        Presence { silence, state: NodeState::Normal, connection: Some(connection), since_us: now_us }
    }

    /// A node known from before a restart: dead until it registers.
    pub fn remembered(now_us: u64) -> Self {
        Presence { silence: Silence::OF_NODE, state: NodeState::Dead, connection: None, since_us: now_us }
    }

    pub fn is_alive(&self) -> bool {
        self.state.is_alive()
    }

    /// Applies an event; whether the state changed.
    ///
    /// # Panics
    /// On a transition that does not exist: the caller asks only for those its own checks allow.
    pub fn apply(&mut self, now_us: u64, event: Event) -> bool {
        let before = self.state;
        let after = transition(before, event).unwrap_or_else(|| panic!("no transition from {before:?} on {event:?}"));
        self.state = after;
        let heard = matches!(event, Event::Heartbeat | Event::Registered);
        let died = before != after && matches!(after, NodeState::Dead | NodeState::Retired);
        if heard || died {
            self.since_us = now_us;
        }
        if !self.is_alive() {
            self.connection = None;
        }
        before != after
    }

    /// Applies what the passing of time does; whether the state changed.
    pub fn apply_silence(&mut self, now_us: u64) -> bool {
        let silent_ms = now_us.saturating_sub(self.since_us) / 1000;
        match self.state {
            NodeState::Normal | NodeState::Suspect if silent_ms >= self.silence.dead_after_ms => {
                self.apply(now_us, Event::VeryLate)
            }
            NodeState::Normal if silent_ms >= self.silence.suspect_after_ms => self.apply(now_us, Event::Late),
            _ => false,
        }
    }

    /// When silence would next change the state; `dead_for_ms` is how long the dead are kept.
    pub fn deadline_us(&self, dead_for_ms: u64) -> Option<u64> {
        let after_ms = match self.state {
            NodeState::Normal => self.silence.suspect_after_ms,
            NodeState::Suspect => self.silence.dead_after_ms,
            NodeState::Dead => dead_for_ms,
            NodeState::Retired => return None,
        };
        Some(self.since_us.saturating_add(after_ms.saturating_mul(1000)))
    }
}

/// One node, in its latest incarnation.
#[derive(Clone, Debug)]
pub struct NodeMember {
    pub presence: Presence,
    /// When this incarnation was first heard of, in monotonic microseconds.
    pub since_us: u64,
    pub incarnation: Incarnation,
    pub address: String,
    pub pid: u32,
    pub memory_limit_bytes: u64,
    pub core_count: u16,
    /// Whether it obeys orders to be faulty.
    pub allows_chaos: bool,
    pub status: NodeStatus,
    /// The status was told since this incarnation came, and since it was last ordered to drain.
    pub has_told: bool,
    /// When what it held was given up, or what its life before held was lost, if that was something, in monotonic
    /// microseconds.
    pub given_up_us: Option<u64>,
    /// Since when gateways tell that they reach it, though it is dead for the coordinator, in monotonic microseconds.
    pub reached_since_us: Option<u64>,
    /// Owners know this life, or there is nothing that the one before could have lost.
    pub is_met: bool,
}

/// One gateway.
#[derive(Clone, Debug)]
pub struct GatewayMember {
    pub presence: Presence,
    /// When it first registered with this coordinator, in monotonic microseconds.
    pub since_us: u64,
    pub registration: GatewayRegistration,
    pub status: GatewayStatus,
    /// It was told since this connection came.
    pub has_told: bool,
    /// It goes on from before this coordinator's reign, and has not told of its tenures yet.
    pub is_unheard: bool,
    /// It was gone when another one was heard and none had been: it may have been out of sight as they all were.
    pub is_missed: bool,
    /// Nodes that were given up with what they held since the status was told.
    pub untold_losses: usize,
    pub recent: Recent,
    /// By node, what it counted before it was forgotten, until it tells of that node again.
    pub(crate) counted_before: BTreeMap<u16, NodeCounted>,
    pub(crate) reach: Reach,
}

impl GatewayMember {
    /// Has it memory for what it owns a second time?
    pub fn owns_few_objects(&self) -> bool {
        self.status.totals.objects <= UNITE_OBJECTS_MAX
    }
}

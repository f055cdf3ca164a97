//! Life of a member as the coordinator sees it.
//!
//! ```text
//!              late                 very late, or connection closed
//!   Normal ----------> Suspect ---------------------------> Dead ------> Retired
//!     ^  ^--heartbeat----'                                   |   given up   (for good)
//!     |  `--------------- connection closed ---------------->|
//!     `------------------ registers again -------------------'
//! ```
//!
//! Edges that deliberately do not exist: out of `Retired` (a node comes back as another incarnation, which is another
//! life), and from `Normal` or `Suspect` to `Retired` (what may still be serving is never given up).

use shorttail_wire::control::NodeState;

/// What happens to a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    Heartbeat,
    /// Registered on a connection, for the first time or again.
    Registered,
    /// No heartbeat for `SUSPECT_AFTER_MS`.
    Late,
    /// No heartbeat for `DEAD_AFTER_MS`.
    VeryLate,
    ConnectionClosed,
    /// Dead for too long, or replaced by another incarnation.
    GivenUp,
}

/// The only place that knows the legal transitions; `None` for one that does not exist.
pub fn transition(state: NodeState, event: Event) -> Option<NodeState> {
    use NodeState::{Dead, Normal, Retired, Suspect};
    match (state, event) {
        (Normal | Suspect, Event::Heartbeat | Event::Registered) => Some(Normal),
        (Dead, Event::Registered) => Some(Normal),
        (Normal | Suspect, Event::Late) => Some(Suspect),
        (Normal | Suspect, Event::VeryLate | Event::ConnectionClosed) => Some(Dead),
        (Dead, Event::Late | Event::VeryLate | Event::ConnectionClosed) => Some(Dead),
        (Dead | Retired, Event::GivenUp) => Some(Retired),
        (Dead, Event::Heartbeat) | (Normal | Suspect, Event::GivenUp) => None,
        (Retired, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use NodeState::{Dead, Normal, Retired, Suspect};

    #[test]
    fn nothing_leaves_retired() {
        for event in [Event::Heartbeat, Event::Registered, Event::Late, Event::VeryLate, Event::ConnectionClosed] {
            assert_eq!(transition(Retired, event), None, "{event:?}");
        }
        assert_eq!(transition(Retired, Event::GivenUp), Some(Retired));
    }

    #[test]
    fn what_may_be_serving_is_never_given_up() {
        assert_eq!(transition(Normal, Event::GivenUp), None);
        assert_eq!(transition(Suspect, Event::GivenUp), None);
        assert_eq!(transition(Dead, Event::GivenUp), Some(Retired));
    }

    #[test]
    fn a_dead_member_comes_back_only_by_registering() {
        assert_eq!(transition(Dead, Event::Heartbeat), None);
        assert_eq!(transition(Dead, Event::Registered), Some(Normal));
    }
}

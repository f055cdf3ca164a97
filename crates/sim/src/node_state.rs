//! MemEC's states of a server, as one owner sees a node, and which step may follow which. The simulator checks what
//! engines tell of absences against it, and does not ask the engine what it takes for legal.
//!
//! Must not know: engines, stripes; why a step was made.
//!
//! Source: MemEC (SYSTOR 2017), section 5.2. Deviation: a node may be back before all that it left unsettled is
//! settled, as nobody has to agree on its state; it is *intermediate* for so long all the same.

use std::fmt;

use shorttail_gateway::engine::Step;
use shorttail_wire::control::NodeStage;

/// ```text
///            Away                  GoneRound             InUseAgain                Whole
///  Normal --------> Intermediate ------------> Degraded -------------> Coordinated ------> Normal
///                     |      ^                                           ^     |
///          InUseAgain |      | Away                            GoneRound |     | Away
///                     v      |                                           |     v
///                  Intermediate, back -----------------------------------'  Intermediate
/// ```
/// Edges that do not exist: to *degraded* from anywhere but *intermediate*, as something would be on its way to a node
/// that nobody reckons with; to *normal* from anywhere but *coordinated*, as chunks would be missing; from *degraded*
/// to *intermediate*, as a node that is not in use cannot go away again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NodeState {
    /// Used, and nothing is missing.
    #[default]
    Normal,
    /// Away; what was under way with it is being settled, or begun elsewhere. `is_back`: it is in use again meanwhile.
    Intermediate { is_back: bool },
    /// Away, and nothing is under way with it.
    Degraded,
    /// In use again; what it lost is being made up for.
    Coordinated,
}

/// A step that the diagram does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Illegal {
    pub state: NodeState,
    pub step: Step,
}

impl fmt::Display for Illegal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} follows on {:?}", self.step, self.state)
    }
}

impl NodeState {
    /// The one place that knows the legal transitions.
    ///
    /// # Errors
    /// When the step is none of this state's.
    pub fn after(self, step: Step) -> Result<NodeState, Illegal> {
        use NodeState::{Coordinated, Degraded, Intermediate, Normal};
        match (self, step) {
            (Normal | Coordinated | Intermediate { is_back: true }, Step::Away) => Ok(Intermediate { is_back: false }),
            (Intermediate { is_back: false }, Step::InUseAgain) => Ok(Intermediate { is_back: true }),
            (Intermediate { is_back: false }, Step::GoneRound) => Ok(Degraded),
            (Intermediate { is_back: true }, Step::GoneRound) | (Degraded, Step::InUseAgain) => Ok(Coordinated),
            (Coordinated, Step::Whole) => Ok(Normal),
            (state, step) => Err(Illegal { state, step }),
        }
    }

    /// What owners tell of a node in this state.
    pub fn stage(self) -> NodeStage {
        match self {
            NodeState::Normal => NodeStage::Normal,
            NodeState::Intermediate { .. } => NodeStage::Intermediate,
            NodeState::Degraded => NodeStage::Degraded,
            NodeState::Coordinated => NodeStage::Coordinated,
        }
    }

    /// Is the node to be left alone?
    pub fn is_away(self) -> bool {
        matches!(self, NodeState::Intermediate { is_back: false } | NodeState::Degraded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The states that a sequence of steps leads through.
    fn through(steps: &[Step]) -> Result<Vec<NodeState>, Illegal> {
        let mut state = NodeState::default();
        steps
            .iter()
            .map(|&step| {
                state = state.after(step)?;
                Ok(state)
            })
            .collect()
    }

    #[test]
    fn a_node_goes_round_all_states_and_may_be_back_early_or_leave_again() {
        use NodeState::{Coordinated, Degraded, Intermediate, Normal};
        use Step::{Away, GoneRound, InUseAgain, Whole};
        let (leaving, early) = (Intermediate { is_back: false }, Intermediate { is_back: true });
        let usual = [leaving, Degraded, Coordinated, Normal];
        assert_eq!(through(&[Away, GoneRound, InUseAgain, Whole]).as_deref(), Ok(&usual[..]));
        let soon = [leaving, early, leaving, early, Coordinated, leaving];
        let steps = [Away, InUseAgain, Away, InUseAgain, GoneRound, Away];
        assert_eq!(through(&steps).as_deref(), Ok(&soon[..]));
    }

    #[test]
    fn no_state_is_left_out() {
        use Step::{Away, GoneRound, InUseAgain, Whole};
        let illegal: [&[Step]; 9] = [
            &[GoneRound],
            &[InUseAgain],
            &[Whole],
            &[Away, Away],
            &[Away, Whole],
            &[Away, InUseAgain, Whole],
            &[Away, GoneRound, Away],
            &[Away, GoneRound, Whole],
            &[Away, GoneRound, InUseAgain, GoneRound],
        ];
        for steps in illegal {
            assert!(through(&steps[..steps.len() - 1]).is_ok() && through(steps).is_err(), "{steps:?}");
        }
    }
}

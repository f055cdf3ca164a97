//! What the coordinator passes on to a member for an operator.

use serde::{Deserialize, Serialize};
use shorttail_policy::Change;

/// An order to one member.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Order {
    /// A node is to be faulty on purpose.
    Chaos(shorttail_chaos::Order),
    /// A gateway is to treat slow nodes otherwise, or to store objects otherwise.
    Policy(PolicyOrder),
    /// A gateway is to hand over all that it owns, or not any more. The coordinator sees to it: no member is sent this.
    DrainGateway { cancel: bool },
    /// A node is to be emptied, or not any more. The coordinator's work too.
    DrainNode { cancel: bool },
    /// A node is taken out of the cluster; `lost`: whatever it holds. The coordinator's work too.
    RemoveNode { lost: bool },
    /// Losses that are remembered need not be told any more. The coordinator's work too.
    AcknowledgeLosses,
}

/// A change of policy, until the gateway ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PolicyOrder {
    /// Whose; none: of all that the gateway owns.
    pub partition: Option<u16>,
    pub change: Change,
}

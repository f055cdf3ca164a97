//! What the coordinator passes on to a member for an operator.

use serde::{Deserialize, Serialize};
use shorttail_policy::Change;

/// An order to one member.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Order {
    /// A node is to be faulty on purpose.
    Chaos(shorttail_chaos::ChaosOrder),
    /// A gateway is to treat slow nodes otherwise, or to store objects otherwise.
    Policy(PolicyOrder),
}

/// A change of policy, until the gateway ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PolicyOrder {
    /// Whose; none: of all that the gateway owns.
    pub partition: Option<u16>,
    pub change: Change,
}

//! Who should own what: tenures, their terms, and how far their owners are with them.
//!
//! ```text
//! coordinator                     owner                              every other member
//!   |-- Terms (voters, before) ---->|                                   |
//!   |-- View (gateways, tenures) -->|---------------------------------->|   where requests go
//!   |<-- GatewayStatus: standings --|                                   |
//! ```
//!
//! Terms can be long (they name every node; `terms.rs`), so only the owner is told them. The nodes decide whether a
//! tenure holds.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shorttail_units::{Epoch, Incarnation, NodeId};

use super::ids;

/// One life of a node's memory, as it has a voice in who owns a partition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Voter {
    #[serde(with = "ids::node_id")]
    pub node: NodeId,
    #[serde(with = "ids::incarnation")]
    pub incarnation: Incarnation,
}

/// A gateway of a view.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GatewayEntry {
    pub id: u16,
    pub is_alive: bool,
    /// It is to own nothing: it may be about to be stopped.
    pub draining: bool,
    /// Where other gateways connect: `host:port` or `unix:/path`.
    pub forward: Option<String>,
    pub memcached: Option<String>,
    /// Where Redis clients are told to connect; a host that is anywhere is that of `forward`.
    pub redis: Option<String>,
}

/// A tenure of a view: some partitions, one gateway, one epoch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TenureEntry {
    #[serde(with = "ids::epoch")]
    pub epoch: Epoch,
    pub gateway: u16,
    /// In order.
    pub partitions: Vec<u16>,
}

/// What the owner of a tenure must go by. Tenures share sets of voters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    pub epoch: Epoch,
    /// Grows when voters or `before` change; never the same for two different ones.
    pub number: u32,
    /// In order.
    pub partitions: Vec<u16>,
    /// By these it proves that it owns the partitions.
    pub voters: Arc<[Voter]>,
    /// Each of these sets must have accepted the epoch before anything is served.
    pub before: Vec<Arc<[Voter]>>,
    /// It is to finish, and to leave the partitions to a successor.
    pub lets_go: bool,
    /// The tenure is to come: another owner serves, and this one learns what it will inherit. Voters and `before`
    /// are not known yet.
    pub prepares: bool,
}

impl Terms {
    /// Of a tenure to come.
    pub fn to_come(epoch: Epoch, partitions: Vec<u16>) -> Self {
        let voters = [].into();
        Terms { epoch, number: 0, partitions, voters, before: Vec::new(), lets_go: false, prepares: true }
    }
}

/// How far an owner is with a tenure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TenureState {
    /// Nodes are fenced, indexes are built.
    #[default]
    TakingOver,
    /// Another owner serves; this one is to follow it, and reads what that one stored.
    Preparing,
    /// As preparing, and little is left to read.
    Prepared,
    Serving,
    /// No new requests; what is under way is finished.
    LettingGo,
    /// Nothing is under way, and the nodes take a successor at once.
    LetGo,
    /// Another owner has it, or the nodes say so.
    Ended,
}

impl TenureState {
    /// Does its owner answer for nothing any more?
    pub fn is_over(self) -> bool {
        matches!(self, TenureState::LetGo | TenureState::Ended)
    }

    pub const ALL: [TenureState; 7] = [
        TenureState::TakingOver,
        TenureState::Preparing,
        TenureState::Prepared,
        TenureState::Serving,
        TenureState::LettingGo,
        TenureState::LetGo,
        TenureState::Ended,
    ];

    pub fn name(self) -> &'static str {
        match self {
            TenureState::TakingOver => "taking over",
            TenureState::Preparing => "preparing",
            TenureState::Prepared => "prepared",
            TenureState::Serving => "serving",
            TenureState::LettingGo => "letting go",
            TenureState::LetGo => "let go",
            TenureState::Ended => "ended",
        }
    }

    /// Did the sets of `before` accept it?
    pub fn has_served(self) -> bool {
        matches!(self, TenureState::Serving | TenureState::LettingGo | TenureState::LetGo)
    }
}

/// What an owner reports of a tenure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Standing {
    #[serde(with = "ids::epoch")]
    pub epoch: Epoch,
    /// Number of the terms by whose voters it is proven; 0: by none now.
    pub proven_by: u32,
    pub state: TenureState,
}

impl Standing {
    /// Are requests answered?
    pub fn is_served(&self) -> bool {
        self.state == TenureState::Serving && self.proven_by != 0
    }

    /// Does nobody but the owner say so?
    pub fn is_unproven(&self) -> bool {
        self.state == TenureState::Serving && self.proven_by == 0
    }
}

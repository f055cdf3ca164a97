//! Where a node is on its way out of use and back, as those see it who order writes.
//!
//! Must not know: how an owner comes to it, or what follows from it: nothing does.

use serde::{Deserialize, Serialize};

/// MemEC's states of a server (section 5.2).
///
/// ```text
/// normal --session lost--> intermediate --nothing is under way--> degraded --greeted, scanned--> coordinated --> normal
/// ```
/// Of several owners the greatest counts: a node is *degraded* when the last of them is done with what was under way,
/// and *normal* when none misses anything.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeStage {
    /// Used, and nothing is missing.
    #[default]
    Normal,
    /// In use again; what was lost meanwhile is being made up for.
    Coordinated,
    /// Not in use, and nothing is under way with it.
    Degraded,
    /// Not in use, or only just again; what was under way with it is being finished, here or elsewhere.
    Intermediate,
}

impl NodeStage {
    pub const ALL: [NodeStage; 4] =
        [NodeStage::Normal, NodeStage::Intermediate, NodeStage::Degraded, NodeStage::Coordinated];

    pub fn name(self) -> &'static str {
        match self {
            NodeStage::Normal => "normal",
            NodeStage::Intermediate => "intermediate",
            NodeStage::Degraded => "degraded",
            NodeStage::Coordinated => "coordinated",
        }
    }
}

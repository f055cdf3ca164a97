//! What a node's core is told at its start.

use shorttail_store::{NotesDamaged, StoreError};
use shorttail_units::{ClusterId, Epoch, Incarnation, NodeId};
use shorttail_wire::node::{Hello, HelloReply, NodeRequest, PROTOCOL_VERSION, Refusal};

use crate::rebuild::PeerId;

/// Identity and memory of one core of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    pub node: NodeId,
    pub cluster: ClusterId,
    pub incarnation: Incarnation,
    /// This core, below `core_count`.
    pub core: u16,
    pub core_count: u16,
    /// Budget of this core for chunks and raw operations, in bytes.
    pub memory_bytes: usize,
    pub pace: Pace,
}

/// How fast a core does what nobody waits for, in bytes a second. It may change at any time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// What it may fetch from other nodes to rebuild lost chunks.
    pub repair_bytes_per_s: u64,
    /// Sealed chunks that it looks at to find damage; 0: none.
    pub scrub_bytes_per_s: u64,
}

/// Why a node cannot start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Notes(#[from] NotesDamaged),
    #[error("core {core} of {core_count}: there is no such core")]
    Core { core: u16, core_count: u16 },
}

impl NodeConfig {
    /// What a session of this core with another node's begins with.
    pub(crate) fn greeting(&self, peer: PeerId) -> Vec<u8> {
        let hello = Hello {
            version: PROTOCOL_VERSION,
            cluster: self.cluster,
            core: peer.core,
            owner: u32::from(self.node.0) << 16 | u32::from(self.core),
            epoch: Epoch(0),
        };
        let mut bytes = Vec::new();
        NodeRequest::Peer(hello).encode(0, &mut bytes);
        bytes
    }

    /// What a greeting is answered with, whoever greets.
    pub(crate) fn hello_reply(&self) -> HelloReply {
        HelloReply {
            version: PROTOCOL_VERSION,
            cluster: self.cluster,
            node: self.node,
            incarnation: self.incarnation,
            core_count: self.core_count,
            memory_bytes: self.memory_bytes as u64,
            used_bytes: 0,
            held_bytes: 0,
            near: None,
            ring: None,
        }
    }

    /// Is a greeting one for this core? If not, why, and the detail of that refusal.
    pub(crate) fn check_hello(&self, hello: &Hello) -> Result<(), (Refusal, u64)> {
        if hello.version != PROTOCOL_VERSION {
            Err((Refusal::WrongVersion, u64::from(PROTOCOL_VERSION)))
        } else if hello.cluster != self.cluster {
            Err((Refusal::WrongCluster, 0))
        } else if hello.core != self.core {
            Err((Refusal::Invalid, 0))
        } else {
            Ok(())
        }
    }

    pub(crate) fn check(&self) -> Result<(), NodeError> {
        let &NodeConfig { core, core_count, .. } = self;
        if core < core_count { Ok(()) } else { Err(NodeError::Core { core, core_count }) }
    }
}

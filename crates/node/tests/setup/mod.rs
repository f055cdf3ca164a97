//! The node that tests begin with, and what its owner says.
#![allow(dead_code, reason = "not in every test")]

pub mod cluster;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use shorttail_node::{Background, FromBackground, Node, NodeConfig, Pace};
use shorttail_store::{NearReader, NearWriter};
use shorttail_units::{ClusterId, CodeShape, Configuration, Epoch, Incarnation, NodeId, PartitionId, StripeId};
use shorttail_wire::node::{
    ChunkDescription, ChunkKind, Frame, Hello, Members, NodeRequest, PROTOCOL_VERSION, next_frame,
};

pub const CLUSTER: ClusterId = ClusterId(9);

/// The only core of a node with 1 MiB, which neither repairs nor scrubs by itself.
pub fn config(node: u16) -> NodeConfig {
    NodeConfig {
        node: NodeId(node),
        cluster: CLUSTER,
        incarnation: Incarnation(1),
        core: 0,
        core_count: 1,
        memory_bytes: 1 << 20,
        pace: Pace { repair_bytes_per_s: 1, scrub_bytes_per_s: 0 },
    }
}

/// What a session of another node is sent once all that it wants is found; `hear`: what the core is told meanwhile.
pub fn given(
    node: &mut Node,
    background: &mut Background,
    session: u64,
    mut hear: impl FnMut(&FromBackground),
) -> Vec<u8> {
    let mut sent = Vec::new();
    loop {
        while let Some(part) = background.giver.poll_output(session) {
            // A socket takes what it likes.
            let taken = part.len().min(1000);
            sent.extend_from_slice(&part[..taken]);
            background.giver.handle_sent(session, taken);
        }
        let is_told = background.end_turn(0, |said| {
            hear(&said);
            node.handle_background(said);
        });
        if !is_told {
            return sent;
        }
        while !node.serve_background(|said| assert_eq!(background.handle(said), Some(session))) && node.has_wanted() {}
    }
}

/// All that there is, which is whole frames.
pub fn frames_of(bytes: &[u8]) -> Vec<Frame<'_>> {
    let (mut rest, mut frames) = (bytes, Vec::new());
    while let Some((frame, length)) = next_frame(rest).expect("frames") {
        frames.push(frame);
        rest = &rest[length..];
    }
    assert!(rest.is_empty(), "whole frames");
    frames
}

/// The owner of epoch 3, to core 0.
pub fn hello() -> Hello {
    Hello { version: PROTOCOL_VERSION, cluster: CLUSTER, core: 0, owner: 6, epoch: Epoch(3) }
}

pub fn fence(partition: u16, epoch: u32) -> NodeRequest<'static> {
    NodeRequest::Fence { partition, epoch: Epoch(epoch), next: StripeId::default() }
}

pub fn stripe(counter: u64) -> StripeId {
    StripeId::new(Epoch(3), counter)
}

/// Data chunk 1 of an RS(2,2) stripe on nodes 0 to 3.
pub fn striped(counter: u64) -> ChunkDescription {
    ChunkDescription {
        stripe: stripe(counter),
        epoch: Epoch(3),
        partition: PartitionId(2),
        kind: ChunkKind::Striped,
        index: 1,
        shape: CodeShape::reed_solomon(2, 2).expect("a shape"),
        chunk_bytes: 5000,
        configuration: Configuration::default(),
        members: Members((0..4).map(NodeId).collect()),
    }
}

/// A chunk of an RS(2,1) stripe for node 5: data chunk 1, or the parity.
pub fn packed(counter: u64, index: u8) -> ChunkDescription {
    let mut members = Members([1, 2, 3].map(NodeId).to_vec());
    members.0[usize::from(index)] = NodeId(5);
    let shape = CodeShape::reed_solomon(2, 1).expect("a shape");
    ChunkDescription { kind: ChunkKind::Packed, index, shape, chunk_bytes: 4000, members, ..striped(counter) }
}

/// A node's memory, as it is read beside the core.
#[derive(Clone, Debug)]
pub struct Memory(Arc<File>);

impl Memory {
    pub fn of(node: &Node) -> Self {
        Memory(Arc::clone(node.memory().expect("it is shared")))
    }
}

impl NearReader for Memory {
    fn read(&self, position: u64, into: &mut [u8]) -> usize {
        self.0.read_at(into, position).unwrap_or_default()
    }
}

impl NearWriter for Memory {
    fn write(&self, position: u64, _room_bytes: usize, bytes: &[u8]) -> bool {
        self.0.write_all_at(bytes, position).is_ok()
    }
}

//! Entry for fuzzers: any bytes, as a session of a small node. Runs as a plain test too.
//!
//! The first byte chooses: raw bytes from the peer, or bytes that a tiny decoder turns into well-formed requests with
//! nonsense values, which go deeper. Whatever comes, nothing panics and the invariants hold.

use shorttail_units::{ClusterId, Epoch, Incarnation, NodeId, Now, OpNumber, PartitionId, StripeId};
use shorttail_wire::node::{ChunkDescription, ChunkKind, Hello, Members, NodeRequest, PROTOCOL_VERSION};

use crate::{Node, NodeConfig};

const CLUSTER: ClusterId = ClusterId(1);
const MEMORY_BYTES: usize = 512 * 1024;
/// Requests made from one input: enough to open, fill, seal and free some stripes.
const REQUESTS_MAX: usize = 400;
/// Bytes that appends and installs take their payload from.
static PAYLOAD: [u8; 4096] = [0xa7; 4096];

/// One session with a node, told by `data`.
///
/// # Panics
/// If the node breaks an invariant.
pub fn fuzz_session(data: &[u8]) {
    let Some((mode, rest)) = data.split_first() else { return };
    let mut node = small_node();
    node.handle_session_opened(1);
    match mode % 4 {
        0 => feed(&mut node, rest),
        1 => {
            greet(&mut node);
            feed(&mut node, rest);
        }
        _ => {
            greet(&mut node);
            let mut source = Source(rest);
            for _ in 0..REQUESTS_MAX {
                if source.0.is_empty() {
                    break;
                }
                let mut bytes = Vec::new();
                source.request().encode(1, &mut bytes);
                feed(&mut node, &bytes);
            }
        }
    }
    node.check_invariants();
    node.handle_session_closed(1);
    node.check_invariants();
}

fn small_node() -> Node {
    let config = NodeConfig {
        node: NodeId(0),
        cluster: CLUSTER,
        incarnation: Incarnation(1),
        core: 0,
        core_count: 1,
        memory_bytes: MEMORY_BYTES,
        auth: Vec::new(),
    };
    Node::new(config).expect("a small node")
}

fn greet(node: &mut Node) {
    let hello =
        Hello { version: PROTOCOL_VERSION, cluster: CLUSTER, core: 0, owner: 1, epoch: Epoch(1), auth: Vec::new() };
    let mut bytes = Vec::new();
    NodeRequest::Hello(hello).encode(0, &mut bytes);
    NodeRequest::Fence { partition: 0, epoch: Epoch(1) }.encode(0, &mut bytes);
    feed(node, &bytes);
}

/// Feeds bytes in one turn and throws the answers away.
fn feed(node: &mut Node, bytes: &[u8]) {
    if let Ok(consumed) = node.handle_input(Now::default(), 1, bytes) {
        assert!(consumed <= bytes.len(), "consumed more than there was");
    }
    node.end_turn(Now::default());
    if let Some(output) = node.poll_output(1) {
        output.clear();
    }
    node.check_invariants();
}

/// Takes small values from the front of the input, so that ids and operations often meet.
struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Mostly small, sometimes at the edge.
    fn number(&mut self) -> u32 {
        match self.byte() {
            low @ 0..200 => u32::from(low) % 24,
            middle @ 200..250 => u32::from(middle) * 337,
            high => u32::MAX - (255 - u32::from(high)),
        }
    }

    fn stripe(&mut self) -> StripeId {
        StripeId::from_raw(u64::from(self.byte() % 8))
    }

    fn op(&mut self) -> OpNumber {
        OpNumber(self.number())
    }

    fn epoch(&mut self) -> Epoch {
        Epoch(u32::from(self.byte() % 4))
    }

    fn payload(&mut self) -> &'static [u8] {
        let length = usize::from(self.byte()) * usize::from(self.byte() % 17);
        &PAYLOAD[..length.min(PAYLOAD.len())]
    }

    fn description(&mut self) -> ChunkDescription {
        let (data_count, parity_count) = (1 + self.byte() % 4, self.byte() % 4);
        let member_count = data_count + parity_count;
        ChunkDescription {
            stripe: self.stripe(),
            epoch: self.epoch(),
            partition: PartitionId(u16::from(self.byte() % 2)),
            kind: if self.byte().is_multiple_of(4) { ChunkKind::Striped } else { ChunkKind::Packed },
            index: self.byte() % member_count,
            data_count,
            parity_count,
            chunk_bytes: self.number().max(self.number()),
            members: Members(vec![NodeId(0); usize::from(member_count)]),
        }
    }

    fn request(&mut self) -> NodeRequest<'static> {
        match self.byte() % 20 {
            0 => NodeRequest::Fence { partition: u16::from(self.byte() % 3), epoch: self.epoch() },
            1 | 2 => NodeRequest::Open(self.description()),
            3..=8 => NodeRequest::Append {
                stripe: self.stripe(),
                op: self.op(),
                previous: self.op(),
                stable: self.op(),
                data_index: self.byte() % 5,
                offset: self.number(),
                bytes: self.payload(),
            },
            9 => NodeRequest::Stable { stripe: self.stripe(), stable: self.op() },
            10 => NodeRequest::Seal { stripe: self.stripe(), last: self.op(), chunk_last: self.op() },
            11 => NodeRequest::Free {
                first: self.stripe(),
                count: self.number(),
                epoch: self.epoch(),
                partition: PartitionId(u16::from(self.byte() % 2)),
            },
            12 => NodeRequest::ReadRecord { stripe: self.stripe(), offset: self.number() },
            13 | 14 => NodeRequest::ReadRange {
                stripe: self.stripe(),
                offset: self.number(),
                length: self.number(),
                op: self.op(),
            },
            15 => NodeRequest::Install { description: self.description(), bytes: self.payload() },
            16 => NodeRequest::Scan {
                partition: u16::from(self.byte() % 3),
                after: self.stripe(),
                count: u16::from(self.byte()),
            },
            17 => NodeRequest::Inspect { stripe: self.stripe() },
            18 => NodeRequest::Close { stripe: self.stripe(), epoch: self.epoch(), last: self.op() },
            _ => NodeRequest::Ping,
        }
    }
}

//! Entry for fuzzers: any bytes, as a session of a small node. Runs as a plain test too.
//!
//! The first byte chooses: raw bytes from the peer, or bytes that a tiny decoder turns into well-formed requests with
//! nonsense values, which go deeper. Whatever comes, nothing panics and the invariants hold.

use shorttail_store::{NearReader, NearWriter};
use shorttail_units::{
    ClusterId, CodeShape, Configuration, Epoch, Incarnation, NodeId, Now, OpNumber, PartitionId, StripeId,
};
use shorttail_wire::node::{ChunkDescription, ChunkKind, Hello, Members, NodeRequest, PROTOCOL_VERSION};

use crate::{Background, Node, NodeConfig, NodeStats, Pace};

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
    run_session(data);
}

/// As [`fuzz_session`]; returns what the node counted, to see how deep the input went.
pub fn run_session(data: &[u8]) -> NodeStats {
    let (mode, rest) = data.split_first().unwrap_or((&0, &[]));
    let mut fuzzed = Fuzzed::new();
    match mode % 4 {
        0 => fuzzed.feed(rest),
        1 => {
            fuzzed.greet();
            fuzzed.feed(rest);
        }
        _ => {
            fuzzed.greet();
            let mut source = Source::new(rest);
            for _ in 0..REQUESTS_MAX {
                if source.rest.is_empty() {
                    break;
                }
                let mut bytes = Vec::new();
                source.request().encode(1, &mut bytes);
                fuzzed.feed(&bytes);
            }
        }
    }
    fuzzed.node.check_invariants();
    fuzzed.node.handle_session_closed(1);
    fuzzed.rebuild();
    fuzzed.node.check_invariants();
    fuzzed.node.stats()
}

/// Memory in which room is left, and nothing can be written.
#[derive(Debug)]
pub struct Unwritable;

impl NearReader for Unwritable {
    fn read(&self, _: u64, _: &mut [u8]) -> usize {
        0
    }
}

impl NearWriter for Unwritable {
    fn write(&self, _: u64, _: usize, _: &[u8]) -> bool {
        false
    }
}

/// A small node with one session, and what is beside it.
struct Fuzzed {
    node: Node,
    background: Background,
}

impl Fuzzed {
    fn new() -> Self {
        let mut node = Node::new(small_config()).expect("a small node");
        node.handle_session_opened(1);
        Fuzzed { background: node.background(None, Some(Box::new(Unwritable))), node }
    }

    fn greet(&mut self) {
        let hello = Hello { version: PROTOCOL_VERSION, cluster: CLUSTER, core: 0, owner: 1, epoch: Epoch(1) };
        let mut bytes = Vec::new();
        NodeRequest::Hello(hello).encode(0, &mut bytes);
        NodeRequest::Fence { partition: 0, epoch: Epoch(1), next: StripeId::default() }.encode(0, &mut bytes);
        self.feed(&bytes);
    }

    /// Feeds bytes in one turn and throws the answers away.
    fn feed(&mut self, bytes: &[u8]) {
        if let Ok(consumed) = self.node.handle_input(Now::default(), 1, bytes) {
            assert!(consumed <= bytes.len(), "consumed more than there was");
        }
        self.rebuild();
        self.node.end_turn(Now::default());
        if let Some(output) = self.node.poll_output(1) {
            output.clear();
        }
        self.node.check_invariants();
    }

    /// What was ordered is asked of nodes that nobody reaches.
    fn rebuild(&mut self) {
        self.node.serve_background(|said| _ = self.background.handle(said));
        self.background.rebuilds.advance(0);
        for peer in self.background.rebuilds.peers().collect::<Vec<_>>() {
            self.background.rebuilds.handle_closed(peer);
        }
        self.background.end_turn(0, |said| self.node.handle_background(said));
    }
}

fn small_config() -> NodeConfig {
    NodeConfig {
        node: NodeId(0),
        cluster: CLUSTER,
        incarnation: Incarnation(1),
        core: 0,
        core_count: 1,
        memory_bytes: MEMORY_BYTES,
        pace: Pace { repair_bytes_per_s: u64::MAX, scrub_bytes_per_s: 1 << 30 },
    }
}

/// Stripe ids in use: few, so that requests meet.
const STRIPE_COUNT: u8 = 64;
const DATA_COUNT_MAX: u8 = 4;

/// What an owner that behaves would know of a stripe.
#[derive(Clone, Copy, Default)]
struct Known {
    data_count: u8,
    index: u8,
    last: u32,
    ends: [u32; DATA_COUNT_MAX as usize],
}

/// Makes requests of the bytes at the front of the input: mostly what an owner would ask next of the stripe it opened
/// last, sometimes nonsense in one field, sometimes in all.
struct Source<'a> {
    rest: &'a [u8],
    recent: u8,
    known: [Known; STRIPE_COUNT as usize],
}

impl<'a> Source<'a> {
    fn new(rest: &'a [u8]) -> Self {
        Source { rest, recent: 0, known: [Known::default(); STRIPE_COUNT as usize] }
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    /// True now and then.
    fn astray(&mut self) -> bool {
        self.byte() >= 244
    }

    /// Mostly small, sometimes at the edge.
    fn number(&mut self) -> u32 {
        match self.byte() {
            low @ 0..200 => u32::from(low) % 24,
            middle @ 200..250 => u32::from(middle) * 337,
            high => u32::MAX - (255 - u32::from(high)),
        }
    }

    fn or_nonsense(&mut self, sensible: u32) -> u32 {
        if self.astray() { self.number() } else { sensible }
    }

    fn stripe(&mut self) -> StripeId {
        let byte = self.byte();
        StripeId::from_raw(u64::from(if byte < 192 { self.recent } else { byte % STRIPE_COUNT }))
    }

    fn op(&mut self) -> OpNumber {
        let last = self.known[usize::from(self.recent)].last;
        let near = last.saturating_sub(u32::from(self.byte() % 4));
        OpNumber(self.or_nonsense(near))
    }

    fn epoch(&mut self) -> Epoch {
        let epoch = self.or_nonsense(1);
        Epoch(epoch.min(Epoch::MAX.0))
    }

    fn partition(&mut self) -> PartitionId {
        PartitionId(u16::from(self.astray()))
    }

    fn payload(&mut self) -> &'static [u8] {
        let length = usize::from(self.byte()) * usize::from(1 + self.byte() % 16);
        &PAYLOAD[..length.min(PAYLOAD.len())]
    }

    fn description(&mut self) -> ChunkDescription {
        let (data_count, parity_count) = (1 + self.byte() % DATA_COUNT_MAX, self.byte() % 4);
        let member_count = data_count + parity_count;
        self.recent = self.byte() % STRIPE_COUNT;
        let index = self.byte() % member_count;
        self.known[usize::from(self.recent)] = Known { data_count, index, ..Known::default() };
        let chunk_bytes = 64 * (1 + u32::from(self.byte()));
        let (epoch, partition, kind) = (self.epoch(), self.partition(), self.byte());
        let local_count = (kind >> 4).min(parity_count).min(data_count);
        let counts = [data_count, local_count, parity_count - local_count].map(usize::from);
        ChunkDescription {
            stripe: StripeId::from_raw(u64::from(self.recent)),
            epoch,
            partition,
            kind: if kind.is_multiple_of(4) { ChunkKind::Striped } else { ChunkKind::Packed },
            index,
            shape: CodeShape::from_counts(counts[0], counts[1], counts[2]).expect("small counts"),
            chunk_bytes: self.or_nonsense(chunk_bytes),
            configuration: Default::default(),
            members: Members(vec![NodeId(0); usize::from(member_count)]),
        }
    }

    fn append(&mut self) -> NodeRequest<'static> {
        let stripe = self.stripe();
        let known = self.known[stripe.raw() as usize];
        let any = self.byte() % known.data_count.max(1);
        let data_index = if known.index < known.data_count { known.index } else { any };
        let offset = known.ends[usize::from(data_index)];
        let (op, stable) = (self.or_nonsense(known.last + 1), self.op());
        let (previous, offset_sent) = (self.or_nonsense(known.last), self.or_nonsense(offset));
        let bytes = self.payload();
        if op == known.last + 1 {
            let known = &mut self.known[stripe.raw() as usize];
            known.last = op;
            known.ends[usize::from(data_index)] = offset + bytes.len() as u32;
        }
        NodeRequest::Append {
            stripe,
            op: OpNumber(op),
            previous: OpNumber(previous),
            stable,
            data_index,
            offset: offset_sent,
            bytes,
        }
    }

    fn seal(&mut self) -> NodeRequest<'static> {
        let stripe = self.stripe();
        let last = self.known[stripe.raw() as usize].last;
        let (last, chunk_last) = (self.or_nonsense(last), self.or_nonsense(last));
        NodeRequest::Seal { stripe, last: OpNumber(last), chunk_last: OpNumber(chunk_last), sum: 0 }
    }

    fn free(&mut self) -> NodeRequest<'static> {
        let (first, count) = (self.stripe(), u32::from(self.byte() % 3));
        let (count, epoch, partition) = (self.or_nonsense(count), self.epoch(), self.partition());
        // Chunks are of the first configuration.
        let up_to = if count == 2 { Configuration::default() } else { Configuration::END };
        NodeRequest::Free { first, count, epoch, partition, up_to }
    }

    fn request(&mut self) -> NodeRequest<'static> {
        match self.byte() % 32 {
            0 => NodeRequest::Fence { partition: self.partition().0, epoch: self.epoch(), next: StripeId::default() },
            1..=3 => NodeRequest::Open(self.description()),
            4..=19 => self.append(),
            20 => NodeRequest::Stable { stripe: self.stripe(), stable: self.op() },
            21 => self.seal(),
            22 => self.free(),
            23 => NodeRequest::ReadRecord { stripe: self.stripe(), offset: self.number() },
            24 | 25 => NodeRequest::ReadRange {
                stripe: self.stripe(),
                offset: self.number(),
                length: self.number(),
                op: self.op(),
            },
            26 => NodeRequest::Install { description: self.description(), bytes: self.payload() },
            27 => {
                let (since, count) = (u64::from(self.byte()), u16::from(self.byte()));
                let partitions = (0..self.byte() % 3).map(|_| self.partition()).collect();
                NodeRequest::Scan { since, after: self.stripe(), count, partitions }
            }
            28 | 29 => NodeRequest::Inspect { stripe: self.stripe() },
            30 => NodeRequest::Close { stripe: self.stripe(), epoch: self.epoch(), last: self.op() },
            _ => match self.byte() % 5 {
                0 => {
                    let (epoch, lease_us, count) = (self.epoch(), self.number(), self.byte() % 3);
                    NodeRequest::Renew { epoch, lease_us, partitions: (0..count).map(|_| self.partition()).collect() }
                }
                1 => NodeRequest::Release { partition: self.partition(), epoch: self.epoch() },
                2 => NodeRequest::ProbeWrite,
                3 => NodeRequest::Locate { stripe: self.stripe() },
                _ => NodeRequest::Ping,
            },
        }
    }
}

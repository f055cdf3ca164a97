//! RS(2,1): two nodes with chunks, and one that rebuilds the parities beside its core.

use shorttail_codes::Code;
use shorttail_node::{Background, FromBackground, Node, NodeConfig, Pace, Rebuilds};
use shorttail_store::NearReader;
use shorttail_store::piece::seal_piece;
use shorttail_units::{CodeShape, Configuration, Epoch, NodeId, Now, OpNumber, PartitionId, StripeId};
use shorttail_wire::node::{
    ChunkDescription, ChunkKind, Hello, Members, NearMemory, NodeReply, NodeRequest, PROTOCOL_VERSION, Refusal, Source,
};

use super::{CLUSTER, Memory, config, frames_of, given};

pub const SESSION: u64 = 1;
pub const CHUNK_BYTES: usize = 40_000;
/// It rebuilds chunk 2; nodes 0 and 1 have the data chunks.
pub const TARGET: usize = 2;

pub struct Cluster {
    pub nodes: Vec<Node>,
    pub backgrounds: Vec<Background>,
    pub outcomes: Vec<Result<(), (Refusal, Option<u8>)>>,
    /// Where the owner was told that rebuilt chunks lie.
    pub positions: Vec<Option<u64>>,
    /// Bytes that nodes sent to the one that rebuilds.
    pub fetched_bytes: usize,
}

impl Cluster {
    pub fn new() -> Self {
        let node = |number: u16| {
            let config =
                NodeConfig { pace: Pace { repair_bytes_per_s: u64::MAX, scrub_bytes_per_s: 0 }, ..config(number) };
            let mut node = Node::sharing(config).expect("a node");
            node.offer_memory(NearMemory { device: 0, inode: u64::from(number), path: "memory".to_owned() });
            node.handle_session_opened(SESSION);
            node
        };
        let mut nodes: Vec<Node> = (0..3).map(node).collect();
        let mut backgrounds: Vec<Background> = nodes.iter_mut().map(|node| node.background(None, None)).collect();
        backgrounds.iter_mut().for_each(|background| background.giver.handle_session_opened(SESSION));
        let mut cluster = Cluster { nodes, backgrounds, outcomes: Vec::new(), positions: Vec::new(), fetched_bytes: 0 };
        let hello = Hello { version: PROTOCOL_VERSION, cluster: CLUSTER, core: 0, owner: 6, epoch: Epoch(3) };
        for node in 0..3 {
            cluster.tell(node, &NodeRequest::Hello(hello.clone()));
            cluster.tell(node, &NodeRequest::Fence { partition: 2, epoch: Epoch(3), next: StripeId::default() });
        }
        for stripe in 1..=4 {
            for index in 0..2 {
                let install =
                    NodeRequest::Install { description: description(stripe, index), bytes: &data(stripe, index) };
                cluster.tell(index, &install);
            }
        }
        cluster
    }

    pub fn tell(&mut self, node: usize, request: &NodeRequest<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        request.encode(1, &mut bytes);
        self.nodes[node].handle_input(Now::default(), SESSION, &bytes).expect("the session stands");
        self.take_replies(node)
    }

    /// Bytes that were read; how orders ended is kept.
    pub fn take_replies(&mut self, node: usize) -> Vec<u8> {
        let output = self.nodes[node].poll_output(SESSION).map(std::mem::take).unwrap_or_default();
        let mut bytes = Vec::new();
        for frame in frames_of(&output) {
            match NodeReply::parse(&frame).expect("a reply") {
                NodeReply::Rebuilt { outcome, position, .. } => {
                    self.outcomes.push(outcome);
                    self.positions.push(position);
                }
                NodeReply::Bytes(read) => bytes.extend_from_slice(read),
                NodeReply::Refused { refusal, .. } => panic!("refused: {refusal:?}"),
                _ => {}
            }
        }
        bytes
    }

    /// Orders the parity of a stripe; memory that is offered meanwhile is read by what `open` makes of it.
    pub fn rebuild(&mut self, stripe: u64, open: &dyn Fn(Memory) -> Box<dyn NearReader>) {
        self.order(stripe);
        self.carry_out(open);
    }

    pub fn order(&mut self, stripe: u64) {
        self.order_from(stripe, |_| None);
    }

    /// `position_of`: where the owner takes the chunk of a node to lie.
    pub fn order_from(&mut self, stripe: u64, position_of: impl Fn(usize) -> Option<u64>) {
        let source = |index: u8| {
            let position = position_of(index.into());
            Source { index, core: 0, node: NodeId(index.into()), position }
        };
        let sources = (0..2).map(source).collect();
        self.tell(TARGET, &NodeRequest::Rebuild { description: description(stripe, TARGET), sources });
    }

    pub fn carry_out(&mut self, open: &dyn Fn(Memory) -> Box<dyn NearReader>) {
        for said in self.carry_out_beside(open) {
            self.nodes[TARGET].handle_background(said);
        }
        self.take_replies(TARGET);
    }

    /// What the core is to hear.
    pub fn carry_out_beside(&mut self, open: &dyn Fn(Memory) -> Box<dyn NearReader>) -> Vec<FromBackground> {
        for _ in 0..4 {
            self.pass_on_orders();
            self.rebuilds().advance(0);
            for peer in self.rebuilds().peers().collect::<Vec<_>>() {
                let Some(output) = self.rebuilds().output(peer).map(std::mem::take) else { continue };
                let source = usize::from(peer.node.0);
                let (node, background) = (&mut self.nodes[source], &mut self.backgrounds[source]);
                assert_eq!(background.giver.handle_input(SESSION, &output), Ok(output.len()));
                let replies = given(node, background, SESSION, |_| ());
                self.fetched_bytes += replies.len();
                assert_eq!(self.rebuilds().handle_input(peer, &replies), Ok(replies.len()));
                while let Some((peer, near)) = self.rebuilds().poll_offered() {
                    assert_eq!(near.inode, u64::from(peer.node.0));
                    let memory = Memory::of(&self.nodes[usize::from(peer.node.0)]);
                    self.rebuilds().handle_memory(peer, open(memory));
                }
            }
        }
        let mut told = Vec::new();
        self.backgrounds[TARGET].end_turn(0, |said| told.push(said));
        // What orders came in is no news.
        told.retain(|said| !matches!(said, FromBackground::Spent(_)));
        told
    }

    pub fn pass_on_orders(&mut self) {
        let background = &mut self.backgrounds[TARGET];
        self.nodes[TARGET].serve_background(|said| _ = background.handle(said));
    }

    pub fn rebuilds(&mut self) -> &mut Rebuilds {
        &mut self.backgrounds[TARGET].rebuilds
    }

    /// What the node says where its chunk lies.
    pub fn position_of(&mut self, node: usize, stripe: u64) -> u64 {
        let mut bytes = Vec::new();
        NodeRequest::Locate { stripe: id(stripe) }.encode(1, &mut bytes);
        self.nodes[node].handle_input(Now::default(), SESSION, &bytes).expect("the session stands");
        let output = self.nodes[node].poll_output(SESSION).map(std::mem::take).expect("an answer");
        let NodeReply::Located { position } = NodeReply::parse(&frames_of(&output)[0]).expect("a reply") else {
            panic!("it is not there")
        };
        position
    }

    pub fn holds(&mut self, stripe: u64) {
        let (op, length) = (OpNumber(0), CHUNK_BYTES as u32);
        let read = NodeRequest::ReadRange { stripe: id(stripe), offset: 0, length, op };
        let mut parity = vec![0; CHUNK_BYTES];
        let code = Code::reed_solomon(2, 1).expect("a code");
        code.encode(&[&data(stripe, 0), &data(stripe, 1)], &mut [&mut parity]);
        assert!(self.tell(TARGET, &read) == parity, "stripe {stripe}");
    }
}

pub fn id(stripe: u64) -> StripeId {
    StripeId::new(Epoch(3), stripe)
}

pub fn description(stripe: u64, index: usize) -> ChunkDescription {
    ChunkDescription {
        stripe: id(stripe),
        epoch: Epoch(3),
        partition: PartitionId(2),
        kind: ChunkKind::Striped,
        index: index as u8,
        shape: CodeShape::reed_solomon(2, 1).expect("a shape"),
        chunk_bytes: CHUNK_BYTES as u32,
        configuration: Configuration::default(),
        members: Members((0..3).map(NodeId).collect()),
    }
}

pub fn data(stripe: u64, index: usize) -> Vec<u8> {
    let seed = stripe as usize * 3 + index;
    let mut piece: Vec<u8> = (0..CHUNK_BYTES).map(|at| (at * seed % 251) as u8).collect();
    seal_piece(&mut piece, id(stripe));
    piece
}

pub fn as_it_is(memory: Memory) -> Box<dyn NearReader> {
    Box::new(memory)
}

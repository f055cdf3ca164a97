//! Chunks that are given to other nodes beside the core: a giver answers what the core itself would answer.

use shorttail_node::{Giver, Node};
use shorttail_store::NearReader;
use shorttail_store::piece::seal_piece;
use shorttail_units::{ClusterId, NodeId, Now, OpNumber, StripeId};
use shorttail_wire::node::{
    ChunkDescription, ChunkKind, FrameError, Hello, Members, NodeReply, NodeRequest, Refusal, next_frame,
};

use crate::setup::{Memory, config, fence, stripe, striped};

const OWNER: u64 = 1;
const PEER: u64 = 2;
const CHUNK_BYTES: u32 = 5000;

fn hello(core: u16) -> Hello {
    Hello { core, owner: 6 << 16, ..crate::setup::hello() }
}

fn frames(requests: &[NodeRequest<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    (100..).zip(requests).for_each(|(tag, request)| request.encode(tag, &mut bytes));
    bytes
}

/// Tags and replies, as text: what is borrowed from frames does not live long enough.
type Told = Vec<(u64, String)>;

fn told(bytes: &[u8]) -> Told {
    let (mut rest, mut told) = (bytes, Vec::new());
    while let Some((frame, length)) = next_frame(rest).expect("frames") {
        told.push((frame.tag, format!("{:?}", NodeReply::parse(&frame).expect("a reply"))));
        rest = &rest[length..];
    }
    assert!(rest.is_empty(), "whole frames");
    told
}

fn node() -> Node {
    let mut node = Node::sharing(config(1)).expect("a node");
    node.handle_session_opened(OWNER);
    tell(&mut node, OWNER, &[NodeRequest::Hello(hello(0)), fence(2, 3)]);
    node
}

fn tell(node: &mut Node, session: u64, requests: &[NodeRequest<'_>]) -> Vec<u8> {
    node.handle_input(Now::default(), session, &frames(requests)).expect("the session stands");
    node.poll_output(session).map(std::mem::take).unwrap_or_default()
}

/// Stripe 1: a piece. Stripe 2: a parity whose zeros take no memory. Stripe 3: an open chunk.
fn node_with_chunks() -> Node {
    let mut node = node();
    let mut piece: Vec<u8> = (0..CHUNK_BYTES).map(|at| (at * 7 % 251) as u8).collect();
    seal_piece(&mut piece, striped(1).stripe);
    let members = Members([0, 2, 1, 3].map(NodeId).to_vec());
    let parity = ChunkDescription { index: 2, members, ..striped(2) };
    let open = ChunkDescription { kind: ChunkKind::Packed, ..striped(3) };
    let requests = [
        NodeRequest::Install { description: striped(1), bytes: &piece },
        NodeRequest::Install { description: parity, bytes: b"short" },
        NodeRequest::Open(open),
    ];
    let replies = told(&tell(&mut node, OWNER, &requests));
    assert!(replies.iter().all(|(_, reply)| reply.starts_with("Done")), "{replies:?}");
    node
}

fn inspect(counter: u64) -> NodeRequest<'static> {
    NodeRequest::Inspect { stripe: stripe(counter) }
}

fn read(counter: u64, offset: u32, length: u32) -> NodeRequest<'static> {
    NodeRequest::ReadRange { stripe: stripe(counter), offset, length, op: OpNumber(0) }
}

/// Does all that the giver wants of the core and takes all that it sends to the session.
fn served(giver: &mut Giver, node: &Node, session: u64) -> Vec<u8> {
    served_with(giver, node, session).0
}

/// Also how many copies the core made.
fn served_with(giver: &mut Giver, node: &Node, session: u64) -> (Vec<u8>, usize) {
    let (mut output, mut copies) = (Vec::new(), 0);
    loop {
        while let Some(part) = giver.poll_output(session) {
            // A socket takes what it likes.
            let taken = part.len().min(1000);
            output.extend_from_slice(&part[..taken]);
            giver.handle_sent(session, taken);
        }
        let Some(wanted) = giver.poll_wanted() else { return (output, copies) };
        copies += usize::from(wanted.is_copy());
        assert_eq!(giver.handle_found(node.find(wanted)), Some(session));
    }
}

fn greeted(node: &Node) -> Giver {
    let_in(node.giver(), node)
}

fn reading(node: &Node, memory: impl NearReader + 'static) -> Giver {
    let_in(node.giver().with_memory(Box::new(memory)), node)
}

fn let_in(mut giver: Giver, node: &Node) -> Giver {
    giver.handle_session_opened(PEER);
    giver.handle_input(PEER, &frames(&[NodeRequest::Peer(hello(0))])).expect("let in");
    let replies = told(&served(&mut giver, node, PEER));
    assert!(matches!(&replies[..], [(100, reply)] if reply.starts_with("Hello")), "{replies:?}");
    giver
}

/// The giver's answers are the core's; how many copies the core made for them.
fn compare(node: &mut Node, mut giver: Giver, requests: &[NodeRequest<'_>]) -> usize {
    let bytes = frames(requests);
    assert_eq!(giver.handle_input(PEER, &bytes), Ok(bytes.len()));
    let (given, copies) = served_with(&mut giver, node, PEER);
    node.handle_session_opened(PEER);
    tell(node, PEER, &[NodeRequest::Peer(hello(0))]);
    let (mut given, mut answered) = (told(&given), told(&tell(node, PEER, requests)));
    node.handle_session_closed(PEER);
    // What needs no chunk is answered before what does.
    given.sort_unstable();
    answered.sort_unstable();
    let differs = given.iter().zip(&answered).find(|(given, answered)| given != answered);
    assert!(differs.is_none(), "{:?}", differs.map(|(given, _)| given.0));
    assert_eq!((given.len(), answered.len()), (requests.len(), requests.len()));
    copies
}

/// One byte of each read is another one: what lies there is being changed.
#[derive(Debug)]
struct Changing(Memory);

impl NearReader for Changing {
    fn read(&self, position: u64, into: &mut [u8]) -> usize {
        let count = self.0.read(position, into);
        into[count / 2] ^= 1;
        count
    }
}

/// Stripe 2 lies where stripe 1 was.
#[derive(Debug)]
struct Moved(Memory);

impl NearReader for Moved {
    fn read(&self, position: u64, into: &mut [u8]) -> usize {
        let units_of_first = (u64::from(CHUNK_BYTES) + 256).div_ceil(1024);
        self.0.read(position + units_of_first * 1024, into)
    }
}

/// Nothing can be read.
#[derive(Debug)]
struct Gone;

impl NearReader for Gone {
    fn read(&self, _: u64, _: &mut [u8]) -> usize {
        0
    }
}

#[test]
fn a_giver_answers_as_the_core_does() {
    let mut node = node_with_chunks();
    let requests = [
        inspect(1),
        read(1, 0, CHUNK_BYTES),
        inspect(2),
        read(2, 0, CHUNK_BYTES),
        read(1, 7, 100),
        read(2, 3, 9),
        read(2, 4000, 9),
        read(1, 0, CHUNK_BYTES + 1),
        read(1, 0, CHUNK_BYTES),
        inspect(1),
        inspect(1),
        inspect(4),
        read(4, 0, CHUNK_BYTES),
        NodeRequest::ReadRange { stripe: stripe(1), offset: 0, length: 1, op: OpNumber(4) },
        NodeRequest::Locate { stripe: stripe(2) },
        read(2, 0, CHUNK_BYTES),
        NodeRequest::Locate { stripe: stripe(3) },
        fence(2, 9),
    ];
    let copying = greeted(&node);
    assert!(compare(&mut node, copying, &requests) > 4);
    let memory = Memory::of(&node);
    let from_memory = reading(&node, memory.clone());
    assert_eq!(compare(&mut node, from_memory, &requests), 0, "the core only says where chunks lie");
    for torn in [reading(&node, Changing(memory.clone())), reading(&node, Moved(memory)), reading(&node, Gone)] {
        assert!(compare(&mut node, torn, &requests) > 4, "what does not hold is asked of the core");
    }
}

#[test]
fn memory_that_is_shared_with_nobody_lies_nowhere() {
    let mut alone = Node::new(config(1)).expect("a node");
    let giver = greeted(&alone);
    assert_eq!(compare(&mut alone, giver, &[NodeRequest::Locate { stripe: stripe(1) }]), 0);
}

#[test]
fn what_is_damaged_is_given_as_such_and_the_core_is_told() {
    let mut node = node_with_chunks();
    assert!(node.flip_bits(64, 5) > 0);
    let mut giver = reading(&node, Memory::of(&node));
    giver.handle_input(PEER, &frames(&[inspect(1), read(1, 0, CHUNK_BYTES), read(2, 0, CHUNK_BYTES)])).expect("asked");
    let replies = told(&served(&mut giver, &node, PEER));
    let refused = replies.iter().filter(|(_, reply)| reply.contains("refusal: Damaged")).count();
    assert!(refused >= 1 && replies.len() == 3, "{replies:?}");
    let mut named: Vec<StripeId> = std::iter::from_fn(|| giver.poll_damaged()).collect();
    named.sort_unstable();
    named.iter().for_each(|&stripe| node.look_at(stripe));
    assert_eq!(node.stats().corruptions_found, named.len() as u64);
    assert!(named.contains(&stripe(1)) || named.contains(&stripe(2)));
}

#[test]
fn an_open_chunk_is_not_given() {
    let node = node_with_chunks();
    let mut giver = greeted(&node);
    giver.handle_input(PEER, &frames(&[inspect(3), read(3, 0, 8)])).expect("asked");
    let replies = told(&served(&mut giver, &node, PEER));
    assert!(replies.iter().all(|(_, reply)| reply.contains("NotAtOp")), "{replies:?}");
    assert_eq!(replies.len(), 2);
}

#[test]
fn who_does_not_greet_as_another_node_gets_nothing() {
    let node = node_with_chunks();
    let greetings = [
        NodeRequest::Hello(hello(0)),
        NodeRequest::Peer(Hello { cluster: ClusterId(8), ..hello(0) }),
        NodeRequest::Peer(hello(1)),
        inspect(1),
    ];
    for greeting in greetings {
        let mut giver = node.giver();
        giver.handle_session_opened(PEER);
        assert!(giver.handle_input(PEER, &frames(&[greeting, inspect(1)])).is_err());
        assert!(giver.poll_wanted().is_none());
    }
    let mut giver = greeted(&node);
    let mut hurt = frames(&[inspect(1)]);
    hurt[20] ^= 1;
    assert_eq!(giver.handle_input(PEER, &hurt), Err(FrameError::Checksum.into()));
}

#[test]
fn whoever_takes_nothing_is_copied_little_for_and_keeps_nobody_waiting() {
    let node = node_with_chunks();
    let mut giver = greeted(&node);
    giver.handle_session_opened(7);
    giver.handle_input(7, &frames(&[NodeRequest::Peer(hello(0))])).expect("let in");
    let (mut refused, mut copies) = (None, 0);
    for _ in 0..2000 {
        let asked = giver.handle_input(PEER, &frames(&[read(1, 0, CHUNK_BYTES)]));
        refused = refused.or(asked.err());
        if let Some(wanted) = giver.poll_wanted() {
            copies += 1;
            giver.handle_found(node.find(wanted));
        }
    }
    assert!(refused.is_some() && copies < 2 * (1 << 20) / CHUNK_BYTES, "{copies} copies for {refused:?}");
    giver.handle_input(7, &frames(&[read(1, 0, CHUNK_BYTES)])).expect("asked");
    assert_eq!(told(&served(&mut giver, &node, 7)).len(), 2, "the greeting and the chunk");
    giver.handle_session_closed(PEER);
    assert!(giver.poll_output(PEER).is_none() && giver.poll_wanted().is_none());
    let is_refused = |reply: &str| reply.contains(&format!("{:?}", Refusal::NoChunk));
    giver.handle_input(7, &frames(&[read(4, 0, 1)])).expect("asked");
    let replies = told(&served(&mut giver, &node, 7));
    assert!(matches!(&replies[..], [(100, reply)] if is_refused(reply)), "{replies:?}");
}

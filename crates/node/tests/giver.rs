//! Chunks that are given to other nodes beside the core: a giver answers what the core itself would answer.

use shorttail_node::fuzz::Unwritable;
use shorttail_node::{Background, FromBackground, Node};
use shorttail_store::NearReader;
use shorttail_store::piece::seal_piece;
use shorttail_units::{ClusterId, NodeId, Now, OpNumber, StripeId};
use shorttail_wire::node::{
    ChunkDescription, ChunkKind, Frame, FrameError, Hello, Members, NodeReply, NodeRequest, Refusal,
};

use crate::setup::{Memory, config, fence, frames_of, given, stripe, striped};

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
    let told = |frame: &Frame<'_>| (frame.tag, format!("{:?}", NodeReply::parse(frame).expect("a reply")));
    frames_of(bytes).iter().map(told).collect()
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

/// What is answered to one that asks for this.
fn answered(node: &mut Node, background: &mut Background, session: u64, requests: &[NodeRequest<'_>]) -> Told {
    answered_with(node, background, session, requests, |_| ())
}

/// `hear`: what the core is told.
fn answered_with(
    node: &mut Node,
    background: &mut Background,
    session: u64,
    requests: &[NodeRequest<'_>],
    hear: impl FnMut(&FromBackground),
) -> Told {
    let bytes = frames(requests);
    assert_eq!(background.giver.handle_input(session, &bytes), Ok(bytes.len()));
    told(&given(node, background, session, hear))
}

fn greeted(node: &mut Node) -> Background {
    let background = node.background(None, None);
    let_in(node, background, PEER)
}

fn reading(node: &mut Node, memory: impl NearReader + 'static) -> Background {
    let background = node.background(Some(Box::new(memory)), None);
    let_in(node, background, PEER)
}

fn let_in(node: &mut Node, mut background: Background, session: u64) -> Background {
    background.giver.handle_session_opened(session);
    let replies = answered(node, &mut background, session, &[NodeRequest::Peer(hello(0))]);
    assert!(matches!(&replies[..], [(100, reply)] if reply.starts_with("Hello")), "{replies:?}");
    background
}

/// What is answered beside the core is what it answers itself; how many copies it made for that.
fn compare(node: &mut Node, mut background: Background, requests: &[NodeRequest<'_>]) -> usize {
    let mut copies = 0;
    let count = |said: &FromBackground| copies += usize::from(is_copy(said));
    let mut given = answered_with(node, &mut background, PEER, requests, count);
    node.handle_session_opened(PEER);
    tell(node, PEER, &[NodeRequest::Peer(hello(0))]);
    let mut answered = told(&tell(node, PEER, requests));
    node.handle_session_closed(PEER);
    // What needs no chunk is answered before what does.
    given.sort_unstable();
    answered.sort_unstable();
    let differs = given.iter().zip(&answered).find(|(given, answered)| given != answered);
    assert!(differs.is_none(), "{:?}", differs.map(|(given, _)| given.0));
    assert_eq!((given.len(), answered.len()), (requests.len(), requests.len()));
    copies
}

fn is_copy(said: &FromBackground) -> bool {
    matches!(said, FromBackground::Wanted(wanted) if wanted.is_copy())
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
    let copying = greeted(&mut node);
    assert!(compare(&mut node, copying, &requests) > 4);
    let memory = Memory::of(&node);
    let from_memory = reading(&mut node, memory.clone());
    assert_eq!(compare(&mut node, from_memory, &requests), 0, "the core only says where chunks lie");
    let torn: [Box<dyn NearReader>; 3] =
        [Box::new(Changing(memory.clone())), Box::new(Moved(memory)), Box::new(Unwritable)];
    for memory in torn {
        let background = node.background(Some(memory), None);
        let torn = let_in(&mut node, background, PEER);
        assert!(compare(&mut node, torn, &requests) > 4, "what does not hold is asked of the core");
    }
}

#[test]
fn memory_that_is_shared_with_nobody_lies_nowhere() {
    let mut alone = Node::new(config(1)).expect("a node");
    let background = greeted(&mut alone);
    assert_eq!(compare(&mut alone, background, &[NodeRequest::Locate { stripe: stripe(1) }]), 0);
}

#[test]
fn what_is_damaged_is_given_as_such_and_the_core_is_told() {
    let mut node = node_with_chunks();
    assert!(node.flip_bits(64, 5) > 0);
    let memory = Memory::of(&node);
    let mut background = reading(&mut node, memory);
    let mut named: Vec<StripeId> = Vec::new();
    let hear = |said: &FromBackground| {
        if let FromBackground::Damaged(stripe) = said {
            named.push(*stripe);
        }
    };
    let requests = [inspect(1), read(1, 0, CHUNK_BYTES), read(2, 0, CHUNK_BYTES)];
    let replies = answered_with(&mut node, &mut background, PEER, &requests, hear);
    let refused = replies.iter().filter(|(_, reply)| reply.contains("refusal: Damaged")).count();
    assert!(refused >= 1 && replies.len() == 3, "{replies:?}");
    assert_eq!(node.stats().corruptions_found, named.len() as u64);
    assert!(named.contains(&stripe(1)) || named.contains(&stripe(2)));
}

#[test]
fn an_open_chunk_is_not_given() {
    let mut node = node_with_chunks();
    let mut background = greeted(&mut node);
    let replies = answered(&mut node, &mut background, PEER, &[inspect(3), read(3, 0, 8)]);
    assert!(replies.iter().all(|(_, reply)| reply.contains("NotAtOp")), "{replies:?}");
    assert_eq!(replies.len(), 2);
}

#[test]
fn who_does_not_greet_as_another_node_gets_nothing() {
    let mut node = node_with_chunks();
    let greetings = [
        NodeRequest::Hello(hello(0)),
        NodeRequest::Peer(Hello { cluster: ClusterId(8), ..hello(0) }),
        NodeRequest::Peer(hello(1)),
        inspect(1),
    ];
    for greeting in greetings {
        let mut background = node.background(None, None);
        background.giver.handle_session_opened(PEER);
        assert!(background.giver.handle_input(PEER, &frames(&[greeting, inspect(1)])).is_err());
        assert!(!background.end_turn(0, |said| panic!("{said:?}")));
    }
    let mut background = greeted(&mut node);
    let mut hurt = frames(&[inspect(1)]);
    hurt[20] ^= 1;
    assert_eq!(background.giver.handle_input(PEER, &hurt), Err(FrameError::Checksum.into()));
    assert!(background.end_turn(0, |said| assert!(matches!(said, FromBackground::MessagesDamaged(1)), "{said:?}")));
}

#[test]
fn whoever_takes_nothing_is_copied_little_for_and_keeps_nobody_waiting() {
    let mut node = node_with_chunks();
    let background = greeted(&mut node);
    let mut background = let_in(&mut node, background, 7);
    let (mut refused, mut copies) = (None, 0);
    for _ in 0..2000 {
        let asked = background.giver.handle_input(PEER, &frames(&[read(1, 0, CHUNK_BYTES)]));
        refused = refused.or(asked.err());
        background.end_turn(0, |said| {
            copies += u32::from(is_copy(&said));
            node.handle_background(said);
        });
        node.serve_background(|said| _ = background.handle(said));
    }
    assert!(refused.is_some() && copies < 2 * (1 << 20) / CHUNK_BYTES, "{copies} copies for {refused:?}");
    assert_eq!(answered(&mut node, &mut background, 7, &[read(1, 0, CHUNK_BYTES)]).len(), 1, "the chunk");
    background.giver.handle_session_closed(PEER);
    assert!(background.giver.poll_output(PEER).is_none() && !background.end_turn(0, |said| panic!("{said:?}")));
    let is_refused = |reply: &str| reply.contains(&format!("{:?}", Refusal::NoChunk));
    let replies = answered(&mut node, &mut background, 7, &[read(4, 0, 1)]);
    assert!(matches!(&replies[..], [(100, reply)] if is_refused(reply)), "{replies:?}");
}

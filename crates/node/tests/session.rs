//! A node and its owners, message by message.

use std::os::unix::fs::FileExt;

use shorttail_node::{Node, NodeConfig, SessionError};
use shorttail_units::{ClusterId, Configuration, Epoch, Incarnation, NodeId, Now, OpNumber, PartitionId, StripeId};
use shorttail_wire::node::{
    ChunkDescription, ChunkKind, Frame, Hello, NearMemory, NodeReply, NodeRequest, PROTOCOL_VERSION, Refusal,
};

use crate::setup::{config, fence, frames_of, packed, stripe};

const PARTITION: PartitionId = PartitionId(2);
const TAG: u64 = 77;

fn core_of_two(core: u16) -> NodeConfig {
    NodeConfig { incarnation: Incarnation(11), core, core_count: 2, ..config(5) }
}

/// A node whose sessions speak in whole turns.
struct Peer {
    node: Node,
    now_us: u64,
}

impl Peer {
    fn new() -> Self {
        Peer::of_core(1)
    }

    fn of_core(core: u16) -> Self {
        Peer { node: Node::new(core_of_two(core)).expect("a node"), now_us: 0 }
    }

    /// A node with session 1 greeted by owner 6 and everything fenced at epoch 3.
    fn serving() -> Self {
        let mut peer = Peer::new();
        peer.greet(1, hello());
        peer.fences(1, PARTITION.0, 3);
        peer
    }

    fn greet(&mut self, session: u64, hello: Hello) {
        self.node.handle_session_opened(session);
        self.turn(session, &[NodeRequest::Hello(hello)]).expect("greeted");
    }

    /// One turn: sends requests together, returns what comes back.
    fn turn(&mut self, session: u64, requests: &[NodeRequest<'_>]) -> Result<Vec<NodeReplyOwned>, SessionError> {
        let mut bytes = Vec::new();
        requests.iter().for_each(|request| request.encode(TAG, &mut bytes));
        let now = Now { mono_us: self.now_us, ..Now::default() };
        let outcome = self.node.handle_input(now, session, &bytes);
        self.node.end_turn(now);
        self.node.check_invariants();
        assert_eq!(outcome?, bytes.len());
        Ok(self.replies(session))
    }

    fn replies(&mut self, session: u64) -> Vec<NodeReplyOwned> {
        let output = self.node.poll_output(session).map(std::mem::take).unwrap_or_default();
        frames_of(&output).iter().map(NodeReplyOwned::of).collect()
    }

    /// One request, one reply.
    fn ask(&mut self, session: u64, request: &NodeRequest<'_>) -> NodeReplyOwned {
        let mut replies = self.turn(session, std::slice::from_ref(request)).expect("the session goes on");
        assert_eq!(replies.len(), 1, "{request:?}");
        replies.remove(0)
    }

    fn refuses(&mut self, session: u64, request: &NodeRequest<'_>, refusal: Refusal, detail: u64) {
        assert_eq!(self.ask(session, request), NodeReplyOwned::Refused(refusal, detail), "{request:?}");
    }

    fn fences(&mut self, session: u64, partition: u16, epoch: u32) {
        let reply = self.ask(session, &fence(partition, epoch));
        assert!(matches!(reply, NodeReplyOwned::Fenced(_)), "{reply:?}");
    }

    fn does(&mut self, session: u64, request: &NodeRequest<'_>) {
        let used_bytes = match self.ask(session, request) {
            NodeReplyOwned::Done(used_bytes) => used_bytes,
            other => panic!("{request:?} was answered {other:?}"),
        };
        assert_eq!(used_bytes, self.node.chunk_taken_bytes());
    }
}

/// A reply that outlives its frame.
#[derive(Clone, PartialEq, Eq, Debug)]
enum NodeReplyOwned {
    Hello(NodeId, u64),
    Done(u64),
    Fenced(StripeId),
    Acked(StripeId, u32),
    Bytes(Vec<u8>),
    Located(u64),
    Chunks(usize),
    Inspected(usize),
    Refused(Refusal, u64),
}

impl NodeReplyOwned {
    fn of(frame: &Frame<'_>) -> Self {
        let reply = NodeReply::parse(frame).expect("a reply");
        let tag = if matches!(reply, NodeReply::Acked { .. }) { 0 } else { TAG };
        assert_eq!(frame.tag, tag);
        match reply {
            NodeReply::Hello(hello) => NodeReplyOwned::Hello(hello.node, hello.memory_bytes),
            NodeReply::Done { used_bytes, .. } => NodeReplyOwned::Done(used_bytes),
            NodeReply::Fenced { joined } => NodeReplyOwned::Fenced(joined),
            NodeReply::Acked { stripe, op } => NodeReplyOwned::Acked(stripe, op.0),
            NodeReply::Bytes(bytes) => NodeReplyOwned::Bytes(bytes.to_vec()),
            NodeReply::Chunks(scanned) => NodeReplyOwned::Chunks(scanned.reports.len()),
            NodeReply::Inspected(inspected) => NodeReplyOwned::Inspected(inspected.raw.len()),
            NodeReply::Located { position } => NodeReplyOwned::Located(position),
            NodeReply::Rebuilt { .. } | NodeReply::Damaged { .. } => unreachable!("nothing was ordered here"),
            NodeReply::Refused { refusal, detail } => NodeReplyOwned::Refused(refusal, detail),
        }
    }
}

fn hello() -> Hello {
    Hello { core: 1, ..crate::setup::hello() }
}

fn append(counter: u64, op: u32, offset: u32) -> NodeRequest<'static> {
    NodeRequest::Append {
        stripe: stripe(counter),
        op: OpNumber(op),
        previous: OpNumber(op - 1),
        stable: OpNumber(0),
        data_index: 1,
        offset,
        bytes: b"ten bytes.",
    }
}

fn seal(counter: u64, last: u32) -> NodeRequest<'static> {
    NodeRequest::Seal { stripe: stripe(counter), last: OpNumber(last), chunk_last: OpNumber(last), sum: 0 }
}

fn free(counter: u64, epoch: u32) -> NodeRequest<'static> {
    NodeRequest::Free {
        first: stripe(counter),
        count: 1,
        epoch: Epoch(epoch),
        partition: PARTITION,
        up_to: Configuration::END,
    }
}

fn read(counter: u64, op: u32) -> NodeRequest<'static> {
    NodeRequest::ReadRange { stripe: stripe(counter), offset: 5, length: 10, op: OpNumber(op) }
}

#[test]
fn a_session_begins_with_a_greeting_and_nothing_else() {
    let mut peer = Peer::new();
    peer.node.handle_session_opened(1);
    assert_eq!(peer.turn(1, &[NodeRequest::Ping]), Err(SessionError::Greeting));
    assert_eq!(peer.turn(1, &[NodeRequest::Hello(hello())]), Err(SessionError::Ended));
    peer.node.handle_session_closed(1);
    assert_eq!(peer.turn(1, &[NodeRequest::Ping]), Err(SessionError::Ended));
    peer.node.handle_session_opened(2);
    let greeted = peer.turn(2, &[NodeRequest::Hello(hello())]);
    assert_eq!(greeted, Ok(vec![NodeReplyOwned::Hello(NodeId(5), (1 << 20) - (64 << 10))]));
    assert_eq!(peer.turn(2, &[NodeRequest::Hello(hello())]), Err(SessionError::Greeting));
}

#[test]
fn a_greeting_of_another_version_cluster_or_core_is_refused_with_a_reply() {
    let strangers = [
        (Hello { version: PROTOCOL_VERSION + 1, ..hello() }, Refusal::WrongVersion),
        (Hello { cluster: ClusterId(8), ..hello() }, Refusal::WrongCluster),
        (Hello { core: 0, ..hello() }, Refusal::Invalid),
    ];
    let mut peer = Peer::new();
    for (session, (hello, refusal)) in (1..).zip(strangers) {
        peer.node.handle_session_opened(session);
        assert_eq!(peer.turn(session, &[NodeRequest::Hello(hello)]), Err(SessionError::Refused(refusal)));
        let detail = if refusal == Refusal::WrongVersion { u64::from(PROTOCOL_VERSION) } else { 0 };
        assert_eq!(peer.replies(session), [NodeReplyOwned::Refused(refusal, detail)]);
    }
}

#[test]
fn garbage_ends_the_session_and_no_other() {
    let mut peer = Peer::serving();
    peer.node.handle_session_opened(2);
    let outcome = peer.node.handle_input(Now::default(), 2, &[0xff; 64]);
    assert!(matches!(outcome, Err(SessionError::Frame(_))), "{outcome:?}");
    peer.does(1, &NodeRequest::Ping);
}

#[test]
fn a_request_that_has_not_arrived_is_awaited() {
    let mut peer = Peer::serving();
    let mut bytes = Vec::new();
    NodeRequest::Ping.encode(TAG, &mut bytes);
    let whole = bytes.len();
    NodeRequest::Ping.encode(TAG, &mut bytes);
    assert_eq!(peer.node.handle_input(Now::default(), 1, &bytes[..2 * whole - 1]), Ok(whole));
    assert_eq!(peer.replies(1).len(), 1);
    assert_eq!(peer.node.handle_input(Now::default(), 1, &bytes[whole..]), Ok(whole));
    assert_eq!(peer.replies(1).len(), 1);
}

#[test]
fn r7_a_new_session_of_an_owner_ends_its_older_one() {
    let mut peer = Peer::serving();
    peer.does(1, &NodeRequest::Open(packed(1, 1)));
    let mut late = Vec::new();
    append(1, 1, 0).encode(TAG, &mut late);
    assert_eq!(peer.node.handle_input(Now::default(), 1, &late), Ok(late.len()));
    peer.greet(2, hello());
    assert_eq!(peer.node.handle_input(Now::default(), 1, &late), Ok(late.len()), "swallowed");
    peer.node.end_turn(Now::default());
    assert_eq!(peer.node.poll_output(1), None, "the older session hears nothing more");
    assert_eq!((peer.node.poll_closed_session(), peer.node.poll_closed_session()), (Some(1), None));
    assert_eq!(peer.node.stats().appends, 1);
    assert_eq!(peer.node.stats().duplicate_appends, 0, "the older session changes nothing");
    assert_eq!(peer.turn(2, &[append(1, 1, 0)]), Ok(vec![NodeReplyOwned::Acked(stripe(1), 1)]), "resent");
    peer.node.handle_session_closed(1);
    peer.does(2, &NodeRequest::Ping);
}

#[test]
fn r7_a_late_greeting_of_a_lower_epoch_does_not_end_the_newer_session() {
    let mut peer = Peer::new();
    peer.greet(1, Hello { epoch: Epoch(4), ..hello() });
    peer.node.handle_session_opened(2);
    let late = peer.turn(2, &[NodeRequest::Hello(hello())]);
    assert_eq!(late, Err(SessionError::Refused(Refusal::Fenced)));
    assert_eq!(peer.replies(2), [NodeReplyOwned::Refused(Refusal::Fenced, 4)]);
    peer.does(1, &NodeRequest::Ping);
    assert_eq!(peer.node.poll_closed_session(), None);
}

#[test]
fn sessions_of_different_owners_live_side_by_side() {
    let mut peer = Peer::serving();
    peer.greet(2, Hello { owner: 7, epoch: Epoch(2), ..hello() });
    peer.does(1, &NodeRequest::Ping);
    peer.does(2, &NodeRequest::Ping);
}

#[test]
fn r2_nothing_is_changed_before_a_fence() {
    let mut peer = Peer::new();
    peer.greet(1, hello());
    let before = [
        NodeRequest::Open(packed(1, 1)),
        NodeRequest::Install { description: packed(1, 1), bytes: b"piece" },
        free(1, 3),
    ];
    for request in &before {
        peer.refuses(1, request, Refusal::Fenced, 0);
    }
    peer.refuses(1, &fence(PARTITION.0, 0), Refusal::Invalid, 0);
    peer.fences(1, PARTITION.0 + 1, 3);
    peer.refuses(1, &before[0], Refusal::Fenced, 0);
    peer.fences(1, PARTITION.0, 3);
    peer.does(1, &before[0]);
}

#[test]
fn r2_a_node_remembers_what_its_first_fence_said_was_next() {
    let mut peer = Peer::new();
    peer.greet(1, hello());
    let fence = |epoch, next| NodeRequest::Fence { partition: PARTITION.0, epoch: Epoch(epoch), next: stripe(next) };
    assert_eq!(peer.ask(1, &fence(3, 40)), NodeReplyOwned::Fenced(stripe(40)));
    assert_eq!(peer.ask(1, &fence(4, 90)), NodeReplyOwned::Fenced(stripe(40)));
}

fn renew(epoch: u32) -> NodeRequest<'static> {
    NodeRequest::Renew { epoch: Epoch(epoch), lease_us: 1_000, partitions: vec![PARTITION] }
}

fn release(epoch: u32) -> NodeRequest<'static> {
    NodeRequest::Release { partition: PARTITION, epoch: Epoch(epoch) }
}

#[test]
fn r2_a_promise_keeps_others_out_until_it_ends() {
    let mut peer = Peer::of_core(0);
    peer.greet(1, Hello { core: 0, ..hello() });
    peer.greet(2, Hello { core: 0, owner: 7, epoch: Epoch(4), ..hello() });
    peer.refuses(1, &renew(3), Refusal::Fenced, 0);
    peer.fences(1, PARTITION.0, 3);
    peer.does(1, &renew(3));
    peer.now_us = 400;
    peer.refuses(2, &fence(PARTITION.0, 4), Refusal::Leased, 600);
    peer.does(1, &NodeRequest::Open(packed(1, 1)));
    peer.refuses(1, &renew(3), Refusal::Fenced, 4);
    peer.now_us = 1_000;
    peer.fences(2, PARTITION.0, 4);
    peer.refuses(1, &append(1, 1, 0), Refusal::Fenced, 4);
    peer.refuses(1, &release(3), Refusal::Fenced, 4);
}

#[test]
fn r2_a_released_partition_is_the_next_owners_at_once() {
    let mut peer = Peer::of_core(0);
    peer.greet(1, Hello { core: 0, ..hello() });
    peer.greet(2, Hello { core: 0, owner: 7, epoch: Epoch(4), ..hello() });
    peer.fences(1, PARTITION.0, 3);
    peer.does(1, &renew(3));
    peer.does(1, &release(3));
    peer.fences(2, PARTITION.0, 4);
}

#[test]
fn one_core_of_a_node_makes_promises_and_the_others_do_not() {
    let mut peer = Peer::serving();
    peer.refuses(1, &renew(3), Refusal::Invalid, 0);
    peer.refuses(1, &release(3), Refusal::Invalid, 0);
}

#[test]
fn r2_a_fenced_owner_changes_nothing_and_is_told_by_whom() {
    let mut peer = Peer::serving();
    peer.does(1, &NodeRequest::Open(packed(1, 1)));
    peer.does(1, &NodeRequest::Open(packed(3, 2)));
    peer.turn(1, &[append(3, 1, 0)]).expect("acknowledged");
    peer.greet(2, Hello { owner: 7, epoch: Epoch(5), ..hello() });
    peer.fences(2, PARTITION.0, 5);
    let close = |epoch| NodeRequest::Close { stripe: stripe(1), epoch: Epoch(epoch), last: OpNumber(0) };
    let late = [
        fence(PARTITION.0, 4),
        NodeRequest::Open(packed(2, 1)),
        NodeRequest::Install { description: packed(2, 1), bytes: b"piece" },
        append(1, 1, 0),
        seal(1, 0),
        free(1, 4),
        close(4),
    ];
    for request in &late {
        peer.refuses(1, request, Refusal::Fenced, 5);
    }
    assert_eq!(peer.turn(1, &[NodeRequest::Stable { stripe: stripe(3), stable: OpNumber(1) }]), Ok(vec![]));
    let stats = peer.node.stats();
    assert_eq!((stats.chunks, stats.appends, stats.folds), (2, 1, 0));
    peer.does(2, &close(5));
    peer.does(2, &free(1, 5));
}

#[test]
fn appends_of_a_turn_are_acknowledged_together() {
    let mut peer = Peer::serving();
    peer.does(1, &NodeRequest::Open(packed(1, 1)));
    peer.does(1, &NodeRequest::Open(packed(2, 2)));
    let turn = [append(1, 1, 0), append(2, 1, 0), append(1, 2, 10), append(1, 4, 30), append(2, 2, 10)];
    let replies = peer.turn(1, &turn).expect("replies");
    let expected = [
        NodeReplyOwned::Refused(Refusal::Gap, 0),
        NodeReplyOwned::Acked(stripe(1), 2),
        NodeReplyOwned::Acked(stripe(2), 2),
    ];
    assert_eq!(replies, expected);
    assert_eq!(peer.turn(1, &[NodeRequest::Stable { stripe: stripe(2), stable: OpNumber(2) }]), Ok(vec![]));
    assert_eq!((peer.node.stats().folds, peer.node.stats().raw_bytes), (1, 0));
}

#[test]
fn a_chunk_is_read_as_of_an_operation_and_when_sealed() {
    let mut peer = Peer::serving();
    peer.does(1, &NodeRequest::Open(packed(1, 1)));
    peer.turn(1, &[append(1, 1, 0), append(1, 2, 10)]).expect("acknowledged");
    peer.refuses(1, &read(1, 0), Refusal::NotAtOp, 0);
    assert_eq!(peer.ask(1, &read(1, 1)), NodeReplyOwned::Bytes(b"ytes.\0\0\0\0\0".to_vec()));
    assert_eq!(peer.ask(1, &read(1, 2)), NodeReplyOwned::Bytes(b"ytes.ten b".to_vec()));
    assert_eq!(peer.ask(1, &NodeRequest::Inspect { stripe: stripe(1) }), NodeReplyOwned::Inspected(2));
    peer.does(1, &seal(1, 2));
    assert_eq!(peer.ask(1, &read(1, 0)), NodeReplyOwned::Bytes(b"ytes.ten b".to_vec()));
    let scan = |count| NodeRequest::Scan { since: 0, after: stripe(0), count, partitions: vec![PARTITION] };
    assert_eq!(peer.ask(1, &scan(9)), NodeReplyOwned::Chunks(1));
    peer.refuses(1, &scan(0), Refusal::Invalid, 0);
    peer.refuses(1, &NodeRequest::Inspect { stripe: stripe(9) }, Refusal::NoChunk, 0);
    peer.refuses(1, &NodeRequest::ReadRecord { stripe: stripe(1), offset: 4000 }, Refusal::OutOfRange, 0);
    peer.refuses(1, &NodeRequest::Locate { stripe: stripe(1) }, Refusal::Invalid, 0);
    peer.does(1, &free(1, 3));
    peer.refuses(1, &read(1, 0), Refusal::NoChunk, 0);
    assert_eq!(peer.node.used_bytes(), 0);
}

#[test]
fn owners_alone_are_told_where_memory_that_is_shared_lies() {
    let near = NearMemory { device: 1, inode: 2, path: "/proc/3/fd/4".to_owned() };
    let mut peer = Peer { node: Node::sharing(core_of_two(1)).expect("a node"), now_us: 0 };
    peer.node.offer_memory(near.clone());
    let greeting = |peer: &mut Peer, session, greeting: NodeRequest<'_>| {
        peer.node.handle_session_opened(session);
        let mut bytes = Vec::new();
        greeting.encode(TAG, &mut bytes);
        peer.node.handle_input(Now::default(), session, &bytes).expect("greeted");
        let output = std::mem::take(peer.node.poll_output(session).expect("an answer"));
        match NodeReply::parse(&frames_of(&output)[0]) {
            Ok(NodeReply::Hello(hello)) => hello.near,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(greeting(&mut peer, 1, NodeRequest::Hello(hello())), Some(near));
    assert_eq!(greeting(&mut peer, 2, NodeRequest::Peer(Hello { epoch: Epoch(0), ..hello() })), None);
    peer.fences(1, PARTITION.0, 3);
    peer.does(1, &NodeRequest::Open(packed(1, 1)));
    peer.turn(1, &[append(1, 1, 0), append(1, 2, 10)]).expect("acknowledged");
    peer.refuses(1, &NodeRequest::Locate { stripe: stripe(1) }, Refusal::NotAtOp, 0);
    peer.does(1, &seal(1, 2));
    let NodeReplyOwned::Located(position) = peer.ask(1, &NodeRequest::Locate { stripe: stripe(1) }) else {
        panic!("it is sealed");
    };
    let mut bytes = [0; 10];
    peer.node.memory().expect("shared").read_exact_at(&mut bytes, position).expect("inside");
    assert_eq!(&bytes, b"ten bytes.");
}

#[test]
fn a_chunk_for_another_node_is_refused() {
    let mut peer = Peer::serving();
    let mut astray = packed(1, 1);
    astray.members.0.swap(0, 1);
    peer.refuses(1, &NodeRequest::Open(astray), Refusal::Invalid, 0);
}

#[test]
fn a_peer_that_never_reads_ends_its_session_only() {
    let mut peer = Peer::serving();
    let piece = ChunkDescription { kind: ChunkKind::Striped, chunk_bytes: 60_000, ..packed(1, 1) };
    peer.does(1, &NodeRequest::Install { description: piece, bytes: &[7; 60_000] });
    peer.greet(2, Hello { owner: 7, ..hello() });
    let greedy = NodeRequest::ReadRange { stripe: stripe(1), offset: 0, length: 60_000, op: OpNumber(0) };
    let mut bytes = Vec::new();
    (0..shorttail_node::limits::OUTPUT_BYTES_MAX / 60_000 + 1).for_each(|_| greedy.encode(TAG, &mut bytes));
    assert_eq!(peer.node.handle_input(Now::default(), 2, &bytes), Err(SessionError::OutputFull));
    peer.node.check_invariants();
    peer.does(1, &NodeRequest::Ping);
}

/// Each block costs the kernel some time, and many may be freed at once.
#[test]
fn much_memory_is_given_back_in_many_turns() {
    let node = Node::new(NodeConfig { memory_bytes: 16 << 20, ..core_of_two(1) }).expect("a node");
    let mut peer = Peer { node, now_us: 7 };
    peer.greet(1, hello());
    peer.fences(1, PARTITION.0, 3);
    for counter in 0..100 {
        let piece = ChunkDescription { kind: ChunkKind::Striped, chunk_bytes: 60_000, ..packed(counter, 1) };
        peer.does(1, &NodeRequest::Install { description: piece, bytes: &[7; 60_000] });
    }
    assert_eq!(peer.node.poll_deadline(), None);
    let up_to = Configuration::END;
    peer.does(1, &NodeRequest::Free { first: stripe(0), count: 100, partition: PARTITION, epoch: Epoch(3), up_to });
    let mut turns = 1;
    while let Some(due_us) = peer.node.poll_deadline() {
        assert_eq!(due_us, 7, "at once");
        peer.does(1, &NodeRequest::Ping);
        turns += 1;
    }
    // 64 blocks stay, and 8 are given back in a turn.
    assert_eq!(turns, 5);
}

#[test]
fn a_core_that_does_not_exist_and_too_little_memory_are_errors() {
    assert!(Node::new(core_of_two(2)).is_err_and(|error| error.to_string().contains("core 2 of 2")));
    let small = NodeConfig { memory_bytes: 1000, ..config(5) };
    assert!(Node::new(small).is_err_and(|error| error.to_string().contains("1000")));
}

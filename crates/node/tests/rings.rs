//! Appends that are put into a ring: what counts is held before anything that is asked later is answered.

use std::sync::{Arc, Mutex};

use shorttail_node::{MakeRing, Node, NodeConfig};
use shorttail_store::{RingReader, RingWriter};
use shorttail_units::{Epoch, Now, OpNumber, PartitionId};
use shorttail_wire::node::{ChunkDescription, Hello, NearMemory, NodeReply, NodeRequest, Refusal, next_frame};

use crate::setup::{config, fence, hello, packed, stripe};

const PARTITION: PartitionId = PartitionId(2);
const OTHER: PartitionId = PartitionId(3);
const OWNER: u64 = 1;
const LATER: u64 = 2;
const TAG: u64 = 77;
const RECORD: &[u8] = b"ten bytes.";

/// The owners' ends of the rings that a node made, oldest first.
#[derive(Clone, Debug, Default)]
struct Rings(Arc<Mutex<Vec<RingWriter>>>);

impl MakeRing for Rings {
    fn make(&mut self) -> Option<(RingReader, NearMemory)> {
        let reader = RingReader::new().expect("a ring");
        self.0.lock().expect("one thread").push(RingWriter::open(reader.file()).expect("its other end"));
        Some((reader, NearMemory { device: 0, inode: 0, path: "ring".to_owned() }))
    }
}

/// A node with an owner of epoch 3, whose chunk of a stripe is open, and one of epoch 4 that has greeted.
struct Scene {
    node: Node,
    owner: RingWriter,
    rings: Rings,
}

impl Scene {
    fn new() -> Self {
        Self::of(config(5))
    }

    fn of(config: NodeConfig) -> Self {
        let rings = Rings::default();
        let mut node = Node::new(config).expect("a node");
        node.offer_rings(Box::new(rings.clone()));
        for (session, epoch) in [(OWNER, 3), (LATER, 4)] {
            node.handle_session_opened(session);
            let hello = Hello { owner: epoch, epoch: Epoch(epoch), ..hello() };
            ask(&mut node, session, &NodeRequest::Hello(hello), |reply| {
                assert!(matches!(&reply, NodeReply::Hello(hello) if hello.ring.is_some()), "{reply:?}");
            });
        }
        let owner = rings.0.lock().expect("one thread").remove(0);
        let mut scene = Scene { node, owner, rings };
        for partition in [PARTITION, OTHER] {
            scene.fence(OWNER, partition, 3);
        }
        for (counter, partition) in [(1, PARTITION), (2, OTHER)] {
            scene.does(OWNER, &NodeRequest::Open(description(counter, partition)));
        }
        scene
    }

    fn fence(&mut self, session: u64, partition: PartitionId, epoch: u32) {
        let fence = fence(partition.0, epoch);
        ask(&mut self.node, session, &fence, |reply| assert!(matches!(reply, NodeReply::Fenced { .. }), "{reply:?}"));
    }

    fn does(&mut self, session: u64, request: &NodeRequest<'_>) {
        ask(&mut self.node, session, request, |reply| assert!(matches!(reply, NodeReply::Done { .. }), "{reply:?}"));
    }

    /// An owner greets in a new session; is there a ring for it?
    fn greets(&mut self, owner: u32, session: u64) -> bool {
        self.node.handle_session_opened(session);
        let hello = Hello { owner, epoch: Epoch(1), ..hello() };
        ask(&mut self.node, session, &NodeRequest::Hello(hello), |reply| match reply {
            NodeReply::Hello(hello) => hello.ring.is_some(),
            other => panic!("{other:?}"),
        })
    }

    /// Puts an append of a stripe; does it count?
    fn put(&mut self, counter: u64, op: u32) -> bool {
        let mut message = Vec::new();
        append(counter, op).encode(TAG, &mut message);
        self.owner.put(if counter == 1 { PARTITION } else { OTHER }, &message)
    }

    /// The last operation that the node says it holds of a stripe.
    fn last(&mut self, counter: u64) -> u32 {
        let inspect = NodeRequest::Inspect { stripe: stripe(counter) };
        ask(&mut self.node, LATER, &inspect, |reply| match reply {
            NodeReply::Inspected(inspected) => inspected.report.last.0,
            other => panic!("{other:?}"),
        })
    }
}

/// One request, one reply, in one turn.
fn ask<T>(node: &mut Node, session: u64, request: &NodeRequest<'_>, read: impl FnOnce(NodeReply<'_>) -> T) -> T {
    let mut bytes = Vec::new();
    request.encode(TAG, &mut bytes);
    assert_eq!(node.handle_input(Now::default(), session, &bytes), Ok(bytes.len()));
    node.end_turn(Now::default());
    node.check_invariants();
    let output = std::mem::take(node.poll_output(session).expect("a reply"));
    let (frame, length) = next_frame(&output).expect("a frame").expect("a whole one");
    assert_eq!(length, output.len(), "nothing more is said");
    read(NodeReply::parse(&frame).expect("a reply"))
}

/// The parity of an RS(2,1) stripe.
fn description(counter: u64, partition: PartitionId) -> ChunkDescription {
    ChunkDescription { partition, ..packed(counter, 2) }
}

/// The next operation; those before it are stable.
fn append(counter: u64, op: u32) -> NodeRequest<'static> {
    NodeRequest::Append {
        stripe: stripe(counter),
        op: OpNumber(op),
        previous: OpNumber(op - 1),
        stable: OpNumber(op - 1),
        data_index: 1,
        offset: (op - 1) * RECORD.len() as u32,
        bytes: RECORD,
    }
}

#[test]
fn what_was_put_is_held_before_anybody_is_answered() {
    let mut scene = Scene::new();
    assert!((1..=3).all(|op| scene.put(1, op)));
    assert_eq!(scene.last(1), 3, "another owner asks");
    assert!(scene.put(1, 4) && scene.put(2, 1));
    assert_eq!((scene.last(1), scene.last(2)), (4, 1));
    assert_eq!(scene.node.poll_output(OWNER), None, "nobody waits for an acknowledgement");
}

#[test]
fn r2_what_counts_is_held_before_a_partition_is_fenced_and_nothing_counts_afterwards() {
    let mut scene = Scene::new();
    assert!(scene.put(1, 1) && scene.put(2, 1));
    scene.fence(LATER, PARTITION, 4);
    assert!(!scene.put(1, 2), "it is another owner's");
    assert!(scene.put(2, 2), "the other partition is not");
    assert_eq!((scene.last(1), scene.last(2)), (1, 2));
    let output = scene.node.poll_output(OWNER).expect("it is told of what was not done");
    let (frame, _) = next_frame(output).expect("a frame").expect("a whole one");
    assert_eq!(frame.tag, TAG);
    assert_eq!(NodeReply::parse(&frame), Ok(NodeReply::Refused { refusal: Refusal::Fenced, detail: 4 }));
    assert_eq!(scene.node.poll_written_session(), Some(OWNER));
}

/// A process goes on putting while another owner fences: what counted before is held after.
#[test]
fn r2_what_counts_at_the_very_moment_of_a_fence_is_held() {
    for round in 0..2000 {
        let mut scene = Scene::new();
        let mut owner = scene.owner;
        let (begun, begins) = std::sync::mpsc::channel();
        let putting = std::thread::spawn(move || {
            let puts = (1..250).take_while(|&op| {
                let mut message = Vec::new();
                append(1, op).encode(TAG, &mut message);
                _ = begun.send(());
                owner.put(PARTITION, &message)
            });
            puts.count() as u32
        });
        (0..=round % 8).for_each(|_| _ = begins.recv());
        let fence = fence(PARTITION.0, 4);
        ask(&mut scene.node, LATER, &fence, |reply| assert!(matches!(reply, NodeReply::Fenced { .. }), "{reply:?}"));
        let put = putting.join().expect("it ends");
        let inspect = NodeRequest::Inspect { stripe: stripe(1) };
        let last = ask(&mut scene.node, LATER, &inspect, |reply| match reply {
            NodeReply::Inspected(inspected) => inspected.report.last.0,
            other => panic!("{other:?}"),
        });
        assert!(last >= put, "round {round}: {put} counted, {last} are held");
    }
}

#[test]
fn r2_a_fence_that_is_refused_closes_nothing() {
    let mut scene = Scene::new();
    scene.does(OWNER, &NodeRequest::Renew { epoch: Epoch(3), lease_us: 1_000, partitions: vec![PARTITION] });
    let fence = fence(PARTITION.0, 4);
    ask(&mut scene.node, LATER, &fence, |reply| {
        assert!(matches!(reply, NodeReply::Refused { refusal: Refusal::Leased, .. }), "{reply:?}");
    });
    assert!(scene.put(1, 1));
    assert_eq!(scene.last(1), 1);
}

#[test]
fn r7_what_counts_is_held_when_the_session_ends_however_it_does() {
    let greets_again = |scene: &mut Scene| {
        scene.node.handle_session_opened(9);
        let hello = Hello { owner: 3, ..hello() };
        ask(&mut scene.node, 9, &NodeRequest::Hello(hello), |reply| assert!(matches!(reply, NodeReply::Hello(_))));
        assert_eq!(scene.node.poll_closed_session(), Some(OWNER));
    };
    let sends_nonsense = |scene: &mut Scene| {
        assert!(scene.node.handle_input(Now::default(), OWNER, &[0xff; 64]).is_err());
    };
    let ends: [&dyn Fn(&mut Scene); 3] =
        [&|scene| scene.node.handle_session_closed(OWNER), &greets_again, &sends_nonsense];
    for (number, end) in ends.into_iter().enumerate() {
        let mut scene = Scene::new();
        assert!(scene.put(1, 1) && scene.put(1, 2));
        end(&mut scene);
        assert!(!scene.put(1, 3), "end {number}");
        assert_eq!(scene.last(1), 2, "end {number}");
    }
}

#[test]
fn r7_what_a_message_asks_comes_after_what_was_put_before_it() {
    let mut scene = Scene::new();
    assert!(scene.put(1, 1));
    // The ring was full, so to speak.
    ask(&mut scene.node, OWNER, &append(1, 2), |reply| {
        assert_eq!(reply, NodeReply::Acked { stripe: stripe(1), op: OpNumber(2) });
    });
    assert!(scene.put(1, 3));
    assert_eq!(scene.last(1), 3);
}

#[test]
fn what_cannot_be_done_is_told_and_what_is_no_append_ends_the_session() {
    let mut scene = Scene::new();
    assert!(scene.put(1, 2), "one is missing before it");
    scene.last(1);
    let output = std::mem::take(scene.node.poll_output(OWNER).expect("it is told"));
    let (frame, _) = next_frame(&output).expect("a frame").expect("a whole one");
    assert_eq!(NodeReply::parse(&frame), Ok(NodeReply::Refused { refusal: Refusal::Gap, detail: 0 }));
    let mut ping = Vec::new();
    NodeRequest::Ping.encode(TAG, &mut ping);
    let mut two = Vec::new();
    (1..3).for_each(|op| append(1, op).encode(TAG, &mut two));
    let mut flipped = Vec::new();
    append(1, 2).encode(TAG, &mut flipped);
    flipped[20] ^= 1;
    let all = [(&b""[..], 1), (b"nonsense", 1), (&[0xff; 64], 1), (&ping, 0), (&two, 1), (&flipped, 1)];
    for (nonsense, damaged) in all {
        let mut scene = Scene::new();
        assert!(scene.put(1, 1) && scene.owner.put(PARTITION, nonsense));
        assert_eq!(scene.last(1), 1, "what came before counts");
        assert_eq!(scene.node.poll_closed_session(), Some(OWNER));
        assert!(!scene.put(1, 2));
        assert_eq!(scene.node.stats().messages_damaged, damaged);
    }
}

/// Memory for what may be put is there, however full the node is.
#[test]
fn no_append_that_counts_is_refused_for_want_of_memory() {
    for memory_bytes in [512 << 10, 1 << 20] {
        let mut scene = Scene::of(NodeConfig { memory_bytes, ..config(5) });
        // Everything else is taken: by chunks, and by raw operations that nobody folds.
        (100..136).for_each(|counter| scene.does(OWNER, &NodeRequest::Open(description(counter, OTHER))));
        let install = |counter| NodeRequest::Install { description: description(counter, OTHER), bytes: &[7; 900] };
        let raw = |counter, length: usize| NodeRequest::Append {
            stripe: stripe(counter),
            op: OpNumber(1),
            previous: OpNumber(0),
            stable: OpNumber(0),
            data_index: 1,
            offset: 0,
            bytes: &[7; 4000][..length],
        };
        let mut takes = |request: &NodeRequest<'_>| {
            ask(&mut scene.node, OWNER, request, |reply| !matches!(reply, NodeReply::Refused { .. }))
        };
        let chunk_count = (200..).take_while(|&counter| takes(&install(counter))).count();
        let mut counter = 100;
        for length in [4000, 1300, 400, 130, 40, 14, 1] {
            while takes(&raw(counter, length)) {
                counter += 1;
            }
        }
        assert!(chunk_count > 10 && counter < 136, "{chunk_count} chunks, {counter}");
        let put = (1..300).take_while(|&op| scene.put(1, op)).count();
        assert!(put >= 20, "{put} of a node with {memory_bytes} bytes");
        assert_eq!(scene.last(1), put as u32, "with {memory_bytes} bytes");
        scene.node.handle_session_closed(OWNER);
        scene.node.check_invariants();
    }
}

#[test]
fn owners_for_whose_rings_there_is_no_memory_send_messages() {
    let mut scene = Scene::new();
    for session in 10..40 {
        let has_ring = scene.greets(session as u32, session);
        if !has_ring {
            assert!(scene.greets(11, 100), "what its older session had is there for the new one");
            (10..=session).for_each(|session| scene.node.handle_session_closed(session));
            scene.node.check_invariants();
            return;
        }
    }
    panic!("{} rings in a MiB", scene.rings.0.lock().expect("one thread").len());
}

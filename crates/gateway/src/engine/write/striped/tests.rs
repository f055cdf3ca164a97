//! Reads whose values are replaced while they wait for room or whose pieces are hard to get, and writes beside a pause
//! of their owner.

use shorttail_store::record::{Record, RecordKind};
use shorttail_units::{Epoch, Now, Version};
use shorttail_wire::node::{NodeReply, next_frame};

use super::*;
use crate::engine::SessionId;
use crate::engine::limits::{PAUSE_US, READ_AGAIN_MAX};
use crate::engine::read::read_room::ReadRoom;
use crate::engine::sessions::nodes::NodePhase;
use crate::engine::state::index::{Location, StripeSlot};
use crate::engine::state::stripes::Stripe;
use crate::engine::state::testing::{engine_of_ready_nodes, say_as};
use crate::request::Reply;

const VALUE_BYTES: usize = 80;

fn members(engine: &Engine) -> Arc<[NodeId]> {
    (0..engine.config.member_count() as u16).map(NodeId).collect()
}

/// There is room to read one value at once.
fn engine() -> (Engine, StripeSlot) {
    engine_of(CodeShape::reed_solomon(1, 1).expect("a code"), 4)
}

fn engine_of(shape: CodeShape, node_count: u16) -> (Engine, StripeSlot) {
    let mut engine = engine_of_ready_nodes(shape, node_count);
    engine.config.read_bytes_max = VALUE_BYTES;
    engine.read_room = ReadRoom::new(VALUE_BYTES);
    let fills = vec![60_000; shape.data_count()].into();
    let manifests = Stripe::inherited(StripeId::new(Epoch(1), 1 << 20), PartitionId(0), members(&engine), fills);
    let slot = engine.stripes.insert(manifests);
    (engine, slot)
}

fn manifest_of(engine: &Engine, first: StripeId) -> Manifest {
    let (shape, members) = (engine.config.shape, members(engine));
    let (stripe_count, piece_bytes) = Manifest::cut(VALUE_BYTES, shape.data_count(), engine.config.chunk_bytes, 0);
    Manifest { value_bytes: VALUE_BYTES, first, stripe_count, piece_bytes, shape, members }
}

/// A value is durable, in the place of the one that was there.
fn store(engine: &mut Engine, slot: StripeSlot, bytes: &[u8], number: u64) -> StripeId {
    let first = StripeId::new(Epoch(1), number);
    let manifest = manifest_of(engine, first);
    let value = manifest.encode();
    let version = Version::new(Epoch(1), number);
    let record = Record { kind: RecordKind::Manifest, ..Record::object(bytes, &value, version) };
    let mut encoded = vec![0; record.encoded_bytes(Epoch(1))];
    record.encode(engine.stripes.at(slot).id, &mut encoded);
    let location = engine.stripes.location(slot, 0, number as usize * 256);
    let key = engine.key_ref(bytes);
    let (key_slot, tag) = (key.slot, key.tag());
    let before: Vec<Location> = engine.index.candidates(key_slot, tag).collect();
    before.into_iter().for_each(|location| assert!(engine.index.remove(key_slot, tag, location)));
    engine.index.insert(key_slot, tag, location);
    engine.stripes.at_mut(slot).manifests.keep(location, &encoded);
    let of_key = engine.striped.iter().find(|(_, object)| object.key == bytes).map(|(&first, _)| first);
    of_key.into_iter().for_each(|first| drop(engine.striped.remove(first)));
    engine.striped.insert(StripedObject::new(bytes.to_vec(), PartitionId(0), manifest));
    first
}

/// First stripes of the values that are being read.
fn read(engine: &Engine) -> Vec<StripeId> {
    engine.striped_reads.iter().map(|(_, read)| read.first()).collect()
}

fn end_read(engine: &mut Engine) {
    let (key, _) = engine.striped_reads.iter().next().expect("a read");
    engine.take_striped_read(key);
    engine.run_work();
}

#[test]
fn a_read_that_waited_begins_with_the_value_that_is_there_by_then() {
    let (mut engine, slot) = engine();
    let [a, _, c] = [(b"a", 1), (b"b", 2), (b"c", 3)].map(|(key, number)| store(&mut engine, slot, key, number));
    say_as(&mut engine, 1, b"get a\r\nget b\r\nget c\r\n");
    assert_eq!(read(&engine), [a]);
    let b = store(&mut engine, slot, b"b", 4);
    end_read(&mut engine);
    assert_eq!(read(&engine), [b], "in its turn");
    end_read(&mut engine);
    assert_eq!(read(&engine), [c]);
}

#[test]
fn a_value_that_is_replaced_while_it_is_read_is_read_anew_before_others() {
    let (mut engine, slot) = engine();
    let [_, b] = [(b"a", 1), (b"b", 2)].map(|(key, number)| store(&mut engine, slot, key, number));
    say_as(&mut engine, 1, b"get a\r\nget b\r\n");
    let a = store(&mut engine, slot, b"a", 3);
    let (key, _) = engine.striped_reads.iter().next().expect("a read");
    engine.striped_unreadable(key);
    engine.run_work();
    assert_eq!(read(&engine), [a]);
    end_read(&mut engine);
    assert_eq!(read(&engine), [b]);
}

/// The nodes' answers may have come meanwhile.
#[test]
fn a_write_is_not_late_for_a_pause_of_its_owner() {
    let (mut engine, _) = engine();
    say_as(&mut engine, 1, &[b"set key 0 0 40000\r\n", &[b'x'; 40_000][..], b"\r\n"].concat());
    assert_eq!(engine.striped_writes.iter().count(), 1);
    let pause_us = 50 * PAUSE_US;
    engine.end_turn(Now { mono_us: pause_us, ..engine.now });
    assert_eq!(engine.striped_writes.iter().count(), 1, "it is not raced");
    assert!(engine.nodes.iter().all(|node| node.write_late_us.is_none()));
    // Nothing came.
    let mut now = engine.now;
    while engine.nodes.iter().all(|node| node.write_late_us.is_none()) {
        now.mono_us += PAUSE_US / 2;
        assert!(now.mono_us < 2 * pause_us, "it is late in the end");
        engine.end_turn(now);
    }
}

/// Each node answers what it was asked to read of a stripe, all of its chunk; who did.
fn answer(engine: &mut Engine, chunks: &[Vec<u8>]) -> Vec<u16> {
    let mut asked = Vec::new();
    for (node, chunk) in (0..).zip(chunks) {
        let session = SessionId { node: NodeId(node), core: 0 };
        let bytes = std::mem::take(engine.nodes.session_mut(session).expect("a session").rest());
        let mut at = 0;
        while let Some((frame, length)) = next_frame(&bytes[at..]).expect("frames") {
            at += length;
            let reply = match NodeRequest::parse(&frame).expect("a request") {
                NodeRequest::ReadRange { .. } => NodeReply::Bytes(chunk),
                _ => continue,
            };
            let mut bytes = Vec::new();
            reply.encode(frame.tag, &mut bytes);
            engine.handle_session_input(engine.now, session, &bytes).expect("a reply");
            asked.push(node);
        }
    }
    asked
}

/// RS(4,2): the node of piece 1 is late when the read begins, one parity is damaged, and the other one's node is dead.
/// When it shows the late one is in use again, or still late.
#[test]
fn a_piece_that_was_gone_round_is_read_where_the_parities_do_not_help() {
    for is_back in [true, false] {
        let (mut engine, slot) = engine_of(CodeShape::default(), 6);
        let first = store(&mut engine, slot, b"a", 1);
        let become_phase = |engine: &mut Engine, node: u16, phase| {
            engine.nodes.get_mut(NodeId(node)).expect("a node").phase = phase;
        };
        become_phase(&mut engine, 1, NodePhase::Suspect);
        become_phase(&mut engine, 5, NodePhase::Away);
        say_as(&mut engine, 1, b"get a\r\n");
        if is_back {
            become_phase(&mut engine, 1, NodePhase::Ready);
        }
        let (manifest, code) = (manifest_of(&engine, first), engine.codes.get(engine.config.shape));
        let mut chunks = cut(&manifest, 0, &[b'x'; VALUE_BYTES], &code);
        chunks[4][0] ^= 1;
        assert_eq!(answer(&mut engine, &chunks), [0, 2, 3, 4]);
        for _ in 0..READ_AGAIN_MAX {
            // Parities are asked again, as they may have been hurt on their way only.
            answer(&mut engine, &chunks);
        }
        answer(&mut engine, &chunks);
        let reply = engine.poll_reply(engine.now).expect("a reply").1;
        let Reply::Bytes(reply) = reply else { panic!("{reply:?}") };
        let value = [b'x'; VALUE_BYTES];
        assert!(reply.windows(VALUE_BYTES).any(|it| it == value), "{}", reply.escape_ascii());
        assert!(!is_back || engine.suspected.contains(&(NodeId(4), first)), "it is looked at");
    }
}

//! Reads whose values are replaced while they wait for room, and writes beside a pause of their owner.

use shorttail_store::record::{Record, RecordKind};
use shorttail_units::{Epoch, Now, Version};

use super::*;
use crate::any::AnyCommand;
use crate::engine::index::{Location, StripeSlot};
use crate::engine::limits::PAUSE_US;
use crate::engine::read_room::ReadRoom;
use crate::engine::stripes::Stripe;
use crate::engine::testing::engine_of_ready_nodes;
use crate::memcached::{MemcachedCommand, MemcachedSession};
use crate::request::Request;
use crate::session::{Session, Settings, Shared};

const VALUE_BYTES: usize = 80;

fn members() -> Arc<[NodeId]> {
    Arc::from([NodeId(0), NodeId(1)])
}

/// There is room to read one value at once.
fn engine() -> (Engine<AnyCommand>, StripeSlot) {
    let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 4);
    engine.config.read_bytes_max = VALUE_BYTES;
    engine.read_room = ReadRoom::new(VALUE_BYTES);
    let manifests = Stripe::inherited(StripeId::new(Epoch(1), 1 << 20), PartitionId(0), members(), Box::from([60_000]));
    let slot = engine.stripes.insert(manifests);
    (engine, slot)
}

/// What a client says is asked of the engine.
fn say(engine: &mut Engine<AnyCommand>, text: &[u8]) {
    let (mut shared, mut session) = (Shared::new(Settings::default()), MemcachedSession::default());
    let mut asked = Vec::new();
    session.handle_input(engine.now, &mut shared, text, &mut |id, request: Request<MemcachedCommand>| {
        if let Request::Key(command) = request {
            asked.push((id, AnyCommand::from(command)));
        }
    });
    for (id, command) in asked {
        engine.handle_request(engine.now, Token { connection: 1, id }, Request::Key(command));
    }
}

/// A value is durable, in the place of the one that was there.
fn store(engine: &mut Engine<AnyCommand>, slot: StripeSlot, bytes: &[u8], number: u64) -> StripeId {
    let shape = engine.config.shape;
    let first = StripeId::new(Epoch(1), number);
    let manifest =
        Manifest { value_bytes: VALUE_BYTES, first, stripe_count: 1, piece_bytes: 128, shape, members: members() };
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
fn read(engine: &Engine<AnyCommand>) -> Vec<StripeId> {
    engine.striped_reads.iter().map(|(_, read)| read.first()).collect()
}

fn end_read(engine: &mut Engine<AnyCommand>) {
    let (key, _) = engine.striped_reads.iter().next().expect("a read");
    engine.take_striped_read(key);
    engine.run_work();
}

#[test]
fn a_read_that_waited_begins_with_the_value_that_is_there_by_then() {
    let (mut engine, slot) = engine();
    let [a, _, c] = [(b"a", 1), (b"b", 2), (b"c", 3)].map(|(key, number)| store(&mut engine, slot, key, number));
    say(&mut engine, b"get a\r\nget b\r\nget c\r\n");
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
    say(&mut engine, b"get a\r\nget b\r\n");
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
    say(&mut engine, &[b"set key 0 0 40000\r\n", &[b'x'; 40_000][..], b"\r\n"].concat());
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

//! What is over, and what the index names twice for a moment, in answers about all keys.

use shorttail_units::{CodeShape, Epoch, NodeId, Now, UnixMs};

use super::*;
use crate::engine::state::stripes::Stripe;
use crate::engine::state::testing::{ask_as, confirm_all, engine_of_ready_nodes, replies_of};
use crate::request::{Request, RequestId};

fn engine() -> Engine {
    engine_of_ready_nodes(CodeShape::default(), 8)
}

/// Stores these, durably.
fn store(engine: &mut Engine, text: &str) {
    ask_as(engine, 1, text.as_bytes());
    engine.stripes.unsealed().to_vec().into_iter().for_each(|slot| confirm_all(engine, slot));
    for reply in replies_of(engine) {
        assert!(matches!(&reply, Reply::Bytes(bytes) if bytes.starts_with(b"STORED")), "{reply:?}");
    }
}

fn ask(engine: &mut Engine, request: KeyspaceRequest) -> Option<KeyspaceReply> {
    let token = Token { connection: 2, id: RequestId { seq: 1, part: 0 } };
    engine.take_request(engine.now, token, Request::Keyspace(request));
    answer(engine)
}

fn answer(engine: &mut Engine) -> Option<KeyspaceReply> {
    match engine.poll_reply(engine.now)?.1 {
        Reply::Keyspace(Ok(reply)) => Some(reply),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_random_key_is_one_that_is_alive_while_there_is_one() {
    // Of one slot, and of many; a few, and more than are looked at together.
    for (name, count) in [("{t}", 9), ("key", 9), ("{t}", 3 * RANDOM_LOOKS_MAX), ("key", 3 * RANDOM_LOOKS_MAX)] {
        let mut engine = engine();
        let over = (0..count).map(|number| format!("set {name}{number} 0 1 1\r\nx\r\n"));
        store(&mut engine, &(over.collect::<String>() + &format!("set {name}alive 0 5 1\r\nx\r\n")));
        engine.now = Now { mono_us: engine.now.mono_us, unix_ms: UnixMs(engine.now.unix_ms.0 + 2_000) };
        let alive = Some(KeyspaceReply::RandomKey(Some(format!("{name}alive").into_bytes())));
        for _ in 0..100 {
            assert_eq!(ask(&mut engine, KeyspaceRequest::RandomKey), alive, "{count} of {name} are over");
        }
        engine.now.unix_ms.0 += 5_000;
        assert_eq!(ask(&mut engine, KeyspaceRequest::RandomKey), Some(KeyspaceReply::RandomKey(None)));
    }
}

/// An engine with one key, whose record lies at the beginning of this sealed stripe, and its bytes.
fn engine_with_a_record_elsewhere(value: &[u8]) -> (Engine, StripeId, Vec<u8>) {
    engine_with_a_record_until(value, None)
}

fn engine_with_a_record_until(value: &[u8], expiry: Option<UnixMs>) -> (Engine, StripeId, Vec<u8>) {
    let mut engine = engine();
    let sealed = StripeId::new(Epoch(1), 5);
    let members: std::sync::Arc<[NodeId]> = (0..6).map(NodeId).collect();
    let slot = engine.key_ref(b"key").slot;
    let partition = engine.config.partition_of(slot);
    let held_in = engine.stripes.insert(Stripe::inherited(sealed, partition, members, Box::from([0; 4])));
    engine.stripes.at_mut(held_in).live_count = 1;
    let location = engine.stripes.location(held_in, 0, 0);
    engine.index.insert(slot, engine.key_ref(b"key").tag(), location);
    let record = Record { expiry, ..Record::object(b"key", value, Version::new(Epoch(1), 1)) };
    let mut bytes = vec![0; record.encoded_bytes(sealed.epoch())];
    record.encode(sealed, &mut bytes);
    (engine, sealed, bytes)
}

/// A key whose record lies in a sealed stripe, which has to be fetched to be compared, gets another value.
#[test]
fn an_object_that_is_overwritten_is_counted_and_listed_once() {
    let (mut engine, sealed, bytes) = engine_with_a_record_elsewhere(b"other");
    let slot = engine.key_ref(b"key").slot;
    store(&mut engine, "set key 0 0 3\r\nnew\r\n");
    assert_eq!(engine.index.object_count(), 2, "it is not compared yet");
    let of_slot = slot.index() as u16;
    for count in [KeyspaceRequest::Count, KeyspaceRequest::CountSlot { slot: of_slot }] {
        assert_eq!(ask(&mut engine, count), Some(KeyspaceReply::Count(1)));
    }
    assert_eq!(engine.stats().totals.objects, 1);
    let scan = KeyspaceRequest::Scan { cursor: 0, count: 9 };
    for listing in [KeyspaceRequest::ListSlot { cursor: cursor_of(slot), count: 9 }, scan] {
        assert_eq!(ask(&mut engine, listing), None, "the older record is fetched");
        let (key, _) = engine.scans.iter().next().expect("a step that waits");
        engine.scan_listed(key, &bytes, sealed);
        let Some(KeyspaceReply::Scanned { keys, .. }) = answer(&mut engine) else { panic!("it is over") };
        let found: Vec<_> = keys.iter().map(|key| (&key.key[..], key.value_bytes)).collect();
        assert_eq!(found, [(&b"key"[..], 3)]);
    }
}

/// Its record, which comes late, tells that it is over by then. It may have got a longer life in the meantime, under a
/// record that this step does not know.
#[test]
fn an_object_that_was_alive_when_it_was_listed_is_in_the_list() {
    let later = |engine: &mut Engine, ms| engine.now.unix_ms.0 += ms;
    let began = engine().now.unix_ms;
    let (mut engine, sealed, bytes) = engine_with_a_record_until(b"value", Some(UnixMs(began.0 + 1_000)));
    let names = |engine: &mut Engine, wait_ms| {
        assert_eq!(ask(engine, KeyspaceRequest::Scan { cursor: 0, count: 9 }), None, "its record is fetched");
        later(engine, wait_ms);
        let (key, _) = engine.scans.iter().next().expect("a step that waits");
        engine.scan_listed(key, &bytes, sealed);
        let Some(KeyspaceReply::Scanned { keys, .. }) = answer(engine) else { panic!("it is over") };
        keys.into_iter().map(|key| key.key).collect::<Vec<_>>()
    };
    assert_eq!(names(&mut engine, 2_000), [b"key".to_vec()]);
    assert_eq!(names(&mut engine, 0), Vec::<Vec<u8>>::new(), "it was over when it was listed");
}

/// What is damaged on its way is right when it is asked for again. Whatever is damaged is asked for a few times more,
/// and what cannot be read for another reason is not.
#[test]
fn a_step_that_met_damage_begins_anew_a_few_times() {
    let (mut engine, stripe, bytes) = engine_with_a_record_elsewhere(b"value");
    let token = Token { connection: 2, id: RequestId { seq: 1, part: 0 } };
    let slot = engine.stripes.slot_of(stripe).expect("here");
    let wanted = engine.wanted(slot, 0, 0, Extent::Record, FetchPurpose::Scan(PoolKey::from_raw(0)));
    let begin = |engine: &mut Engine, request| {
        engine.take_request(engine.now, token, Request::Keyspace(request));
    };
    let arrives = |engine: &mut Engine, result: Result<&[u8], FetchError>| {
        let (scan, _) = engine.scans.iter().next().expect("a step that waits");
        let wanted = Wanted { purpose: FetchPurpose::Scan(scan), ..wanted.clone() };
        engine.scan_fetched(scan, wanted, ChunkSet::of(0), result);
        match engine.poll_reply(engine.now)?.1 {
            Reply::Keyspace(outcome) => Some(outcome),
            other => panic!("{other:?}"),
        }
    };
    for request in [KeyspaceRequest::Scan { cursor: 0, count: 9 }, KeyspaceRequest::RandomKey] {
        begin(&mut engine, request.clone());
        assert_eq!(arrives(&mut engine, Ok(b"no record")), None, "it is read again");
        let read = arrives(&mut engine, Ok(&bytes));
        assert!(matches!(read, Some(Ok(KeyspaceReply::Scanned { .. } | KeyspaceReply::RandomKey(Some(_))))));
        begin(&mut engine, request.clone());
        for _ in 0..READ_AGAIN_MAX {
            assert_eq!(arrives(&mut engine, Ok(b"no record")), None);
        }
        assert_eq!(arrives(&mut engine, Ok(b"no record")), Some(Err(StoreError::Unreadable)), "enough");
        begin(&mut engine, request);
        assert_eq!(arrives(&mut engine, Err(FetchError::Unreadable)), Some(Err(StoreError::Unreadable)));
    }
}

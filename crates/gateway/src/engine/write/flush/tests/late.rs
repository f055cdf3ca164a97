//! An owner that has partitions of several earlier ones, of which some carried a flush out and others did not.

use std::sync::Arc;

use super::*;
use crate::engine::state::testing::touch_of;

/// An earlier owner carried it out in the other partitions, of which this owner has one.
#[test]
fn a_late_flush_ends_nothing_where_it_has_happened() {
    for is_all_flushed in [false, true] {
        let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 2);
        let late = PartitionId(1);
        let keys: Vec<String> = engine.all_partitions().into_iter().map(|of| key_in(&engine, of)).collect();
        keys.iter().for_each(|key| ask(&mut engine, format!("set {key} 0 0 1\r\n1\r\n").as_bytes()));
        let confirm = |engine: &mut Engine| {
            for slot in engine.stripes.unsealed().to_vec() {
                confirm_all(engine, slot);
            }
        };
        confirm(&mut engine);
        let bytes_each = engine.stats.totals.bytes_stored / keys.len() as u64;
        let version = engine.take_version();
        engine.inherit_flush_due(late, version, UnixMs(5_000));
        engine.now.unix_ms = UnixMs(6_000);
        engine.advance_flushes();
        if is_all_flushed {
            let token = Token { connection: 1, id: RequestId { seq: 1, part: 0 } };
            engine.take_request(engine.now, token, Request::Keyspace(KeyspaceRequest::flush(None)));
        }
        for _ in 0..2 {
            engine.flush_logs();
            confirm(&mut engine);
            engine.advance_flushes();
        }
        assert!(!engine.is_flushing() && !engine.is_flush_overdue());
        let left = keys.iter().filter(|key| {
            let key = engine.key_ref(key.as_bytes());
            engine.index.candidates(key.slot, key.tag()).next().is_some()
        });
        let others: Vec<_> = keys.iter().filter(|&key| *key != keys[1] && !is_all_flushed).collect();
        assert_eq!(left.collect::<Vec<_>>(), others);
        assert_eq!(engine.stats.totals.bytes_stored, others.len() as u64 * bytes_each);
        engine.check_invariants();
    }
}

/// The others were flushed by whoever had them before, and what is there was stored since.
#[test]
fn a_flush_of_some_partitions_ends_nothing_in_others() {
    for at in [None, Some(UnixMs(5_000))] {
        let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 2);
        let all = engine.all_partitions();
        let keys: Vec<String> = all.iter().map(|&of| key_in(&engine, of)).collect();
        keys.iter().for_each(|key| ask(&mut engine, format!("set {key} 0 0 1\r\n1\r\n").as_bytes()));
        let confirm = |engine: &mut Engine| {
            engine.flush_logs();
            engine.stripes.unsealed().to_vec().into_iter().for_each(|slot| confirm_all(engine, slot));
        };
        confirm(&mut engine);
        replies_of(&mut engine);
        let token = Token { connection: 1, id: RequestId { seq: 1, part: 0 } };
        let ask_flush = |engine: &mut Engine, of: Vec<u16>| {
            engine.take_request(engine.now, token, Request::Keyspace(KeyspaceRequest::Flush { at, of }));
            confirm(engine);
        };
        ask_flush(&mut engine, vec![1, all.len() as u16]);
        assert_eq!(replies_of(&mut engine), [Reply::Keyspace(Err(StoreError::NotOwner))], "it has one of these");
        ask_flush(&mut engine, vec![1]);
        assert_eq!(replies_of(&mut engine), [Reply::Keyspace(Ok(KeyspaceReply::Flushed))]);
        assert_eq!(engine.flushes.due.len(), usize::from(at.is_some()));
        engine.now.unix_ms = UnixMs(6_000);
        engine.advance_flushes();
        confirm(&mut engine);
        let left = keys.iter().filter(|key| {
            let key = engine.key_ref(key.as_bytes());
            engine.index.candidates(key.slot, key.tag()).next().is_some()
        });
        let others: Vec<_> = keys.iter().filter(|&key| *key != keys[1]).collect();
        assert_eq!(left.collect::<Vec<_>>(), others);
        engine.check_invariants();
    }
}

/// It is touched as it is flushed: the round takes its pieces along.
#[test]
fn what_is_touched_while_its_partition_is_flushed_is_not_counted_any_more() {
    let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 2);
    let (first, members) = (StripeId::new(Epoch(1), 5), Arc::from([NodeId(0), NodeId(1)]));
    let shape = engine.config.shape;
    let manifest = Manifest { value_bytes: 100, first, stripe_count: 1, piece_bytes: 128, shape, members };
    let late = PartitionId(1);
    engine.striped.insert(StripedObject::new(b"key".to_vec(), late, manifest.clone()));
    engine.stats.totals.bytes_stored = 107;
    let key = key_in(&engine, late);
    let key = engine.key_ref(key.as_bytes());
    engine.locks.insert(key, LockPhase::Writing(Box::new(touch_of(manifest))));
    let floor = engine.take_version();
    engine.apply_floor_in(floor, &BTreeSet::from([late]));
    assert_eq!(engine.stats.totals.bytes_stored, 7);
}

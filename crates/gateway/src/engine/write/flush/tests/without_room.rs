//! A flush whose time has come, and which finds no place in a partition for longer than a write waits for memory.

use super::*;

/// Neither a write nor an order waits longer for a flush that is late than a write does for memory.
#[test]
fn a_late_flush_that_finds_no_place_is_waited_for_as_long_as_memory() {
    let mut engine = engine_without_room(PartitionId(1));
    let key = key_in(&engine, PartitionId(1));
    all_overdue(&mut engine);
    ask(&mut engine, format!("set {key} 0 0 1\r\n1\r\n").as_bytes());
    let is_held = |engine: &Engine| engine.locks.find(engine.key_ref(key.as_bytes())).is_some();
    assert!(is_held(&engine), "before the owner was to declare it");
    engine.advance_flushes();
    order(&mut engine, UnixMs(9_000));
    confirm_open(&mut engine);
    let begun_us = engine.now.mono_us;
    for (waited_us, is_over) in [(0, false), (STALL_US_MAX - 20_000, false), (STALL_US_MAX + 20_000, true)] {
        engine.now.mono_us = begun_us + waited_us;
        engine.advance_flushes();
        engine.run_work();
        assert_eq!(is_held(&engine), !is_over, "after {waited_us} us");
        let replies = replies(&mut engine);
        let refused = |reply: &Reply| match reply {
            // Only seals are waited for.
            Reply::Keyspace(result) => *result == Err(StoreError::Overloaded),
            Reply::Bytes(bytes) => bytes.starts_with(b"SERVER_ERROR overloaded"),
            _ => false,
        };
        assert!(replies.iter().all(refused), "{replies:?}");
        assert_eq!(replies.len(), if is_over { 2 } else { 0 }, "after {waited_us} us: {replies:?}");
    }
    assert_eq!(engine.stats.totals.stores_refused_total, 0, "there is memory");
}

/// A flush for later is late in all partitions.
fn all_overdue(engine: &mut Engine) {
    let version = engine.take_version();
    for partition in engine.all_partitions() {
        engine.inherit_flush_due(partition, version, UnixMs(5_000));
    }
    engine.now.unix_ms = UnixMs(6_000);
}

fn replies(engine: &mut Engine) -> Vec<Reply> {
    engine.run_work();
    replies_of(engine)
}

/// All that was sent is confirmed, but of stripes that take no appends.
fn confirm_open(engine: &mut Engine) {
    for _ in 0..3 {
        engine.flush_logs();
        let open: Vec<StripeSlot> = engine.logs.values().flat_map(|log| log.open.clone()).collect();
        open.into_iter().for_each(|slot| confirm_all(engine, slot));
    }
}

/// Nobody else could give writes that wait for it any memory, and the hand-over waits for them.
#[test]
fn who_lets_go_reclaims_memory_for_a_flush_that_holds_up_writes() {
    let mut engine = engine_without_room(PartitionId(1));
    all_overdue(&mut engine);
    let key = key_in(&engine, PartitionId(1));
    let mut other = engine_without_room(PartitionId(1));
    all_overdue(&mut other);
    other.let_go(other.now);
    assert!(!other.may_reclaim(), "nobody waits");
    ask(&mut engine, format!("set {key} 0 0 1\r\n1\r\n").as_bytes());
    engine.let_go(engine.now);
    assert!(engine.may_reclaim());
    engine.flushes.is_given_up = true;
    assert!(!engine.may_reclaim(), "writes are refused");
}

/// The floor that is declared late is above all that was stored meanwhile: so nothing is where there is no place for
/// it.
#[test]
fn what_is_acknowledged_after_the_time_of_a_flush_that_finds_no_place_stays() {
    let mut engine = engine_without_room(PartitionId(1));
    let keys = [0, 1].map(|of| key_in(&engine, PartitionId(of)));
    all_overdue(&mut engine);
    engine.advance_flushes();
    confirm_open(&mut engine);
    let overdue: Vec<_> = engine.flushes.due.keys().copied().collect();
    assert_eq!(overdue, [PartitionId(1)], "there is a place in the others");
    engine.now.mono_us += STALL_US_MAX + 20_000;
    engine.advance_flushes();
    let stored = keys.each_ref().map(|key| {
        ask(&mut engine, format!("set {key} 0 0 1\r\n1\r\n").as_bytes());
        confirm_open(&mut engine);
        replies(&mut engine).iter().any(is_stored)
    });
    assert_eq!(stored, [true, false]);
    ask(&mut engine, format!("delete {}\r\n", keys[1]).as_bytes());
    let deleted = replies(&mut engine);
    let is_answered = |reply: &Reply| matches!(reply, Reply::Bytes(bytes) if bytes.starts_with(b"NOT_FOUND"));
    assert!(matches!(&deleted[..], [reply] if is_answered(reply)), "what stores nothing goes on: {deleted:?}");
    let mut unsealed = engine.stripes.unsealed().iter().copied();
    let room = unsealed.find(|&slot| engine.stripes.at(slot).partition == PartitionId(1)).expect("they wait for seals");
    engine.logs.get_mut(&PartitionId(1)).expect("its log").open.push(room);
    for _ in 0..3 {
        engine.advance_flushes();
        confirm_open(&mut engine);
    }
    assert!(!engine.is_flush_overdue() && !engine.flushes.is_given_up);
    let is_there = |key: &String| {
        let key = engine.key_ref(key.as_bytes());
        engine.index.candidates(key.slot, key.tag()).next().is_some()
    };
    assert_eq!(keys.each_ref().map(is_there), stored);
}

/// Whether it is for now or for later: it is told nothing of memory, either.
#[test]
fn a_flush_waits_for_seals_as_a_write_does() {
    for at in [None, Some(UnixMs(9_000))] {
        let mut engine = engine_without_room(PartitionId(1));
        let token = Token { connection: 1, id: RequestId { seq: 1, part: 0 } };
        engine.take_request(engine.now, token, Request::Keyspace(KeyspaceRequest::flush(at)));
        engine.now.mono_us += STALL_US_MAX - 20_000;
        engine.advance_flushes();
        assert!(replies(&mut engine).is_empty(), "{at:?}: it waits");
        engine.now.mono_us += 40_000;
        engine.advance_flushes();
        let [Reply::Keyspace(answer)] = &replies(&mut engine)[..] else { panic!("{at:?}: one answer") };
        assert_eq!(*answer, Err(StoreError::Overloaded), "{at:?}");
        assert!(engine.flushes.held_orders.is_empty() && engine.flushes.postponed.is_empty());
    }
}

#[test]
fn a_flush_for_later_is_declared_once_there_is_a_place() {
    let mut engine = engine_without_room(PartitionId(1));
    order(&mut engine, UnixMs(9_000));
    assert!(!engine.is_ordering() && replies(&mut engine).is_empty(), "it waits");
    let mut unsealed = engine.stripes.unsealed().iter().copied();
    let room = unsealed.find(|&slot| engine.stripes.at(slot).partition == PartitionId(1)).expect("they wait for seals");
    engine.logs.get_mut(&PartitionId(1)).expect("its log").open.push(room);
    pass(&mut engine);
    assert!(engine.is_ordering() && engine.flushes.held_orders.is_empty());
}

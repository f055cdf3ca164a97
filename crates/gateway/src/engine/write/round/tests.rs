//! Reads that wait for a write of their key: how much of a large value is answered at once, and what is shown of a key
//! that nothing may change. What a round leaves behind.

use shorttail_store::record::records;
use shorttail_units::{CodeShape, Epoch, NodeId, PartitionId, StripeId};

use super::*;
use crate::command::Attributes;
use crate::engine::state::stripes::Stripe;
use crate::engine::state::testing::{
    ask, ask_as, confirm_in_doubt, confirm_seals, engine_of_ready_nodes, leave_stripe, replies_of,
};
use crate::limits::LARGE_BYTES_MAX;
use crate::memcached::MemcachedSession;
use crate::request::{Reply, Request, RequestId};
use crate::session::{Session, Settings, Shared};

const VALUE_BYTES: usize = 1 << 20;

/// What a session asks for when it is given this input, or this reply.
type Asked = Vec<(RequestId, BoxCommand)>;

fn sink(asked: &mut Asked) -> impl FnMut(RequestId, Request<crate::memcached::MemcachedCommand>) {
    |id, request| {
        if let Request::Key(command) = request {
            asked.push((id, Box::new(command) as BoxCommand));
        }
    }
}

/// The commands wait for their key, and its value is there: what leaves at once, and whether somebody still waits.
fn answered(asked: Asked) -> (Vec<(RequestId, Reply)>, bool) {
    let (mut engine, lock) = combined(asked);
    let now = engine.now;
    let replies = std::iter::from_fn(|| engine.poll_reply(now)).map(|(token, reply)| (token.id, reply)).collect();
    (replies, engine.locks.get(lock).is_some_and(|lock| !lock.queue.is_empty()))
}

/// After the first round of them.
fn combined(asked: Asked) -> (Engine, PoolKey) {
    let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
    engine.ownership.outstanding_count = asked.len();
    let key = asked[0].1.key().to_vec();
    let lock = engine.locks.insert(engine.key_ref(&key), LockPhase::Looking);
    let waiting = asked.into_iter().map(|(id, command)| Waiting::Command(Token { connection: 1, id }, command));
    engine.locks.get_mut(lock).expect("just inserted").queue.extend(waiting);
    let object = Object {
        data: ObjectData::Inline(vec![b'x'; VALUE_BYTES]),
        flags: 0,
        expiry: None,
        cas: 1,
        attributes: Attributes::default(),
        fetched: false,
        idle_s: 0,
    };
    engine.round_current(lock, Some(object), Old::Absent);
    (engine, lock)
}

#[test]
fn a_connection_that_does_not_read_gets_no_more_than_it_may_have_under_way() {
    let mut shared = Shared::new(Settings::default());
    let mut session = MemcachedSession::default();
    let mut asked = Asked::new();
    session.handle_input(Default::default(), &mut shared, &b"get a\r\n".repeat(100), &mut sink(&mut asked));
    assert_eq!(asked.len(), 100);
    // The first was asked while nothing else was under way.
    let (replies, someone_waits) = answered(std::mem::take(&mut asked));
    let is_large = |(_, reply): &&(RequestId, Reply)| matches!(reply, Reply::Large { value_bytes: VALUE_BYTES, .. });
    assert_eq!((replies.iter().filter(is_large).count(), replies.len(), someone_waits), (99, 100, false));
    for (id, reply) in replies {
        session.handle_reply(Default::default(), &mut shared, id, reply, &mut sink(&mut asked));
    }
    assert!((1..=LARGE_BYTES_MAX / VALUE_BYTES).contains(&asked.len()), "{} are asked again", asked.len());
    // Now they take it: a few in a turn, the others in one of the next.
    let (replies, someone_waits) = answered(std::mem::take(&mut asked));
    assert!(replies.iter().all(|(_, reply)| matches!(reply, Reply::Bytes(bytes) if bytes.len() > VALUE_BYTES)));
    assert_eq!((replies.len(), someone_waits), (COMBINE_BYTES_MAX / VALUE_BYTES, true));
}

/// Each is copied: together they would hold up everything else for as long as that takes.
#[test]
fn a_few_in_a_turn_make_a_large_value_of_another_or_store_one() {
    let set = [&b"set a 0 0 1048576\r\n"[..], &[b'y'; VALUE_BYTES], b"\r\n"].concat();
    let lines = [(&b"append a 0 0 1\r\nx\r\n"[..], 1), (b"prepend a 0 0 1\r\nx\r\n", 1), (&set, 8)];
    for (line, times) in lines {
        let settings = Settings { value_bytes_max: 2 * VALUE_BYTES, ..Settings::default() };
        let asked_once = || {
            let mut asked = Asked::new();
            let (mut session, mut shared) = (MemcachedSession::default(), Shared::new(settings.clone()));
            session.handle_input(Default::default(), &mut shared, line, &mut sink(&mut asked));
            asked.pop().expect("it is asked")
        };
        let (engine, lock) = combined((0..100).map(|_| asked_once()).collect());
        let lock = engine.locks.get(lock).expect("a round");
        assert_eq!(lock.queue.len(), 100 - times * COMBINE_BYTES_MAX / VALUE_BYTES);
    }
}

/// The index names a record, which may be of this key, in a stripe that was sealed.
fn name_a_record(engine: &mut Engine, key: &[u8]) {
    let members = (0..engine.config.member_count() as u16).map(NodeId).collect();
    let fills = vec![0; engine.config.data_count()].into();
    let stripe = Stripe::inherited(StripeId::new(Epoch(1), 1), PartitionId(0), members, fills);
    let slot = engine.stripes.insert(stripe);
    let (location, key) = (engine.stripes.location(slot, 0, 0), engine.key_ref(key));
    engine.index.insert(key.slot, key.tag(), location);
}

/// The kinds of the records in stripes that take appends.
fn written(engine: &Engine) -> Vec<RecordKind> {
    let mut kinds = Vec::new();
    for stripe in engine.stripes.unsealed().iter().map(|&slot| engine.stripes.at(slot)) {
        let open = stripe.bytes();
        for data_index in 0..engine.config.data_count() {
            kinds.extend(records(open.chunk(data_index), stripe.id).map(|(_, record, _)| record.kind));
        }
    }
    kinds
}

/// Nothing is there for this owner; a later one may find what was written with an unknown outcome.
#[test]
fn what_is_stored_and_removed_at_once_leaves_a_trace_where_something_may_come_back() {
    for (is_compared, may_come_back) in [(false, true), (false, false), (true, true), (true, false)] {
        let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
        let lock = engine.locks.insert(engine.key_ref(b"a"), LockPhase::Held);
        if may_come_back {
            leave_stripe(&mut engine, b"a");
            let key = engine.key_ref(b"a").hashed;
            engine.note_unsettled(key);
        }
        if is_compared {
            name_a_record(&mut engine, b"a");
        }
        ask(&mut engine, b"set a 0 0 1\r\n1\r\ndelete a\r\n");
        engine.start(lock);
        if is_compared {
            let version = engine.round_mut(lock).expect("it waits").version;
            engine.round_verified(lock, version, Old::Absent);
        }
        let expected = if may_come_back { vec![RecordKind::Tombstone] } else { Vec::new() };
        assert_eq!(written(&engine), expected, "compared: {is_compared}");
    }
}

/// Whether it replaced the record that cannot be read is not known; what it wrote is.
#[test]
fn who_waits_to_read_a_key_that_nothing_may_change_sees_what_was_written() {
    let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
    name_a_record(&mut engine, b"a");
    ask(&mut engine, b"set a 0 0 1\r\n1\r\n");
    let lock = engine.locks.find(engine.key_ref(b"a")).expect("a round");
    for waiting in [&b"get a\r\n"[..], b"set a 0 0 1\r\n2\r\n", b"get a\r\n"] {
        ask(&mut engine, waiting);
    }
    confirm_in_doubt(&mut engine, lock);
    let mut told = replies_of(&mut engine);
    let count = |word: &[u8]| {
        let has_word = |reply: &Reply| matches!(reply, Reply::Bytes(bytes) if bytes.starts_with(word));
        told.extract_if(.., |reply| has_word(reply)).count()
    };
    assert_eq!([&b"STORED"[..], b"VALUE a 0 1\r\n1", b"SERVER_ERROR"].map(count), [1, 2, 1]);
    assert!(told.is_empty() && engine.locks.get(lock).is_some_and(Lock::is_doubtful), "{told:?}");
}

/// What it might have replaced is gone: there is nothing left to compare.
#[test]
fn a_flush_lets_keys_change_of_which_something_could_not_be_compared() {
    let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
    name_a_record(&mut engine, b"a");
    ask(&mut engine, b"set a 0 0 1\r\n1\r\n");
    let lock = engine.locks.find(engine.key_ref(b"a")).expect("a round");
    confirm_in_doubt(&mut engine, lock);
    assert!(engine.locks.get(lock).is_some_and(Lock::is_doubtful));
    let floor = engine.take_version();
    engine.apply_floor(floor);
    assert!(engine.locks.find(engine.key_ref(b"a")).is_none(), "nothing keeps it");
}

/// Everybody's first words, once all that was sent is there.
fn told_in_the_end(engine: &mut Engine) -> Vec<String> {
    let mut told = Vec::new();
    for _ in 0..20 {
        confirm_seals(engine);
        told.extend(replies_of(engine).into_iter().map(|reply| match reply {
            Reply::Bytes(bytes) => String::from_utf8_lossy(&bytes).split_whitespace().next().unwrap_or("").to_owned(),
            other => panic!("{other:?}"),
        }));
    }
    told
}

/// Each of many clients asks for the same.
#[test]
fn who_reads_a_key_that_is_written_waits_with_however_many() {
    let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
    ask_as(&mut engine, 1, b"set hot 0 0 1\r\n1\r\n");
    (2..9_002).for_each(|connection| ask_as(&mut engine, connection, b"get hot\r\n"));
    let told = told_in_the_end(&mut engine);
    assert_eq!(told[0], "STORED");
    assert_eq!(told.iter().filter(|word| *word == "VALUE").count(), 9_000);
}

#[test]
fn who_changes_a_key_waits_with_all_that_many_clients_pipeline() {
    let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
    ask_as(&mut engine, 1, b"set hot 0 0 1\r\n0\r\n");
    (2..42).for_each(|connection| ask_as(&mut engine, connection, "incr hot 1\r\n".repeat(256).as_bytes()));
    let told = told_in_the_end(&mut engine);
    assert_eq!(told.last().map(String::as_str), Some("10240"));
    assert_eq!(told.len(), 1 + 10_240);
}

/// What clients hear, each of one line, that wait for a key which is `old`, after `happens` to their first round. In
/// the order of lines.
fn told_of(old: &str, lines: &[&str], happens: fn(&mut Engine, PoolKey)) -> Vec<String> {
    let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
    ask_as(&mut engine, 1, old.as_bytes());
    told_in_the_end(&mut engine);
    let lock = engine.locks.insert(engine.key_ref(b"a"), LockPhase::Held);
    (100..).zip(lines).for_each(|(connection, line)| ask_as(&mut engine, connection, line.as_bytes()));
    happens(&mut engine, lock);
    let mut told = vec![String::new(); lines.len()];
    for _ in 0..20 {
        confirm_seals(&mut engine);
        let now = engine.now;
        for (token, reply) in std::iter::from_fn(|| engine.poll_reply(now)) {
            let Reply::Bytes(bytes) = reply else { panic!("{reply:?}") };
            told[(token.connection - 100) as usize] = String::from_utf8_lossy(&bytes).into_owned();
        }
    }
    told
}

#[test]
fn who_asked_for_less_than_what_failed_is_not_refused_with_it() {
    const OLD: &str = "set a 0 0 1\r\n1\r\n";
    const SET: &str = "set a 0 0 1\r\n5\r\n";
    const GET: &str = "get a\r\n";
    const INCR: &str = "incr a 1\r\n";
    const DELETE: &str = "delete a\r\n";
    const FULL: &str = "SERVER_ERROR out of memory";
    const THERE: &str = "VALUE a 0 1\r\n1\r\nEND\r\n";
    let full = |engine: &mut Engine, lock| {
        engine.start(lock);
        engine.fail_round(lock, StoreError::OutOfMemory);
    };
    for (lines, expected) in [
        (&[INCR, GET, INCR, GET][..], &[FULL, THERE, FULL, THERE][..]),
        (&[DELETE, SET, GET], &["DELETED", FULL, "END"]),
        (&[SET, DELETE, GET], &[FULL, FULL, THERE]),
    ] {
        let told = told_of(OLD, lines, full);
        let is_expected = told.iter().zip(expected).all(|(told, expected)| told.starts_with(expected));
        assert!(is_expected, "{lines:?}: {told:?}");
    }
    let unknown = |engine: &mut Engine, lock| {
        engine.start(lock);
        engine.fail_round(lock, StoreError::OutcomeUnknown);
    };
    let told = told_of(OLD, &[INCR, GET], unknown);
    assert!(told.iter().all(|told| told.starts_with("SERVER_ERROR")), "it may have happened: {told:?}");
}

#[test]
fn what_stands_before_cannot_be_read_and_is_replaced_all_the_same() {
    let told = told_of(
        "set a 0 0 1\r\n1\r\n",
        &["incr a 1\r\n", "get a\r\n", "set a 0 0 1\r\n5\r\n", "incr a 1\r\n"],
        |engine, lock| {
            engine.locks.get_mut(lock).expect("a lock").phase = LockPhase::Looking;
            engine.round_unreadable(lock);
        },
    );
    assert!(told[0].starts_with("SERVER_ERROR") && told[1].starts_with("SERVER_ERROR"), "{told:?}");
    assert!(told[2].starts_with("STORED\r\n") && told[3].starts_with("6\r\n"), "{told:?}");
}

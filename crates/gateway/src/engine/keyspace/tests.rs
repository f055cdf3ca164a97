//! What is over, in answers about all keys.

use shorttail_units::{CodeShape, Now, UnixMs};

use super::*;
use crate::any::AnyCommand;
use crate::engine::testing::engine_of_ready_nodes;
use crate::memcached::{MemcachedCommand, MemcachedSession};
use crate::request::{Request, RequestId};
use crate::session::{Session, Settings, Shared};

fn engine() -> Engine<AnyCommand> {
    engine_of_ready_nodes(CodeShape::default(), 8)
}

/// Stores these, durably.
fn store(engine: &mut Engine<AnyCommand>, text: &str) {
    let (mut shared, mut session) = (Shared::new(Settings::default()), MemcachedSession::default());
    let mut asked = Vec::new();
    let mut sink = |id, request: Request<MemcachedCommand>| asked.push((id, request.map(AnyCommand::Memcached)));
    session.handle_input(engine.now, &mut shared, text.as_bytes(), &mut sink);
    for (id, request) in asked {
        engine.handle_request(engine.now, Token { connection: 1, id }, request);
    }
    engine.flush_logs();
    for slot in engine.stripes.unsealed().to_vec() {
        let stripe = engine.stripes.at(slot);
        let (id, members) = (stripe.id, stripe.members.clone());
        let last = stripe.open.as_ref().expect("its bytes").last_op();
        for &node in members.iter() {
            engine.stripe_opened(node, id);
            engine.acknowledged(node, id, last);
        }
    }
    engine.run_work();
    while let Some((_, reply)) = engine.poll_reply(engine.now) {
        assert!(matches!(&reply, Reply::Bytes(bytes) if bytes.starts_with(b"STORED")), "{reply:?}");
    }
}

fn ask(engine: &mut Engine<AnyCommand>, request: KeyspaceRequest) -> Option<KeyspaceReply> {
    let token = Token { connection: 2, id: RequestId { seq: 1, part: 0 } };
    engine.handle_request(engine.now, token, Request::Keyspace(request));
    answer(engine)
}

fn answer(engine: &mut Engine<AnyCommand>) -> Option<KeyspaceReply> {
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

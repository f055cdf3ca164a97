//! Reads of a large value that wait for a write of its key: how much of it is answered at once.

use shorttail_units::CodeShape;

use super::*;
use crate::any::AnyCommand;
use crate::command::Attributes;
use crate::engine::testing::engine_of_ready_nodes;
use crate::limits::LARGE_BYTES_MAX;
use crate::memcached::MemcachedSession;
use crate::request::{Reply, Request, RequestId};
use crate::session::{Session, Settings, Shared};

const VALUE_BYTES: usize = 1 << 20;

/// What a session asks for when it is given this input, or this reply.
type Asked = Vec<(RequestId, AnyCommand)>;

fn sink(asked: &mut Asked) -> impl FnMut(RequestId, Request<crate::memcached::MemcachedCommand>) {
    |id, request| {
        if let Request::Key(command) = request {
            asked.push((id, command.into()));
        }
    }
}

/// The commands wait for their key, and its value is there: what leaves at once, and whether somebody still waits.
fn answered(asked: Asked) -> (Vec<(RequestId, Reply)>, bool) {
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
    let now = engine.now;
    let replies = std::iter::from_fn(|| engine.poll_reply(now)).map(|(token, reply)| (token.id, reply)).collect();
    (replies, engine.locks.get(lock).is_some_and(|lock| !lock.queue.is_empty()))
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
    assert_eq!((replies.len(), someone_waits), (COMBINE_REPLY_BYTES_MAX / VALUE_BYTES, true));
}

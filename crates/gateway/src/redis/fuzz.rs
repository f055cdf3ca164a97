//! A whole connection against the map engine, fed with any bytes: for fuzzers and for tests.

use shorttail_units::{Now, UnixMs};

use super::{KeyCommand, RedisSession};
use crate::mapstore::MapStore;
use crate::request::{Reply, Request, RequestId};
use crate::session::{Session, Settings, Shared};

/// Runs one connection. The first byte chooses the size of the pieces in which the rest arrives, and whether replies
/// complete in reverse order; limits are small so that they are met.
///
/// # Panics
/// If the session breaks a promise: it must not panic itself, must not consume what it was not given, and must come to
/// rest with every request answered.
pub fn fuzz_session(data: &[u8]) {
    let Some((&choice, stream)) = data.split_first() else { return };
    let piece_bytes = usize::from(choice >> 1).max(1);
    let settings = Settings { value_bytes_max: 4096, key_bytes_max: 64, ..Settings::default() };
    let mut shared = Shared::new(settings);
    let mut now = Now { mono_us: 1, unix_ms: UnixMs(1_700_000_000_000) };
    let mut session = RedisSession::new(String::new(), String::new(), now, &shared);
    let mut store = MapStore::default();
    let mut buffer = Vec::new();
    for piece in stream.chunks(piece_bytes) {
        buffer.extend_from_slice(piece);
        now.mono_us += 1_000;
        now.unix_ms = now.unix_ms.plus_ms(1);
        loop {
            let mut asked: Vec<(RequestId, Request<KeyCommand>)> = Vec::new();
            let mut sink = |id, request| asked.push((id, request));
            let consumed = session.handle_input(now, &mut shared, &buffer, &mut sink);
            assert!(consumed <= buffer.len(), "consumed more than there was");
            buffer.drain(..consumed);
            let progressed = consumed > 0 || !asked.is_empty();
            answer(&mut session, &mut store, now, &mut shared, asked, choice & 1 == 1);
            session.output().clear();
            if !progressed {
                break;
            }
        }
        assert!(session.wants_input() || session.closing(), "nothing else is to come");
    }
    assert!(session.is_at_rest(), "every request is answered");
    if session.closing() {
        assert!(buffer.is_empty(), "a closing session swallows its input");
    }
}

fn answer(
    session: &mut RedisSession,
    store: &mut MapStore,
    now: Now,
    shared: &mut Shared,
    mut asked: Vec<(RequestId, Request<KeyCommand>)>,
    reverse: bool,
) {
    while !asked.is_empty() {
        let mut replies: Vec<(RequestId, Reply)> =
            asked.drain(..).map(|(id, request)| (id, store.handle(now, request))).collect();
        if reverse {
            replies.reverse();
        }
        for (id, reply) in replies {
            let mut sink = |id, request| asked.push((id, request));
            session.handle_reply(now, shared, id, reply, &mut sink);
        }
        // Nothing that waits for the client's reading may keep the engine's answers from going on.
        session.output().clear();
    }
}

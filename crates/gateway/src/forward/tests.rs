//! Requests of real sessions survive the way, and what would break a command is refused.

use shorttail_units::{Now, UnixMs};
use shorttail_wire::gateway::next_frame;

use super::*;
use crate::mapstore::MapStore;
use crate::memcached::MemcachedSession;
use crate::redis::RedisSession;
use crate::request::{GroupPut, KeyspaceReply, RequestId, ScannedKey, StoreStats};
use crate::session::{Session, Settings, Shared};

const NOW: Now = Now { mono_us: 1, unix_ms: UnixMs(1_700_000_000_000) };

fn carried(ask: &Ask) -> Ask {
    let mut frame_bytes = Vec::new();
    ask.put(&mut frame_bytes, 7);
    let (frame, taken) = next_frame(&frame_bytes).expect("well-formed").expect("whole");
    assert_eq!((frame.tag, frame.kind, taken), (7, Kind::Ask, frame_bytes.len()));
    Ask::parse(frame.body).expect("what was put")
}

/// What a session answers when every request is done here, and when every request makes the way.
fn answers(mut session: impl Session<Command: Into<AnyCommand>>, input: &[u8], travels: bool) -> Vec<u8> {
    let mut shared = Shared::new(Settings::default());
    let (mut store, mut at) = (MapStore::default(), 0);
    let mut output = Vec::new();
    loop {
        let mut asked: Vec<(RequestId, Request<AnyCommand>)> = Vec::new();
        let mut sink = |id, request: Request<_>| asked.push((id, request.map(Into::into)));
        let consumed = session.handle_input(NOW, &mut shared, &input[at..], &mut sink);
        at += consumed;
        let is_done = consumed == 0 && asked.is_empty();
        while !asked.is_empty() {
            for (id, request) in std::mem::take(&mut asked) {
                // Only parts of what is about all keys make the way.
                let request = match request {
                    Request::Keyspace(whole) => Request::Keyspace(whole.part(&[3])),
                    other => other,
                };
                let ask = Ask { partition: 3, epoch: 0, request };
                let ask = if travels { carried(&ask) } else { ask };
                let reply = store.handle(NOW, ask.request);
                let reply = if travels { carried_reply(&reply) } else { reply };
                let mut sink = |id, request: Request<_>| asked.push((id, request.map(Into::into)));
                session.handle_reply(NOW, &mut shared, id, reply, &mut sink);
            }
        }
        output.append(session.output());
        if is_done {
            return output;
        }
    }
}

fn carried_reply(reply: &Reply) -> Reply {
    let mut frame_bytes = Vec::new();
    put_reply(&mut frame_bytes, 1, reply);
    let (frame, _) = next_frame(&frame_bytes).expect("well-formed").expect("whole");
    parse_reply(frame.body).expect("what was put")
}

#[test]
fn memcached_commands_do_the_same_after_the_way() {
    let long_key = "k".repeat(200);
    let input = format!(
        "set a 5 0 3\r\nabc\r\nadd a 0 0 1\r\nx\r\nappend a 0 0 2\r\nde\r\ngets a\r\nset n 0 60 1\r\n9\r\nincr n 5\r\n\
         decr n 1\r\ntouch a 100\r\ngat 50 a\r\nmg a v t c k f O123\r\nms b 2 T0 F7 c\r\nhi\r\nma n D3 v\r\nmd a I T30\r\n\
         mg a v c\r\nme n\r\ndelete b\r\ncas n 0 0 1 77\r\n1\r\nset {long_key} 0 0 1\r\nz\r\nget {long_key} a b n\r\nstats\r\n"
    );
    let here = answers(MemcachedSession::default(), input.as_bytes(), false);
    let there = answers(MemcachedSession::default(), input.as_bytes(), true);
    assert!(here.len() > 300, "{}", here.escape_ascii());
    assert_eq!(here.escape_ascii().to_string(), there.escape_ascii().to_string());
}

#[test]
fn redis_commands_do_the_same_after_the_way() {
    let input = b"SET a 1 EX 100\r\nSET a 2 KEEPTTL GET\r\nGETEX a PERSIST\r\nINCR a\r\nINCRBYFLOAT a 0.5\r\nAPPEND a xyz\r\n\
        SETRANGE a 2 q\r\nGETRANGE a 0 -1\r\nSTRLEN a\r\nEXPIRE a 100 NX\r\nPTTL a\r\nTTL a\r\nPERSIST a\r\nTYPE a\r\n\
        OBJECT ENCODING a\r\nMEMORY USAGE a\r\nMSET b 1 c 2\r\nMSETNX {x}b 1 {x}c 2\r\nMGET a b c d\r\nGETDEL b\r\nEXISTS a b\r\n\
        DEL a c\r\nDBSIZE\r\nSCAN 0\r\nKEYS *\r\nRANDOMKEY\r\nFLUSHALL\r\nDBSIZE\r\n";
    let session = || {
        let shared = Shared::new(Settings::default());
        RedisSession::new(String::new(), String::new(), NOW, &shared)
    };
    let here = answers(session(), input, false);
    assert!(here.len() > 200, "{}", here.escape_ascii());
    assert_eq!(here.escape_ascii().to_string(), answers(session(), input, true).escape_ascii().to_string());
}

#[test]
fn replies_of_every_kind_survive() {
    let key = ScannedKey { key: b"k".to_vec(), value_bytes: 5, expiry: Some(UnixMs(9)) };
    let stats = StoreStats { bytes_used: 4, nodes_total: 8, ..StoreStats::default() };
    let replies = [
        Reply::Bytes(vec![0; 70_000]),
        Reply::Group(Err(StoreError::TooFewNodes { alive: 3, needed: 6 })),
        Reply::Keyspace(Ok(KeyspaceReply::Scanned { next: u64::MAX, keys: vec![key] })),
        Reply::Keyspace(Ok(KeyspaceReply::Stats(Box::new(stats)))),
        Reply::Keyspace(Err(StoreError::OutcomeUnknown)),
    ];
    for reply in replies {
        assert_eq!(carried_reply(&reply), reply);
    }
}

#[test]
fn what_was_not_done_is_refused_in_its_own_words() {
    let group = GroupPut { pairs: vec![(b"a".to_vec(), b"b".to_vec())], only_if_absent: true };
    let ask = Ask { partition: 0, epoch: 0, request: Request::Group(group) };
    assert!(ask.is_write());
    assert_eq!(ask.refusal(StoreError::NotOwner), Reply::Group(Err(StoreError::NotOwner)));
    let flush = Ask { partition: 0, epoch: 5, request: Request::Keyspace(KeyspaceRequest::flush(None)) };
    assert!(flush.is_write());
    let count = Ask { partition: 0, epoch: 5, request: Request::Keyspace(KeyspaceRequest::Count) };
    assert!(!count.is_write());
}

#[test]
fn a_flush_names_its_partitions() {
    let parse = |count: usize| {
        let mut frame_bytes = Vec::new();
        let flush = KeyspaceRequest::Flush { at: None, of: vec![3; count] };
        Ask { partition: 3, epoch: 5, request: Request::Keyspace(flush) }.put(&mut frame_bytes, 1);
        let (frame, _) = next_frame(&frame_bytes).expect("well-formed").expect("whole");
        Ask::parse(frame.body).map(drop)
    };
    for (count, expected) in
        [(0, Err(FrameError::Body)), (1, Ok(())), (SLOT_COUNT, Ok(())), (SLOT_COUNT + 1, Err(FrameError::Body))]
    {
        assert_eq!(parse(count), expected, "{count}");
    }
}

#[test]
fn what_nests_is_refused_however_deeply() {
    let parse = |request: &[u8]| Ask::parse(&[&[0, 0, 2], request].concat()).map(|ask| ask.request);
    // The number that one of what this gateway has alone would have, were it to travel.
    assert_eq!(parse(&[6]).ok().map(|it| format!("{it:?}")), Some("Keyspace(Stats)".to_owned()));
    for depth in [0, 1, 1 << 20] {
        let nested = [vec![7; depth], vec![6]].concat();
        let is_refused = matches!(parse(&nested), Err(FrameError::Body));
        assert_eq!(is_refused, depth > 0, "{depth}");
    }
    assert!(matches!(parse(&vec![7; 1 << 20]), Err(FrameError::Body)));
}

#[test]
fn a_key_beyond_all_limits_is_refused() {
    let group = |bytes| GroupPut { pairs: vec![(vec![0; bytes], Vec::new())], only_if_absent: false };
    let parse = |bytes| {
        let mut frame_bytes = Vec::new();
        Ask { partition: 0, epoch: 0, request: Request::Group(group(bytes)) }.put(&mut frame_bytes, 1);
        let (frame, _) = next_frame(&frame_bytes).expect("well-formed").expect("whole");
        Ask::parse(frame.body).map(drop)
    };
    assert_eq!(parse(KEY_BYTES_MAX), Ok(()));
    assert_eq!(parse(KEY_BYTES_MAX + 1), Err(FrameError::Body));
}

#[test]
fn a_group_of_nothing_is_refused() {
    let group = GroupPut { pairs: Vec::new(), only_if_absent: false };
    let mut frame_bytes = Vec::new();
    Ask { partition: 0, epoch: 0, request: Request::Group(group) }.put(&mut frame_bytes, 1);
    let (frame, _) = next_frame(&frame_bytes).expect("well-formed").expect("whole");
    assert_eq!(Ask::parse(frame.body).map(drop), Err(FrameError::Body));
}

#[test]
fn no_byte_makes_a_command_panic() {
    let input = b"mg a v t c k f O123\r\nms b 2 T0 F7 c\r\nhi\r\nset n 0 60 1\r\n9\r\n";
    let mut session = MemcachedSession::default();
    let mut shared = Shared::new(Settings::default());
    let mut frames = Vec::new();
    let mut at = 0;
    while at < input.len() {
        let mut sink = |_, request: Request<_>| {
            let mut frame_bytes = vec![2];
            Ask { partition: 1, epoch: 0, request: request.map(AnyCommand::Memcached) }.put(&mut frame_bytes, 0);
            frames.push(frame_bytes);
        };
        at += session.handle_input(NOW, &mut shared, &input[at..], &mut sink);
    }
    assert_eq!(frames.len(), 3);
    for mut frame in frames {
        frame.drain(1..=shorttail_wire::gateway::HEADER_BYTES);
        for place in 1..frame.len() {
            for value in [0, 1, 127, 128, 255] {
                let mut changed = frame.clone();
                changed[place] = value;
                fuzz_frames(&changed);
                fuzz_frames(&changed[..place]);
            }
        }
    }
}

#[test]
fn a_lookup_is_issued_again_only_by_its_own_line() {
    let mut session = MemcachedSession::default();
    let mut asked = Vec::new();
    let mut sink = |_, request: Request<_>| asked.push(request.map(AnyCommand::Memcached));
    let mut shared = Shared::new(Settings::default());
    for line in [b"mg key v c\r\n".as_slice(), b"get key\r\n"] {
        assert_eq!(session.handle_input(NOW, &mut shared, line, &mut sink), line.len());
    }
    let of = |request| Ask { partition: 0, epoch: 0, request };
    let (get, lookup) = (of(asked.pop().expect("get")), of(asked.pop().expect("mg")));
    // Nothing, and the tally of a refusal, that of a lookup that is to be issued again, and one that is none.
    let (refused, again, none) = (17, 18, 19);
    let bytes = |line: &[u8], tally: u8| Reply::Bytes([line, &[tally]].concat());
    assert!(lookup.is_answered_by(&bytes(b"mg key v c\r\n", again)), "its own line");
    assert!(lookup.is_answered_by(&bytes(b"EN\r\n", 2)) && get.is_answered_by(&bytes(b"", refused)));
    for line in [b"".as_slice(), b"mg key v\r\n", b"mg other v c\r\n", b"get key\r\n"] {
        assert!(!lookup.is_answered_by(&bytes(line, again)), "{line:?}");
    }
    assert!(!get.is_answered_by(&bytes(b"mg key v c\r\n", again)), "a get is done at once");
    assert!(!get.is_answered_by(&Reply::Bytes(Vec::new())) && !get.is_answered_by(&bytes(b"END\r\n", none)));
    assert!(!get.is_answered_by(&Reply::Group(Ok(true))), "of another kind");
}

#[test]
fn a_read_of_a_large_value_comes_back_as_it_was() {
    let mut session = MemcachedSession::default();
    let mut asked = Vec::new();
    let mut sink = |_, request: Request<_>| asked.push(request.map(AnyCommand::Memcached));
    let line = b"get first second third\r\n";
    session.handle_input(NOW, &mut Shared::new(Settings::default()), line, &mut sink);
    let asks: Vec<_> = asked.into_iter().map(|request| Ask { partition: 0, epoch: 0, request }).collect();
    let deferred = |ask: &Ask| match &ask.request {
        Request::Key(command) => command.deferred(),
        _ => None,
    };
    assert_eq!(deferred(&asks[0]), None, "alone it takes any value");
    let large = |ask: &Ask| Reply::Large { value_bytes: 70_000, command: deferred(ask).expect("behind another") };
    let reply = large(&asks[1]);
    assert!(asks[1].is_answered_by(&carried_reply(&reply)));
    assert!(!asks[0].is_answered_by(&reply) && !asks[2].is_answered_by(&reply), "another one");
    assert!(!asks[1].is_answered_by(&Reply::Large { value_bytes: 70_000, command: Vec::new() }));
}

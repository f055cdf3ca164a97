//! Requests and replies of both protocols, byte for byte and cut at every byte.

use super::*;

const MEMCACHED: Codec = Codec { protocol: Protocol::Memcached, wait_replicas: None };
const REDIS: Codec = Codec { protocol: Protocol::Redis, wait_replicas: None };
const REDIS_WAIT: Codec = Codec { protocol: Protocol::Redis, wait_replicas: Some(2) };

fn written(write: impl Fn(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).expect("ascii")
}

/// Parses `input`, after checking that no cut of it is taken for a reply. Values come as text.
fn parsed(codec: Codec, expect: Expect, input: &str) -> Result<(Reply, Vec<Option<String>>), ProtocolError> {
    let mut found = Found::default();
    let followed = format!("{input}+more");
    for cut in 0..input.len() {
        assert_eq!(codec.parse(expect, &input.as_bytes()[..cut], &mut found).map(|reply| reply.is_none()), Ok(true));
    }
    let (reply, length) = codec.parse(expect, followed.as_bytes(), &mut found)?.expect("whole");
    assert_eq!(length, input.len());
    let text = |range: &Range<usize>| followed[range.clone()].to_owned();
    Ok((reply, found.values.iter().map(|one| one.value.as_ref().map(text)).collect()))
}

fn head(value_bytes: usize, ttl_seconds: u32) -> SetHead<'static> {
    SetHead { key: b"a", value_bytes, ttl_seconds }
}

fn refused(codec: Codec, expect: Expect, input: &str) -> ProtocolError {
    codec.parse(expect, input.as_bytes(), &mut Found::default()).expect_err("no reply of this protocol")
}

#[test]
fn requests_are_those_of_the_protocol_documents() {
    assert_eq!(written(|out| MEMCACHED.write_get(&[b"a", b"bc"], out)), "get a bc\r\n");
    assert_eq!(written(|out| MEMCACHED.write_set(head(3, 0), |out| out.extend(b"xyz"), out)), "set a 0 0 3\r\nxyz\r\n");
    assert_eq!(written(|out| MEMCACHED.write_set(head(1, 60), |out| out.extend(b"x"), out)), "set a 0 60 1\r\nx\r\n");
    let expiring = "*5\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nx\r\n$2\r\nEX\r\n$2\r\n60\r\n";
    assert_eq!(written(|out| REDIS.write_set(head(1, 60), |out| out.extend(b"x"), out)), expiring);
    assert_eq!(written(|out| MEMCACHED.write_delete(b"a", out)), "delete a\r\n");
    assert_eq!(written(|out| REDIS.write_get(&[b"a"], out)), "*2\r\n$3\r\nGET\r\n$1\r\na\r\n");
    assert_eq!(written(|out| REDIS.write_get(&[b"a", b"b"], out)), "*3\r\n$4\r\nMGET\r\n$1\r\na\r\n$1\r\nb\r\n");
    let set = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\nxy\r\n*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n$1\r\n0\r\n";
    assert_eq!(written(|out| REDIS_WAIT.write_set(head(2, 0), |out| out.extend(b"xy"), out)), set);
}

#[test]
fn memcached_replies() {
    let values = Expect::Values { keys: 2 };
    assert_eq!(parsed(MEMCACHED, values, "END\r\n"), Ok((Reply::Values, vec![])));
    let two = "VALUE a 0 3\r\nEND\r\nVALUE b 0 0\r\n\r\nEND\r\n";
    let both = vec![Some("END".to_owned()), Some(String::new())];
    assert_eq!(parsed(MEMCACHED, values, two), Ok((Reply::Values, both)));
    assert_eq!(parsed(MEMCACHED, Expect::Stored, "STORED\r\n"), Ok((Reply::Stored, vec![])));
    assert_eq!(parsed(MEMCACHED, Expect::Deleted, "NOT_FOUND\r\n"), Ok((Reply::NotFound, vec![])));
    let error = Reply::Error("SERVER_ERROR out of memory".to_owned());
    assert_eq!(parsed(MEMCACHED, Expect::Stored, "SERVER_ERROR out of memory\r\n"), Ok((error, vec![])));
}

#[test]
fn redis_replies() {
    let one = Expect::Values { keys: 1 };
    assert_eq!(parsed(REDIS, one, "$3\r\nabc\r\n"), Ok((Reply::Values, vec![Some("abc".to_owned())])));
    assert_eq!(parsed(REDIS, one, "$-1\r\n"), Ok((Reply::Values, vec![None])));
    let two = Expect::Values { keys: 2 };
    let values = vec![None, Some("x".to_owned())];
    assert_eq!(parsed(REDIS, two, "*2\r\n$-1\r\n$1\r\nx\r\n"), Ok((Reply::Values, values)));
    assert_eq!(parsed(REDIS_WAIT, Expect::Stored, "+OK\r\n:2\r\n"), Ok((Reply::Stored, vec![])));
    let few = Reply::Error("WAIT answered 1 of 2 replicas".to_owned());
    assert_eq!(parsed(REDIS_WAIT, Expect::Stored, "+OK\r\n:1\r\n"), Ok((few, vec![])));
    let error = Reply::Error("OOM command not allowed".to_owned());
    assert_eq!(parsed(REDIS_WAIT, Expect::Stored, "-OOM command not allowed\r\n:2\r\n"), Ok((error, vec![])));
}

#[test]
fn what_is_no_reply_is_refused_and_never_waited_for() {
    let one = Expect::Values { keys: 1 };
    assert_eq!(refused(MEMCACHED, one, "VALUE a 0 2\r\nabcd\r\n"), ProtocolError::Unterminated);
    assert_eq!(refused(MEMCACHED, one, "VALUE a 0 x\r\n"), ProtocolError::BadLength("x".to_owned()));
    assert_eq!(refused(MEMCACHED, one, "STORED\r\n"), ProtocolError::Unexpected("STORED".to_owned()));
    assert_eq!(refused(REDIS, one, "$99999999999\r\n"), ProtocolError::BadLength("99999999999".to_owned()));
    assert_eq!(refused(REDIS, Expect::Stored, "$1\r\nx\r\n"), ProtocolError::Unexpected("$1\\r\\nx\\r\\n".to_owned()));
    let wrong_count = refused(REDIS, Expect::Values { keys: 2 }, "*3\r\n");
    assert_eq!(wrong_count, ProtocolError::ValueCount { expected: 2, actual: 3 });
    assert_eq!(refused(MEMCACHED, one, &"x".repeat(LINE_BYTES_MAX)), ProtocolError::LongLine);
}

//! The parser against split input, limits, garbage, and another implementation.

use proptest::prelude::*;

use super::{Parsed, ProtocolError, RequestLimits, RequestParser, limits};

const ROOMY: RequestLimits = RequestLimits { bulk_bytes_max: 1 << 20, request_bytes_max: 1 << 22, authenticated: true };

#[derive(Clone, PartialEq, Eq, Debug)]
enum Event {
    Request(Vec<Vec<u8>>),
    Oversized,
    Error(ProtocolError),
}

/// Feeds `stream` in pieces of `piece_bytes` (at least 1) and collects what the parser finds.
fn events(stream: &[u8], piece_bytes: usize, limits: &RequestLimits) -> Vec<Event> {
    let mut parser = RequestParser::default();
    let mut buffer = Vec::new();
    let mut found = Vec::new();
    for piece in stream.chunks(piece_bytes) {
        buffer.extend_from_slice(piece);
        loop {
            let parsed = match parser.parse(&buffer, limits) {
                Ok(parsed) => parsed,
                Err(error) => {
                    found.push(Event::Error(error));
                    return found;
                }
            };
            let (consumed, go_on) = match parsed {
                Parsed::Request { args, consumed } => {
                    found.push(Event::Request(args.iter().map(<[u8]>::to_vec).collect()));
                    (consumed, true)
                }
                Parsed::Empty { consumed } => (consumed, true),
                Parsed::Oversized { consumed } => {
                    found.push(Event::Oversized);
                    (consumed, true)
                }
                Parsed::Incomplete { consumed } => (consumed, false),
            };
            buffer.drain(..consumed);
            if !go_on {
                break;
            }
        }
    }
    found
}

fn request(words: &[&str]) -> Event {
    Event::Request(words.iter().map(|word| word.as_bytes().to_vec()).collect())
}

#[test]
fn arrays_and_inline_commands_mix() {
    let stream =
        b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n\r\n*0\r\n*-1\r\nset \"a b\" 'c\\'d' e\"\\x41\\n\"\r\nget a\0b\nPING\n";
    let expected = [
        request(&["GET", "a"]),
        request(&["set", "a b", "c'd", "eA\n"]),
        request(&["get", "a\0b"]),
        request(&["PING"]),
    ];
    for piece_bytes in 1..=stream.len() {
        assert_eq!(events(stream, piece_bytes, &ROOMY), expected, "pieces of {piece_bytes}");
    }
}

#[test]
fn broken_streams_are_named_as_redis_names_them() {
    use ProtocolError::*;
    let cases: [(&[u8], ProtocolError); 12] = [
        (b"*a\r\n", InvalidCount),
        (b"*\r\n", InvalidCount),
        (b"*01\r\n", InvalidCount),
        (b"*1048577\r\n", InvalidCount),
        (b"*1\r\nPING\r\n", ExpectedBulk(b'P')),
        (b"*1\r\n\r\n", ExpectedBulk(b'\r')),
        (b"*1\r\n$-1\r\n", InvalidLength),
        (b"*1\r\n$536870913\r\n", InvalidLength),
        (b"*1\r\n$\r\n", InvalidLength),
        (b"PING \"a\r\n", UnbalancedQuotes),
        (b"PING 'a\r\n", UnbalancedQuotes),
        (b"PING \"a\"b\r\n", UnbalancedQuotes),
    ];
    for (stream, error) in cases {
        for piece_bytes in [1, stream.len()] {
            assert_eq!(events(stream, piece_bytes, &ROOMY), [Event::Error(error)], "{stream:?}");
        }
    }
    let mut text = Vec::new();
    ExpectedBulk(b'P').encode(&mut text);
    InvalidLength.encode(&mut text);
    assert_eq!(text, b"-ERR Protocol error: expected '$', got 'P'\r\n-ERR Protocol error: invalid bulk length\r\n");
}

#[test]
fn endless_lines_are_refused_at_their_limit() {
    for (prefix, error) in [
        ("*", ProtocolError::CountLineTooBig),
        ("*1\r\n$", ProtocolError::LengthLineTooBig),
        ("a", ProtocolError::InlineTooBig),
    ] {
        let line_start = prefix.rfind('\n').map_or(0, |at| at + 1);
        let whole = line_start + limits::LINE_BYTES_MAX;
        let mut stream = prefix.as_bytes().to_vec();
        stream.resize(whole, b'1');
        assert_eq!(events(&stream, 4096, &ROOMY), [], "{prefix:?} at the limit");
        stream.push(b'1');
        assert_eq!(events(&stream, 4096, &ROOMY), [Event::Error(error)], "{prefix:?} beyond it");
    }
}

#[test]
fn strangers_send_little() {
    let stranger = RequestLimits { authenticated: false, ..ROOMY };
    assert_eq!(events(b"*11\r\n", 9, &stranger), [Event::Error(ProtocolError::UnauthenticatedCount)]);
    assert_eq!(events(b"*1\r\n$16385\r\n", 99, &stranger), [Event::Error(ProtocolError::UnauthenticatedLength)]);
    assert_eq!(events(b"*1\r\n$16384\r\n", 99, &stranger), []);
}

#[test]
fn an_oversized_request_is_discarded_as_it_arrives_and_the_next_one_is_read() {
    let tight = RequestLimits { bulk_bytes_max: 8, request_bytes_max: 40, authenticated: true };
    let long_bulk = b"*3\r\n$3\r\nSET\r\n$9\r\n123456789\r\n$1\r\nv\r\nPING\r\n";
    let many_bulks = b"*4\r\n$8\r\n12345678\r\n$8\r\n12345678\r\n$8\r\n12345678\r\n$1\r\na\r\nPING\r\n";
    for stream in [long_bulk.as_slice(), many_bulks] {
        for piece_bytes in 1..=stream.len() {
            assert_eq!(events(stream, piece_bytes, &tight), [Event::Oversized, request(&["PING"])]);
        }
    }
    let mut parser = RequestParser::default();
    let begun = b"*2\r\n$9\r\n123";
    let parsed = parser.parse(begun, &tight).expect("an oversized request is no error");
    assert!(matches!(parsed, Parsed::Incomplete { consumed } if consumed == begun.len()));
}

fn encode(requests: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut stream = Vec::new();
    for words in requests {
        super::encode::array(&mut stream, words.len());
        words.iter().for_each(|word| super::encode::bulk(&mut stream, word));
    }
    stream
}

/// Another implementation's reading of the same stream.
fn oracle(stream: &[u8]) -> Vec<Event> {
    use redis_protocol::resp2::{decode::decode, types::OwnedFrame};
    let mut rest = stream;
    let mut found = Vec::new();
    while let Some((frame, bytes)) = decode(rest).expect("a well-formed stream") {
        let OwnedFrame::Array(items) = frame else { panic!("not an array: {frame:?}") };
        let word = |item| match item {
            OwnedFrame::BulkString(word) => word,
            other => panic!("not a bulk string: {other:?}"),
        };
        found.push(Event::Request(items.into_iter().map(word).collect()));
        rest = &rest[bytes..];
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_bytes_in_any_pieces_give_the_same_events(stream in garbage(), piece_bytes in 1usize..20) {
        let limits = RequestLimits { bulk_bytes_max: 10, request_bytes_max: 64, authenticated: true };
        prop_assert_eq!(events(&stream, piece_bytes, &limits), events(&stream, usize::MAX, &limits));
    }

    #[test]
    fn well_formed_streams_read_as_another_parser_reads_them(
        requests in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..5), 0..6),
        piece_bytes in 1usize..50,
    ) {
        let stream = encode(&requests);
        let expected = oracle(&stream);
        prop_assert_eq!(expected.len(), requests.len());
        prop_assert_eq!(events(&stream, piece_bytes, &ROOMY), expected);
    }
}

/// Bytes that often look like requests.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        prop::sample::select(vec![
            &b"*1\r\n"[..],
            b"*3\r\n",
            b"$3\r\n",
            b"GET\r\n",
            b"$0\r\n\r\n",
            b"$11\r\n",
            b"12345678901\r\n",
            b"\r\n",
            b"\"",
            b"'",
            b"\\",
            b"PING\r\n",
            b"*0\r\n",
            b" ",
        ])
        .prop_map(<[u8]>::to_vec),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(word, 0..16).prop_map(|words| words.concat())
}

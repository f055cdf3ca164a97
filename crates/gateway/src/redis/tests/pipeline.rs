//! Many requests at once: order, pieces, limits, the end of a connection, and bytes of any kind.

use proptest::prelude::*;

use super::*;
use crate::command::{Access, Command};
use crate::limits::{LARGE_BYTES_MAX, LARGE_VALUE_BYTES, SMALL_REQUEST_BYTES};
use crate::redis::{fuzz::fuzz_session, limits};

const PIPELINE: [&str; 16] = [
    "SET a 1",
    "GET a",
    "PING",
    "MGET a b a",
    "INCR n",
    "DBSIZE",
    "DEL a n none",
    "KEYS *",
    "NOPE",
    "MSET x 1 y 2 z 3",
    "MSETNX {t}1 a {t}2 b",
    "SCAN 0 COUNT 2",
    "GETDEL x",
    "FLUSHALL",
    "GET y",
    "ECHO end",
];
const REPLIES: &str = "+OK\r\n$1\r\n1\r\n+PONG\r\n*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n1\r\n:1\r\n:2\r\n:2\r\n*0\r\n-ERR unknown \
                       command 'NOPE', with args beginning with: \r\n+OK\r\n:1\r\n*2\r\n$1\r\n2\r\n*2\r\n$1\r\nx\r\n\
                       $1\r\ny\r\n$1\r\n1\r\n+OK\r\n$-1\r\n$3\r\nend\r\n";

fn replies_to(bytes: &[u8], order: Order, cut: usize) -> String {
    let mut client = Client::new();
    client.order = order;
    let (first, rest) = bytes.split_at(cut);
    client.send(first);
    let mut got = client.settle();
    client.send(rest);
    got.extend_from_slice(&client.settle());
    String::from_utf8(got).expect("text")
}

#[test]
fn a_pipeline_is_answered_in_order_however_it_arrives() {
    let bytes = stream(&PIPELINE);
    // The map's order of keys stands in for an engine's: only what begins with `{` comes last.
    for cut in 0..=bytes.len() {
        assert_eq!(replies_to(&bytes, Order::Asked, cut), REPLIES, "cut at {cut}");
    }
    let mut client = Client::new();
    let mut got = Vec::new();
    for byte in &bytes {
        client.send(&[*byte]);
        got.extend_from_slice(&client.settle());
    }
    assert_eq!(String::from_utf8_lossy(&got), REPLIES, "byte by byte");
}

/// The map engine applies in the order of asking and answers in reverse: what a real one does with different keys.
#[test]
fn replies_that_complete_in_reverse_leave_in_order() {
    let bytes = stream(&PIPELINE);
    assert_eq!(replies_to(&bytes, Order::Reversed, 0), REPLIES);
}

#[test]
fn a_command_about_all_keys_waits_for_what_was_asked_before_and_holds_back_what_follows() {
    let mut client = Client::new();
    client.send(&stream(&["SET a 1", "DBSIZE", "SET b 2", "DBSIZE"]));
    assert_eq!(client.asked.len(), 1, "only the first SET is asked");
    client.complete();
    assert!(matches!(client.asked.as_slice(), [(_, Request::Keyspace(_))]), "then DBSIZE alone");
    client.complete();
    assert!(client.asked.is_empty(), "the next SET is read later");
    assert_eq!(client.settle(), b"+OK\r\n:1\r\n+OK\r\n:2\r\n");
}

#[test]
fn requests_in_flight_are_bounded() {
    let mut client = Client::new();
    client.send(&stream(&["GET a"; 1000]));
    assert_eq!(client.asked.len(), limits::REPLIES_WAITING_MAX);
    assert!(!client.input.is_empty());
    assert_eq!(client.settle(), b"$-1\r\n".repeat(1000));

    let keys = vec!["k"; 1000].join(" ");
    client.send(&stream(&[&format!("MGET {keys}"), &format!("EXISTS {keys}")]));
    assert_eq!(client.asked.len(), limits::REPLIES_WAITING_MAX);
    client.settle();
    assert!(client.session.is_at_rest());
}

/// A client with a value of so many bytes under `a`, and its reply.
fn with_value(value_bytes: usize) -> (Client, Vec<u8>) {
    let mut client = Client::new();
    let value = "x".repeat(value_bytes);
    assert_eq!(client.say(&format!("SET a {value}")), "+OK");
    (client, format!("${value_bytes}\r\n{value}\r\n").into_bytes())
}

/// Completes all that is asked although the client takes nothing.
fn complete_all(client: &mut Client) {
    while client.complete() > 0 {
        client.read();
    }
}

#[test]
fn a_client_that_never_reads_is_not_served_without_end() {
    let (mut client, reply) = with_value(100_000);
    client.send(&stream(&["GET a"; 200]));
    complete_all(&mut client);
    let output_bytes = client.session.output().len();
    assert!(output_bytes <= LARGE_BYTES_MAX && output_bytes + reply.len() > LARGE_BYTES_MAX, "{output_bytes}");
    client.send(&stream(&["GET a", "PING"]));
    assert_eq!(client.asked.len(), 0, "but nothing more is read");
    let got = client.settle();
    assert!(got == [reply.repeat(201), b"+PONG\r\n".to_vec()].concat(), "all is served when the client reads");

    let value = "x".repeat(100_000);
    // Replies that are known at once wait behind one that is not: they are bounded too.
    client.send(&stream(&["GET a"]));
    client.send(&stream(&[&format!("ECHO {value}")]).repeat(30));
    assert!(client.session.held_bytes() < limits::OUTPUT_BYTES_MAX + 2 * value.len());
    assert!(!client.input.is_empty());
    client.settle();
    assert_eq!((client.session.is_at_rest(), client.input.len()), (true, 0));
}

#[test]
fn quit_and_protocol_errors_end_the_connection_behind_what_was_asked() {
    for (last, reply) in [
        (&b"QUIT\r\n"[..], "+OK\r\n"),
        (b"*1\r\nPING\r\n", "-ERR Protocol error: expected '$', got 'P'\r\n"),
        (b"*x\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
        (b"PING \"\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"),
    ] {
        let mut client = Client::new();
        client.send(&[&stream(&["GET a"]), last, &stream(&["SET never read"])].concat());
        assert!(client.input.is_empty() && !client.session.closing(), "the reply to GET is still to come");
        assert_eq!(client.asked.len(), 1);
        assert_eq!(String::from_utf8_lossy(&client.settle()), format!("$-1\r\n{reply}"));
        assert!(client.session.closing());
    }
}

#[test]
fn nothing_is_done_of_a_transaction() {
    let refused = "-ERR MULTI is not supported: nothing is done before EXEC or DISCARD\r\n";
    let begun = "+OK\r\n";
    let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
    for (end, answer) in [("EXEC", aborted), ("DISCARD", "+OK\r\n"), ("RESET", "+RESET\r\n")] {
        let mut client = Client::new();
        client.send(&stream(&["MULTI", "INCR x", "SET y 1", "FLUSHALL", "PING", "UNWATCH", end]));
        let expected = [begun, &refused.repeat(5), answer].concat();
        assert_eq!(String::from_utf8_lossy(&client.settle()), expected, "{end}");
        client.script(&[("GET x", "$-1"), ("GET y", "$-1"), ("SET x 1", "+OK"), ("GET x", "$1 1")]);
    }
    let mut client = Client::new();
    client.send(&stream(&["MULTI", "SET x 1", "QUIT", "SET x 2"]));
    assert_eq!(String::from_utf8_lossy(&client.settle()), [begun, refused, "+OK\r\n"].concat());
    assert!(client.session.closing());
}

#[test]
fn words_of_transactions_that_are_out_of_place_get_redis_words() {
    let exec_arity = "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command";
    let mut client = Client::new();
    client.script(&[
        ("EXEC", "-ERR EXEC without MULTI"),
        ("discard", "-ERR DISCARD without MULTI"),
        ("EXEC now", exec_arity),
        ("MULTI now", "-ERR wrong number of arguments for 'multi' command"),
        ("UNWATCH", "+OK"),
        ("WATCH a", "-ERR unknown command 'WATCH', with args beginning with: 'a' "),
        ("MULTI", "+OK"),
        ("MULTI", "-ERR MULTI calls can not be nested"),
        ("WATCH a", "-ERR WATCH inside MULTI is not allowed"),
        ("WATCH", "-ERR wrong number of arguments for 'watch' command"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("EXEC", "-ERR EXEC without MULTI"),
        ("MULTI", "+OK"),
        ("EXEC now", exec_arity),
        ("GET a", "$-1"),
    ]);
}

#[test]
fn clients_get_the_replies_that_they_want() {
    let talk = [
        (&["CLIENT REPLY SKIP", "SET a 1", "GET a"][..], "$1\r\n1\r\n"),
        (&["CLIENT REPLY SKIP", "CLIENT REPLY SKIP", "MGET a b", "PING"], "+PONG\r\n"),
        (&["CLIENT REPLY SKIP", "CLIENT REPLY ON", "PING"], "+OK\r\n+PONG\r\n"),
        (&["CLIENT REPLY SKIP", "NOPE", "GET a", "CLIENT REPLY maybe"], "$1\r\n1\r\n-ERR syntax error\r\n"),
        (&["GET a", "CLIENT REPLY OFF", "GET a", "PING", "MGET a b", "DEL a b", "DBSIZE", "NOPE"], "$1\r\n1\r\n"),
        (&["CLIENT REPLY SKIP", "PING", "MSET {x}a 1 {x}b 2", "KEYS *", "EXISTS a a", "CLIENT REPLY what"], ""),
        (&["CLIENT REPLY ON", "EXISTS a", "GET {x}b"], "+OK\r\n:0\r\n$1\r\n2\r\n"),
        (&["CLIENT REPLY OFF", "RESET", "PING"], "+RESET\r\n+PONG\r\n"),
        (&["CLIENT REPLY OFF", "SET a 2", "QUIT"], ""),
    ];
    for order in [Order::Asked, Order::Reversed] {
        let mut client = Client::new();
        client.order = order;
        for (commands, expected) in talk {
            client.send(&stream(commands));
            assert_eq!(String::from_utf8_lossy(&client.settle()), expected, "{commands:?} {order:?}");
            assert!(client.session.is_at_rest());
        }
        assert!(client.session.closing());
    }
}

#[test]
fn an_http_request_is_not_obeyed() {
    for request in [
        &b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nSET a 1\r\n"[..],
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1:6379\r\n\r\nSET a 1\r\n",
        b"*1\r\n$5\r\nhOsT:\r\nSET a 1\r\n",
    ] {
        let mut client = Client::new();
        client.send(request);
        assert!(client.asked.is_empty() && client.input.is_empty(), "the SET is read and thrown away");
        client.settle();
        assert!(client.session.closing());
    }
}

#[test]
fn a_large_value_is_awaited_without_being_parsed_again() {
    let mut client = Client::new();
    client.send(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1000000\r\n");
    client.send(&[b'x'; 1000]);
    assert!(client.session.wants_input());
    client.send(&[b'x'; 999_000]);
    assert!(client.session.wants_input());
    client.send(b"\r\n");
    assert_eq!(client.settle(), b"+OK\r\n");
}

#[test]
fn a_request_of_many_arguments_wants_the_rest_of_them() {
    let mut client = Client::new();
    let keys = vec!["key"; 60_000].join(" ");
    for piece in stream(&[&format!("DEL {keys}")]).chunks(100_000) {
        assert!(client.session.wants_input());
        client.send(piece);
    }
    assert_eq!(client.settle(), b":0\r\n");
    assert!(client.session.wants_input());
}

#[test]
fn what_is_kept_of_requests_that_are_not_asked_yet_is_told() {
    const SLICE_BYTES: usize = 8;
    let mut client = Client::new();
    let request = stream(&[&format!("DEL {}", vec!["key"; 60_000].join(" "))]);
    client.send(&request[..request.len() / 2]);
    let kept = client.session.kept_bytes();
    assert!((29_000 * SLICE_BYTES..31_000 * SLICE_BYTES).contains(&kept), "where half of its arguments lie: {kept}");
    client.send(&request[request.len() / 2..]);
    assert!(client.session.kept_bytes() > 59_000 * "key".len(), "those that others go before");
    client.settle();
    assert_eq!(client.session.kept_bytes(), 0);

    client.send(&stream(&["GET key", &format!("SET key {}", "x".repeat(5_000)), "PING"]));
    assert_eq!(client.session.kept_bytes(), 5_000, "a write that a read goes before");
    client.settle();
    assert_eq!(client.session.kept_bytes(), 0);
}

#[test]
fn a_client_that_does_not_read_may_not_go_on_with_its_value() {
    let (mut client, reply) = with_value(60_000);
    let set = stream(&[&format!("SET b {}", "x".repeat(1_000_000))]);
    let (beginning, rest) = set.split_at(1000);
    client.send(&[&stream(&["GET a"; 200]), beginning].concat());
    assert!(client.session.wants_input());
    // The engine answers, but nobody takes the output.
    complete_all(&mut client);
    client.send(rest);
    assert!(!client.session.wants_input());
    let got = client.settle();
    assert!(got == [reply.repeat(200), b"+OK\r\n".to_vec()].concat());
    assert!(client.session.wants_input());
}

#[test]
fn an_oversized_value_is_discarded_as_it_arrives() {
    let mut client = Client::new();
    client.send(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$100000000\r\n");
    for _ in 0..100 {
        client.send(&[b'x'; 1_000_000]);
        assert!(client.input.is_empty(), "nothing piles up");
    }
    client.send(b"\r\nPING\r\n");
    let expected = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n+PONG\r\n";
    assert_eq!(String::from_utf8_lossy(&client.settle()), expected);
}

fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let names = super::super::table::COMMANDS.iter().map(|spec| spec.name).collect::<Vec<_>>();
    let word = prop_oneof![
        prop::sample::select(names).prop_map(str::to_owned),
        "[a-c{}]{0,3}",
        "-?[0-9]{1,20}",
        prop::sample::select(vec!["EX", "NX", "GET", "MATCH", "*", "[a-", "COUNT", "HELP", "AUTH", "3"])
            .prop_map(str::to_owned),
    ];
    let command = prop::collection::vec(word, 1..6).prop_map(|words| stream(&[&words.join(" ")]));
    let noise = prop::collection::vec(any::<u8>(), 0..12);
    prop::collection::vec(prop_oneof![8 => command, 1 => noise], 0..30).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_bring_a_session_down(choice in any::<u8>(), bytes in garbage()) {
        fuzz_session(&[&[choice], bytes.as_slice()].concat());
    }

    #[test]
    fn pieces_and_order_of_completion_do_not_show(bytes in garbage(), cut in any::<prop::sample::Index>()) {
        let cut = cut.index(bytes.len() + 1);
        prop_assert_eq!(lossy_replies(&bytes, Order::Asked, 0), lossy_replies(&bytes, Order::Reversed, cut));
    }
}

fn lossy_replies(bytes: &[u8], order: Order, cut: usize) -> Vec<u8> {
    let mut client = Client::new();
    client.order = order;
    client.send(&bytes[..cut]);
    let mut got = client.settle();
    client.send(&bytes[cut..]);
    got.extend_from_slice(&client.settle());
    got
}

#[test]
fn large_values_on_their_way_are_bounded_and_all_are_served() {
    for (value_bytes, count) in [(LARGE_VALUE_BYTES + 1, 256), (1 << 20, 64), (LARGE_BYTES_MAX + 1, 3)] {
        for order in [Order::Asked, Order::Reversed] {
            let mut client = Client::with(Settings { value_bytes_max: 32 << 20, ..Settings::default() });
            client.order = order;
            let value = "x".repeat(value_bytes);
            client.say(&format!("SET a {value}"));
            client.send(&stream(&vec!["GET a"; count]));
            let reply_bytes = value_bytes + format!("${value_bytes}\r\n\r\n").len();
            let (mut most, mut got_bytes) = (0, 0);
            while got_bytes < count * reply_bytes {
                client.complete();
                let waiting = client.session.held_bytes() + client.session.output().len();
                most = most.max(waiting);
                assert!(waiting > 0 || !client.asked.is_empty(), "{order:?}: {got_bytes} bytes, and then nothing");
                // The client takes a little at a time.
                let taken = client.session.output().len().min(3 << 20);
                client.session.output().drain(..taken);
                got_bytes += taken;
                let asked = &mut client.asked;
                client.session.resume(&mut |id, request| asked.push((id, request)));
                client.read();
            }
            assert!(
                most <= LARGE_BYTES_MAX + reply_bytes + 32 * count,
                "{order:?}: {most} bytes of {value_bytes} each"
            );
            assert!(most > LARGE_BYTES_MAX / 2, "{order:?}: they are read side by side");
            assert!(client.session.is_at_rest());
        }
    }
}

#[test]
fn a_read_that_waits_for_room_does_not_see_the_write_behind_it() {
    let (mut client, reply) = with_value(1 << 20);
    let count = LARGE_BYTES_MAX >> 19;
    client.send(&stream(&vec!["GET a"; count]));
    client.send(&stream(&["GETRANGE a 0 1", "SET a new", "GET b", "MSET a 1 b 2", "GET a"]));
    assert_eq!(client.asked.len(), count + 1, "the write waits, and what follows it");
    let expected = [reply.repeat(count), b"$2\r\nxx\r\n+OK\r\n$-1\r\n+OK\r\n$1\r\n1\r\n".to_vec()].concat();
    assert!(client.settle() == expected);
    assert!(client.session.is_at_rest());
}

#[test]
fn no_read_sees_a_write_behind_it_on_its_key() {
    for (read, before, after) in [
        ("GET a", "$1 1", "$3 new"),
        ("STRLEN a", ":1", ":3"),
        ("EXISTS a", ":1", ":1"),
        ("TTL a", ":-1", ":-1"),
        ("EXISTS b a a", ":2", ":2"),
        ("TOUCH a b", ":1", ":1"),
        ("OBJECT ENCODING a", "$3 int", "$6 embstr"),
    ] {
        let mut client = Client::new();
        client.say("SET a 1");
        client.send(&stream(&[read, "SET other 1", "SET a new", "SET other 2", read]));
        let is_write = |(_, request): &&(RequestId, Request<KeyCommand>)| match request {
            Request::Key(command) => command.access() == Access::Write,
            _ => false,
        };
        assert_eq!(client.asked.iter().filter(is_write).count(), 1, "{read}: other keys go on until one waits");
        let got = String::from_utf8(client.settle()).expect("text").replace("\r\n", " ");
        assert_eq!(got, format!("{before} +OK +OK +OK {after} "));
        assert!(client.session.is_at_rest());
    }
}

#[test]
fn large_values_that_are_stored_are_bounded_too() {
    let mut client = Client::new();
    let set = format!("SET a {}", "x".repeat(1 << 20));
    client.send(&stream(&[&set]).repeat(40));
    assert_eq!(client.asked.len(), LARGE_BYTES_MAX >> 20);
    assert_eq!(client.settle(), b"+OK\r\n".repeat(40));
    // A write that answers with a value may answer with the longest.
    client.send(&stream(&["GETDEL a"; 40]));
    assert_eq!(client.asked.len(), LARGE_BYTES_MAX >> 20);
    assert!(client.settle().ends_with(b"\r\n$-1\r\n"));
    // So may one that makes a value of another.
    for (command, reply) in [("SETRANGE key 1048575 x", ":1048576\r\n"), ("APPEND key x", ":1\r\n")] {
        client.say("FLUSHALL");
        (0..40).for_each(|key| client.send(&stream(&[&command.replace("key", &format!("k{key}"))])));
        assert_eq!(client.asked.len(), LARGE_BYTES_MAX >> 20, "{command}");
        assert_eq!(client.settle(), reply.repeat(40).into_bytes());
    }
    assert!(client.session.is_at_rest());
}

#[test]
fn what_is_long_waits_for_room_and_what_is_short_goes_on() {
    let mut client = Client::new();
    client.shared.has_room = false;
    let long = "x".repeat(SMALL_REQUEST_BYTES + 1);
    client.send(&stream(&["SET short 1", "GET short"]));
    assert!(!client.session.waits_for_room());
    assert_eq!(client.settle(), b"+OK\r\n$1\r\n1\r\n");
    client.send(&stream(&[&format!("SET long {long}"), &format!("MSET a {long} b 1"), "STRLEN long"]));
    assert!(client.session.waits_for_room() && client.asked.is_empty());
    assert_eq!(client.settle(), b"");
    client.shared.has_room = true;
    assert_eq!(client.settle(), format!("+OK\r\n+OK\r\n:{}\r\n", long.len()).as_bytes());
    assert!(!client.session.waits_for_room());
}

//! Every maximum at its edge, and bytes that are no protocol.

use proptest::prelude::*;

use super::*;
use crate::limits::{LARGE_BYTES_MAX, SMALL_REQUEST_BYTES};
use crate::memcached::VERSION;
use crate::memcached::fuzz::fuzz_session;
use crate::memcached::limits::*;

#[test]
fn a_value_that_is_too_large_is_skipped_and_takes_the_old_one_with_it() {
    let largest = 1024 - ITEM_OVERHEAD_BYTES - 1;
    let settings = Settings { value_bytes_max: 1024, ..Settings::default() };
    let (fits, large) = ("x".repeat(largest), "y".repeat(largest + 1));
    check_with(
        &settings,
        &format!(
            "> set a 0 0 {}
             > {fits}
             < STORED
             > add a 0 0 {}
             > {large}
             < SERVER_ERROR object too large for cache
             > mg a s
             < HD s{}
             > append a 0 0 1
             > z
             < NOT_STORED
             > set a 0 0 {}
             > {large}
             < SERVER_ERROR object too large for cache
             > get a
             < END
             > set a 0 0 {} noreply
             > {large}
             > ms a {} q
             > {large}
             < SERVER_ERROR object too large for cache",
            fits.len(),
            large.len(),
            fits.len(),
            large.len(),
            large.len(),
            large.len(),
        ),
    );
}

#[test]
fn a_huge_declared_value_is_not_buffered() {
    let mut client = open();
    client.says("set a 0 0 2147483645\r\n", "SERVER_ERROR object too large for cache\r\n");
    for _ in 0..100 {
        client.says(&"z".repeat(10_000), "");
        assert!(client.input.is_empty());
    }
    assert!(client.session.wants_input());
}

#[test]
fn a_large_value_is_taken_as_it_comes() {
    let mut client = open();
    let value = "v".repeat(900_000);
    client.says("set a 0 0 900000\r\n", "");
    for piece in value.as_bytes().chunks(50_000) {
        assert!(client.send(piece).is_empty());
        assert!(client.input.is_empty(), "consumed at once");
    }
    assert!(client.session.wants_input());
    assert_eq!(client.session.kept_bytes(), 900_000);
    client.says("\r\n", "STORED\r\n");
    assert_eq!(client.session.kept_bytes(), 0);
    client.says("get a\r\n", &format!("VALUE a 0 900000\r\n{value}\r\nEND\r\n"));
    client.says("set a 0 0 900000\r\n", "");
    client.says(&value, "");
    client.says("xx", "CLIENT_ERROR bad data chunk\r\n");
}

#[test]
fn a_small_value_waits_until_it_is_whole() {
    let mut client = open();
    client.says("set a 0 0 100\r\n12345", "");
    assert_eq!(client.input.len(), 5);
    assert!(client.session.wants_input());
}

#[test]
fn endless_lines_close_the_connection_but_long_gets_are_fine() {
    let mut client = open();
    client.says(&"incr ".repeat(500), "");
    assert!(client.is_closed());
    let mut client = open();
    client.says(&" ".repeat(14_000), "");
    assert!(client.is_closed());
    let mut client = open();
    client.says(&format!("get {} many", " ".repeat(2048)), "");
    client.says("\r\n", "END\r\n");
    let mut client = open();
    client.says(&format!("get {}", "k ".repeat(GET_LINE_BYTES_MAX / 2)), "");
    assert!(client.is_closed());
}

#[test]
fn a_get_of_thousands_of_keys_is_answered_in_bounded_steps() {
    let mut client = open();
    client.says("set foobarbaz 0 0 2\r\nhi\r\n", "STORED\r\n");
    let count = 18_725;
    let line = format!("get {}\r\n", "foobarbaz ".repeat(count));
    client.input = line.clone().into_bytes();
    client.read();
    assert_eq!(client.waiting_answers().len(), REPLY_WAITING_MAX);
    let expected = format!("{}END\r\n", "VALUE foobarbaz 0 2\r\nhi\r\n".repeat(count));
    assert_eq!(client.text(""), expected);
}

#[test]
fn a_client_that_does_not_read_is_not_read_either() {
    let mut client = open();
    let value = "v".repeat(500_000);
    client.says(&format!("set a 0 0 500000\r\n{value}\r\n"), "STORED\r\n");
    client.input = "get a\r\n".repeat(100).into_bytes();
    // The engine answers, but nobody takes the output.
    while client.read() > 0 && client.session.output().len() <= OUTPUT_BYTES_MAX {
        client.answer();
    }
    let unread = client.input.len();
    client.answer();
    assert_eq!(client.read(), 0);
    assert_eq!(client.input.len(), unread);
    assert!(!client.session.wants_input());
}

#[test]
fn a_get_of_many_keys_wants_the_rest_of_its_line() {
    let mut client = open();
    client.input = b"get ".to_vec();
    while client.input.len() < GET_LINE_BYTES_MAX - 10_000 {
        client.input.extend_from_slice(&b"key ".repeat(2500));
        assert_eq!(client.read(), 0);
        assert!(client.session.wants_input());
    }
    client.says("\r\n", "END\r\n");
}

/// A client with a value that is not large, and the reply to its `get`.
fn with_value() -> (Loopback, String) {
    let mut client = open();
    let value = "v".repeat(60_000);
    client.says(&format!("set a 0 0 60000\r\n{value}\r\n"), "STORED\r\n");
    (client, format!("VALUE a 0 60000\r\n{value}\r\nEND\r\n"))
}

#[test]
fn a_client_that_does_not_read_may_not_go_on_with_its_value() {
    let (mut client, reply) = with_value();
    client.input = [&b"get a\r\n".repeat(200)[..], b"set b 0 0 1000000\r\nthe beginning"].concat();
    client.read();
    assert!(client.input.is_empty() && client.session.wants_input());
    // The engine answers, but nobody takes the output.
    client.answer();
    client.input = b"what follows".to_vec();
    assert_eq!(client.read(), 0);
    assert!(!client.session.wants_input());
    client.says(&"v".repeat(1_000_000 - "the beginningwhat follows".len()), &reply.repeat(200));
    assert!(client.input.is_empty() && client.session.wants_input());
    client.says("\r\n", "STORED\r\n");
}

#[test]
fn replies_that_wait_for_another_are_bounded() {
    let (mut client, reply) = with_value();
    client.input = [&b"get none\r\n"[..], &b"version\r\nnonsense\r\n".repeat(10_000)].concat();
    client.read();
    assert!(!client.input.is_empty() && !client.session.wants_input());
    let version = format!("VERSION {VERSION}\r\nERROR\r\n");
    client.says("", &format!("END\r\n{}", version.repeat(10_000)));

    client.input = [&b"get none\r\n"[..], &b"get a\r\n".repeat(30)].concat();
    client.read();
    let first = client.waiting_answers().remove(0);
    client.answer();
    client.input = b"get a\r\n".to_vec();
    assert_eq!(client.read(), 0, "the bytes of those that wait are bounded too");
    assert!(!client.session.wants_input());
    client.waiting_answers().push(first);
    client.says("", &format!("END\r\n{}", reply.repeat(31)));
}

#[test]
fn long_keys_are_refused_wherever_they_stand() {
    let (fits, long) = ("k".repeat(250), "k".repeat(251));
    check(&format!(
        "> set {fits} 0 0 1
         > 1
         < STORED
         > set {long} 0 0 1
         > 1
         < CLIENT_ERROR bad command line format
         > get {fits}
         < VALUE {fits} 0 1
         < 1
         < END
         > get a {long}
         < CLIENT_ERROR bad command line format
         <
         > mg {long} v
         < CLIENT_ERROR bad command line format
         > delete {long}
         < CLIENT_ERROR bad command line format"
    ));
}

#[test]
fn keys_before_one_that_is_too_long_count_as_read_or_touched() {
    let long = "k".repeat(251);
    check(&format!(
        "> set a 0 0 1
         > 1
         < STORED
         > set b 0 0 1
         > 1
         < STORED
         > set c 0 0 1
         > 1
         < STORED
         > get a missing {long} b
         < CLIENT_ERROR bad command line format
         <
         > mg a h
         < HD h1
         > gat 100 b missing b {long} c
         < CLIENT_ERROR bad command line format
         <
         > mg b h t
         < HD h1 t100
         > mg c h t
         < HD h0 t-1"
    ));
}

#[test]
fn an_object_counts_as_read_though_the_opaque_is_too_long() {
    let long = "o".repeat(33);
    check(&format!(
        "> set a 0 0 1
         > 1
         < STORED
         > mg a T100 O{long}
         < CLIENT_ERROR opaque token too long
         > mg a h t
         < HD h1 t-1"
    ));
}

#[test]
fn an_object_stays_stale_though_the_opaque_is_too_long() {
    let long = "o".repeat(33);
    // Keys that are no words of a line: a space, and one that goes on like a line.
    for key in ["IA==", "Zm9vIE4wIE9iYXI=", "DQo="] {
        check(&format!(
            "> ms {key} 1 b
             > x
             < HD
             > md {key} b I
             < HD
             > mg {key} b O{long}
             < CLIENT_ERROR opaque token too long
             > mg {key} b T10 N10 R10 v O{long}
             < CLIENT_ERROR opaque token too long
             > mg foo v
             < EN
             > mg none N0 O{long}
             < CLIENT_ERROR opaque token too long
             > mg none
             < EN
             > mg {key} b t
             < HD t-1 X W"
        ));
    }
}

#[test]
fn a_refused_look_that_is_not_to_count_does_not() {
    let long = "o".repeat(33);
    check(&format!(
        "> set a 0 0 1
         > 1
         < STORED
         > mg a u O{long}
         < CLIENT_ERROR opaque token too long
         > mg a h
         < HD h0"
    ));
}

/// Bytes that look like the protocol, so that random ones get past the first token.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just(b"get ".to_vec()),
        Just(b"set a 0 0 3\r\n".to_vec()),
        Just(b"ms a 2 c\r\n".to_vec()),
        Just(b"mg a v N1 k\r\n".to_vec()),
        Just(b"ma a N0 v\r\n".to_vec()),
        Just(b"md a I\r\n".to_vec()),
        Just(b"ms IA== 1 b\r\nx\r\n".to_vec()),
        Just(b"md IA== b I\r\n".to_vec()),
        Just(b"mg IA== b v\r\n".to_vec()),
        Just(b"mg IA== b Ooooooooooooooooooooooooooooooooooo\r\n".to_vec()),
        Just(b"incr a 1\r\n".to_vec()),
        Just(b"stats\r\n".to_vec()),
        Just(b"flush_all\r\n".to_vec()),
        Just(b"set b 0 0 5000\r\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b" ".to_vec()),
        Just(b"a b c ".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..12),
    ];
    proptest::collection::vec(word, 0..60).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_survived(choice in any::<u8>(), noise in noise()) {
        fuzz_session(&[&[choice][..], &noise].concat());
    }

    #[test]
    fn cutting_the_input_changes_nothing(noise in noise(), piece_bytes in 1usize..40, seed in any::<u64>()) {
        let run = |piece_bytes: usize, order: AnswerOrder| {
            let mut client = open();
            client.order = order;
            let said: Vec<u8> = noise.chunks(piece_bytes.max(1)).flat_map(|piece| client.send(piece)).collect();
            // How often a connection gives way does depend on how its input arrives. So does the order of versions
            // of different keys: who wins a stale object writes when it was read, after what arrived with the look.
            let said = show(&said);
            let lines = said.lines().filter(|line| !line.starts_with("STAT conn_yields"));
            let lines: Vec<_> = lines.map(|line| if line.starts_with("HD c") { "HD c" } else { line }).collect();
            (lines.join("\n"), client.session.closing())
        };
        let whole = run(noise.len(), AnswerOrder::Asked);
        prop_assert_eq!(&run(piece_bytes, AnswerOrder::Asked), &whole);
        prop_assert_eq!(&run(piece_bytes, AnswerOrder::Shuffled(seed)), &whole);
    }
}

#[test]
fn large_values_on_their_way_are_bounded_and_all_are_served() {
    let settings = Settings { value_bytes_max: 2 << 20, ..Settings::default() };
    let value = "x".repeat(1 << 20);
    for order in [AnswerOrder::Asked, AnswerOrder::Reversed, AnswerOrder::Shuffled(5)] {
        for (line, reply) in [
            ("get a", format!("VALUE a 0 {}\r\n{value}\r\nEND\r\n", 1 << 20)),
            ("mg a v", format!("VA {}\r\n{value}\r\n", 1 << 20)),
        ] {
            let mut client = Loopback::new(settings.clone());
            client.order = order;
            client.says(&format!("set a 0 0 {}\r\n{value}\r\n", 1 << 20), "STORED\r\n");
            client.input = format!("{line}\r\n").repeat(100).into_bytes();
            client.input.extend_from_slice(b"delete a\r\n");
            while client.read() > 0 || client.answer() {}
            let output_bytes = client.session.output().len();
            assert!(
                output_bytes <= LARGE_BYTES_MAX + reply.len() + 32 * 100,
                "{line}, {order:?}: {output_bytes} bytes wait"
            );
            let said = [std::mem::take(client.session.output()), client.send(b"")].concat();
            assert!(said == [reply.repeat(100).as_bytes(), b"DELETED\r\n"].concat(), "{line}, {order:?}");
        }
    }
}

#[test]
fn large_values_that_are_stored_are_bounded_too() {
    let mut client = Loopback::new(Settings { value_bytes_max: 2 << 20, ..Settings::default() });
    let value = "x".repeat(1 << 20);
    client.input = format!("set a 0 0 {}\r\n{value}\r\n", 1 << 20).repeat(40).into_bytes();
    while client.read() > 0 {}
    assert_eq!(client.waiting_answers().len(), LARGE_BYTES_MAX >> 20);
    assert_eq!(show(&client.send(b"")), show("STORED\r\n".repeat(40).as_bytes()));
    client.input = b"gat 0 a\r\n".repeat(40);
    while client.read() > 0 {}
    assert_eq!(client.waiting_answers().len(), LARGE_BYTES_MAX / (2 << 20));
    let said = client.send(b"");
    assert_eq!(said.len(), 40 * (value.len() + "VALUE a 0 1048576\r\n\r\nEND\r\n".len()));
    // One that makes a value of another may make the longest.
    for (line, reply) in [
        ("append a 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("prepend a 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("ms a 1 MA\r\nx\r\n", "HD\r\n"),
    ] {
        client.input = line.repeat(40).into_bytes();
        while client.read() > 0 {}
        assert_eq!(client.waiting_answers().len(), LARGE_BYTES_MAX / (2 << 20), "{line}");
        assert_eq!(show(&client.send(b"")), show(reply.repeat(40).as_bytes()), "{line}");
    }
}

#[test]
fn what_is_long_waits_for_room_and_what_is_short_goes_on() {
    for value_bytes in [SMALL_REQUEST_BYTES + 1, 2 * VALUE_BYTES_WHOLE_MAX] {
        let mut client = open();
        client.shared.has_room = false;
        client.says("set short 0 0 1\r\n1\r\nget short\r\n", "STORED\r\nVALUE short 0 1\r\n1\r\nEND\r\n");
        let long = "x".repeat(value_bytes);
        client.says(&format!("set long 0 0 {value_bytes}\r\n{long}\r\nget short\r\n"), "");
        assert!(client.session.waits_for_room());
        client.shared.has_room = true;
        client.says("", "STORED\r\nVALUE short 0 1\r\n1\r\nEND\r\n");
        assert!(!client.session.waits_for_room());
    }
}

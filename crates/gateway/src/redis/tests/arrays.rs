//! Replies to MGET: all values, or one error; and what is long.

use super::*;
use crate::command::{Command, StoreError};
use crate::limits::LARGE_BYTES_MAX;
use crate::redis::limits::{ARRAYS_BYTES_MAX, OUTPUT_BYTES_MAX, REPLIES_WAITING_MAX};
use crate::request::Reply;

/// Completes what is asked, but refuses what is asked of the key `bad`.
fn complete_without_bad(client: &mut Client) {
    let mut batch = std::mem::take(&mut client.asked);
    if client.order == Order::Reversed {
        batch.reverse();
    }
    for (id, request) in batch {
        let reply = match &request {
            Request::Key(command) if command.key() == b"bad" => {
                let mut refusal = Vec::new();
                command.refuse(StoreError::Unreadable, &mut refusal);
                Reply::Bytes(refusal)
            }
            _ => client.store.handle(client.now, request),
        };
        let asked = &mut client.asked;
        let mut sink = |id, request| asked.push((id, request));
        client.session.handle_reply(client.now, &mut client.shared, id, reply, &mut sink);
    }
}

fn settle_without_bad(client: &mut Client) -> String {
    let mut got = Vec::new();
    while !client.asked.is_empty() {
        complete_without_bad(client);
        got.append(client.session.output());
        let asked = &mut client.asked;
        client.session.resume(&mut |id, request| asked.push((id, request)));
        client.read();
    }
    got.append(client.session.output());
    assert!(client.session.is_at_rest());
    String::from_utf8(got).expect("text")
}

#[test]
fn an_error_of_one_value_is_the_whole_reply() {
    let mut refusal = Vec::new();
    super::super::error::store_error(StoreError::Unreadable).encode(&mut refusal);
    let refusal = String::from_utf8(refusal).expect("text");
    for order in [Order::Asked, Order::Reversed] {
        for (first, last) in [(1, 1), (0, 2), (2, 0), (300, 300)] {
            let mut client = Client::new();
            client.order = order;
            client.script(&[("SET a 1", "+OK")]);
            let keys = [vec!["a"; first], vec!["bad"], vec!["a"; last]].concat().join(" ");
            client.send(&stream(&["GET a", &format!("MGET {keys}"), "MGET a a", "GET a"]));
            let expected = ["$1\r\n1\r\n", &refusal, "*2\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n"].concat();
            assert_eq!(settle_without_bad(&mut client), expected, "{order:?}: {first} before, {last} after");
        }
    }
}

#[test]
fn a_long_array_leaves_as_its_values_come() {
    for (value_bytes, count, last) in
        [(1_000, 10_000, "bad"), (1_000, 10_000, "a"), (1 << 20, 40, "a"), (LARGE_BYTES_MAX + 1, 2, "a")]
    {
        let mut client = Client::with(Settings { value_bytes_max: 32 << 20, ..Settings::default() });
        let value = "x".repeat(value_bytes);
        client.say(&format!("SET a {value}"));
        let keys = vec!["a"; count].join(" ");
        client.send(&stream(&[&format!("MGET {keys} {last}"), "PING"]));
        let (mut most, mut got_bytes, mut end) = (0, 0, Vec::new());
        while !client.asked.is_empty() {
            complete_without_bad(&mut client);
            most = most.max(client.session.held_bytes() + client.session.output().len());
            end = std::mem::take(client.session.output());
            got_bytes += end.len();
            let asked = &mut client.asked;
            client.session.resume(&mut |id, request| asked.push((id, request)));
            client.read();
        }
        assert!(client.session.is_at_rest());
        let element = format!("${value_bytes}\r\n{value}\r\n");
        let mut rest = Vec::new();
        match last {
            "bad" => super::super::error::store_error(StoreError::Unreadable).encode(&mut rest),
            _ => rest.extend_from_slice(element.as_bytes()),
        }
        rest.extend_from_slice(b"+PONG\r\n");
        let header = format!("*{}\r\n", count + 1);
        assert_eq!(got_bytes, header.len() + count * element.len() + rest.len(), "{value_bytes} {last}");
        assert!(end.ends_with(&rest));
        let bound = ARRAYS_BYTES_MAX + OUTPUT_BYTES_MAX + LARGE_BYTES_MAX + 2 * element.len();
        assert!(most <= bound, "{most} bytes of {value_bytes} each");
    }
}

#[test]
fn what_is_gathered_takes_no_room_from_what_is_asked() {
    let mut client = Client::new();
    let keys = vec!["a"; 4 * REPLIES_WAITING_MAX].join(" ");
    client.send(&stream(&[&format!("MGET {keys}")]));
    for round in 0..4 {
        assert_eq!(client.asked.len(), REPLIES_WAITING_MAX, "{round}");
        assert!(client.session.output().is_empty());
        client.complete();
    }
    assert!(client.settle() == [&b"*1024\r\n"[..], &b"$-1\r\n".repeat(1024)].concat());
}

/// Nothing else brings on what waits behind it.
#[test]
fn a_header_that_leaves_before_its_values_is_told_of() {
    let mut client = Client::with(Settings { value_bytes_max: 32 << 20, ..Settings::default() });
    client.say(&format!("SET a {}", "x".repeat(LARGE_BYTES_MAX + 1)));
    client.script(&[("SET b 1", "+OK")]);
    client.send(&stream(&["GET b", "MGET a a"]));
    complete_without_bad(&mut client);
    assert_eq!(std::mem::take(client.session.output()), b"$1\r\n1\r\n");
    let asked = &mut client.asked;
    assert!(client.session.resume(&mut |id, request| asked.push((id, request))));
    assert_eq!(std::mem::take(client.session.output()), b"*2\r\n");
    let asked = &mut client.asked;
    assert!(client.session.resume(&mut |id, request| asked.push((id, request))) && !client.asked.is_empty());
}

//! The engine refuses: each refusal is one line, and the stream stays readable.

use super::*;
use crate::command::{Command, StoreError};
use crate::memcached::tally::Tally;
use crate::memcached::{MemcachedCommand, VERSION};
use crate::request::{Reply, Request, RequestId};

const UNREADABLE: &str = "SERVER_ERROR too many nodes failed: the object cannot be read now\r\n";

/// Speaks to a session whose engine refuses the keys that begin with `bad`, answering in the order of `order`.
fn refusing(sent: &str, error: StoreError, reversed: bool) -> String {
    let mut client = open();
    let mut answers = Vec::new();
    let mut sink = |id: RequestId, request: Request<MemcachedCommand>| {
        let Request::Key(command) = request else { panic!("a command on a key") };
        if command.key().starts_with(b"bad") {
            let mut bytes = Vec::new();
            command.refuse(error, &mut bytes);
            answers.push((id, Reply::Bytes(bytes)));
        } else {
            answers.push((id, client.store.handle(client.now, Request::Key(command))));
        }
    };
    let consumed = client.session.handle_input(client.now, &mut client.shared, sent.as_bytes(), &mut sink);
    assert_eq!(consumed, sent.len());
    if reversed {
        answers.reverse();
    }
    client.waiting_answers().extend(answers);
    client.answer();
    String::from_utf8(client.session.output().clone()).expect("text")
}

#[test]
fn refusals_are_server_errors() {
    let expected = [
        (StoreError::OutOfMemory, "SERVER_ERROR out of memory storing object\r\n"),
        (StoreError::TooLarge, "SERVER_ERROR object too large for cache\r\n"),
        (
            StoreError::TooFewNodes { alive: 2, needed: 3 },
            "SERVER_ERROR too few nodes are alive to store safely: 2 of the 3 needed\r\n",
        ),
    ];
    for (error, line) in expected {
        assert_eq!(refusing("set bad 0 0 1\r\n1\r\n", error, false), line);
        assert_eq!(refusing("ms bad 1 q\r\n1\r\n", error, false), line, "quiet meta commands show errors");
        assert_eq!(refusing("get bad\r\n", error, false), line);
        assert_eq!(refusing("set bad 0 0 1 noreply\r\n1\r\n", error, false), "");
    }
}

#[test]
fn a_refused_key_takes_no_reply_of_a_later_request_with_it() {
    let mut client = open();
    client.input = b"get bad b\r\n".to_vec();
    client.read();
    let bad = client.waiting_answers().remove(0);
    client.answer();
    client.input = b"mn\r\nversion\r\nnonsense\r\n".to_vec();
    client.read();
    let refused = [UNREADABLE.as_bytes(), &[Tally::Refused as u8]].concat();
    client.waiting_answers().push((bad.0, Reply::Bytes(refused)));
    client.says("", &format!("{UNREADABLE}MN\r\nVERSION {VERSION}\r\nERROR\r\n"));
}

#[test]
fn what_cannot_be_asked_again_is_refused() {
    for line in ["mg  \r\n", "mg a b\r\n", "version\r\n", ""] {
        let mut client = open();
        client.input = b"mg a\r\nmg a v\r\nmn\r\n".to_vec();
        client.read();
        let place = client.waiting_answers().remove(0).0;
        let again = [line.as_bytes(), &[Tally::Again as u8]].concat();
        client.waiting_answers().insert(0, (place, Reply::Bytes(again)));
        client.says("", &format!("{UNREADABLE}EN\r\nMN\r\n"));
    }
}

#[test]
fn an_unreadable_key_ends_its_get_and_no_other() {
    for reversed in [false, true] {
        let said = refusing(
            "mg x N0\r\nget a bad b bad2 c\r\nget d\r\nget bad\r\nget e f\r\n",
            StoreError::Unreadable,
            reversed,
        );
        // The first command is answered again later, as a write: nothing may overtake it.
        assert_eq!(said, format!("HD W\r\n{UNREADABLE}END\r\n{UNREADABLE}END\r\n"), "reversed: {reversed}");
    }
}

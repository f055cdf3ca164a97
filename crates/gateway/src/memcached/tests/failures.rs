//! The engine refuses: each refusal is one line, and the stream stays readable.

use super::*;
use crate::command::{Command, StoreError};
use crate::memcached::MemcachedCommand;
use crate::request::{Reply, Request, RequestId};

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
fn an_unreadable_key_ends_its_get_and_no_other() {
    for reversed in [false, true] {
        let said = refusing(
            "mg x N0\r\nget a bad b bad2 c\r\nget d\r\nget bad\r\nget e f\r\n",
            StoreError::Unreadable,
            reversed,
        );
        let error = "SERVER_ERROR too many nodes failed: the object cannot be read now\r\n";
        // The first command is answered again later, as a write: nothing may overtake it.
        assert_eq!(said, format!("HD W\r\n{error}END\r\n{error}END\r\n"), "reversed: {reversed}");
    }
}

//! Questions to a scripted etcd, which answers what it is told to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use super::*;

const NOT_FOUND_OLD: &str =
    r#"{"error":"etcdserver: requested lease not found","message":"etcdserver: requested lease not found","code":5}"#;
const NOT_FOUND_NEW: &str = r#"{"code":5,"message":"etcdserver: requested lease not found","details":[]}"#;
const NOT_FOUND_STREAM_OLD: &str = r#"{"error":{"grpc_code":5,"http_code":404,"message":"etcdserver: requested lease not found","http_status":"Not Found"}}"#;
const NOT_FOUND_STREAM_NEW: &str =
    r#"{"error":{"code":5,"message":"etcdserver: requested lease not found","details":[]}}"#;

/// Answers with these, each on a connection of its own; then tells with which token it was asked each time.
fn etcd(answers: Vec<(u16, &'static str)>) -> (Client, JoinHandle<Vec<Option<String>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let serve = move |(status, body): (u16, &'static str)| {
        let (mut stream, _) = listener.accept().expect("it asks");
        let token = read_question(&stream);
        let head = format!("HTTP/1.1 {status} Said\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("heard");
        token
    };
    let serving = std::thread::spawn(move || answers.into_iter().map(serve).collect());
    let agent = ureq::Agent::config_builder().proxy(None).http_status_as_error(false).build();
    let credential = Some(("user".to_owned(), "password".to_owned()));
    (Client { agent: agent.into(), urls: vec![url], current: 0, credential, token: Some("first".to_owned()) }, serving)
}

/// The token that it brings.
fn read_question(stream: &TcpStream) -> Option<String> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length, mut token) = (String::new(), 0, None);
    while line != "\r\n" {
        line.clear();
        assert_ne!(reader.read_line(&mut line).expect("text"), 0, "the head ends");
        if let Some(text) = line.strip_prefix("content-length: ") {
            length = text.trim().parse().expect("a number");
        }
        token = line.strip_prefix("authorization: ").map(|text| text.trim().to_owned()).or(token);
    }
    reader.read_exact(&mut vec![0; length]).expect("the body");
    token
}

#[test]
fn a_lease_that_is_not_there_is_known_in_every_version() {
    for body in [NOT_FOUND_OLD, NOT_FOUND_NEW, NOT_FOUND_STREAM_OLD, NOT_FOUND_STREAM_NEW] {
        for status in [200, 404] {
            let (mut client, _serving) = etcd(vec![(status, body)]);
            let answer = client.ask::<Value>("/v3/kv/txn", &json!({}));
            assert!(matches!(answer, Err(Trouble::Lapsed)), "{body}: {answer:?}");
        }
    }
}

/// A gateway to something else, or one that serves etcd under another path.
#[test]
fn a_path_that_is_not_there_is_no_lease() {
    let (mut client, _serving) = etcd(vec![(404, r#"{"code":5,"message":"Not Found","details":[]}"#)]);
    let answer = client.ask::<Value>("/v3/lease/grant", &json!({}));
    assert!(matches!(&answer, Err(Trouble::Away(why)) if why.ends_with(": Not Found")), "{answer:?}");
}

#[test]
fn a_token_that_is_refused_is_followed_by_another() {
    for body in [
        r#"{"error":"etcdserver: invalid auth token","code":16}"#,
        r#"{"code":16,"message":"etcdserver: invalid auth token"}"#,
        r#"{"code":3,"message":"etcdserver: revision of auth store is old"}"#,
        r#"{"error":"etcdserver: revision of auth store is old","code":3}"#,
        r#"{"code":3,"message":"etcdserver: user name is empty"}"#,
    ] {
        let answers = vec![(400, body), (200, r#"{"token":"second"}"#), (200, r#"{"done":true}"#)];
        let (mut client, serving) = etcd(answers);
        let answer = client.ask::<Value>("/v3/kv/txn", &json!({})).expect("asked again");
        assert_eq!(answer, json!({ "done": true }));
        let tokens = serving.join().expect("it did not fail");
        assert_eq!(tokens, [Some("first".to_owned()), None, Some("second".to_owned())]);
    }
}

#[test]
fn other_complaints_are_told() {
    for body in [r#"{"error":"etcdserver: no leader","code":14}"#, r#"{"code":3,"message":"etcdserver: key is empty"}"#]
    {
        let (mut client, _serving) = etcd(vec![(503, body)]);
        let answer = client.ask::<Value>("/v3/kv/txn", &json!({}));
        assert!(matches!(&answer, Err(Trouble::Away(why)) if why.contains(": etcdserver: ")), "{answer:?}");
    }
}

#[test]
fn what_to_do_is_told_when_etcd_has_no_space_left() {
    for body in [
        r#"{"error":"etcdserver: mvcc: database space exceeded","code":8,"message":"etcdserver: mvcc: database space exceeded"}"#,
        r#"{"code":8,"message":"etcdserver: mvcc: database space exceeded","details":[]}"#,
    ] {
        let (mut client, _serving) = etcd(vec![(429, body)]);
        let answer = client.ask::<Value>("/v3/kv/txn", &json!({}));
        let Err(Trouble::Away(why)) = answer else { panic!("{answer:?}") };
        for told in ["database space exceeded", "compact", "defrag", "alarm disarm", "--auto-compaction-retention"] {
            assert!(why.contains(told), "{told} is missing: {why}");
        }
    }
    let (mut client, _serving) = etcd(vec![(429, r#"{"code":8,"message":"etcdserver: too many requests"}"#)]);
    let answer = client.ask::<Value>("/v3/kv/txn", &json!({}));
    assert!(matches!(&answer, Err(Trouble::Away(why)) if why.ends_with("too many requests")), "{answer:?}");
}

/// As an etcd whose disk is slow does what is to be written.
#[test]
fn what_is_written_may_take_longer_than_what_is_asked() {
    for (within, is_heard) in [(TIMEOUT, false), (3 * TIMEOUT, true)] {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let (given_up, wait) = std::sync::mpsc::channel::<()>();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("it asks");
            read_question(&stream);
            // Ended early once nobody listens any more.
            let _ = wait.recv_timeout(TIMEOUT + TIMEOUT / 2);
            let _ = stream.write_all(b"HTTP/1.1 200 Said\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}");
        });
        let agent = ureq::Agent::config_builder().proxy(None).timeout_global(Some(TIMEOUT)).build();
        let mut client = Client { agent: agent.into(), urls: vec![url], current: 0, credential: None, token: None };
        let answer = client.ask_within::<Value>("/v3/kv/txn", &json!({}), within);
        assert_eq!(answer.is_ok(), is_heard, "{answer:?}");
        drop(given_up);
        serving.join().expect("no panic");
    }
}

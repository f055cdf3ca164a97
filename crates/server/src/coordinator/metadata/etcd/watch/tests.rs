//! The watch against a scripted etcd, which says what it is told to, and remembers what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::*;
use crate::config::{EtcdConfig, EtcdTls};

/// Until a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

fn created(revision: i64) -> Value {
    json!({ "result": { "header": { "revision": revision.to_string() }, "created": true } })
}

fn changed(revision: i64) -> Value {
    let kv = json!({ "key": "a2V5", "mod_revision": revision.to_string() });
    json!({ "result": { "header": { "revision": "99" }, "events": [{ "type": "DELETE", "kv": kv }] } })
}

fn compacted(revision: i64) -> Value {
    json!({ "result": { "canceled": true, "compact_revision": revision.to_string() } })
}

/// One member of etcd, and a watch of it.
struct Scene {
    listener: TcpListener,
    watch: Watch,
    told: Receiver<()>,
}

/// A watch as etcd sees it.
struct Asked {
    stream: TcpStream,
    start_revision: Option<String>,
}

impl Scene {
    fn begin() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let (prefix, tls, poll) = ("/".to_owned(), EtcdTls::default(), PATIENCE);
        let config = EtcdConfig { urls: vec![url], prefix, credential: None, tls, poll };
        let (telling, told) = channel();
        // The test may be over.
        let changed = Box::new(move || _ = telling.send(()));
        let client = Client::new(&config).expect("no certificates");
        let watch = Watch::start(client, "a2V5".to_owned(), changed).expect("a thread");
        Scene { listener, watch, told }
    }

    /// The next watch; it is answered with these.
    fn answer(&self, answers: &[Value]) -> Asked {
        let (mut stream, _) = self.listener.accept().expect("the watch comes");
        let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            assert_ne!(reader.read_line(&mut line).expect("text"), 0, "the head ends");
            if let Some(text) = line.strip_prefix("content-length: ") {
                length = text.trim().parse().expect("a number");
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("the body");
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(body["create_request"]["key"], "a2V5");
        let start_revision = body["create_request"]["start_revision"].as_str().map(str::to_owned);
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").expect("heard");
        let mut asked = Asked { stream, start_revision };
        answers.iter().for_each(|answer| asked.say(answer));
        asked
    }

    fn is_told(&self) {
        self.told.recv_timeout(PATIENCE).expect("told");
    }
}

impl Asked {
    fn say(&mut self, answer: &Value) {
        let text = format!("{answer}\n");
        write!(self.stream, "{:x}\r\n{text}\r\n", text.len()).expect("heard");
    }

    fn start(&self) -> Option<&str> {
        self.start_revision.as_deref()
    }
}

#[test]
fn it_goes_on_after_the_last_revision_that_was_heard_of() {
    let scene = Scene::begin();
    let first = scene.answer(&[created(7)]);
    assert_eq!(first.start(), None);
    scene.is_told();
    drop(first);
    let mut second = scene.answer(&[created(12), changed(9), changed(11)]);
    assert_eq!(second.start(), Some("8"));
    scene.is_told();
    scene.is_told();
    second.say(&changed(13));
    scene.is_told();
    drop(second);
    let third = scene.answer(&[created(20)]);
    assert_eq!(third.start(), Some("14"));
    drop(third);
    scene.answer(&[]);
    assert!(scene.told.try_recv().is_err(), "nothing happened meanwhile");
}

#[test]
fn what_etcd_forgot_is_told_as_a_change() {
    let scene = Scene::begin();
    let first = scene.answer(&[created(7)]);
    scene.is_told();
    drop(first);
    assert_eq!(scene.answer(&[created(40), compacted(30)]).start(), Some("8"));
    let _third = scene.answer(&[created(41)]);
    assert_eq!(_third.start(), None);
    scene.is_told();
}

#[test]
fn an_etcd_with_fewer_revisions_is_another_one() {
    let scene = Scene::begin();
    let first = scene.answer(&[created(7)]);
    scene.is_told();
    drop(first);
    assert_eq!(scene.answer(&[created(3)]).start(), Some("8"));
    let _third = scene.answer(&[created(3)]);
    assert_eq!(_third.start(), None);
    scene.is_told();
}

#[test]
fn it_ends_with_its_owner_whatever_it_waits_for() {
    for answers in [&[][..], &[created(7)]] {
        let scene = Scene::begin();
        let asked = scene.answer(answers);
        let began = Instant::now();
        drop(scene.watch);
        assert!(began.elapsed() < SILENCE_MAX, "it was interrupted");
        drop(asked);
    }
    // Nobody accepts.
    drop(Scene::begin());
}

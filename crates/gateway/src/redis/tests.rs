//! A client in a few words: says commands to a session over the map engine, and reads replies.

mod arrays;
mod cluster;
mod commands;
mod pipeline;
mod server;

use shorttail_units::{Now, UnixMs};

use super::{KeyCommand, RedisSession};
use crate::mapstore::MapStore;
use crate::request::{Request, RequestId};
use crate::session::{Session, Settings, Shared};

/// In which order the engine completes what it was asked at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    Asked,
    Reversed,
}

/// One connection to a store of its own.
struct Client {
    session: RedisSession,
    store: MapStore,
    shared: Shared,
    now: Now,
    input: Vec<u8>,
    /// Asked of the engine, not answered yet.
    asked: Vec<(RequestId, Request<KeyCommand>)>,
    order: Order,
}

impl Client {
    fn new() -> Self {
        Client::with(Settings::default())
    }

    fn with(settings: Settings) -> Self {
        let shared = Shared::new(settings);
        let now = Now { mono_us: 5_000_000, unix_ms: UnixMs(1_700_000_000_000) };
        let session = RedisSession::new("10.0.0.1:5000".into(), "10.0.0.2:6379".into(), now, &shared);
        let (store, order) = (MapStore::default(), Order::Asked);
        Client { session, store, shared, now, input: Vec::new(), asked: Vec::new(), order }
    }

    fn pass_ms(&mut self, ms: u64) {
        self.now.unix_ms = self.now.unix_ms.plus_ms(ms);
        self.now.mono_us += ms * 1000;
    }

    /// Sends bytes; the session reads what it wants of them.
    fn send(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        self.read();
    }

    fn read(&mut self) {
        let asked = &mut self.asked;
        let mut sink = |id, request| asked.push((id, request));
        let consumed = self.session.handle_input(self.now, &mut self.shared, &self.input, &mut sink);
        self.input.drain(..consumed);
    }

    /// Lets the engine complete what it was asked so far; how much that was.
    fn complete(&mut self) -> usize {
        let mut batch = std::mem::take(&mut self.asked);
        let count = batch.len();
        let mut replies: Vec<_> =
            batch.drain(..).map(|(id, request)| (id, self.store.handle(self.now, request))).collect();
        if self.order == Order::Reversed {
            replies.reverse();
        }
        for (id, reply) in replies {
            let asked = &mut self.asked;
            let mut sink = |id, request| asked.push((id, request));
            self.session.handle_reply(self.now, &mut self.shared, id, reply, &mut sink);
        }
        count
    }

    /// Goes on until nothing moves any more; what the client got.
    fn settle(&mut self) -> Vec<u8> {
        let mut got = Vec::new();
        loop {
            let left = self.input.len();
            self.read();
            let completed = self.complete();
            let output = std::mem::take(self.session.output());
            let asked = &mut self.asked;
            let has_resumed = self.session.resume(&mut |id, request| asked.push((id, request)));
            if output.is_empty() && completed == 0 && !has_resumed && self.input.len() == left {
                return got;
            }
            got.extend_from_slice(&output);
        }
    }

    /// Says one command, words split at spaces; the reply, its lines joined by spaces.
    fn say(&mut self, command: &str) -> String {
        self.say_words(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    fn say_words(&mut self, words: &[&[u8]]) -> String {
        self.send(&request(words));
        let reply = String::from_utf8_lossy(&self.settle()).into_owned();
        reply.strip_suffix("\r\n").expect("a reply ends its line").replace("\r\n", " ")
    }

    /// Says each command and compares its reply.
    fn script(&mut self, lines: &[(&str, &str)]) {
        for (command, reply) in lines {
            assert_eq!(self.say(command), *reply, "{command}");
        }
    }
}

fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    shorttail_wire::resp::encode::array(&mut bytes, words.len());
    words.iter().for_each(|word| shorttail_wire::resp::encode::bulk(&mut bytes, word));
    bytes
}

/// Several commands, one after the other, as one stream.
fn stream(commands: &[&str]) -> Vec<u8> {
    let encode = |command: &&str| request(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    commands.iter().flat_map(encode).collect()
}

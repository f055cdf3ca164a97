//! A session wired to a [`MapStore`]: what the tests and the fuzz target drive.

use shorttail_units::{Now, UnixMs};

use super::{MemcachedCommand, MemcachedSession};
use crate::mapstore::MapStore;
use crate::request::{Reply, Request, RequestId};
use crate::session::{Session, Settings, Shared};

/// In which order the engine's answers reach the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerOrder {
    Asked,
    Reversed,
    /// Drawn from a sequence that begins with this number.
    Shuffled(u64),
}

#[derive(Debug)]
pub struct Loopback {
    pub session: MemcachedSession,
    pub shared: Shared,
    pub store: MapStore,
    pub now: Now,
    pub order: AnswerOrder,
    /// Input that the session has not consumed.
    pub input: Vec<u8>,
    answers: Vec<(RequestId, Reply)>,
}

impl Loopback {
    pub fn new(settings: Settings) -> Self {
        Loopback {
            session: MemcachedSession::default(),
            shared: Shared::new(settings),
            store: MapStore::default(),
            now: Now { mono_us: 0, unix_ms: UnixMs(1_800_000_000_000) },
            order: AnswerOrder::Asked,
            input: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// The client sends `bytes`; returns all that the server then says.
    pub fn send(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.input.extend_from_slice(bytes);
        let mut said = Vec::new();
        loop {
            let consumed = self.read();
            let has_said = !self.session.output().is_empty();
            said.append(self.session.output());
            let has_resumed = self.resume();
            if !self.answer() && consumed == 0 && !has_said && !has_resumed {
                return said;
            }
        }
    }

    /// The client took its output; `true` if the session goes on.
    pub fn resume(&mut self) -> bool {
        let (store, answers, now) = (&mut self.store, &mut self.answers, self.now);
        self.session.resume(&mut |id: RequestId, request: Request<MemcachedCommand>| {
            answers.push((id, store.handle(now, request)));
        })
    }

    /// Lets the session read what it will; the store acts at once, its answers wait.
    pub fn read(&mut self) -> usize {
        let (store, answers, now) = (&mut self.store, &mut self.answers, self.now);
        let mut sink = |id: RequestId, request: Request<MemcachedCommand>| {
            answers.push((id, store.handle(now, request)));
        };
        let consumed = self.session.handle_input(now, &mut self.shared, &self.input, &mut sink);
        self.input.drain(..consumed);
        consumed
    }

    /// Gives the session the answers that wait; `false` if there are none.
    pub fn answer(&mut self) -> bool {
        let any = !self.answers.is_empty();
        while !self.answers.is_empty() {
            let index = self.next_answer();
            let (id, reply) = self.answers.remove(index);
            let (store, answers, now) = (&mut self.store, &mut self.answers, self.now);
            let mut sink = |id: RequestId, request: Request<MemcachedCommand>| {
                answers.push((id, store.handle(now, request)));
            };
            self.session.handle_reply(now, &mut self.shared, id, reply, &mut sink);
        }
        any
    }

    /// Answers that wait, to be changed by a test.
    #[cfg(test)]
    pub fn waiting_answers(&mut self) -> &mut Vec<(RequestId, Reply)> {
        &mut self.answers
    }

    fn next_answer(&mut self) -> usize {
        match &mut self.order {
            AnswerOrder::Asked => 0,
            AnswerOrder::Reversed => self.answers.len() - 1,
            AnswerOrder::Shuffled(state) => {
                *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                usize::try_from(*state >> 33).unwrap_or(0) % self.answers.len()
            }
        }
    }
}

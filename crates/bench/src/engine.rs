//! The client of one thread without its sockets: decides what to ask next, judges what comes back, records both.
//!
//! Sans-IO: time is an argument in nanoseconds, requests are appended to a buffer, replies come parsed. The same engine
//! runs against a server in virtual time in its tests. Must not know: connections, clocks, other threads.

use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::choice::KeyChooser;
use crate::codec::{Expect, Found, Reply, SetHead, shown};
use crate::history::{History, Mismatch, Verdict, Write};
use crate::limits::KEYS_MAX;
use crate::pacer::{Limit, Pacer, Turn};
use crate::plan::Plan;
use crate::recorder::{Completion, Recorder};
use crate::workload::OperationClass;

/// The stages of a run, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Every key is set once.
    Preload,
    WarmUp,
    Measure,
    /// Every key is read once.
    Verify,
}

/// Which of the run's keys a thread has: those whose number is `index` modulo `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub index: u32,
    pub count: u32,
}

/// A request on its way.
pub struct Pending {
    pub expect: Expect,
    /// When it was handed to the connection.
    pub sent_ns: u64,
    class: OperationClass,
    /// Since when the operation counts; for the write of a read-modify-write, since its read.
    intended_ns: u64,
    first: KeyRead,
    rest: Vec<KeyRead>,
    write: Option<Write>,
}

/// A key and the oldest version that is a right answer.
#[derive(Clone, Copy)]
struct KeyRead {
    key: u32,
    floor: u32,
}

/// What to do next.
pub enum Next {
    /// A request was appended; its reply belongs to this.
    Sent(Pending),
    WaitUntil(u64),
    Finished,
}

enum Source {
    Mix,
    SetEach { next: u32 },
    GetEach { next: u32 },
}

pub struct Engine {
    plan: Arc<Plan>,
    part: Part,
    history: History,
    chooser: KeyChooser,
    rng: SmallRng,
    pacer: Pacer,
    source: Source,
    /// The trace's next access.
    trace_at: usize,
    phase_start_ns: u64,
    recorder: Recorder,
    key: Vec<u8>,
}

impl Engine {
    pub fn new(plan: Arc<Plan>, part: Part) -> Self {
        let keys = plan.keys / part.count + u32::from(part.index < plan.keys % part.count);
        let history = History::new(keys, plan.absence());
        Engine {
            history: if plan.stored_before { history.stored_before() } else { history },
            chooser: KeyChooser::new(plan.choice, keys),
            rng: SmallRng::seed_from_u64(plan.seed ^ crate::names::mix(u64::from(part.index))),
            pacer: Pacer::new(None, plan.arrivals, Limit::Operations(0), 0),
            source: Source::Mix,
            trace_at: 0,
            phase_start_ns: 0,
            recorder: Recorder::default(),
            key: Vec::new(),
            plan,
            part,
        }
    }

    /// Starts a phase; what was recorded before must have been taken.
    pub fn start(&mut self, phase: Phase, now_ns: u64) {
        let keys = Limit::Operations(u64::from(self.history.count()));
        let threads = f64::from(self.part.count);
        let rate = self.plan.rate.map(|rate| rate / threads);
        let (source, rate, limit) = match phase {
            Phase::Preload => (Source::SetEach { next: 0 }, None, keys),
            Phase::Verify => (Source::GetEach { next: 0 }, None, keys),
            Phase::WarmUp => (Source::Mix, rate, Limit::Duration(self.plan.warm_up_ns)),
            Phase::Measure => (Source::Mix, rate, self.share_of(self.plan.limit)),
        };
        self.source = source;
        self.pacer = Pacer::new(rate, self.plan.arrivals, limit, now_ns);
        self.recorder.samples = (self.plan.keep_samples && phase == Phase::Measure).then(Vec::new);
        self.phase_start_ns = now_ns;
    }

    fn share_of(&self, limit: Limit) -> Limit {
        let (index, count) = (u64::from(self.part.index), u64::from(self.part.count));
        match limit {
            Limit::Operations(all) => Limit::Operations(all / count + u64::from(index < all % count)),
            timed => timed,
        }
    }

    pub fn take_recorder(&mut self) -> Recorder {
        std::mem::take(&mut self.recorder)
    }

    /// The loop around this engine woke up so much after the time that it was told to wait for.
    pub fn woke_late(&mut self, late_ns: u64) {
        self.recorder.client_late(late_ns);
    }

    /// Operations answered and failed in this phase.
    pub fn progress(&self) -> (u64, u64) {
        (self.recorder.operations, self.recorder.error_count)
    }

    /// What failed first in this phase.
    pub fn first_error(&self) -> Option<&str> {
        let errors = self.recorder.errors.iter();
        errors.min_by_key(|(_, error)| error.first_at_ns).map(|(text, _)| text.as_str())
    }

    /// Appends the next request, if one is due.
    pub fn poll_request(&mut self, now_ns: u64, out: &mut Vec<u8>) -> Next {
        match self.pacer.poll(now_ns, &mut self.rng) {
            Turn::WaitUntil(at_ns) => Next::WaitUntil(at_ns),
            Turn::Finished => Next::Finished,
            Turn::Start { intended_ns } => {
                let (class, key) = self.choose();
                Next::Sent(self.request(class, key, intended_ns, now_ns, out))
            }
        }
    }

    fn choose(&mut self) -> (OperationClass, u32) {
        match &mut self.source {
            Source::SetEach { next } => {
                *next += 1;
                (OperationClass::Set, *next - 1)
            }
            Source::GetEach { next } => {
                *next += 1;
                (OperationClass::Get, *next - 1)
            }
            Source::Mix if self.plan.names.trace.is_some() => self.next_access(),
            Source::Mix => match self.plan.mix.draw(&mut self.rng) {
                OperationClass::Insert if self.history.count() < KEYS_MAX / self.part.count => {
                    (OperationClass::Insert, self.history.add_key())
                }
                class => (class, self.chooser.draw(&mut self.rng, self.history.count())),
            },
        }
    }

    /// The trace's next access to a key of this thread; after the last comes the first.
    fn next_access(&mut self) -> (OperationClass, u32) {
        let accesses = self.plan.names.trace.as_ref().map_or(&[][..], |trace| &trace.accesses);
        let Part { index, count } = self.part;
        loop {
            let access = accesses[self.trace_at];
            self.trace_at = (self.trace_at + 1) % accesses.len();
            // Every key occurs, so every thread finds one of its own.
            if access.key % count == index {
                let class = if access.is_read { OperationClass::Get } else { OperationClass::Set };
                return (class, access.key / count);
            }
        }
    }

    fn request(
        &mut self,
        class: OperationClass,
        key: u32,
        intended_ns: u64,
        now_ns: u64,
        out: &mut Vec<u8>,
    ) -> Pending {
        let first = KeyRead { key, floor: self.history.floor(key) };
        let expect = Expect::Values { keys: 1 };
        let mut pending = Pending { expect, sent_ns: now_ns, class, intended_ns, first, rest: Vec::new(), write: None };
        match class {
            OperationClass::Get | OperationClass::ReadModifyWrite => {
                self.name_key(key);
                self.plan.codec.write_get(&[&self.key], out);
            }
            OperationClass::Set | OperationClass::Insert => self.write_set(&mut pending, out),
            OperationClass::MultiGet => self.write_multi_get(&mut pending, out),
            OperationClass::Delete => {
                pending.write = Some(self.history.begin_delete(key));
                pending.expect = Expect::Deleted;
                self.name_key(key);
                self.plan.codec.write_delete(&self.key, out);
            }
        }
        pending
    }

    fn write_set(&mut self, pending: &mut Pending, out: &mut Vec<u8>) {
        let key = pending.first.key;
        let write = self.history.begin_set(key);
        pending.write = Some(write);
        pending.expect = Expect::Stored;
        self.name_key(key);
        let (names, name) = (&self.plan.names, self.global(key));
        let value_bytes = names.value_size(name, write.version);
        let head = SetHead { key: &self.key, value_bytes, ttl_seconds: names.ttl_seconds(name, write.version) };
        self.plan.codec.write_set(head, |out| names.write_value(name, write.version, out), out);
    }

    /// The key drawn and those after it, as YCSB's scan.
    fn write_multi_get(&mut self, pending: &mut Pending, out: &mut Vec<u8>) {
        let count = self.history.count();
        let wanted = self.rng.random_range(1..=self.plan.multi_get_max).min(count);
        let key = |offset: u32| {
            let sum = u64::from(pending.first.key) + u64::from(offset);
            u32::try_from(sum % u64::from(count)).expect("below a u32")
        };
        pending.rest = (1..wanted).map(key).map(|key| KeyRead { key, floor: self.history.floor(key) }).collect();
        pending.expect = Expect::Values { keys: wanted as usize };
        let all = std::iter::once(&pending.first).chain(&pending.rest);
        let names: Vec<Vec<u8>> = all.map(|read| self.key_name(read.key)).collect();
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        self.plan.codec.write_get(&names, out);
    }

    /// Takes the reply of `pending`, whose ranges point into `input`. Returns the operation's next
    /// request, if it has one.
    pub fn handle_reply(
        &mut self,
        now_ns: u64,
        mut pending: Pending,
        reply: Reply,
        found: &Found,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<Pending> {
        match reply {
            Reply::Error(text) => {
                self.handle_failure(now_ns, pending, &text);
                return None;
            }
            Reply::Values => {
                self.judge_values(now_ns, &pending, found, input);
                if pending.class == OperationClass::ReadModifyWrite {
                    // The whole operation is timed: only the deadline starts again.
                    self.write_set(&mut pending, out);
                    pending.sent_ns = now_ns;
                    return Some(pending);
                }
            }
            Reply::NotFound => {
                let verdict = self.history.judge_absent(pending.first.key, pending.first.floor);
                self.judged(now_ns, pending.first.key, verdict);
            }
            Reply::Stored | Reply::Deleted => {}
        }
        if let Some(write) = pending.write {
            self.history.acknowledged(pending.first.key, write);
        }
        let (done, key) = (self.completion(&pending, now_ns), pending.first.key);
        let shown_key = shown_key(&self.plan, self.global(key));
        self.recorder.completed(&done, shown_key);
        None
    }

    /// The operation failed, and whether its write took effect is unknown.
    pub fn handle_failure(&mut self, now_ns: u64, pending: Pending, text: &str) {
        if let Some(write) = pending.write {
            self.history.unknown(pending.first.key, write);
        }
        let done = self.completion(&pending, now_ns);
        let shown_key = shown_key(&self.plan, self.global(pending.first.key));
        self.recorder.failed(&done, text, shown_key);
    }

    fn completion(&self, pending: &Pending, now_ns: u64) -> Completion {
        let since = |at_ns: u64| at_ns.saturating_sub(self.phase_start_ns);
        Completion {
            class: pending.class,
            intended_ns: since(pending.intended_ns),
            sent_ns: since(pending.sent_ns),
            now_ns: since(now_ns),
        }
    }

    /// Judges each key asked for. memcached leaves out absent keys and names the others, in the order asked.
    fn judge_values(&mut self, now_ns: u64, pending: &Pending, found: &Found, input: &[u8]) {
        let mut values = found.values.iter().peekable();
        for read in std::iter::once(&pending.first).chain(&pending.rest) {
            self.name_key(read.key);
            let named = |key: &Option<std::ops::Range<usize>>| {
                key.as_ref().is_none_or(|range| input[range.clone()] == self.key[..])
            };
            let value = values.next_if(|one| named(&one.key)).and_then(|one| one.value.clone());
            let verdict = match value {
                None => self.history.judge_absent(read.key, read.floor),
                Some(range) => {
                    let name = self.global(read.key);
                    self.history.judge_value(&self.plan.names, read.key, name, read.floor, &input[range])
                }
            };
            self.judged(now_ns, read.key, verdict);
        }
        if values.next().is_some() {
            self.judged(now_ns, pending.first.key, Verdict::Mismatch(Mismatch::Unasked));
        }
    }

    fn judged(&mut self, now_ns: u64, key: u32, verdict: Verdict) {
        let shown_key = shown_key(&self.plan, self.global(key));
        self.recorder.judged(verdict, now_ns.saturating_sub(self.phase_start_ns), shown_key);
    }

    fn global(&self, key: u32) -> u32 {
        key * self.part.count + self.part.index
    }

    fn name_key(&mut self, key: u32) {
        self.key.clear();
        self.plan.names.write_key(key * self.part.count + self.part.index, &mut self.key);
    }

    fn key_name(&self, key: u32) -> Vec<u8> {
        let mut name = Vec::new();
        self.plan.names.write_key(self.global(key), &mut name);
        name
    }
}

fn shown_key(plan: &Plan, global: u32) -> impl Fn() -> String {
    move || {
        let mut name = Vec::new();
        plan.names.write_key(global, &mut name);
        shown(&name)
    }
}

#[cfg(test)]
mod tests;

//! Clients: what they ask, when, and what the history records of it.

use std::collections::BTreeMap;

use shorttail_gateway::command::Command;
use shorttail_gateway::engine::Token;
use shorttail_gateway::request::{GroupPut, KeyspaceReply, KeyspaceRequest, Reply, Request, RequestId};

use super::ends::OrderedFlushes;
use super::{CLIENT_DELAY_US, Event, Sample, World};
use crate::command_of_model::{Heard, SimCommand, Verb};
use crate::history::OperationId;
use crate::model::{Action, Answer, Value};
use crate::workload::{Wish, Workload};

/// Room that a key's history keeps for the reads and deletes after healing.
const ROOM_KEPT: usize = 40;

/// Names an operation of a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Op(pub(super) u64);

/// How an operation of a scenario ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Answered(Answer),
    Refused,
    Unknown,
}

/// A reply on its way to a client.
#[derive(Debug)]
pub(super) enum Received {
    Key(Heard),
    /// Of a group: whether it stored.
    Group(Heard),
    Keyspace(Heard),
}

enum Kind {
    Key {
        key: Vec<u8>,
        is_read: bool,
    },
    Group {
        only_if_absent: bool,
    },
    Flush,
    /// A flush for later.
    FlushLater,
    Other,
}

struct Pending {
    client: u32,
    kind: Kind,
    asked_us: u64,
    records: Vec<OperationId>,
    /// The gateway that was asked, the one that has it now, and as the owner of which epoch.
    asked: usize,
    at: usize,
    epoch: u32,
    /// Until it reaches the gateway.
    request: Option<Request<SimCommand>>,
    /// The gateway answered it: the reply is on its way.
    is_answered: bool,
    /// Its outcome is kept for a scenario.
    is_watched: bool,
}

pub(super) struct Clients {
    workload: Workload,
    client_count: u32,
    pending: BTreeMap<u64, Pending>,
    op_next: u64,
    /// What was read last of a key, and under which token.
    read: BTreeMap<Vec<u8>, (Value, u64)>,
    outcomes: BTreeMap<Op, Outcome>,
    pub(super) flushes: OrderedFlushes,
    /// Which gateway each client asks, if not the one of its own number.
    homes: BTreeMap<u32, usize>,
}

impl Clients {
    pub fn new(workload: Workload, client_count: u32) -> Self {
        Clients {
            workload,
            client_count,
            pending: BTreeMap::new(),
            op_next: 1,
            read: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            flushes: OrderedFlushes::default(),
            homes: BTreeMap::new(),
        }
    }

    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    pub fn keys(&self) -> Vec<Vec<u8>> {
        self.workload.keys().map(<[u8]>::to_vec).collect()
    }

    /// What is still waited for, for people.
    pub fn pending_text(&self) -> String {
        let shown = self.pending.iter().take(5).map(|(op, pending)| match &pending.kind {
            Kind::Key { key, .. } => format!("operation {op} on {}", key.escape_ascii()),
            Kind::Group { .. } => format!("operation {op}, a group"),
            Kind::Flush | Kind::FlushLater => format!("operation {op}, a flush"),
            Kind::Other => format!("operation {op} on the keyspace"),
        });
        format!("{} pending: {}", self.pending.len(), shown.collect::<Vec<_>>().join(", "))
    }

    /// Is a flush asked for and not answered?
    pub(super) fn flushes_under_way(&self) -> bool {
        self.pending.values().any(|pending| matches!(pending.kind, Kind::Flush | Kind::FlushLater))
    }

    fn in_flight(&self, client: u32) -> usize {
        self.pending.values().filter(|pending| pending.client == client).count()
    }
}

impl World {
    pub(super) fn start_clients(&mut self) {
        self.is_active = true;
        for client in 0..self.clients.client_count {
            self.schedule_tick(client);
        }
    }

    fn schedule_tick(&mut self, client: u32) {
        let think_us = self.config.think_us_mean;
        let delay_us = self.rng.exponential_us(think_us, think_us * 20);
        self.schedule.after(delay_us, Event::ClientTick { client });
    }

    pub(super) fn client_tick(&mut self, client: u32) {
        if !self.is_active {
            return;
        }
        self.schedule_tick(client);
        if self.clients.in_flight(client) < self.config.client_window {
            let wish = self.clients.workload.wish();
            self.act(client, wish);
        }
    }

    fn act(&mut self, client: u32, wish: Wish) {
        match wish {
            Wish::Key { key, action, touches } => {
                let verb = if touches { Verb::GetAndTouch } else { Verb::Plain(action.clone()) };
                self.ask_key(client, key, action, verb);
            }
            Wish::SwapRead { key, new } => match self.clients.read.get(&key).cloned() {
                Some((expected, token)) => {
                    let action = Action::CompareAndSet { expected, new: new.clone() };
                    self.ask_key(client, key, action, Verb::Swap { token, new });
                }
                None => _ = self.ask_key(client, key, Action::Get, Verb::Plain(Action::Get)),
            },
            Wish::Group { pairs, only_if_absent } => self.ask_group(client, &pairs, only_if_absent),
            Wish::Flush => {
                self.clients.flushes.may_be_cancelled();
                let keys = self.clients.keys();
                let records = self.invoke_all(client, keys.iter().map(|key| (key.as_slice(), Action::Clear)));
                if let Some(records) = records {
                    self.send(client, Kind::Flush, records, Request::Keyspace(KeyspaceRequest::Flush { at: None }));
                }
            }
            Wish::FlushLater { delay_ms } => self.order_flush(client, delay_ms),
            Wish::Until { key, value, lifetime_ms } => {
                let at_us = self.moment_after(lifetime_ms);
                let action = value.map_or(Action::TouchUntil(at_us), |value| Action::SetUntil(value, at_us));
                if self.ask_key(client, key.clone(), action.clone(), Verb::Plain(action)).is_some() {
                    self.schedule.at(at_us, Event::Expire { key });
                }
            }
            Wish::Count => {
                self.send(client, Kind::Other, Vec::new(), Request::Keyspace(KeyspaceRequest::Count));
            }
            Wish::Scan => {
                let scan = KeyspaceRequest::Scan { cursor: 0, count: 10 };
                self.send(client, Kind::Other, Vec::new(), Request::Keyspace(scan));
            }
        }
    }

    fn ask_key(&mut self, client: u32, key: Vec<u8>, action: Action, verb: Verb) -> Option<u64> {
        let records = self.invoke_all(client, [(key.as_slice(), action)].into_iter())?;
        let is_read = matches!(verb, Verb::Plain(Action::Get));
        let command = SimCommand { key: key.clone(), verb };
        Some(self.send(client, Kind::Key { key, is_read }, records, Request::Key(command)))
    }

    fn ask_group(&mut self, client: u32, pairs: &[(Vec<u8>, Value)], only_if_absent: bool) {
        let action = |value: &Value| match only_if_absent {
            true => Action::Add(value.clone()),
            false => Action::Set(value.clone()),
        };
        let actions = pairs.iter().map(|(key, value)| (key.as_slice(), action(value)));
        let Some(records) = self.invoke_all(client, actions) else { return };
        let pairs = pairs.iter().map(|(key, value)| (key.clone(), value.as_bytes().to_vec())).collect();
        let request = Request::Group(GroupPut { pairs, only_if_absent });
        self.send(client, Kind::Group { only_if_absent }, records, request);
    }

    /// `None`, with nothing recorded, when a key's history is full.
    fn invoke_all<'a>(
        &mut self,
        client: u32,
        actions: impl Iterator<Item = (&'a [u8], Action)>,
    ) -> Option<Vec<OperationId>> {
        let actions: Vec<_> = actions.collect();
        let kept = if self.is_active { ROOM_KEPT } else { 0 };
        if actions.iter().any(|(key, _)| self.history.room(key) <= kept) {
            return None;
        }
        let now_us = self.schedule.now_us();
        let mut records = Vec::new();
        for (key, action) in actions {
            self.trace.record(now_us, format_args!("client {client} {} {action}", key.escape_ascii()));
            records.push(self.history.invoke(now_us, client, key, action).expect("room, and values that fit"));
        }
        Some(records)
    }

    /// A flush that takes effect later.
    pub(super) fn send_flush_for_later(&mut self, client: u32, at: shorttail_units::UnixMs) -> u64 {
        let request = Request::Keyspace(KeyspaceRequest::Flush { at: Some(at) });
        self.send(client, Kind::FlushLater, Vec::new(), request)
    }

    fn send(&mut self, client: u32, kind: Kind, records: Vec<OperationId>, request: Request<SimCommand>) -> u64 {
        let op = self.clients.op_next;
        self.clients.op_next += 1;
        self.counts.operations += 1;
        let request = Some(request);
        let asked_us = self.schedule.now_us();
        let gateway = self.home_of(client);
        let pending = Pending {
            client,
            kind,
            asked_us,
            records,
            asked: gateway,
            at: gateway,
            epoch: 0,
            request,
            is_answered: false,
            is_watched: false,
        };
        self.clients.pending.insert(op, pending);
        let delay_us = self.rng.exponential_us(CLIENT_DELAY_US, 50 * CLIENT_DELAY_US);
        self.schedule.after(delay_us, Event::Request { op });
        op
    }

    fn home_of(&self, client: u32) -> usize {
        self.clients.homes.get(&client).copied().unwrap_or(client as usize % self.gateways.len())
    }

    pub(super) fn request_arrives(&mut self, op: u64) {
        let Some(pending) = self.clients.pending.get_mut(&op) else { return };
        let Some(request) = pending.request.take() else { return };
        let gateway = pending.asked;
        let host = &self.gateways[gateway];
        // Alone, it listens once it serves.
        let is_serving = if self.gateways.len() == 1 { host.is_serving() } else { host.is_up };
        if !is_serving {
            // Nobody listens: the client is told so at once, and knows that nothing happened.
            return self.op_ends(op, Received::Key(Heard::Refused));
        }
        if let Request::Key(command) = &request {
            let key = command.key().escape_ascii().to_string();
            self.trace.record(self.schedule.now_us(), format_args!("operation {op} on {key} arrives"));
        }
        let pending = &self.clients.pending[&op];
        let token = Token { connection: u64::from(pending.client), id: RequestId { seq: op, part: 0 } };
        self.ask_gateway(gateway, token, request);
    }

    /// The gateway answers.
    ///
    /// # Panics
    /// If it answers what nobody asked, or twice: the engine mixed something up.
    pub(super) fn reply_leaves(&mut self, op: u64, reply: Reply) {
        let Some(pending) = self.clients.pending.get_mut(&op) else {
            assert!(self.gateways.len() > 1, "a reply to operation {op}, which is over");
            // The gateway through which it was asked died.
            return;
        };
        assert!(!pending.is_answered, "operation {op} is answered twice");
        pending.is_answered = true;
        pending.records.iter().for_each(|record| self.history.leave(record));
        let received = match reply {
            Reply::Bytes(bytes) => {
                let heard = Heard::parse(&bytes);
                if heard == Heard::Refused {
                    let reason = bytes[1..].escape_ascii();
                    self.trace.record(self.schedule.now_us(), format_args!("operation {op} is refused: {reason}"));
                }
                Received::Key(heard)
            }
            Reply::Group(Ok(stored)) => Received::Group(Heard::Answer { answer: Answer::Applied(stored), token: None }),
            Reply::Group(Err(error)) => Received::Group(Heard::of_error(error)),
            Reply::Keyspace(Ok(reply)) => {
                self.check_keyspace(&reply);
                Received::Keyspace(Heard::Answer { answer: Answer::Done, token: None })
            }
            Reply::Keyspace(Err(error)) => Received::Keyspace(Heard::of_error(error)),
        };
        self.audit_acknowledgement(op, &received);
        let delay_us = self.rng.exponential_us(CLIENT_DELAY_US, 50 * CLIENT_DELAY_US);
        self.schedule.after(delay_us, Event::Reply { op, reply: received });
    }

    fn check_keyspace(&self, reply: &KeyspaceReply) {
        if let KeyspaceReply::Scanned { keys, .. } = reply {
            let known = self.clients.keys();
            assert!(keys.iter().all(|found| known.contains(&found.key)), "a scan found a key that nobody wrote");
        }
    }

    pub(super) fn reply_arrives(&mut self, op: u64, received: Received) {
        if self.clients.pending.contains_key(&op) {
            self.op_ends(op, received);
        }
    }

    /// For which epoch an operation was passed on last.
    pub(super) fn op_epoch(&self, op: u64) -> u32 {
        self.clients.pending.get(&op).map_or(0, |pending| pending.epoch)
    }

    /// An operation goes on to another gateway.
    pub(super) fn op_moves(&mut self, op: u64, epoch: u32, gateway: usize) {
        if let Some(pending) = self.clients.pending.get_mut(&op) {
            (pending.at, pending.epoch) = (gateway, epoch);
        }
    }

    /// A gateway refuses an operation that no engine took.
    pub(super) fn refuse_op(&mut self, op: u64) {
        if let Some(pending) = self.clients.pending.get_mut(&op) {
            pending.is_answered = true;
            let delay_us = self.rng.exponential_us(CLIENT_DELAY_US, 50 * CLIENT_DELAY_US);
            self.schedule.after(delay_us, Event::Reply { op, reply: Received::Key(Heard::Refused) });
        }
    }

    pub(super) fn clients_lose_connections(&mut self, gateway: usize) {
        let pending = self.clients.pending.iter();
        let ops = pending.filter(|(_, pending)| [pending.asked, pending.at].contains(&gateway)).map(|(&op, _)| op);
        for op in ops.collect::<Vec<_>>() {
            let delay_us = self.rng.below(20 * CLIENT_DELAY_US);
            self.schedule.after(delay_us, Event::ConnectionLost { op });
        }
    }

    pub(super) fn connection_lost(&mut self, op: u64) {
        let Some(pending) = self.clients.pending.get(&op) else { return };
        let was_sent = pending.request.is_none();
        self.op_ends(op, Received::Key(if was_sent { Heard::Unknown } else { Heard::Refused }));
    }

    fn op_ends(&mut self, op: u64, received: Received) {
        let pending = self.clients.pending.remove(&op).expect("an operation that is pending");
        let heard = match &received {
            Received::Key(heard) | Received::Group(heard) | Received::Keyspace(heard) => heard.clone(),
        };
        self.trace.record(self.schedule.now_us(), format_args!("operation {op}: {heard:?}"));
        if !matches!(heard, Heard::Answer { .. }) && self.gateways.len() > 1 {
            // Somebody else may know better.
            let next = (self.home_of(pending.client) + 1) % self.gateways.len();
            self.clients.homes.insert(pending.client, next);
        }
        let outcome = match &heard {
            Heard::Answer { answer, token } => self.conclude_answered(&pending, answer, *token),
            Heard::Refused => {
                pending.records.iter().for_each(|record| self.history.refuse(record));
                self.counts.refused += 1;
                Outcome::Refused
            }
            Heard::Unknown => {
                pending.records.iter().for_each(|record| self.history.lose(record));
                self.counts.unknown += 1;
                Outcome::Unknown
            }
        };
        if matches!(pending.kind, Kind::FlushLater) {
            self.flush_was_ordered(op, &heard);
        }
        if pending.is_watched {
            self.clients.outcomes.insert(Op(op), outcome);
        }
    }

    fn conclude_answered(&mut self, pending: &Pending, answer: &Answer, token: Option<u64>) -> Outcome {
        self.counts.answered += 1;
        let now_us = self.schedule.now_us();
        // Groups are about few keys, and whoever asks for these waits for them.
        if let Kind::Key { key, is_read } = &pending.kind
            && !key.starts_with(b"{group}")
        {
            let stored_bytes = match &self.history.operation(&pending.records[0]).action {
                Action::Set(value) => Some(value.as_bytes().len()),
                _ => None,
            };
            let latency_us = now_us - pending.asked_us;
            self.samples.push(Sample { asked_us: pending.asked_us, latency_us, is_read: *is_read, stored_bytes });
        }
        match &pending.kind {
            Kind::Key { key, .. } => {
                if let (Answer::Found(Some(value)), Some(token)) = (answer, token) {
                    self.clients.read.insert(key.clone(), (value.clone(), token));
                }
                self.history.answer(now_us, &pending.records[0], answer.clone());
            }
            // One of the keys existed: nothing is said of the others, and nothing happened.
            Kind::Group { only_if_absent: true } if *answer == Answer::Applied(false) => {
                pending.records.iter().for_each(|record| self.history.refuse(record));
            }
            Kind::Group { only_if_absent } => {
                assert_eq!(*answer, Answer::Applied(true), "a group without a condition is stored");
                let answer = if *only_if_absent { Answer::Applied(true) } else { Answer::Done };
                for record in &pending.records {
                    self.history.answer(now_us, record, answer.clone());
                }
            }
            Kind::Flush => {
                for record in &pending.records {
                    self.history.answer(now_us, record, Answer::Done);
                }
            }
            Kind::FlushLater | Kind::Other => {}
        }
        Outcome::Answered(answer.clone())
    }

    /// The value that a plain store was asked to write, if nothing else was at work on its key: then nodes hold it.
    pub(super) fn sole_value_of(&self, op: u64) -> Option<(Vec<u8>, Value)> {
        let pending = self.clients.pending.get(&op)?;
        let (Kind::Key { key, .. }, [record]) = (&pending.kind, pending.records.as_slice()) else { return None };
        let (own, others_overlap) = self.history.overlap(record);
        match &own.action {
            Action::Set(value) if !others_overlap => Some((key.clone(), value.clone())),
            _ => None,
        }
    }

    /// A scenario's client asks; see [`World::outcome`].
    pub fn request(&mut self, client: u32, key: &str, action: Action) -> Op {
        let op = self.ask_key(client, key.as_bytes().to_vec(), action.clone(), Verb::Plain(action));
        self.watch(op.expect("room in the history"))
    }

    /// A scenario's client stores several keys of one slot together.
    pub fn request_group(&mut self, client: u32, pairs: &[(&str, Value)]) -> Op {
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.clone())).collect();
        self.ask_group(client, &pairs, false);
        self.watch(self.clients.op_next - 1)
    }

    /// A scenario's client flushes everything.
    pub fn request_flush(&mut self, client: u32) -> Op {
        self.clients.flushes.may_be_cancelled();
        let request = Request::Keyspace(KeyspaceRequest::Flush { at: None });
        let keys: Vec<Vec<u8>> = self.history.keys().map(<[u8]>::to_vec).collect();
        let records = self.invoke_all(client, keys.iter().map(|key| (key.as_slice(), Action::Clear)));
        let op = self.send(client, Kind::Flush, records.expect("room in the history"), request);
        self.watch(op)
    }

    /// As [`World::request_flush`], so many milliseconds from now.
    pub fn request_flush_later(&mut self, client: u32, delay_ms: u64) -> Op {
        self.order_flush(client, delay_ms);
        self.watch(self.clients.op_next - 1)
    }

    fn watch(&mut self, op: u64) -> Op {
        self.clients.pending.get_mut(&op).expect("just asked").is_watched = true;
        Op(op)
    }

    /// How a scenario's operation ended, once it did.
    pub fn outcome(&self, op: Op) -> Option<&Outcome> {
        self.clients.outcomes.get(&op)
    }
}

//! Clients: what they ask, when, and what the history records of it.

mod asking;
mod hearing;

use std::collections::BTreeMap;

use shorttail_gateway::request::{KeyspaceRequest, Request};

use super::ends::OrderedFlushes;
use super::{Event, World};
use crate::command_of_model::{Heard, SimCommand, Verb};
use crate::history::OperationId;
use crate::model::{Action, Answer, Value};
use crate::workload::{Wish, Workload};

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
    /// Clients ask from now on as the workload has it.
    pub fn start_clients(&mut self) {
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
            Wish::Group { pairs, only_if_absent } => {
                self.ask_group(client, &pairs, only_if_absent);
            }
            Wish::Flush => {
                self.clients.flushes.may_be_cancelled();
                let keys = self.clients.keys();
                let records = self.invoke_all(client, keys.iter().map(|key| (key.as_slice(), Action::Clear)));
                if let Some(records) = records {
                    self.send(client, Kind::Flush, records, Request::Keyspace(KeyspaceRequest::flush(None)));
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
}

//! What clients ask, on its way to a gateway; scenarios ask too.

use shorttail_gateway::command::Command;
use shorttail_gateway::engine::Token;
use shorttail_gateway::request::{GroupPut, KeyspaceRequest, Request, RequestId};

use super::{Kind, Op, Outcome, Pending, Received};
use crate::command_of_model::{Heard, SimCommand, Verb};
use crate::history::OperationId;
use crate::model::{Action, Value};
use crate::world::{CLIENT_DELAY_US, Event, World};

/// Room that a key's history keeps for the reads and deletes after healing, and for what ends by itself until then.
const ROOM_KEPT: usize = 40;

impl World {
    pub(super) fn ask_key(&mut self, client: u32, key: Vec<u8>, action: Action, verb: Verb) -> Option<u64> {
        let records = self.invoke_all(client, [(key.as_slice(), action)].into_iter())?;
        let is_read = matches!(verb, Verb::Plain(Action::Get));
        let command = SimCommand { key: key.clone(), verb };
        Some(self.send(client, Kind::Key { key, is_read }, records, Request::Key(command)))
    }

    pub(super) fn ask_group(&mut self, client: u32, pairs: &[(Vec<u8>, Value)], only_if_absent: bool) -> Option<u64> {
        let action = |value: &Value| match only_if_absent {
            true => Action::Add(value.clone()),
            false => Action::Set(value.clone()),
        };
        let actions = pairs.iter().map(|(key, value)| (key.as_slice(), action(value)));
        let records = self.invoke_all(client, actions)?;
        let pairs = pairs.iter().map(|(key, value)| (key.clone(), value.as_bytes().to_vec())).collect();
        let request = Request::Group(GroupPut { pairs, only_if_absent });
        Some(self.send(client, Kind::Group { only_if_absent }, records, request))
    }

    /// `None`, with nothing recorded, when a key's history is full.
    pub(super) fn invoke_all<'a>(
        &mut self,
        client: u32,
        actions: impl Iterator<Item = (&'a [u8], Action)>,
    ) -> Option<Vec<OperationId>> {
        let actions: Vec<_> = actions.collect();
        if actions.iter().any(|(key, _)| !self.has_room(key)) {
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

    /// May a client ask for something of the key?
    pub(in crate::world) fn has_room(&self, key: &[u8]) -> bool {
        let kept = if self.is_active { ROOM_KEPT } else { 0 };
        self.history.room(key) > kept
    }

    /// A flush that takes effect later.
    pub(in crate::world) fn send_flush_for_later(&mut self, client: u32, at: shorttail_units::UnixMs) -> u64 {
        let request = Request::Keyspace(KeyspaceRequest::flush(Some(at)));
        self.send(client, Kind::FlushLater, Vec::new(), request)
    }

    pub(super) fn send(
        &mut self,
        client: u32,
        kind: Kind,
        records: Vec<OperationId>,
        request: Request<SimCommand>,
    ) -> u64 {
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

    pub(super) fn home_of(&self, client: u32) -> usize {
        self.clients.homes.get(&client).copied().unwrap_or(client as usize % self.gateways.len())
    }

    pub(in crate::world) fn request_arrives(&mut self, op: u64) {
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

    /// A scenario's client asks; see [`World::outcome`].
    pub fn request(&mut self, client: u32, key: &str, action: Action) -> Op {
        let op = self.ask_key(client, key.as_bytes().to_vec(), action.clone(), Verb::Plain(action));
        self.watch(op.expect("room in the history"))
    }

    /// A scenario's client stores these together.
    pub fn request_group(&mut self, client: u32, pairs: &[(&str, Value)], only_if_absent: bool) -> Op {
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.clone())).collect();
        let op = self.ask_group(client, &pairs, only_if_absent);
        self.watch(op.expect("room in the history"))
    }

    /// A scenario's client flushes everything.
    pub fn request_flush(&mut self, client: u32) -> Op {
        self.clients.flushes.may_be_cancelled();
        let request = Request::Keyspace(KeyspaceRequest::flush(None));
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

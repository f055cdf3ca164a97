//! Flushes where several gateways share the partitions: gathered by what the server gathers by ([`Gather`]), their
//! parts on the ways that the server's take.
//!
//! ```text
//! client --flush--> Gather --part--> engine of that epoch, here, while it serves
//!                     |------part--> the gateway that has the epoch: a Gather of its own, of the partitions that are named
//!                     '------part--> waits: nobody owns it, or does not serve yet
//! part of an epoch that is no more the owner's, or whose time is over --> back: asked of whoever owns it then
//! gateway that was asked dies, a connection breaks, no answer in time --> unknown
//! ```
//! Must not know: what a flush does. Deviations from the server: a gateway has one core; what was asked of a gateway
//! that the coordinator takes for dead is waited for, as long as may be.

use std::collections::BTreeMap;

use shorttail_gateway::command::StoreError;
use shorttail_gateway::engine::{Standing, Token};
use shorttail_gateway::gather::{Answer, Gather, Part, Whom};
use shorttail_gateway::request::{KeyspaceRequest, Reply, Request, RequestId};

use super::Input;
use crate::command_of_model::SimCommand;
use crate::world::{Event, HOP_US, World};

/// Connections of parts begin here: no client has such a number.
const PARTS_FIRST: u64 = 1 << 47;
/// A part that came back is asked again after so long: the time between two looks of the server's housekeeping.
const AGAIN_US: u64 = 50_000;
/// How often the connection to another gateway breaks when a part was sent, while clients and faults go on.
const BREAK_PPM: u32 = 20_000;

/// A part that is to find its owner.
#[derive(Debug)]
pub(in crate::world) struct Asking {
    part: Part,
    until_us: u64,
    /// May another gateway be asked? Not, if another one asked.
    may_travel: bool,
}

pub(in crate::world) struct Gathering {
    gather: Gather,
    waiting: Vec<Asking>,
    /// What other gateways are asked: whom, and until when that is waited for.
    asked: BTreeMap<RequestId, (usize, u64)>,
    /// When those that came back are asked again.
    again_us: Option<u64>,
}

impl Default for Gathering {
    fn default() -> Self {
        Gathering::new(0, 0)
    }
}

impl Gathering {
    /// Of a gateway's process: answers to an earlier one are nobody's.
    pub fn new(gateway: usize, generation: u32) -> Self {
        Gathering {
            gather: Gather::new(PARTS_FIRST | u64::from(generation) << 16 | gateway as u64),
            waiting: Vec::new(),
            asked: BTreeMap::new(),
            again_us: None,
        }
    }
}

/// The gateway that gathers, if it is the token of a part.
fn gatherer_of(token: Token) -> Option<usize> {
    (token.connection >= PARTS_FIRST).then_some((token.connection & 0xFFFF) as usize)
}

impl World {
    /// A client asks for a flush.
    pub(in crate::world) fn gather(&mut self, gateway: usize, origin: Token, request: KeyspaceRequest) {
        let all = (0..self.config.partition_count).collect();
        self.begin_gathering(gateway, origin, request, all, true);
    }

    fn begin_gathering(
        &mut self,
        gateway: usize,
        origin: Token,
        request: KeyspaceRequest,
        partitions: Vec<u16>,
        may_travel: bool,
    ) {
        let until_us = self.schedule.now_us() + self.wait_us();
        let gathering = &mut self.gateways[gateway].gathering;
        let number = gathering.gather.begin(origin, request, partitions, until_us, may_travel);
        self.demand_turn_at(gateway, until_us);
        self.ask_parts(gateway, |gather, whom| gather.ask(number, whom));
    }

    fn demand_turn_at(&mut self, gateway: usize, at_us: u64) {
        let generation = self.gateways[gateway].generation;
        self.schedule.at(at_us, Event::GatherDue { gateway, generation });
    }

    pub(in crate::world) fn gather_is_due(&mut self, gateway: usize, generation: u32) {
        if self.gateways[gateway].generation == generation {
            self.demand_turn(gateway);
        }
    }

    /// Others own partitions now.
    pub(super) fn ask_loose_parts(&mut self, gateway: usize) {
        self.ask_parts(gateway, |gather, whom| gather.ask_loose(whom));
    }

    fn ask_parts(
        &mut self,
        gateway: usize,
        choose: impl FnOnce(&mut Gather, &dyn Fn(u16) -> Option<Whom>) -> Vec<(Part, u64, bool)>,
    ) {
        let host = &mut self.gateways[gateway];
        let table = &host.table;
        let whom = |partition: u16| -> Option<Whom> {
            let (epoch, owner) = table.get(usize::from(partition)).copied().flatten()?;
            Some((epoch, (owner == gateway).then_some(0)))
        };
        for (part, until_us, may_travel) in choose(&mut host.gathering.gather, &whom) {
            self.place_part(gateway, Asking { part, until_us, may_travel });
        }
    }

    fn place_part(&mut self, gateway: usize, asking: Asking) {
        let now = self.now_of_gateway(gateway);
        let Part { token, epoch, partition, ref request } = asking.part;
        let place = self.gateways[gateway].table.get(usize::from(partition)).copied().flatten();
        let is_up = place.is_some_and(|(_, owner)| self.gateways[owner].is_up);
        let host = &mut self.gateways[gateway];
        match place {
            Some((owning, owner)) if owning != epoch || owner != gateway && !asking.may_travel => {
                self.take_part(gateway, token, None);
            }
            Some((_, owner)) if owner == gateway => match host.tenures.get_mut(&epoch) {
                Some(hosted) if hosted.engine.standing() == Standing::Serving => {
                    let request: Request<SimCommand> = Request::Keyspace(request.clone());
                    hosted.engine.handle_request(now, token, request);
                }
                _ => host.gathering.waiting.push(asking),
            },
            Some((_, owner)) if is_up => self.ask_neighbour(gateway, owner, asking),
            _ => host.gathering.waiting.push(asking),
        }
    }

    fn ask_neighbour(&mut self, gateway: usize, owner: usize, asking: Asking) {
        let token = asking.part.token;
        self.note(format_args!("gateway {gateway} asks gateway {owner}: {:?}", asking.part));
        self.counts.parts_forwarded += 1;
        self.gateways[gateway].gathering.asked.insert(token.id, (owner, asking.until_us));
        let delay_us = self.rng.exponential_us(HOP_US, 50 * HOP_US);
        let generation = self.gateways[owner].generation;
        self.schedule.after(delay_us, Event::PartAsked { gateway: owner, generation, asking: Box::new(asking) });
        if self.is_active && self.rng.chance_ppm(BREAK_PPM) {
            self.part_leaves(gateway, token, Some(Err(StoreError::OutcomeUnknown)));
        }
    }

    pub(in crate::world) fn part_arrives(&mut self, gateway: usize, generation: u32, asking: Asking) {
        if self.gateways[gateway].is_up && self.gateways[gateway].generation == generation {
            self.gateways[gateway].inputs.push_back(Input::Part(asking.part));
            self.demand_turn(gateway);
        }
    }

    /// Another gateway asks: for all that this one has as of that epoch, and is asked of.
    pub(super) fn take_guest(&mut self, gateway: usize, part: Part) {
        let Part { token, epoch, request, .. } = part;
        let places = (0..).zip(&self.gateways[gateway].table);
        let own = places.filter(|(_, place)| **place == Some((epoch, gateway)));
        let own: Vec<u16> = own.map(|(partition, _)| partition).collect();
        let partitions = request.named().map_or_else(|| own.clone(), <[u16]>::to_vec);
        if partitions.is_empty() || !partitions.iter().all(|partition| own.contains(partition)) {
            return self.answer_gathered(gateway, token, None);
        }
        self.begin_gathering(gateway, token, request, partitions, false);
    }

    /// Is a reply of an engine one to a part? Then it is taken.
    pub(super) fn takes_part(&mut self, gateway: usize, token: Token, reply: &Reply) -> bool {
        let is_part = gatherer_of(token).is_some();
        if is_part {
            self.take_part(gateway, token, Some(reply.clone()));
        }
        is_part
    }

    /// What became of a part; `None`: nothing was done.
    fn take_part(&mut self, gateway: usize, token: Token, reply: Option<Reply>) {
        let now_us = self.schedule.now_us();
        let gathering = &mut self.gateways[gateway].gathering;
        if !gathering.gather.is_part(token) {
            return;
        }
        if matches!(reply, None | Some(Reply::Keyspace(Err(StoreError::NotOwner)))) {
            self.counts.parts_returned += 1;
            if gathering.again_us.is_none() {
                gathering.again_us = Some(now_us + AGAIN_US);
                self.demand_turn_at(gateway, now_us + AGAIN_US);
            }
        }
        if let Some((origin, whole)) = self.gateways[gateway].gathering.gather.add_reply(token, reply) {
            self.answer_gathered(gateway, origin, Some(whole));
        }
    }

    fn answer_gathered(&mut self, gateway: usize, origin: Token, whole: Option<Answer>) {
        match gatherer_of(origin) {
            Some(asker) => self.part_leaves(asker, origin, whole),
            None => {
                self.note(format_args!("gateway {gateway} gathered {whole:?}"));
                let whole = whole.expect("a client's request is answered");
                self.reply_leaves(origin.id.seq, Reply::Keyspace(whole));
            }
        }
    }

    /// What a gateway says of a part that it was asked, on its way back.
    fn part_leaves(&mut self, asker: usize, token: Token, answer: Option<Answer>) {
        let delay_us = self.rng.exponential_us(HOP_US, 50 * HOP_US);
        self.schedule.after(delay_us, Event::PartAnswered { gateway: asker, token, answer: Box::new(answer) });
    }

    pub(in crate::world) fn part_is_answered(&mut self, gateway: usize, token: Token, answer: Option<Answer>) {
        let host = &mut self.gateways[gateway];
        if host.is_up && host.gathering.gather.is_part(token) {
            host.inputs.push_back(Input::PartAnswered(token, answer));
            self.demand_turn(gateway);
        }
    }

    /// Of two answers the first counts.
    pub(super) fn take_answer_of_part(&mut self, gateway: usize, token: Token, answer: Option<Answer>) {
        if self.gateways[gateway].gathering.asked.remove(&token.id).is_some() {
            self.take_part(gateway, token, answer.map(Reply::Keyspace));
        }
    }

    /// A gateway is gone: whoever asked it may never know.
    pub(super) fn lose_parts_at(&mut self, gone: usize) {
        for gateway in (0..self.gateways.len()).filter(|&gateway| gateway != gone) {
            let gathering = &self.gateways[gateway].gathering;
            let asked = gathering.asked.iter().filter(|(_, (owner, _))| *owner == gone).map(|(&id, _)| id);
            for id in asked.collect::<Vec<_>>() {
                let token = Token { connection: self.gateways[gateway].gathering.gather.connection(), id };
                self.part_leaves(gateway, token, Some(Err(StoreError::OutcomeUnknown)));
            }
        }
    }

    /// What is to be done with parts and what they are parts of, once in a turn.
    pub(super) fn go_on_gathering(&mut self, gateway: usize) {
        let now_us = self.schedule.now_us();
        for asking in std::mem::take(&mut self.gateways[gateway].gathering.waiting) {
            if asking.until_us <= now_us {
                self.take_part(gateway, asking.part.token, Some(Reply::Keyspace(Err(StoreError::NotOwner))));
            } else {
                self.place_part(gateway, asking);
            }
        }
        let gathering = &mut self.gateways[gateway].gathering;
        let connection = gathering.gather.connection();
        let late: Vec<_> = gathering.asked.extract_if(.., |_, (_, until_us)| *until_us <= now_us).collect();
        for (id, _) in late {
            let reply = Reply::Keyspace(Err(StoreError::OutcomeUnknown));
            self.take_part(gateway, Token { connection, id }, Some(reply));
        }
        for (origin, whole) in self.gateways[gateway].gathering.gather.take_expired(now_us) {
            self.answer_gathered(gateway, origin, Some(whole));
        }
        let gathering = &mut self.gateways[gateway].gathering;
        if gathering.again_us.is_some_and(|at_us| at_us <= now_us) {
            gathering.again_us = None;
            self.ask_parts(gateway, |gather, whom| gather.ask_returned(whom));
        }
    }
}

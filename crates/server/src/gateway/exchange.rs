//! Where a core's requests meet their owners: this core's engines, other cores, other gateways, or the waiting room.
//!
//! ```text
//! clients ----.                               .--> engine of this core, while it serves
//! other cores -+-> whose partition is it? ----+--> another core of this gateway
//! other gateways                              +--> another gateway (not for requests of another gateway)
//!                                             '--> waits: until the table changes, an engine serves,
//!                                                  or a gateway is reached
//! replies: back the way that the request came
//! ```
//!
//! The commands of a connection on a key are done in its order, whatever way they go (see `followers`).
//!
//! Every request that is taken is answered exactly once: one that waits, here or for another gateway, when its time is
//! over at the latest; one that an engine has, when that answers or is dropped.
//!
//! Must not know: client protocols, what an engine does.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use mio::Registry;
use mio::event::Event;
use shorttail_gateway::any::AnyCommand;
use shorttail_gateway::command::StoreError;
use shorttail_gateway::engine::{Engine, EngineConfig, Token};
use shorttail_gateway::forward::Ask;
use shorttail_gateway::gather::{Gather, Part, Whom};
use shorttail_gateway::request::{KeyspaceReply, KeyspaceRequest, Reply, Request};
use shorttail_gateway::topology::Topology;
use shorttail_units::Now;
use shorttail_wire::control::{Terms, View};

use super::ToCore;
use super::followers::Followers;
use super::limits::{ANSWER_BYTES, ANSWERS_OF_STATS, ANSWERS_PER_PASS, PLACED_PER_TURN};
use super::neighbours::{Identity, Neighbours, NotAsked, Outcome};
use super::table::{Owner, Table};
use super::tenures::Tenures;
use super::waiting::{BEHIND_US_MAX, Lane, NEWS_US_MAX, STATS_WAIT_US_MAX, WAIT_US_MAX, Waiter, Waiting, WaitingTotal};
use super::writes::Writes;
use crate::net::Outlet;

/// Connections of other cores' parts of requests about all keys: no client has such a number.
const GATHER_CONNECTIONS: u64 = 1 << 47;

/// What became of a request; `None`: this gateway does not own its partition, and nothing was done.
pub type Answer = Option<Reply>;

/// A request that another core is to see to.
#[derive(Debug)]
pub struct Passed {
    pub from: usize,
    pub token: Token,
    pub ask: Ask,
    pub deadline_us: u64,
    pub may_travel: bool,
}

/// Who this core is.
#[derive(Clone, Copy, Debug)]
pub struct CoreIdentity {
    pub identity: Identity,
    pub core: usize,
}

fn is_of_memcached(request: &Request<AnyCommand>) -> bool {
    matches!(request, Request::Key(AnyCommand::Memcached(_)))
}

pub struct Exchange {
    own: CoreIdentity,
    cores: Vec<Outlet<ToCore>>,
    pub table: Table,
    pub tenures: Tenures,
    /// What clients are told.
    told: Arc<Topology>,
    /// Redis clients ask another gateway when this one says that it is not the owner.
    pub sends_redis_clients: bool,
    /// Engines that are over, to be looked through for replies a last time.
    over: Vec<Engine>,
    /// Those that were. With millions of keys it takes milliseconds to give their memory back, so it waits until others
    /// have heard that they are over.
    spent: Vec<Engine>,
    neighbours: Neighbours,
    waiting: Waiting,
    /// Lanes of which some wait for an owner that answers less than it is to be asked; since when.
    behind: BTreeMap<Lane, u64>,
    followers: Followers,
    /// By partition: requests that another core was asked and did not answer.
    passed: Vec<u32>,
    gather: Gather,
    /// Tokens that other cores asked this one with, and the partition.
    foreign: HashMap<Token, (usize, u16)>,
    to_wake: HashSet<usize>,
    /// Replies for this core's own connections, and how many of them may be handed out in this pass.
    ready: VecDeque<(Token, Answer)>,
    pass_left: usize,
    writes: Writes,
    /// Replies of a turn; kept for its memory.
    replies: Vec<(Token, Reply)>,
    number_next: u64,
    /// Requests that wait may have an owner now.
    may_place: bool,
    /// When the first of those that rest may be tried again.
    rest_over_us: Option<u64>,
    /// The gateway lets go of what it owns, whatever the table says.
    leaves: bool,
    /// Requests that need not follow others any more.
    loose: VecDeque<Waiter>,
}

impl Exchange {
    /// `waiting`: what waits in all cores of the gateway.
    pub fn new(
        own: CoreIdentity,
        cores: Vec<Outlet<ToCore>>,
        config: EngineConfig,
        waiting: Arc<WaitingTotal>,
    ) -> Self {
        let table = Table::new(config.partition_count);
        let told = table.topology(own.identity.cluster, own.identity.gateway, &BTreeSet::new());
        Exchange {
            table,
            told: Arc::new(told),
            sends_redis_clients: false,
            over: Vec::new(),
            spent: Vec::new(),
            neighbours: Neighbours::new(own.identity),
            waiting: Waiting::new(waiting),
            behind: BTreeMap::new(),
            followers: Followers::default(),
            passed: vec![0; usize::from(config.partition_count)],
            gather: Gather::new(GATHER_CONNECTIONS + own.core as u64),
            foreign: HashMap::new(),
            to_wake: HashSet::new(),
            ready: VecDeque::new(),
            pass_left: ANSWERS_PER_PASS,
            writes: Writes::of_core(cores.len()),
            replies: Vec::new(),
            number_next: 0,
            may_place: false,
            rest_over_us: None,
            leaves: false,
            loose: VecDeque::new(),
            tenures: Tenures::new(config, own.core, cores.len()),
            own,
            cores,
        }
    }

    pub fn core_count(&self) -> usize {
        self.cores.len()
    }

    pub fn core(&self, core: usize) -> &Outlet<ToCore> {
        &self.cores[core]
    }

    /// A client of this core asks.
    pub fn ask(&mut self, now: Now, token: Token, request: Request<AnyCommand>) {
        let deadline_us = now.mono_us + if asks_stats(&request) { STATS_WAIT_US_MAX } else { WAIT_US_MAX };
        match (self.table.partition_of(&request), request) {
            (None, Request::Keyspace(KeyspaceRequest::Own(request))) => {
                // How a gateway is, it says whatever becomes of others.
                let is_asked = |partition| match *request {
                    KeyspaceRequest::Stats => self.is_own(partition),
                    _ => self.told.is_my_partition(partition),
                };
                let own: Vec<u16> = (0..self.table.partition_count()).filter(|&it| is_asked(it)).collect();
                if own.is_empty() {
                    return self.answer(token, Some(Reply::Keyspace(Ok(of_nothing(&request)))));
                }
                let gathered = self.gather.begin(token, *request, own, deadline_us, true);
                self.ask_parts(now, |gather, whom| gather.ask(gathered, whom));
            }
            (None, Request::Keyspace(request)) => {
                let all = (0..self.table.partition_count()).collect();
                let gathered = self.gather.begin(token, request, all, deadline_us, true);
                self.ask_parts(now, |gather, whom| gather.ask(gathered, whom));
            }
            (partition, request) => {
                let ask = Ask { partition: partition.unwrap_or(0), epoch: 0, request };
                self.writes.begin(token, &ask);
                let waiter = self.waiter(token, ask, deadline_us, true);
                self.take(now, waiter);
            }
        }
    }

    /// Another gateway asks.
    pub fn ask_as_guest(&mut self, now: Now, token: Token, ask: Ask) {
        let deadline_us = now.mono_us + WAIT_US_MAX;
        match ask {
            Ask { epoch, request: Request::Keyspace(request), .. } if epoch != 0 => {
                let named = request.named().map(<[u16]>::to_vec);
                let partitions = named.unwrap_or_else(|| self.table.partitions_of_epoch(epoch));
                let me = self.own.identity.gateway;
                let is_asked = |owner: Owner| owner.epoch == epoch && owner.gateway == me;
                let mut owners = partitions.iter().map(|&partition| self.table.owner(partition));
                if partitions.is_empty() || !owners.all(|owner| owner.is_some_and(is_asked)) {
                    return self.answer(token, None);
                }
                let gathered = self.gather.begin(token, request, partitions, deadline_us, false);
                self.ask_parts(now, |gather, whom| gather.ask(gathered, whom));
            }
            // An engine is asked for nothing but what it has, whatever another gateway thinks.
            ask if self.table.is_about(&ask) => {
                let waiter = self.waiter(token, ask, deadline_us, false);
                self.take(now, waiter);
            }
            _ => self.answer(token, None),
        }
    }

    /// Another core of this gateway asks.
    pub fn ask_as_core(&mut self, now: Now, passed: Passed) {
        let Passed { from, token, ask, deadline_us, may_travel } = passed;
        self.foreign.insert(token, (from, ask.partition));
        let waiter = self.waiter(token, ask, deadline_us, may_travel);
        self.take(now, waiter);
    }

    fn waiter(&mut self, token: Token, ask: Ask, deadline_us: u64, may_travel: bool) -> Waiter {
        self.number_next += 1;
        Waiter { token, ask, number: self.number_next, deadline_us, asked: None, rests_until_us: 0, may_travel }
    }

    fn take(&mut self, now: Now, waiter: Waiter) {
        let left = match !self.waiting.is_empty() && self.waiting.is_behind(&waiter) {
            true => Some(waiter),
            false => self.place(now, waiter),
        };
        if let Some(waiter) = left {
            self.wait(waiter);
        }
    }

    fn wait(&mut self, waiter: Waiter) {
        if !self.waiting.is_full() {
            // Reads and writes wait apart; those of one client on one key must not change places by that. For another
            // gateway's clients that gateway sees to it.
            if waiter.may_travel {
                self.followers.enter(&waiter);
            }
            if self.followers.may_go(waiter.number) {
                self.waiting.put(waiter);
            } else {
                self.followers.hold(waiter);
            }
        } else if waiter.may_travel {
            self.refuse(&waiter, StoreError::Overloaded);
        } else {
            // There may be room where the client asked, or the owner is another one by then.
            self.give_back(&waiter);
        }
    }

    fn refuse(&mut self, waiter: &Waiter, error: StoreError) {
        self.answer(waiter.token, Some(waiter.ask.refusal(error)));
        self.leave(waiter.number);
    }

    /// Says that nothing was done: whoever asked asks somebody else.
    fn give_back(&mut self, waiter: &Waiter) {
        // Nobody follows it: only clients' commands are noted in `followers`, and those name no epoch and may travel.
        self.answer(waiter.token, None);
    }

    /// A request is over: those that follow it go on.
    fn leave(&mut self, number: u64) {
        if !self.followers.is_empty() {
            self.loose.extend(self.followers.leave(number));
        }
    }

    /// Those that followed others and need not any more.
    fn take_loose(&mut self, now: Now) {
        while let Some(waiter) = self.loose.pop_front() {
            self.take(now, waiter);
        }
    }

    /// Brings a request to its owner; back, if there is none that can take it.
    fn place(&mut self, now: Now, waiter: Waiter) -> Option<Waiter> {
        let Some(owner) = self.table.owner(waiter.ask.partition) else { return Some(waiter) };
        let is_of_another_tenure = waiter.ask.epoch != 0 && waiter.ask.epoch != owner.epoch;
        let is_elsewhere = owner.gateway != self.own.identity.gateway;
        if is_of_another_tenure || is_elsewhere && !waiter.may_travel {
            self.give_back(&waiter);
            return None;
        }
        if is_elsewhere || self.followers.concerns(&waiter) {
            self.followers.enter(&waiter);
            if !self.followers.may_go(waiter.number) {
                self.followers.hold(waiter);
                return None;
            }
        }
        if is_elsewhere {
            // What another core of this gateway has may go elsewhere too, by a way of its own.
            if self.passed.get(usize::from(waiter.ask.partition)).is_some_and(|&count| count > 0) {
                return Some(waiter);
            }
            self.followers.asked(waiter.number);
            let waiter = Waiter { asked: Some(owner), rests_until_us: 0, ..waiter };
            return match self.neighbours.ask(now.mono_us, owner.gateway, waiter)? {
                NotAsked::Away(waiter) => {
                    // It, or who follows it, may do in no time what waits by then.
                    self.behind.remove(&Lane::of(&waiter.ask));
                    Some(waiter)
                }
                NotAsked::Behind(waiter) => self.wait_for_one_behind(now, waiter),
            };
        }
        let core = usize::from(waiter.ask.partition) % self.cores.len();
        if core != self.own.core {
            let Waiter { token, ask, deadline_us, may_travel, number, .. } = waiter;
            self.passed[usize::from(ask.partition)] += 1;
            self.leave(number);
            self.cores[core].put(ToCore::Ask(Passed { from: self.own.core, token, ask, deadline_us, may_travel }));
            self.to_wake.insert(core);
            return None;
        }
        let Some(engine) = self.tenures.serving(owner.epoch) else {
            if self.leaves && !waiter.may_travel {
                self.give_back(&waiter);
                return None;
            }
            let asks_elsewhere = self.sends_redis_clients && !is_of_memcached(&waiter.ask.request);
            if !asks_elsewhere || !waiter.may_travel || !self.hears_nothing(now, owner.epoch) {
                return Some(waiter);
            }
            self.refuse(&waiter, StoreError::NotOwner);
            return None;
        };
        engine.handle_request(now, waiter.token, waiter.ask.request);
        self.leave(waiter.number);
        None
    }

    /// Back, if it may wait on. Its owner is behind with what it was asked, and would do what waited for long too late.
    fn wait_for_one_behind(&mut self, now: Now, waiter: Waiter) -> Option<Waiter> {
        // What waited while nobody owned the partition, or its owner was away, has this time from then on.
        let since_us = *self.behind.entry(Lane::of(&waiter.ask)).or_insert(now.mono_us);
        if now.mono_us < since_us.max(waiter.came_us()) + BEHIND_US_MAX {
            return Some(waiter);
        }
        self.refuse(&waiter, StoreError::Overloaded);
        None
    }

    /// Did its tenure end, and it should have heard by now of who follows?
    fn hears_nothing(&self, now: Now, epoch: u32) -> bool {
        now.mono_us.checked_sub(NEWS_US_MAX).is_some_and(|before_us| self.tenures.has_ended(epoch, before_us))
    }

    /// Tries those that wait again, lane by lane, in their order.
    fn place_waiting(&mut self, now: Now) {
        self.may_place |= self.rest_over_us.is_some_and(|at_us| at_us <= now.mono_us);
        if self.waiting.is_empty() {
            self.rest_over_us = None;
            return;
        }
        if !std::mem::take(&mut self.may_place) {
            return;
        }
        let mut left = PLACED_PER_TURN;
        for lane in self.waiting.lanes() {
            let owner = self.table.owner(lane.partition);
            while left > 0
                && let Some(waiter) = self.waiting.take_first(lane, now.mono_us, owner)
            {
                match self.place(now, waiter) {
                    None => left -= 1,
                    Some(waiter) => {
                        self.waiting.put(waiter);
                        break;
                    }
                }
            }
        }
        self.may_place |= left == 0;
        self.take_loose(now);
        self.behind.retain(|&lane, _| self.waiting.has_of(lane));
        self.rest_over_us = self.waiting.rest_over_us(now.mono_us);
    }

    /// When a turn is due though nothing arrives: whoever waits for an owner that said it is none hears nothing more
    /// of it.
    pub fn poll_deadline(&self) -> Option<u64> {
        self.rest_over_us
    }

    /// Is something to be done in a turn of its own, at once? What waits may have an owner since the last one, or an
    /// engine that is over has replies left.
    pub fn wants_turn(&self) -> bool {
        self.may_place && !self.waiting.is_empty() || !self.over.is_empty()
    }

    fn is_own(&self, partition: u16) -> bool {
        self.table.owner(partition).is_some_and(|owner| owner.gateway == self.own.identity.gateway)
    }

    /// Asks the owners of partitions that requests about all keys still lack: of those requests that `choose` says.
    fn ask_parts(
        &mut self,
        now: Now,
        choose: impl FnOnce(&mut Gather, &dyn Fn(u16) -> Option<Whom>) -> Vec<(Part, u64, bool)>,
    ) {
        let (table, me, core_count) = (&self.table, self.own.identity.gateway, self.cores.len());
        let whom = |partition: u16| -> Option<Whom> {
            let owner = table.owner(partition)?;
            Some((owner.epoch, (owner.gateway == me).then_some(usize::from(partition) % core_count)))
        };
        for (part, deadline_us, may_travel) in choose(&mut self.gather, &whom) {
            let Part { token, epoch, partition, request } = part;
            let ask = Ask { partition, epoch, request: Request::Keyspace(request) };
            let waiter = self.waiter(token, ask, deadline_us, may_travel);
            self.take(now, waiter);
        }
    }

    /// Another core of this gateway answered what it was asked.
    pub fn answer_of_core(&mut self, token: Token, answer: Answer, partition: u16) {
        if let Some(count) = self.passed.get_mut(usize::from(partition)) {
            *count -= 1;
            self.may_place |= *count == 0;
        }
        self.answer(token, answer);
    }

    /// A request was answered, by whomever.
    pub fn answer(&mut self, token: Token, answer: Answer) {
        if let Some((core, partition)) = self.foreign.remove(&token) {
            self.cores[core].put(ToCore::Answer { token, answer, partition });
            self.to_wake.insert(core);
        } else if self.gather.is_part(token) {
            self.add_part(token, answer);
        } else {
            self.ready.push_back((token, answer));
        }
    }

    fn add_part(&mut self, token: Token, answer: Answer) {
        if let Some((origin, whole)) = self.gather.add_reply(token, answer) {
            self.answer(origin, Some(Reply::Keyspace(whole)));
        }
    }

    /// From now on so many replies are handed out again. `now`: as [`Engine::poll_reply`] wants it.
    ///
    /// [`Engine::poll_reply`]: shorttail_gateway::engine::Engine::poll_reply
    pub fn begin_pass(&mut self, now: Now) {
        self.pass_left = ANSWERS_PER_PASS;
        // Those that may leave now, also if they are handed out later.
        self.collect(now);
    }

    /// The next reply for a connection of this core, in this pass.
    pub fn poll_answer(&mut self, now: Now) -> Option<(Token, Answer)> {
        if self.pass_left == 0 {
            return None;
        }
        if self.ready.is_empty() {
            self.collect(now);
        }
        let answered = self.ready.pop_front()?;
        self.pass_left = self.pass_left.saturating_sub(weight_of(&answered.1));
        self.writes.end(answered.0);
        Some(answered)
    }

    /// May clients store more than a little?
    pub fn has_room(&self) -> bool {
        self.writes.has_room()
    }

    /// Is something left that the last pass did not hand out?
    pub fn has_answers(&self) -> bool {
        self.pass_left == 0 || !self.ready.is_empty()
    }

    fn collect(&mut self, now: Now) {
        let mut replies = std::mem::take(&mut self.replies);
        let mut take_all = |engine: &mut Engine| {
            while let Some(answered) = engine.poll_reply(now) {
                replies.push(answered);
            }
        };
        self.tenures.iter_mut().for_each(|tenure| take_all(&mut tenure.engine));
        self.over.iter_mut().for_each(&mut take_all);
        self.spent.append(&mut self.over);
        replies.drain(..).for_each(|(token, reply)| self.answer(token, Some(reply)));
        self.replies = replies;
    }

    pub fn end_turn(&mut self, now: Now) {
        self.may_place |= !self.waiting.is_empty() && self.has_waiting_for_own();
        self.place_waiting(now);
        self.ask_parts(now, |gather, whom| gather.ask_moved(whom));
        for tenure in self.tenures.iter_mut() {
            let before = tenure.engine.standing();
            tenure.engine.end_turn(now);
            self.may_place |= tenure.engine.standing() != before;
        }
    }

    /// Could an engine of this core have begun to serve?
    fn has_waiting_for_own(&self) -> bool {
        self.waiting.lanes().into_iter().any(|lane| self.is_own(lane.partition))
    }

    pub fn take_terms(&mut self, now: Now, terms: &[Terms]) {
        self.tenures.handle_terms(now, terms);
        self.may_place = true;
    }

    /// From now on other gateways get back what they ask of what this one owned: they cannot know yet.
    pub fn leave_all(&mut self) {
        self.leaves = true;
        self.may_place = true;
    }

    pub fn take_view(&mut self, now: Now, view: &View, registry: &Registry) {
        self.table.take(self.own.identity.gateway, view);
        self.tenures.take_view(view);
        let outcomes = self.neighbours.set_addresses(&self.table.addresses, registry);
        self.settle(now, outcomes);
        self.neighbours.connect(now.mono_us, registry);
        self.may_place = true;
        self.ask_parts(now, |gather, whom| gather.ask_loose(whom));
    }

    /// What clients are told from now on. `served`: epochs of tenures.
    pub fn tell(&mut self, served: &BTreeSet<u32>) -> Arc<Topology> {
        let Identity { cluster, gateway } = self.own.identity;
        self.told = Arc::new(self.table.topology(cluster, gateway, served));
        Arc::clone(&self.told)
    }

    pub fn read_neighbour(&mut self, now: Now, gateway: u16, event: &Event, scratch: &mut [u8], registry: &Registry) {
        let outcomes = self.neighbours.read(now.mono_us, gateway, event, scratch, registry);
        self.settle(now, outcomes);
        // If its connection has just ended.
        self.neighbours.connect(now.mono_us, registry);
        self.may_place = true;
    }

    /// Messages of other gateways that it asked, hurt on their way.
    pub fn hurt_total(&self) -> u64 {
        self.neighbours.hurt_total
    }

    pub fn write_neighbours(&mut self, now: Now, registry: &Registry) {
        let outcomes = self.neighbours.write(now.mono_us, registry);
        self.settle(now, outcomes);
        self.may_place |= self.neighbours.take_room_again();
    }

    fn settle(&mut self, now: Now, outcomes: Vec<Outcome>) {
        for outcome in outcomes {
            match self.in_order(outcome) {
                Outcome::Answered(waiter, reply) => {
                    self.answer(waiter.token, Some(reply));
                    self.leave(waiter.number);
                }
                Outcome::NotOwner(waiter) if waiter.ask.epoch != 0 => self.give_back(&waiter),
                Outcome::NotOwner(waiter) | Outcome::Again(waiter) if waiter.deadline_us <= now.mono_us => {
                    self.refuse(&waiter, StoreError::NotOwner);
                }
                Outcome::NotOwner(waiter) => self.ask_again(waiter.rest(now.mono_us)),
                Outcome::Again(waiter) => self.ask_again(waiter),
                Outcome::Late(waiter) => self.refuse(&waiter, StoreError::NotOwner),
                Outcome::Unknown(waiter) => self.refuse(&waiter, StoreError::OutcomeUnknown),
            }
        }
        self.take_loose(now);
    }

    /// A read that was answered before one of its connection on its key that came back is to be asked again: that one
    /// may show what is newer.
    fn in_order(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Answered(waiter, _) if self.followers.is_overtaking(waiter.number) && !waiter.ask.is_write() => {
                Outcome::Again(waiter)
            }
            outcome => outcome,
        }
    }

    fn ask_again(&mut self, waiter: Waiter) {
        self.followers.came_back(waiter.number);
        self.wait(waiter);
    }

    /// What is due now and then.
    pub fn housekeep(&mut self, now: Now, registry: &Registry) {
        self.spent.clear();
        let held = self.followers.take_expired(now.mono_us);
        for waiter in self.waiting.take_expired(now.mono_us).into_iter().chain(held) {
            self.refuse(&waiter, StoreError::NotOwner);
        }
        self.take_loose(now);
        let outcomes = self.neighbours.take_expired(now.mono_us);
        self.settle(now, outcomes);
        let outcomes = self.neighbours.break_stuck(now.mono_us, registry);
        self.settle(now, outcomes);
        for (origin, answer) in self.gather.take_expired(now.mono_us) {
            self.answer(origin, Some(Reply::Keyspace(answer)));
        }
        self.ask_parts(now, |gather, whom| gather.ask_returned(whom));
        self.neighbours.connect(now.mono_us, registry);
        self.may_place = true;
        // Whether their last replies may leave is looked at as with all others: by a clock that is read after this.
        for mut tenure in self.tenures.take_over(now) {
            tenure.close(registry);
            self.over.push(tenure.engine);
        }
    }

    pub fn wake(&mut self) {
        for core in self.to_wake.drain() {
            self.cores[core].wake();
        }
    }
}

/// For how many answers one counts.
fn weight_of(answer: &Answer) -> usize {
    match answer {
        Some(Reply::Bytes(bytes)) => 1 + bytes.len() / ANSWER_BYTES,
        Some(Reply::Keyspace(Ok(KeyspaceReply::Scanned { keys, .. }))) => 1 + keys.len(),
        Some(Reply::Keyspace(Ok(KeyspaceReply::Stats(_)))) => ANSWERS_OF_STATS,
        _ => 1,
    }
}

/// What is answered about keys by a gateway that owns none.
fn of_nothing(request: &KeyspaceRequest) -> KeyspaceReply {
    match request {
        KeyspaceRequest::Count | KeyspaceRequest::CountSlot { .. } => KeyspaceReply::Count(0),
        KeyspaceRequest::Flush { .. } => KeyspaceReply::Flushed,
        KeyspaceRequest::RandomKey => KeyspaceReply::RandomKey(None),
        KeyspaceRequest::Stats => KeyspaceReply::Stats(Box::default()),
        KeyspaceRequest::Scan { .. } | KeyspaceRequest::ListSlot { .. } => {
            KeyspaceReply::Scanned { next: 0, keys: Vec::new() }
        }
        KeyspaceRequest::Own(request) => of_nothing(request),
    }
}

/// Is it the answer that a client gets, of what it asked about the store as a whole?
pub fn is_stats(answer: &Answer) -> bool {
    matches!(answer, Some(Reply::Keyspace(Ok(KeyspaceReply::Stats(_)))))
}

pub fn asks_stats(request: &Request<AnyCommand>) -> bool {
    match request {
        Request::Keyspace(KeyspaceRequest::Own(request)) => matches!(**request, KeyspaceRequest::Stats),
        request => matches!(request, Request::Keyspace(KeyspaceRequest::Stats)),
    }
}

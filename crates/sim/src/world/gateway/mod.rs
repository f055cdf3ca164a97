//! A gateway's process: its tenures with an engine each, their sessions with nodes, its turns.

mod gathering;
mod sessions;
mod tenures;
mod told;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use shorttail_gateway::engine::{Engine, SessionId, Standing, Token, VoterSet};
use shorttail_gateway::gather::{Answer, Part};
use shorttail_gateway::request::{KeyspaceRequest, Reply, Request};
use shorttail_gateway::terms::TermsTaken;
use shorttail_wire::control::{Terms, View};
use shorttail_wire::node::FrameError;

use super::clock::Clock;
use super::stand_in::Order;
use super::{Counts, Event, World, endpoint_of_gateway};
use crate::command_of_model::SimCommand;
use crate::network;
pub(super) use gathering::{Asking, Gathering};

/// Longest wait between an input and the turn that takes it: how many inputs meet in a turn.
const TURN_US_MAX: u64 = 60;
/// The engine's invariants look at every hash slot, which takes longer than a turn.
const TURNS_PER_CHECK: u64 = 16;

enum Input {
    Opened(u32, SessionId),
    Bytes(network::SessionId, Vec<u8>),
    Closed(network::SessionId),
    Request(Token, Request<SimCommand>),
    /// Of a request about all keys that another gateway gathers.
    Part(Part),
    /// What another gateway says to it.
    PartAnswered(Token, Option<Answer>),
    Order(Order),
    /// Of the real coordinator.
    View(View),
    Terms(Vec<Terms>),
}

struct Link {
    epoch: u32,
    id: SessionId,
    input: Vec<u8>,
}

/// A tenure at its gateway.
pub(super) struct Hosted {
    pub engine: Engine,
    connecting: Vec<SessionId>,
    /// Sessions that were tried.
    tried: BTreeSet<SessionId>,
    /// What the coordinator was told last.
    told: Option<(Standing, VoterSet)>,
    /// Of the real coordinator: the terms that it goes by, and since when it does not name the tenure any more.
    pub terms: TermsTaken,
    ending_since_us: Option<u64>,
}

impl Hosted {
    /// What it is will be told anew.
    pub fn forget_told(&mut self) {
        self.told = None;
    }
}

#[derive(Default)]
pub(super) struct GatewayHost {
    pub is_up: bool,
    /// Of its process.
    pub clock: Clock,
    /// By epoch.
    pub tenures: BTreeMap<u32, Hosted>,
    /// Tenures that are over, and how they ended: none begins twice, as stripe ids are used once.
    pub ended: BTreeMap<u32, (Standing, VoterSet)>,
    /// What the real coordinator told last of all members.
    view: View,
    /// Counts the lives of the process: events of an earlier one are void.
    pub generation: u32,
    /// Who owns each partition, as the coordinator told: epoch and gateway.
    pub table: Vec<Option<(u32, usize)>>,
    /// Requests of partitions that nobody serves now, and until when they wait.
    pub waiting: VecDeque<(u64, Token, Request<SimCommand>)>,
    pub gathering: Gathering,
    inputs: VecDeque<Input>,
    turn_is_due: bool,
    deadline_us: Option<u64>,
    links: BTreeMap<network::SessionId, Link>,
    /// Of engines that are gone.
    earlier: Counts,
    turns: u64,
}

fn count(counts: &mut Counts, engine: &Engine) {
    let stats = engine.stats();
    counts.degraded_reads += stats.totals.degraded_reads_total;
    counts.near_reads += stats.totals.near_reads_total;
    counts.appends_put += stats.totals.appends_put_total;
}

impl GatewayHost {
    /// Does everything serve that is here?
    pub fn is_serving(&self) -> bool {
        !self.tenures.is_empty() && self.tenures.values().all(|hosted| hosted.engine.is_serving())
    }

    pub fn engines(&self) -> impl Iterator<Item = &Engine> {
        self.tenures.values().map(|hosted| &hosted.engine)
    }

    pub fn engines_mut(&mut self) -> impl Iterator<Item = &mut Engine> {
        self.tenures.values_mut().map(|hosted| &mut hosted.engine)
    }

    /// What its engines did, as far as that is counted here.
    pub fn counts(&self) -> Counts {
        let mut counts = self.earlier;
        self.engines().for_each(|engine| count(&mut counts, engine));
        counts
    }

    fn has_session(&self, epoch: u32, id: SessionId) -> bool {
        self.links.values().any(|link| (link.epoch, link.id) == (epoch, id))
    }
}

impl World {
    /// The gateway's process begins, without any tenure.
    pub(super) fn start_gateway(&mut self, gateway: usize) {
        let clock = self.new_clock();
        let host = &mut self.gateways[gateway];
        host.generation += 1;
        (host.is_up, host.clock) = (true, clock);
        host.gathering = Gathering::new(gateway, host.generation);
        self.network.start(endpoint_of_gateway(gateway));
        self.note(format_args!("gateway {gateway} starts"));
        self.gateway_joins(gateway);
    }

    pub(super) fn stop_gateway(&mut self, gateway: usize) {
        self.note(format_args!("gateway {gateway} crashes"));
        self.network.crash(&mut self.schedule, endpoint_of_gateway(gateway));
        let host = &mut self.gateways[gateway];
        host.earlier = host.counts();
        host.is_up = false;
        host.tenures.clear();
        host.ended.clear();
        host.generation += 1;
        host.inputs.clear();
        host.links.clear();
        host.waiting.clear();
        host.table.clear();
        host.view = View::default();
        (host.turn_is_due, host.deadline_us) = (false, None);
        host.gathering = Gathering::default();
        self.clients_lose_connections(gateway);
        self.lose_parts_at(gateway);
        self.gateway_leaves(gateway);
    }

    pub(super) fn restart_gateway(&mut self, gateway: usize) {
        if !self.gateways[gateway].is_up {
            self.start_gateway(gateway);
        }
    }

    pub(super) fn resume_gateway(&mut self, gateway: usize) {
        if self.network.is_stalled(endpoint_of_gateway(gateway)) {
            self.note(format_args!("gateway {gateway} goes on"));
            self.network.resume(endpoint_of_gateway(gateway));
            self.demand_turn(gateway);
        }
    }

    pub(super) fn ask_gateway(&mut self, gateway: usize, token: Token, request: Request<SimCommand>) {
        self.gateways[gateway].inputs.push_back(Input::Request(token, request));
        self.demand_turn(gateway);
    }

    pub(super) fn order_gateway(&mut self, gateway: usize, order: Order) {
        self.gateways[gateway].inputs.push_back(Input::Order(order));
        self.demand_turn(gateway);
    }

    pub(super) fn gateway_notice(&mut self, gateway: usize, session: network::SessionId, what: network::What) {
        let inputs = &mut self.gateways[gateway].inputs;
        match what {
            network::What::Accepted { .. } | network::What::Connected => return,
            network::What::Received(bytes) => inputs.push_back(Input::Bytes(session, bytes)),
            network::What::Broken(_) => inputs.push_back(Input::Closed(session)),
        }
        self.demand_turn(gateway);
    }

    pub(super) fn demand_turn(&mut self, gateway: usize) {
        let host = &mut self.gateways[gateway];
        if !host.is_up || host.turn_is_due {
            return;
        }
        host.turn_is_due = true;
        let generation = host.generation;
        let delay_us = self.rng.below(TURN_US_MAX);
        self.schedule.after(delay_us, Event::GatewayTurn { gateway, generation });
    }

    pub(super) fn gateway_deadline(&mut self, gateway: usize, generation: u32, at_us: u64) {
        let host = &mut self.gateways[gateway];
        if generation != host.generation || host.deadline_us != Some(at_us) {
            return;
        }
        host.deadline_us = None;
        if !host.turn_is_due {
            host.turn_is_due = true;
            self.gateway_turn(gateway, generation);
        }
    }

    pub(super) fn gateway_turn(&mut self, gateway: usize, generation: u32) {
        if generation != self.gateways[gateway].generation {
            return;
        }
        self.gateways[gateway].turn_is_due = false;
        if self.network.is_stalled(endpoint_of_gateway(gateway)) {
            return;
        }
        while let Some(input) = self.gateways[gateway].inputs.pop_front() {
            self.take_input(gateway, input);
        }
        self.route_waiting(gateway);
        self.go_on_gathering(gateway);
        self.pass_replies(gateway);
        let now = self.now_of_gateway(gateway);
        self.gateways[gateway].engines_mut().for_each(|engine| engine.end_turn(now));
        self.watch_transitions(gateway);
        // Between what a turn did and its replies a process may stand still as well: they go with the next turn then.
        if self.config.gateway_count == 1 || self.rng.chance_ppm(800_000) {
            self.pass_replies(gateway);
        }
        self.note_verdicts(gateway);
        self.gateways[gateway].turns += 1;
        if self.gateways[gateway].turns.is_multiple_of(TURNS_PER_CHECK) {
            self.check_engines(gateway);
        }
        self.send_to_nodes(gateway);
        self.tell_standings(gateway);
        self.time_outage();
        self.keep_sessions(gateway);
        self.await_deadline(gateway);
    }

    pub(super) fn check_engines(&self, gateway: usize) {
        self.gateways[gateway].engines().for_each(Engine::check_invariants);
    }

    fn take_input(&mut self, gateway: usize, input: Input) {
        let now = self.now_of_gateway(gateway);
        let host = &mut self.gateways[gateway];
        match input {
            Input::Opened(epoch, id) => {
                if let Some(hosted) = host.tenures.get_mut(&epoch) {
                    hosted.engine.handle_session_opened(now, id);
                }
            }
            Input::Closed(session) => {
                let Some(link) = host.links.remove(&session) else { return };
                if let Some(hosted) = host.tenures.get_mut(&link.epoch) {
                    hosted.engine.handle_session_closed(now, link.id);
                }
            }
            Input::Request(token, Request::Keyspace(flush @ KeyspaceRequest::Flush { .. }))
                if self.config.gateway_count > 1 =>
            {
                self.gather(gateway, token, flush);
            }
            Input::Request(token, request) => self.route(gateway, token, request),
            Input::Part(part) => self.take_guest(gateway, part),
            Input::PartAnswered(token, answer) => self.take_answer_of_part(gateway, token, answer),
            Input::Bytes(session, bytes) => {
                let Some(link) = host.links.get_mut(&session) else { return };
                let Some(hosted) = host.tenures.get_mut(&link.epoch) else { return };
                link.input.extend_from_slice(&bytes);
                match hosted.engine.handle_session_input(now, link.id, &link.input) {
                    Ok(consumed) => _ = link.input.drain(..consumed),
                    Err(error) => self.refuse_input(gateway, session, &error),
                }
                self.open_near(gateway);
            }
            Input::View(view) => self.take_view(gateway, view),
            Input::Terms(terms) => self.take_all_terms(gateway, &terms),
            Input::Order(Order::Table(table)) => {
                host.table = table;
                self.ask_loose_parts(gateway);
            }
            Input::Order(Order::Begin { epoch, partitions, terms }) => {
                self.begin_tenure(gateway, epoch, partitions, terms);
            }
            Input::Order(Order::Prepare { epoch, partitions }) => self.prepare_tenure(gateway, epoch, partitions),
            Input::Order(Order::Forget { epoch }) => self.forget_tenure(gateway, epoch),
            Input::Order(Order::Terms { epoch, terms }) => self.take_terms(gateway, epoch, terms),
            Input::Order(Order::LetGo { epoch }) => {
                if let Some(hosted) = host.tenures.get_mut(&epoch) {
                    hosted.engine.let_go(now);
                }
            }
        }
    }

    /// What came is no message: whoever sent it hears no more of this session.
    fn refuse_input(&mut self, gateway: usize, session: network::SessionId, error: &FrameError) {
        self.end_hurt(endpoint_of_gateway(gateway), session, error);
        self.take_input(gateway, Input::Closed(session));
    }

    fn pass_replies(&mut self, gateway: usize) {
        let now = self.now_of_gateway(gateway);
        for epoch in self.gateways[gateway].tenures.keys().copied().collect::<Vec<_>>() {
            let next = |world: &mut World| world.gateways[gateway].tenures.get_mut(&epoch)?.engine.poll_reply(now);
            while let Some((token, reply)) = next(self) {
                self.gateway_replies(gateway, token, reply);
            }
        }
    }

    fn gateway_replies(&mut self, gateway: usize, token: Token, reply: Reply) {
        if !self.takes_part(gateway, token, &reply) {
            self.reply_leaves(token.id.seq, reply);
        }
    }

    fn await_deadline(&mut self, gateway: usize) {
        let host = &mut self.gateways[gateway];
        let Some(at_us) = host.engines().filter_map(Engine::poll_deadline).min() else { return };
        let at_us = host.clock.world_us(at_us).max(self.schedule.now_us() + 1);
        if host.deadline_us.is_none_or(|known| at_us < known) {
            host.deadline_us = Some(at_us);
            let generation = host.generation;
            self.schedule.at(at_us, Event::GatewayDeadline { gateway, generation, at_us });
        }
    }
}

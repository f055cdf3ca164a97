//! A core's requests and two nodes, in virtual time and without sockets.

mod neighbour;
mod overload;

use std::collections::HashMap;

use mio::{Poll, Token as MioToken};
use shorttail_gateway::command::Command;
use shorttail_gateway::engine::{LeaseConfig, SessionId, Standing};
use shorttail_gateway::memcached::MemcachedSession;
use shorttail_gateway::redis::RedisSession;
use shorttail_gateway::request::RequestId;
use shorttail_gateway::session::{Session, Settings, Shared};
use shorttail_gateway::terms::ENDING_US_MAX;
use shorttail_node::{Node, NodeConfig, Pace};
use shorttail_units::{ClusterId, CodeShape, Epoch, Incarnation, NodeId, UnixMs};
use shorttail_wire::control::{GatewayEntry, NodeEntry, NodeSeen, NodeState, TenureEntry, TenureState, Voter};

use super::*;
use crate::net::Inbox;

const CLUSTER: ClusterId = ClusterId(7);
const INCARNATION: Incarnation = Incarnation(1);
const NODE_COUNT: u16 = 2;
const STEP_US: u64 = 10_000;

struct World {
    poll: Poll,
    exchange: Exchange,
    nodes: Vec<Node>,
    /// Number of each session at its node.
    sessions: HashMap<SessionId, u64>,
    view: View,
    now: Now,
}

fn node(id: u16) -> Node {
    let config = NodeConfig {
        node: NodeId(id),
        cluster: CLUSTER,
        incarnation: INCARNATION,
        core: 0,
        core_count: 1,
        memory_bytes: 16 << 20,
        pace: Pace { repair_bytes_per_s: 0, scrub_bytes_per_s: 0 },
    };
    Node::new(config).expect("memory")
}

impl World {
    /// One core that owns everything, by the word of two nodes.
    fn new() -> Self {
        let poll = Poll::new().expect("an epoll instance");
        let (_, outlet) = Inbox::new(&poll, MioToken(0)).expect("an event descriptor");
        let shape = CodeShape::reed_solomon(1, 1).expect("a code");
        let mut config = EngineConfig::new(shape, Epoch(0), CLUSTER, NODE_COUNT);
        config.partition_count = 1;
        config.lease = Some(LeaseConfig::USUAL);
        let own = CoreIdentity { identity: Identity { cluster: CLUSTER, gateway: 0 }, core: 0 };
        let exchange = Exchange::new(own, vec![outlet], config, Arc::default());
        let nodes = (0..NODE_COUNT).map(node).collect();
        let now = Now { mono_us: 1, unix_ms: UnixMs(1_700_000_000_000) };
        let mut world = World { poll, exchange, nodes, sessions: HashMap::new(), view: View::default(), now };
        let (tenure, terms) = crate::control::single_tenure(Epoch(1), 1);
        let entry = |id| NodeEntry {
            id: NodeId(id),
            incarnation: INCARNATION,
            address: format!("127.0.0.1:{id}"),
            domain: String::new(),
            state: NodeState::Normal,
            draining: false,
            removed: false,
        };
        let nodes = (0..NODE_COUNT).map(entry).collect();
        let tenures = vec![tenure];
        let view = View { number: 1, node_count_expected: NODE_COUNT, nodes, tenures, ..View::default() };
        world.exchange.take_view(world.now, &view, world.poll.registry());
        world.view = view;
        let terms = Terms { voters: world.voters(), ..terms };
        world.exchange.take_terms(world.now, &[terms]);
        world
    }

    fn voters(&self) -> Arc<[Voter]> {
        (0..NODE_COUNT).map(|id| Voter { node: NodeId(id), incarnation: INCARNATION }).collect()
    }

    /// Passes messages and time until `is_done`.
    fn run_until(&mut self, what: &str, is_done: impl Fn(&World) -> bool) {
        for _ in 0..1_000 {
            self.turn();
            if is_done(self) {
                return;
            }
            self.now.mono_us += STEP_US;
        }
        panic!("never: {what}");
    }

    fn turn(&mut self) {
        let now = self.now;
        for tenure in self.exchange.tenures.iter_mut() {
            let engine = &mut tenure.engine;
            for id in engine.wanted_sessions() {
                let number = self.sessions.len() as u64;
                let node = &mut self.nodes[usize::from(id.node.0)];
                let session = *self.sessions.entry(id).or_insert_with(|| {
                    node.handle_session_opened(number);
                    engine.handle_session_opened(now, id);
                    number
                });
                let asked = engine.session_output(id).map(std::mem::take).unwrap_or_default();
                let taken = node.handle_input(now, session, &asked).expect("messages of an owner");
                assert_eq!(taken, asked.len());
                node.end_turn(now);
                let answers = node.poll_output(session).map(std::mem::take).unwrap_or_default();
                engine.handle_session_input(now, id, &answers).expect("messages of a node");
            }
        }
        self.exchange.end_turn(now);
    }

    /// Of an engine that is gone.
    fn close_sessions(&mut self) {
        for (id, number) in self.sessions.drain() {
            self.nodes[usize::from(id.node.0)].handle_session_closed(number);
        }
    }

    fn standing(&self) -> Option<Standing> {
        self.exchange.tenures.iter().next().map(|tenure| tenure.engine.standing())
    }

    /// Asks for a key that is not there.
    fn get(&mut self, seq: u64) {
        self.ask(seq, b"get key\r\n");
    }

    fn ask(&mut self, seq: u64, line: &[u8]) {
        let id = RequestId { seq, part: 0 };
        self.exchange.ask(self.now, Token { connection: 1, id }, self.request(line));
    }

    fn request(&self, line: &[u8]) -> Request<AnyCommand> {
        let mut asked = Vec::new();
        let mut session = MemcachedSession::default();
        let mut sink = |_, request: Request<_>| asked.push(request.map(AnyCommand::Memcached));
        session.handle_input(self.now, &mut Shared::new(Settings::default()), line, &mut sink);
        asked.pop().expect("one request")
    }

    fn get_as_redis(&mut self, seq: u64) {
        let (mut asked, mut shared) = (Vec::new(), Shared::new(Settings::default()));
        let mut session = RedisSession::new("1.2.3.4:5".into(), "1.2.3.4:6".into(), self.now, &shared);
        let mut sink = |_, request: Request<_>| asked.push(request.map(AnyCommand::Redis));
        session.handle_input(self.now, &mut shared, b"GET key\r\n", &mut sink);
        let id = RequestId { seq, part: 0 };
        self.exchange.ask(self.now, Token { connection: 1, id }, asked.pop().expect("one request"));
    }

    fn answer(&mut self, now: Now) -> Option<Vec<u8>> {
        match self.exchange.poll_answer(now)? {
            (_, Some(Reply::Bytes(bytes))) => Some(bytes),
            other => panic!("{other:?}"),
        }
    }
}

/// What a client hears that asks for a key of somebody else.
fn not_the_owner() -> Vec<u8> {
    let mut refusal = Vec::new();
    let mut session = MemcachedSession::default();
    let mut sink = |_, request: Request<_>| {
        if let Request::Key(command) = request {
            Command::refuse(&command, StoreError::NotOwner, &mut refusal);
        }
    };
    let now = Now::default();
    session.handle_input(now, &mut Shared::new(Settings::default()), b"get key\r\n", &mut sink);
    refusal
}

#[test]
fn the_last_replies_of_an_engine_are_judged_by_the_clock_of_when_they_leave() {
    let mut world = World::new();
    world.run_until("serves", |world| world.standing() == Some(Standing::Serving));
    world.get(1);
    let absent = world.answer(world.now).expect("at once: it is proven");
    assert_ne!(absent, not_the_owner());

    // The coordinator names the tenure no more; its nodes go on to promise.
    let since_us = world.now.mono_us;
    world.exchange.take_terms(world.now, &[]);
    world.run_until("its time is over", |world| world.now.mono_us >= since_us + ENDING_US_MAX);
    world.get(2);
    // The process stood still before the reply left, for longer than the promises last.
    let late = Now { mono_us: world.now.mono_us + LeaseConfig::USUAL.lease_us - 1, ..world.now };
    assert_eq!(world.answer(late), None, "a reply that is not proven waits");
    // What is due is done by the clock of the turn's beginning: the engine is dropped, and owes an answer.
    world.exchange.housekeep(world.now, world.poll.registry());
    assert_eq!(world.standing(), None);
    assert_eq!(world.answer(late), Some(not_the_owner()));
}

#[test]
fn clients_that_can_ask_elsewhere_do_not_wait_for_who_is_cut_off() {
    for (speaks_redis, sends_redis_clients) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut world = World::new();
        world.exchange.sends_redis_clients = sends_redis_clients;
        let get: fn(&mut World, u64) = if speaks_redis { World::get_as_redis } else { World::get };
        world.run_until("serves", |world| world.standing() == Some(Standing::Serving));
        // Its engine is over, and no view tells of another owner.
        world.exchange.take_terms(world.now, &[]);
        let since_us = world.now.mono_us;
        world.run_until("its time is over", |world| world.now.mono_us >= since_us + ENDING_US_MAX);
        world.exchange.housekeep(world.now, world.poll.registry());
        get(&mut world, 1);
        world.now.mono_us += NEWS_US_MAX - 1;
        get(&mut world, 2);
        world.exchange.housekeep(world.now, world.poll.registry());
        world.turn();
        assert_eq!(world.answer(world.now), None, "a view may be on its way");

        world.now.mono_us += 1;
        world.exchange.housekeep(world.now, world.poll.registry());
        world.turn();
        get(&mut world, 3);
        let answers: Vec<_> = std::iter::from_fn(|| world.answer(world.now)).collect();
        assert_eq!(answers.len(), if speaks_redis && sends_redis_clients { 3 } else { 0 });
        assert!(answers.iter().all(|answer| answer.starts_with(b"-")), "errors: {answers:?}");
    }
}

#[test]
fn a_master_answers_for_all_that_clients_are_told_it_has() {
    for (redis, stands_in) in [(None, true), (Some("127.0.0.1:7001".to_owned()), false)] {
        let mut world = World::new();
        let forward = |id: u16| Some(format!("unix:/nowhere/{id}"));
        let entry =
            |id, redis| GatewayEntry { id, is_alive: true, forward: forward(id), redis, ..GatewayEntry::default() };
        let gateways = vec![entry(0, Some("127.0.0.1:7000".to_owned())), entry(1, redis)];
        let tenures = vec![TenureEntry { epoch: Epoch(2), gateway: 1, partitions: vec![0] }];
        let view = View { number: 2, gateways, tenures, ..world.view.clone() };
        world.exchange.take_view(world.now, &view, world.poll.registry());
        world.exchange.tell(&BTreeSet::from([2]));
        let mut answers_at_once = |seq, request| {
            let token = Token { connection: 1, id: RequestId { seq, part: 0 } };
            world.exchange.ask(world.now, token, Request::Keyspace(KeyspaceRequest::Own(Box::new(request))));
            world.exchange.poll_answer(world.now).is_some()
        };
        // The one that owns it is to be asked, and is not reached.
        assert_eq!(answers_at_once(1, KeyspaceRequest::Count), !stands_in);
        assert_eq!(answers_at_once(2, KeyspaceRequest::flush(None)), !stands_in);
        assert!(answers_at_once(3, KeyspaceRequest::Stats), "how it is itself");
    }
}

/// A client that connects asks it first, and others' commands stand behind it.
#[test]
fn how_much_there_is_is_not_waited_for_as_long_as_a_key() {
    const NONE: [u64; 0] = [];
    let mut world = World::new();
    let own = KeyspaceRequest::Own(Box::new(KeyspaceRequest::Stats));
    for (seq, request) in [(1, KeyspaceRequest::Count), (2, KeyspaceRequest::Stats), (3, own)] {
        let token = Token { connection: 1, id: RequestId { seq, part: 0 } };
        world.exchange.ask(world.now, token, Request::Keyspace(request));
    }
    let asked_us = world.now.mono_us;
    let mut answers = |at_us| {
        world.now.mono_us = at_us;
        world.exchange.housekeep(world.now, world.poll.registry());
        let answers = std::iter::from_fn(|| world.exchange.poll_answer(world.now));
        answers.map(|(token, _)| token.id.seq).collect::<Vec<_>>()
    };
    assert_eq!(answers(asked_us + STATS_WAIT_US_MAX - 1), NONE, "nobody serves yet");
    assert_eq!(answers(asked_us + STATS_WAIT_US_MAX), [2, 3]);
    assert_eq!(answers(asked_us + WAIT_US_MAX - 1), NONE);
    assert_eq!(answers(asked_us + WAIT_US_MAX), [1]);
}

/// It is gone in a moment, and they would not know whether it was done.
#[test]
fn what_others_ask_of_one_that_leaves_they_get_back() {
    let mut world = World::new();
    let token = Token { connection: 1, id: RequestId { seq: 1, part: 0 } };
    let ask = Ask { partition: 0, epoch: 0, request: world.request(b"set key 0 0 1\r\nx\r\n") };
    world.exchange.ask_as_guest(world.now, token, ask);
    world.exchange.end_turn(world.now);
    assert_eq!(world.exchange.poll_answer(world.now), None, "it may serve in a moment");
    world.exchange.leave_all();
    world.exchange.end_turn(world.now);
    assert_eq!(world.exchange.poll_answer(world.now), Some((token, None)));
}

/// Whoever asks takes all that it named for flushed.
#[test]
fn a_guest_flushes_what_it_names_where_all_of_it_is_here() {
    let mut world = World::new();
    world.run_until("serves", |world| world.standing() == Some(Standing::Serving));
    let objects = |world: &World| world.exchange.tenures.stats().map(|stats| stats.totals.objects);
    world.ask(1, b"set key 0 0 5\r\nvalue\r\n");
    world.run_until("stored", |world| objects(world) == Some(1));
    world.exchange.poll_answer(world.now).expect("an answer");
    let flush = |world: &mut World, seq, epoch, of| {
        let token = Token { connection: 1, id: RequestId { seq, part: 0 } };
        let request = Request::Keyspace(KeyspaceRequest::Flush { at: None, of });
        world.exchange.ask_as_guest(world.now, token, Ask { partition: 0, epoch, request });
        token
    };
    for (seq, epoch, of) in [(2, 1, vec![1]), (3, 1, vec![0, 1]), (4, 2, vec![0])] {
        let token = flush(&mut world, seq, epoch, of);
        assert_eq!(world.exchange.poll_answer(world.now), Some((token, None)), "nothing was done");
    }
    assert_eq!(objects(&world), Some(1));
    let token = flush(&mut world, 5, 1, vec![0]);
    world.run_until("flushed", |world| objects(world) == Some(0));
    let answer = world.exchange.poll_answer(world.now);
    assert_eq!(answer, Some((token, Some(Reply::Keyspace(Ok(KeyspaceReply::Flushed))))));
}

#[test]
fn what_was_counted_stays_counted_when_the_engine_is_gone() {
    let mut world = World::new();
    world.run_until("serves", |world| world.standing() == Some(Standing::Serving));
    world.ask(1, b"set key 0 0 5\r\nvalue\r\n");
    world.run_until("stored", |world| world.exchange.tenures.stats().is_some_and(|stats| stats.totals.objects == 1));
    let before = world.exchange.tenures.stats().expect("an engine");
    assert_eq!(before.totals.stored_total, 1);

    world.exchange.take_terms(world.now, &[]);
    let since_us = world.now.mono_us;
    world.run_until("its time is over", |world| world.now.mono_us >= since_us + ENDING_US_MAX);
    world.exchange.housekeep(world.now, world.poll.registry());
    assert_eq!(world.standing(), None);
    assert!(world.exchange.tenures.do_all_serve(world.now), "nobody is to have it from here");
    let after = world.exchange.tenures.stats().expect("there was an engine");
    assert_eq!((after.totals.stored_total, after.totals.objects), (1, 0), "what it counted, and nothing that it held");
    assert!(after.totals.renewals_failed_total >= before.totals.renewals_failed_total);
    assert!(world.exchange.tenures.nodes_seen().is_empty(), "nobody sees the nodes now");

    // A later tenure goes on from there.
    world.close_sessions();
    let (tenure, terms) = crate::control::single_tenure(Epoch(2), 1);
    let view = View { number: 2, gateways: Vec::new(), tenures: vec![tenure], ..world.view.clone() };
    world.exchange.take_view(world.now, &view, world.poll.registry());
    let terms = Terms { voters: world.voters(), ..terms };
    world.exchange.take_terms(world.now, &[terms]);
    world.run_until("serves again", |world| world.standing() == Some(Standing::Serving));
    assert!(world.exchange.tenures.stats().is_some_and(|stats| stats.totals.stored_total >= 1));
    let writes = |seen: &NodeSeen| seen.write_latency.classes.iter().map(|class| class.1).sum::<u64>();
    let seen = world.exchange.tenures.nodes_seen();
    assert_eq!(seen.len(), usize::from(NODE_COUNT));
    assert!(seen.iter().all(|seen| seen.connected && writes(seen) > 0));
}

/// The coordinator told this gateway that it is over, and may tell it nothing more. As it waits for those that do not
/// serve, it would be told of it very often, for ever.
#[test]
fn how_a_tenure_ended_is_told_while_the_coordinator_names_it() {
    let mut world = World::new();
    world.run_until("serves", |world| world.standing() == Some(Standing::Serving));
    let told = |world: &World| world.exchange.tenures.shares(world.now).iter().map(|it| it.state).collect::<Vec<_>>();
    world.exchange.take_terms(world.now, &[]);
    let since_us = world.now.mono_us;
    world.run_until("its time is over", |world| world.now.mono_us >= since_us + ENDING_US_MAX);
    assert_eq!(told(&world), [TenureState::Serving]);
    world.exchange.housekeep(world.now, world.poll.registry());
    assert_eq!((world.standing(), told(&world)), (None, vec![]));

    // An epoch begins once.
    let (_, terms) = crate::control::single_tenure(Epoch(1), 1);
    world.exchange.take_terms(world.now, &[Terms { voters: world.voters(), ..terms }]);
    assert_eq!((world.standing(), told(&world)), (None, vec![TenureState::Ended]));
    assert!(!world.exchange.tenures.do_all_serve(world.now), "it is to be served from here");
}

/// Whatever it is asked is refused then; for a moment before that it only waits.
#[test]
fn who_is_not_proven_for_long_does_not_serve() {
    let mut world = World::new();
    let mut was_early = false;
    for _ in 0..100 {
        world.turn();
        let is_proven = world.exchange.tenures.iter().all(|tenure| tenure.engine.is_proven(world.now));
        was_early |= world.exchange.tenures.do_all_serve(world.now) && !is_proven;
        world.now.mono_us += STEP_US;
    }
    assert!(!was_early, "before it was ever proven");
    assert!(world.exchange.tenures.do_all_serve(world.now));
    world.get(1);
    world.answer(world.now).expect("at once: it is proven");

    // Its nodes say nothing any more.
    let since_us = world.now.mono_us;
    let mut until_us = since_us;
    while world.now.mono_us < since_us + 3 * LeaseConfig::USUAL.lease_us {
        world.exchange.end_turn(world.now);
        if world.exchange.tenures.do_all_serve(world.now) {
            until_us = world.now.mono_us;
        }
        world.now.mono_us += STEP_US;
    }
    assert_eq!(world.standing(), Some(Standing::Serving));
    let served_us = until_us - since_us;
    assert!(
        (LeaseConfig::USUAL.lease_us..2 * LeaseConfig::USUAL.lease_us).contains(&served_us),
        "for {served_us} us, as replies wait"
    );
    world.run_until("proven again", |world| {
        world.exchange.tenures.iter().all(|tenure| tenure.engine.is_proven(world.now))
    });
    assert!(world.exchange.tenures.do_all_serve(world.now));
}

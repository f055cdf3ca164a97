//! Scenarios of ownership: partitions are dealt, dealt again, handed over, and voters change.

use std::collections::{BTreeMap, BTreeSet};

use shorttail_units::Epoch;

use super::*;

mod drains;
mod losses;
mod restored;
mod returning;
mod silent;
mod store_away;
mod voters;

/// A message that names a tenure leaves only when the tenure is on disk just so.
pub fn check_told(output: &Output, persisted: &Durable) {
    let Output::Send { message, .. } = output else { return };
    match message {
        FromCoordinator::View(view) => {
            for tenure in &view.tenures {
                let durable = &persisted.tenures[&tenure.epoch.0];
                assert_eq!((&durable.partitions, durable.gateway), (&tenure.partitions, tenure.gateway));
            }
        }
        FromCoordinator::Terms(terms) => {
            for terms in terms {
                if terms.prepares {
                    let epoch = terms.epoch.0;
                    assert!(
                        epoch <= persisted.epoch && !persisted.tenures.contains_key(&epoch),
                        "{epoch} is not taken"
                    );
                    continue;
                }
                let durable = &persisted.tenures[&terms.epoch.0];
                assert_eq!((durable.terms, &durable.partitions), (terms.number, &terms.partitions));
                assert_eq!(durable.voters_told().len(), terms.voters.len());
                assert_eq!(durable.before.len(), terms.before.len());
            }
        }
        _ => {}
    }
}

/// Whoever is told of a tenure was told of every node that earlier owners may have used.
pub fn check_known(output: &Output, persisted: &Durable, known: &mut BTreeMap<ConnectionId, BTreeSet<u16>>) {
    let Output::Send { connection, message } = output else { return };
    match message {
        FromCoordinator::View(view) => {
            known.insert(*connection, view.nodes.iter().map(|node| node.id.0).collect());
        }
        FromCoordinator::Terms(terms) if !terms.is_empty() => {
            let told = known.get(connection).expect("told of nodes first");
            assert!(persisted.nodes.keys().all(|id| told.contains(id)), "told of {told:?}");
        }
        _ => {}
    }
}

/// An epoch is used once, and tenures that follow others know whose promises must end.
pub fn check_step(before: &Durable, after: &Durable, used: &BTreeSet<u32>) {
    assert!(after.epoch >= before.epoch);
    for (epoch, tenure) in &after.tenures {
        match before.tenures.get(epoch) {
            Some(known) => {
                assert_eq!((known.gateway, known.gateway_life), (tenure.gateway, tenure.gateway_life));
                assert_eq!(known.partitions, tenure.partitions, "a tenure neither grows nor shrinks");
            }
            None => {
                assert!(!used.contains(epoch) && *epoch <= after.epoch, "epoch {epoch} was used before");
                for (old, predecessor) in &before.tenures {
                    let is_of = predecessor.partitions.iter().any(|partition| tenure.partitions.contains(partition));
                    let inherits = |set| tenure.before.contains(set);
                    assert!(
                        !is_of || predecessor.voters.iter().chain(&predecessor.before).all(inherits),
                        "tenure {epoch} does not wait for what {old} was proven by"
                    );
                }
            }
        }
    }
}

/// Nodes, gateways and what the gateways say.
pub struct Stage {
    pub scene: Scene,
    /// By gateway: its connection, process and what it reports.
    pub gateways: BTreeMap<u16, Actor>,
    nodes: Vec<ConnectionId>,
}

pub struct Actor {
    connection: ConnectionId,
    life: u64,
    pub standings: BTreeMap<u32, Standing>,
    is_silent: bool,
    /// Nodes that it tells of, and whether it reaches them.
    pub nodes: BTreeMap<u16, bool>,
    pub totals: StoreTotals,
}

pub const NODES: u16 = 8;

impl Stage {
    pub fn new(gateway_count_expected: u16, partition_count: u16) -> Self {
        let settings = Settings { gateway_count_expected, partition_count, ..settings() };
        let mut stage = Stage {
            scene: Scene::with(settings, Durable::new(CLUSTER.0)),
            gateways: BTreeMap::new(),
            nodes: Vec::new(),
        };
        (0..NODES).for_each(|_| stage.join_node());
        stage
    }

    pub fn join(&mut self) -> u16 {
        self.join_at(None)
    }

    /// A gateway that is to be reached there.
    fn join_at(&mut self, forward: Option<&str>) -> u16 {
        let connection = self.scene.connect();
        let life = 1000 + connection.0;
        let mut registration = gateway_registration(None, life);
        registration.forward = forward.map(str::to_owned).or(registration.forward);
        self.scene.outputs.clear();
        let (_, welcome) = self.scene.register_gateway(connection, registration);
        let id = welcome.expect("let in").session.gateway_id;
        let (standings, nodes, totals) = (BTreeMap::new(), BTreeMap::new(), StoreTotals::default());
        let actor = Actor { connection, life, standings, is_silent: false, nodes, totals };
        self.gateways.insert(id, actor);
        id
    }

    pub fn actor(&mut self, id: u16) -> &mut Actor {
        self.gateways.get_mut(&id).expect("a known gateway")
    }

    /// Whether a gateway sends no reports.
    fn silence(&mut self, id: u16, is_silent: bool) {
        self.actor(id).is_silent = is_silent;
    }

    fn close(&mut self, id: u16) {
        let connection = self.gateways[&id].connection;
        self.scene.handle(Input::Closed { connection });
    }

    pub fn join_node(&mut self) {
        let id = self.nodes.len() as u16;
        self.nodes.push(self.scene.node(node(1, Some(id))).0);
    }

    pub fn close_node(&mut self, id: u16) {
        self.scene.handle(Input::Closed { connection: self.nodes[usize::from(id)] });
    }

    /// Others are heard afterwards.
    pub fn die(&mut self, id: u16) {
        self.close(id);
        self.gateways.remove(&id);
        self.beat();
    }

    /// The same process comes on a new connection.
    fn return_of(&mut self, id: u16) -> Result<GatewayWelcome, Refusal> {
        let connection = self.scene.connect();
        let session = Some(GatewaySession { cluster_id: CLUSTER, gateway_id: id });
        let actor = self.actor(id);
        actor.connection = connection;
        let registration = gateway_registration(session, actor.life);
        self.scene.register_gateway(connection, registration).1
    }

    /// Everybody reports as of this state of their tenures.
    pub fn report(&mut self, state: impl Fn(u32) -> TenureState) {
        let tenures = self.scene.coordinator.view().tenures;
        for (id, actor) in &mut self.gateways {
            actor.standings = BTreeMap::new();
            for tenure in tenures.iter().filter(|tenure| tenure.gateway == *id) {
                let (epoch, state) = (tenure.epoch, state(tenure.epoch.0));
                let proven_by = self.scene.persisted.tenures[&epoch.0].terms;
                actor.standings.insert(epoch.0, Standing { epoch, proven_by, state });
            }
        }
        self.beat();
    }

    /// The owner of an epoch has let go of it, and the other tenures are served.
    fn lets_go_of(&mut self, epoch: u32) {
        self.report(|known| if known == epoch { TenureState::LetGo } else { TenureState::Serving });
    }

    /// The coordinator begins anew, and the nodes come back to it with what they have.
    fn restart(self) -> Self {
        let mut stage = Stage { scene: self.scene.restart(), ..self };
        // No connection of before is taken for a new one.
        stage.scene.connection_next += 1000;
        for id in 0..stage.nodes.len() as u16 {
            let session = NodeSession { cluster_id: CLUSTER, node_id: NodeId(id) };
            let life = stage.scene.persisted.nodes[&id].incarnation;
            let registration = NodeRegistration { session: Some(session), ..node(life, None) };
            let (connection, session) = stage.scene.node(registration);
            session.expect("let in");
            stage.nodes[usize::from(id)] = connection;
        }
        stage
    }

    /// Those that are to follow report that they are prepared.
    pub fn prepare(&mut self) {
        for id in self.gateways.keys().copied().collect::<Vec<_>>() {
            for epoch in self.to_come(id) {
                let standing = Standing { epoch: Epoch(epoch), proven_by: 0, state: TenureState::Prepared };
                self.actor(id).standings.insert(epoch, standing);
            }
        }
        self.beat();
    }

    /// Epochs that a gateway is to prepare for.
    pub fn to_come(&self, id: u16) -> Vec<u32> {
        let terms = self.terms_last(id).unwrap_or_default();
        terms.iter().filter(|terms| terms.prepares).map(|terms| terms.epoch.0).collect()
    }

    pub fn serve(&mut self) {
        self.report(|_| TenureState::Serving);
    }

    pub fn beat(&mut self) {
        for actor in self.gateways.values().filter(|actor| !actor.is_silent) {
            let standings = actor.standings.values().copied().collect();
            let seen = |(&id, &connected): (&u16, &bool)| NodeSeen { id, connected, ..NodeSeen::default() };
            let nodes = actor.nodes.iter().map(seen).collect();
            let status = GatewayStatus { standings, nodes, totals: actor.totals, ..GatewayStatus::default() };
            self.scene.report(actor.connection, status);
        }
        for &connection in &self.nodes {
            self.scene.tell(connection, ToCoordinator::NodeStatus(NodeStatus::default()));
        }
    }

    pub fn pass_ms(&mut self, ms: u64) {
        for _ in 0..ms / 100 {
            self.scene.pass_ms(100, &[]);
            self.beat();
        }
    }

    /// Gateway and number of partitions, by epoch.
    pub fn owners(&self) -> Vec<(u32, u16, usize)> {
        let tenures = self.scene.persisted.tenures.iter();
        tenures.map(|(&epoch, tenure)| (epoch, tenure.gateway, tenure.partitions.len())).collect()
    }

    pub fn loads(&self) -> BTreeMap<u16, usize> {
        let mut loads = BTreeMap::new();
        for (_, gateway, count) in self.owners() {
            *loads.entry(gateway).or_default() += count;
        }
        loads
    }

    pub fn terms_told(&self, id: u16) -> Vec<Terms> {
        self.terms_last(id).expect("it was told terms")
    }

    /// None, if it was not told any lately.
    fn terms_last(&self, id: u16) -> Option<Vec<Terms>> {
        let sent = self.scene.sent_to(self.gateways[&id].connection);
        sent.into_iter().rev().find_map(|message| match message {
            FromCoordinator::Terms(terms) => Some(terms),
            _ => None,
        })
    }

    pub fn drain(&mut self, id: u16) -> String {
        self.order_drain(id, false).expect("another one may own it")
    }

    pub fn order_drain(&mut self, id: u16, cancel: bool) -> Result<String, String> {
        self.scene.order(id, Wanted::DrainGateway { cancel })
    }

    /// A gateway says that its process is told to end.
    fn tells_to_leave(&mut self, id: u16) {
        let connection = self.gateways[&id].connection;
        let status = GatewayStatus { leaves: true, ..self.scene.coordinator.gateways[&id].status.clone() };
        self.scene.report(connection, status);
    }

    pub fn lets_go(&self, id: u16) -> Vec<u32> {
        let terms = self.terms_last(id).unwrap_or_default();
        terms.iter().filter(|terms| terms.lets_go).map(|terms| terms.epoch.0).collect()
    }
}

#[test]
fn with_one_gateway_everything_is_dealt_at_once() {
    let mut stage = Stage::new(1, 4);
    let id = stage.join();
    assert_eq!(stage.owners(), [(1, id, 4)]);
    let terms = stage.terms_told(id);
    assert_eq!((terms.len(), terms[0].voters.len(), terms[0].before.len()), (1, 8, 0));
    assert_eq!(terms[0].partitions, [0, 1, 2, 3]);
    stage.die(id);
    let second = stage.join();
    assert_eq!(stage.owners(), [(2, second, 4)]);
    assert_eq!(stage.terms_told(second)[0].before.len(), 1, "it waits for what the first was proven by");
    stage.serve();
    assert!(stage.scene.persisted.tenures[&2].before.is_empty());
}

#[test]
fn expected_gateways_share_and_are_not_waited_for_forever() {
    let mut stage = Stage::new(3, 12);
    let ids: Vec<u16> = (0..3).map(|_| stage.join()).collect();
    assert_eq!(stage.owners(), [(1, ids[0], 4), (2, ids[1], 4), (3, ids[2], 4)]);
    let mut stage = Stage::new(3, 12);
    let one = stage.join();
    stage.pass_ms(GATHER_MS - 100);
    assert_eq!(stage.owners(), []);
    stage.pass_ms(100);
    assert_eq!(stage.owners(), [(1, one, 12)]);
}

#[test]
fn what_a_dead_gateway_had_goes_to_the_others_at_once() {
    let mut stage = Stage::new(3, 12);
    let ids: Vec<u16> = (0..3).map(|_| stage.join()).collect();
    stage.serve();
    stage.die(ids[1]);
    assert_eq!(stage.owners(), [(1, ids[0], 4), (3, ids[2], 4), (4, ids[0], 2), (5, ids[2], 2)]);
    assert_eq!(stage.terms_told(ids[0])[1].before.len(), 1);
    stage.die(ids[0]);
    assert_eq!(stage.loads(), [(ids[2], 12)].into());
}

#[test]
fn a_silent_gateway_loses_its_tenures_and_the_silence_of_all_is_ones_own() {
    let mut stage = Stage::new(2, 8);
    let ids: Vec<u16> = (0..2).map(|_| stage.join()).collect();
    stage.serve();
    stage.scene.now.mono_us += 10_000_000;
    stage.beat();
    assert_eq!(stage.owners(), [(1, ids[0], 4), (2, ids[1], 4)], "the coordinator stood still itself");
    stage.silence(ids[0], true);
    stage.pass_ms(GATEWAY_DEAD_AFTER_MS - 100);
    assert_eq!(stage.loads().len(), 2);
    stage.pass_ms(200);
    assert_eq!(stage.loads(), [(ids[1], 8)].into());
}

#[test]
fn a_newcomer_gets_its_share_by_a_hand_over() {
    let mut stage = Stage::new(1, 8);
    let old = stage.join();
    stage.serve();
    let new = stage.join();
    stage.serve();
    stage.pass_ms(SETTLED_MS);
    assert_eq!((stage.lets_go(old), stage.to_come(old), stage.to_come(new)), (vec![], vec![2], vec![3]));
    stage.prepare();
    assert_eq!(stage.lets_go(old), [1]);
    assert_eq!(stage.owners(), [(1, old, 8)], "until it has let go");
    stage.report(|_| TenureState::LettingGo);
    assert_eq!(stage.owners(), [(1, old, 8)]);
    stage.report(|_| TenureState::LetGo);
    assert_eq!(stage.owners(), [(2, old, 4), (3, new, 4)]);
    let status = stage.scene.coordinator.status();
    assert_eq!((status.tenures_handed_over_total, status.tenures_lost_total), (1, 0));
    stage.serve();
    stage.pass_ms(5 * SETTLED_MS);
    assert_eq!(stage.owners(), [(2, old, 4), (3, new, 4)], "it rests");
}

#[test]
fn a_drained_gateway_hands_over_all_it_has_one_tenure_after_the_other() {
    let mut stage = Stage::new(3, 12);
    let ids: Vec<u16> = (0..3).map(|_| stage.join()).collect();
    stage.serve();
    stage.die(ids[0]);
    stage.serve();
    let status = stage.scene.coordinator.status();
    assert_eq!((status.tenures_handed_over_total, status.tenures_lost_total), (0, 1));
    stage.scene.outputs.clear();
    assert_eq!(stage.drain(ids[1]), format!("gateway {} hands over 6 partition(s)", ids[1]));
    for epoch in [2, 4] {
        assert_eq!(stage.lets_go(ids[1]), []);
        stage.prepare();
        assert_eq!(stage.lets_go(ids[1]), [epoch]);
        stage.lets_go_of(epoch);
        stage.serve();
    }
    assert_eq!(stage.loads(), [(ids[2], 12)].into());
    assert!(stage.scene.coordinator.status().gateways.iter().any(|gateway| gateway.draining));
    let why = format!("gateway {} is the only one that may own partitions", ids[2]);
    assert_eq!(stage.order_drain(ids[2], false), Err(why));
    stage.die(ids[2]);
    assert_eq!(stage.loads(), [(ids[1], 12)].into(), "better one that is drained than none");
}

#[test]
fn a_gateway_whose_process_is_told_to_end_is_drained_if_others_may_own_what_it_has() {
    let mut stage = Stage::new(2, 8);
    let (old, new) = (stage.join(), stage.join());
    stage.serve();
    stage.scene.outputs.clear();
    stage.tells_to_leave(old);
    assert_eq!((told_to_drain(&stage), stage.to_come(new)), (vec![old], vec![3]));
    stage.prepare();
    stage.lets_go_of(1);
    stage.serve();
    assert_eq!(stage.loads(), [(new, 8)].into());
    stage.scene.outputs.clear();
    stage.tells_to_leave(new);
    assert_eq!(stage.loads(), [(new, 8)].into(), "nobody else may: it lets go by itself");
    assert!(stage.scene.persisted.draining.contains(&old) && !stage.scene.persisted.draining.contains(&new));
}

#[test]
fn who_is_drained_follows_nobody_any_more() {
    let mut stage = Stage::new(3, 12);
    let ids: Vec<u16> = (0..3).map(|_| stage.join()).collect();
    stage.serve();
    stage.drain(ids[0]);
    assert_eq!((stage.to_come(ids[1]).len(), stage.to_come(ids[2]).len()), (1, 1));
    stage.drain(ids[1]);
    assert_eq!((stage.to_come(ids[1]).len(), stage.to_come(ids[2]).len()), (0, 1), "planned anew");
    for _ in 0..2 {
        stage.prepare();
        let epochs: Vec<u32> = ids[..2].iter().flat_map(|&id| stage.lets_go(id)).collect();
        epochs.into_iter().for_each(|epoch| stage.lets_go_of(epoch));
        stage.serve();
    }
    assert_eq!(stage.loads(), [(ids[2], 12)].into());
}

/// Two gateways; the first is to let go, and the second to follow it.
fn planned() -> (Stage, u16, u16) {
    let mut stage = Stage::new(2, 8);
    let (old, new) = (stage.join(), stage.join());
    stage.serve();
    stage.drain(old);
    assert_eq!((stage.lets_go(old), stage.to_come(new)), (vec![], vec![3]));
    (stage, old, new)
}

/// What it is asked before it knows of it, it gives back.
#[test]
fn who_follows_hears_of_it_before_those_that_will_ask_it() {
    let (mut stage, old, new) = planned();
    let (old_connection, new_connection) = (stage.gateways[&old].connection, stage.gateways[&new].connection);
    assert!(old_connection < new_connection, "else it is the order of the connections");
    stage.prepare();
    stage.scene.outputs.clear();
    stage.lets_go_of(1);
    let told = stage.scene.outputs.iter().filter_map(|output| match output {
        Output::Send { connection, message: FromCoordinator::View(_) } => Some((*connection, "view")),
        Output::Send { connection, message: FromCoordinator::Terms(_) } => Some((*connection, "terms")),
        _ => None,
    });
    let of_gateways: Vec<_> =
        told.filter(|(connection, _)| [old_connection, new_connection].contains(connection)).collect();
    let expected = [new_connection, old_connection].map(|connection| [(connection, "view"), (connection, "terms")]);
    assert_eq!(of_gateways, expected.concat());
}

/// Gateways of which members were last told that they are to own nothing.
fn told_to_drain(stage: &Stage) -> Vec<u16> {
    let mut views = stage.scene.outputs.iter().filter_map(|output| match output {
        Output::Send { message: FromCoordinator::View(view), .. } => Some(view),
        _ => None,
    });
    let drained = views.next_back().expect("members are told").gateways.iter().filter(|gateway| gateway.draining);
    drained.map(|gateway| gateway.id).collect()
}

/// What it was not told to let go of it keeps, and what it handed over it gets back as its share.
#[test]
fn a_gateway_whose_drain_is_cancelled_keeps_what_it_has_and_gets_its_share_back() {
    let (mut stage, old, new) = planned();
    assert_eq!(told_to_drain(&stage), [old]);
    assert_eq!(stage.order_drain(old, true), Ok(format!("gateway {old} is used again")));
    assert_eq!(told_to_drain(&stage), []);
    assert_eq!(stage.to_come(new), [], "nobody prepares");
    stage.pass_ms(5 * SETTLED_MS + PREPARE_MS_MAX);
    assert_eq!((stage.lets_go(old), stage.owners()), (vec![], vec![(1, old, 4), (2, new, 4)]));
    assert_eq!(stage.order_drain(old, true), Err(format!("gateway {old} is not being drained")));

    let (mut stage, old, new) = planned();
    stage.prepare();
    assert_eq!(stage.lets_go(old), [1]);
    assert!(stage.order_drain(old, true).is_ok());
    assert_eq!(stage.lets_go(old), [1], "it may have let go already");
    stage.lets_go_of(1);
    stage.serve();
    assert_eq!(stage.loads(), [(new, 8)].into());
    stage.pass_ms(2 * SETTLED_MS);
    stage.prepare();
    stage.lets_go_of(2);
    stage.serve();
    assert_eq!(stage.loads(), [(old, 4), (new, 4)].into());
    assert!(!stage.scene.persisted.draining.contains(&old), "also for the next coordinator");
}

#[test]
fn a_cancelled_drain_leaves_the_plan_of_another_gateway_as_it_is() {
    let mut stage = Stage::new(3, 12);
    let ids: Vec<u16> = (0..3).map(|_| stage.join()).collect();
    stage.serve();
    stage.drain(ids[0]);
    stage.drain(ids[1]);
    let planned = ids.iter().map(|&id| stage.to_come(id)).collect::<Vec<_>>();
    assert!(planned.iter().any(|epochs| !epochs.is_empty()));
    stage.order_drain(ids[1], true).expect("it drains");
    assert_eq!(ids.iter().map(|&id| stage.to_come(id)).collect::<Vec<_>>(), planned);
    stage.prepare();
    assert_eq!((stage.lets_go(ids[0]), stage.lets_go(ids[1])), (vec![1], vec![]));
}

/// Nobody would own what it lets go as long as the store is away.
#[test]
fn an_owner_is_told_to_let_go_when_the_store_has_answered() {
    let (mut stage, old, _) = planned();
    let before = stage.scene.outputs.len();
    stage.prepare();
    assert_eq!(stage.lets_go(old), [1]);
    let place = |is_it: fn(&Output) -> bool| stage.scene.outputs[before..].iter().position(is_it);
    let order = place(|output| match output {
        Output::Send { message: FromCoordinator::Terms(terms), .. } => terms.iter().any(|terms| terms.lets_go),
        _ => false,
    });
    let saved = place(|output| matches!(output, Output::Persist(_)));
    assert!(saved.is_some() && saved < order, "{saved:?} {order:?}");
}

#[test]
fn an_owner_lets_go_when_its_heir_is_not_prepared_for_long() {
    let (mut stage, old, new) = planned();
    stage.pass_ms(PREPARE_MS_MAX - 100);
    assert_eq!(stage.lets_go(old), []);
    stage.pass_ms(200);
    assert_eq!(stage.lets_go(old), [1]);
    stage.lets_go_of(1);
    assert_eq!(stage.owners(), [(2, new, 4), (3, new, 4)]);
}

#[test]
fn an_owner_that_does_not_serve_is_not_told_to_let_go() {
    let (mut stage, old, new) = planned();
    stage.report(|epoch| if epoch == 1 { TenureState::TakingOver } else { TenureState::Serving });
    stage.prepare();
    assert_eq!(stage.lets_go(old), []);
    stage.pass_ms(PREPARE_MS_MAX + 200);
    assert_eq!(stage.lets_go(old), [], "however long its heir waits");
    stage.serve();
    assert_eq!(stage.lets_go(old), [1]);
    stage.lets_go_of(1);
    assert_eq!(stage.owners(), [(2, new, 4), (3, new, 4)]);
}

#[test]
fn an_heir_follows_an_owner_that_died_and_a_dead_heir_is_replaced() {
    let (mut stage, old, new) = planned();
    stage.prepare();
    stage.die(old);
    assert_eq!(stage.owners(), [(2, new, 4), (3, new, 4)]);
    let (mut stage, old, new) = planned();
    stage.prepare();
    assert_eq!(stage.lets_go(old), [1]);
    let third = stage.join();
    stage.die(new);
    stage.lets_go_of(1);
    assert_eq!(stage.loads(), [(third, 8)].into());
}

#[test]
fn a_plan_without_its_heir_is_made_anew() {
    let (mut stage, old, new) = planned();
    let third = stage.join();
    stage.die(new);
    stage.serve();
    stage.pass_ms(SETTLED_MS);
    assert_eq!((stage.lets_go(old), stage.to_come(third).len()), (vec![], 1));
}

/// A state from an older backup: the gateway has a tenure that the state knows nothing of.
#[test]
fn an_epoch_that_a_gateway_knows_is_not_handed_out_again() {
    let mut stage = Stage::new(1, 4);
    let id = stage.join();
    stage.serve();
    let mut stage = stage.restart();
    stage.return_of(id).expect("let in");
    let standing = Standing { epoch: Epoch(7), proven_by: 1, state: TenureState::Serving };
    let beyond = Standing { epoch: Epoch(Epoch::MAX.0 + 1), ..standing };
    let standings = &mut stage.actor(id).standings;
    *standings = [(7, standing), (u32::MAX, beyond)].into();
    stage.beat();
    assert_eq!(stage.scene.persisted.epoch, 7 + EPOCHS_SKIPPED);
    let other = stage.join();
    stage.close(id);
    assert_eq!(stage.owners(), [(8 + EPOCHS_SKIPPED, other, 4)]);
}

#[test]
fn epochs_that_run_short_are_told() {
    let problem = |epoch: u32| {
        let scene = Scene::from_disk(Durable { epoch, ..Durable::new(CLUSTER.0) });
        scene.coordinator.status().problems.into_iter().find(|problem| problem.contains("epochs are used"))
    };
    assert_eq!(problem(Epoch::MAX.0 / 2 - 1), None);
    assert!(problem(Epoch::MAX.0 / 2).expect("half of them").starts_with("4194303 of 8388607 epochs"));
    assert!(problem(Epoch::MAX.0).is_some());
}

/// What has an owner that is gone needs new ones, of which there are none.
#[test]
fn what_is_planned_has_its_epochs_though_none_is_left() {
    for dies in [false, true] {
        let mut stage = Stage::new(3, 12);
        let [gone, old, new] = [stage.join(), stage.join(), stage.join()];
        stage.serve();
        stage.die(gone);
        let last = Standing { epoch: Epoch(Epoch::MAX.0 - 1), proven_by: 0, state: TenureState::Ended };
        stage.actor(new).standings = [(last.epoch.0, last)].into();
        stage.beat();
        stage.serve();
        assert_eq!(stage.owners(), [(2, old, 4), (3, new, 4), (4, old, 2), (5, new, 2)]);
        stage.drain(old);
        assert_eq!(stage.to_come(new), [Epoch::MAX.0]);
        stage.prepare();
        match dies {
            false => stage.lets_go_of(2),
            true => stage.die(old),
        }
        assert_eq!(stage.owners(), [(3, new, 4), (4, old, 2), (5, new, 2), (Epoch::MAX.0, new, 4)], "{dies}");
    }
}

#[test]
fn voters_change_in_two_steps() {
    let mut stage = Stage::new(1, 4);
    let id = stage.join();
    stage.serve();
    stage.scene.node(node(1, Some(NODES))).1.expect("let in");
    let sets =
        |stage: &Stage| -> Vec<usize> { stage.scene.persisted.tenures[&1].voters.iter().map(Vec::len).collect() };
    assert_eq!(sets(&stage), [8, 9]);
    assert_eq!(stage.terms_told(id)[0].voters.len(), 9);
    stage.scene.node(node(1, Some(NODES + 1))).1.expect("let in");
    assert_eq!(sets(&stage), [8, 9], "one change at a time");
    stage.beat();
    assert_eq!(sets(&stage), [8, 9], "still proven by the old");
    stage.serve();
    assert_eq!(sets(&stage), [9, 10]);
    let heir = stage.join();
    stage.die(id);
    assert_eq!(stage.terms_told(heir)[0].before.iter().map(|set| set.len()).collect::<Vec<_>>(), [9, 10]);
}

#[test]
fn a_life_that_was_followed_by_another_is_waited_for_no_longer_than_its_promises_hold() {
    let mut stage = Stage::new(1, 4);
    let id = stage.join();
    stage.serve();
    stage.die(id);
    for node_id in 0..4 {
        stage.close_node(node_id);
        stage.nodes[usize::from(node_id)] = stage.scene.node(node(2, Some(node_id))).0;
    }
    let heir = stage.join();
    let before = |stage: &Stage| stage.scene.persisted.tenures[&2].before[0].len();
    assert_eq!(before(&stage), 8);
    stage.report(|_| TenureState::TakingOver);
    stage.pass_ms(PROMISE_OVER_MS - 100);
    assert_eq!(before(&stage), 8);
    stage.pass_ms(100);
    assert_eq!(before(&stage), 4);
    let lives: BTreeSet<u64> = stage.terms_told(heir)[0].before[0].iter().map(|voter| voter.incarnation.0).collect();
    assert_eq!(lives, [1].into());
    stage.serve();
    assert!(stage.scene.persisted.tenures[&2].before.is_empty());
}

#[test]
fn partitions_are_dealt_only_when_enough_nodes_could_prove_it() {
    let mut stage = Stage { scene: Scene::new(), gateways: BTreeMap::new(), nodes: Vec::new() };
    stage.join();
    for id in 0..2 {
        stage.nodes.push(stage.scene.node(node(1, Some(id))).0);
    }
    stage.pass_ms(2 * GATHER_MS);
    assert_eq!(stage.owners(), []);
    stage.nodes.push(stage.scene.node(node(1, Some(2))).0);
    assert_eq!(stage.owners(), [(1, 0, 4)], "three of which two may be lost");
}

#[test]
fn numbers_of_gateways_name_processes() {
    let mut stage = Stage::new(1, 4);
    let id = stage.join();
    stage.close(id);
    stage.actor(id).life += 1;
    assert_eq!(stage.return_of(id), Err(Refusal::Superseded(id)));
    assert_ne!(stage.join(), id, "a process that may come back has its number");
}

#[test]
fn gateways_are_told_which_tenures_are_served() {
    let mut stage = Stage::new(2, 4);
    let first = stage.join();
    let told = |stage: &Stage, id: u16| {
        let sent = stage.scene.sent_to(stage.gateways[&id].connection).into_iter();
        let served = sent.filter_map(|message| match message {
            FromCoordinator::Served(served) => Some(served),
            _ => None,
        });
        served.collect::<Vec<_>>()
    };
    assert_eq!(told(&stage, first), [vec![]], "nobody reported");
    let second = stage.join();
    let epochs: Vec<u32> = stage.owners().iter().map(|&(epoch, ..)| epoch).collect();
    stage.scene.outputs.clear();
    stage.report(|epoch| if epoch == epochs[0] { TenureState::Serving } else { TenureState::TakingOver });
    let last = |served: bool| vec![(epochs[0], true), (epochs[1], served)];
    for id in [first, second] {
        assert_eq!(told(&stage, id).last(), Some(&last(false)));
    }
    stage.scene.outputs.clear();
    stage.serve();
    for id in [first, second] {
        assert_eq!(told(&stage, id), [last(true)]);
    }
    stage.scene.outputs.clear();
    stage.serve();
    assert!(told(&stage, first).is_empty(), "as before");
    // An owner of which too few nodes are sure answers nothing.
    let connection = stage.gateways[&second].connection;
    let standings = vec![Standing { epoch: Epoch(epochs[1]), proven_by: 0, state: TenureState::Serving }];
    stage.scene.report(connection, GatewayStatus { standings, ..GatewayStatus::default() });
    assert_eq!(told(&stage, first), [last(false)]);
}

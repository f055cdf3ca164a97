//! The machine: inputs in, outputs in the order in which they must happen.
//!
//! Outputs are a queue because order carries the promise: a `Persist` stands before every `Send` that rests on it, and
//! the driver completes one before it begins the next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use shorttail_units::{CodeShape, Incarnation, NodeId, Now};
use shorttail_wire::control::{
    FromCoordinator, GatewayEntry, GatewayStatus, NodeEntry, NodeSeen, NodeState, NodeStatus, ToCoordinator, View,
};

use crate::durable::Durable;
use crate::gone::Gone;
use crate::lifecycle::Event;
use crate::limits::{FORGET_GATEWAY_AFTER_MS, NODES_SEEN_MAX, STANDINGS_MAX, TELL_WITHIN_MS};
use crate::looks::Looks;
use crate::members::{GatewayMember, NodeMember, Presence};
use crate::orders::{Pending, Wanted};
use crate::tenures::Tenures;

/// Names a connection; never used twice by a driver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ConnectionId(pub u64);

/// What the operator chose; the same for the whole life of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    pub code: CodeShape,
    pub partition_count: u16,
    pub node_count_expected: u16,
    pub gateway_count_expected: u16,
    /// Milliseconds after its death until a node's incarnation is given up.
    pub retire_after_ms: u64,
    /// Milliseconds since the last tenure began until the several ones of a gateway become one.
    pub unite_after_ms: u64,
    /// Whether orders to be faulty on purpose are passed on to nodes.
    pub allow_chaos: bool,
}

/// What happens to the coordinator.
#[derive(Clone, PartialEq, Debug)]
pub enum Input {
    Message {
        connection: ConnectionId,
        message: ToCoordinator,
    },
    Closed {
        connection: ConnectionId,
    },
    /// Something is to be done for the operator; answered by [`Output::Answer`] with the same ticket. Orders to be
    /// faulty are for nodes, those about policies for gateways; to drain either, to take a node out and to acknowledge
    /// losses is the coordinator's own work.
    Order {
        ticket: u64,
        member: u16,
        wanted: Wanted,
    },
    /// The deadline has come.
    Deadline,
}

/// What the driver is to do, in order.
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// Complete this on disk before the next output.
    Persist(Durable),
    Send {
        connection: ConnectionId,
        message: FromCoordinator,
    },
    /// What its socket has not taken by then is lost.
    Close {
        connection: ConnectionId,
    },
    /// What became of an order: what was done, or why it was not, for people.
    Answer {
        ticket: u64,
        outcome: Result<String, String>,
    },
}

/// The control plane of one cluster.
pub struct Coordinator {
    pub(crate) settings: Settings,
    pub(crate) durable: Durable,
    pub(crate) nodes: BTreeMap<u16, NodeMember>,
    pub(crate) gateways: BTreeMap<u16, GatewayMember>,
    /// What gateways counted that are not among these any more.
    pub(crate) gone: Gone,
    pub(crate) connections: BTreeMap<ConnectionId, Member>,
    /// Orders that are not answered, by number.
    pub(crate) orders: BTreeMap<u64, Pending>,
    pub(crate) order_number_next: u64,
    pub(crate) tenures: Tenures,
    /// Monotonic microseconds of its start, later by the time for which nothing could be saved, and of the last input.
    pub(crate) started_us: u64,
    pub(crate) now_us: u64,
    /// But for what is to be saved, which is copied only when it leaves.
    outputs: VecDeque<Output>,
    /// What is to be saved leaves behind so many of these, if something is.
    saves_behind: Option<usize>,
    copy_count: u64,
    /// Connections whose `Close` is among them: whoever is there is not heard any more.
    closing: BTreeSet<ConnectionId>,
    /// When members were told last what had changed.
    told_us: u64,
    /// What members are to know waits: outputs are not taken.
    is_held: bool,
    /// It surely leads.
    leads: bool,
    /// Since when nothing can be saved, as of the input at hand.
    rests_since_us: Option<u64>,
    view_number: u64,
    view_changed: bool,
    pub(crate) looks: Looks,
    /// The last epoch that was to be saved: what `invariant_epoch_persisted` holds against.
    epoch_persisted: u32,
}

/// Whom a connection belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Member {
    Node(u16),
    Gateway(u16),
}

impl Coordinator {
    /// A coordinator of a new cluster, or of one that was persisted. Known nodes are dead until they register.
    pub fn new(now: Now, settings: Settings, durable: Durable) -> Self {
        let nodes = durable.nodes.iter().map(|(&id, node)| {
            let mut presence = Presence::remembered(now.mono_us);
            if node.is_given_up(node.incarnation) {
                presence.apply(now.mono_us, Event::GivenUp);
            }
            let member = NodeMember {
                presence,
                since_us: now.mono_us,
                incarnation: Incarnation(node.incarnation),
                address: node.address.clone(),
                pid: 0,
                memory_limit_bytes: 0,
                core_count: 0,
                allows_chaos: false,
                status: NodeStatus::default(),
                has_told: false,
                // Owners may not have heard of that, or told the coordinator before alone.
                given_up_us: node.may_miss().then_some(now.mono_us),
                reached_since_us: None,
                // The life before may have ended a moment ago, unless what it had is rebuilt.
                is_met: !node.may_miss() || node.is_given_up(node.incarnation),
            };
            (id, member)
        });
        Coordinator {
            nodes: nodes.collect(),
            settings,
            epoch_persisted: durable.epoch,
            durable,
            gateways: BTreeMap::new(),
            gone: Gone::default(),
            connections: BTreeMap::new(),
            orders: BTreeMap::new(),
            order_number_next: 0,
            tenures: Tenures::default(),
            started_us: now.mono_us,
            now_us: now.mono_us,
            outputs: VecDeque::new(),
            saves_behind: None,
            copy_count: 0,
            closing: BTreeSet::new(),
            told_us: now.mono_us,
            is_held: false,
            leads: true,
            rests_since_us: None,
            view_number: 0,
            view_changed: false,
            looks: Looks::default(),
        }
    }

    pub fn handle(&mut self, now: Now, input: Input) {
        self.forgive_silence(now);
        self.now_us = now.mono_us;
        match (self.rests_since_us, self.rests()) {
            (None, true) => self.rests_since_us = Some(now.mono_us),
            (Some(since_us), false) => {
                self.rests_since_us = None;
                self.end_rest(now, since_us);
                self.note_who_left(now);
            }
            _ => {}
        }
        let of_node = match &input {
            Input::Message { connection, message: ToCoordinator::NodeStatus(_) | ToCoordinator::RegisterNode(_) } => {
                Some(*connection)
            }
            _ => None,
        };
        match input {
            Input::Message { connection, message } => self.handle_message(now, connection, message),
            Input::Closed { connection } => self.handle_closed(now, connection),
            Input::Order { ticket, member, wanted } => self.handle_order(now, ticket, member, wanted),
            Input::Deadline => {}
        }
        // One that made no sense ended its connection.
        match of_node.is_some_and(|connection| self.connections.contains_key(&connection)) {
            true => self.look_later(now),
            false => self.look(now),
        }
        if !self.is_held && self.told_us + TELL_WITHIN_MS * 1000 <= self.now_us {
            self.tell();
        }
    }

    /// Tells the machine whether its outputs are held back (`true`: a save has been waiting too long) or taken again.
    pub fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// `false` once the lease may have expired, so that another coordinator may already lead.
    pub fn set_leading(&mut self, leads: bool) {
        self.leads = leads;
    }

    /// Nothing can be saved now, as far as is known: nobody is let in, or told what is decided.
    pub(crate) fn rests(&self) -> bool {
        self.is_held || !self.leads
    }

    fn tell(&mut self) {
        self.told_us = self.now_us;
        let view = std::mem::take(&mut self.view_changed).then(|| self.next_view());
        let heirs = std::mem::take(&mut self.tenures.heirs);
        let is_heir = |member: Member| matches!(member, Member::Gateway(id) if heirs.contains(&id));
        // Who is to own something hears of it before those that will ask for it.
        for is_turn_of_heirs in [true, false] {
            // A take-over waits for the nodes that it knows: all that earlier owners knew.
            view.iter().for_each(|view| self.send_view(view, |member| is_heir(member) == is_turn_of_heirs));
            self.tell_terms(|gateway| heirs.contains(&gateway) == is_turn_of_heirs);
        }
        self.tell_served();
    }

    /// When all else is out, members are told what changed: once of many that came or went at once.
    pub fn poll_output(&mut self) -> Option<Output> {
        if self.saves_behind == Some(0) {
            self.saves_behind = None;
            return Some(Output::Persist(self.copy_durable()));
        }
        if self.outputs.is_empty() {
            self.tell();
        }
        let output = self.outputs.pop_front();
        self.saves_behind = self.saves_behind.map(|count| count - 1);
        if let Some(Output::Close { connection }) = &output {
            self.closing.remove(connection);
        }
        output
    }

    /// It is long in a large cluster, and changes with each of many that come at once.
    fn copy_durable(&mut self) -> Durable {
        self.copy_count += 1;
        self.durable.clone()
    }

    #[cfg(test)]
    pub(crate) fn copy_count(&self) -> u64 {
        self.copy_count
    }

    /// Whether something waits to be saved.
    pub(crate) fn is_to_save(&self) -> bool {
        self.saves_behind.is_some()
    }

    fn handle_message(&mut self, now: Now, connection: ConnectionId, message: ToCoordinator) {
        // While the store is away it is not closed, and what its member goes on to say would heap up answers.
        if self.closing.contains(&connection) {
            return;
        }
        match message {
            ToCoordinator::RegisterNode(registration) => self.register_node(now, connection, registration),
            ToCoordinator::RegisterGateway(registration) => self.register_gateway(now, connection, registration),
            ToCoordinator::NodeStatus(status) => self.handle_node_status(now, connection, status),
            ToCoordinator::GatewayStatus(status) => self.handle_gateway_status(now, connection, status),
            ToCoordinator::ReadStatus => {
                let status = Box::new(self.status());
                self.send(connection, FromCoordinator::Status(status));
            }
            ToCoordinator::Obeyed { number, outcome, chaos } => {
                if !chaos.is_well_formed() {
                    return self.close(now, connection);
                }
                if let Some(&Member::Node(id)) = self.connections.get(&connection) {
                    self.nodes.get_mut(&id).expect("a connection names a known node").status.chaos = chaos;
                }
                self.handle_obeyed(connection, number, outcome);
            }
        }
    }

    fn handle_node_status(&mut self, now: Now, connection: ConnectionId, status: NodeStatus) {
        let Some(&Member::Node(id)) = self.connections.get(&connection) else { return self.close(now, connection) };
        if !status.chaos.is_well_formed() {
            return self.close(now, connection);
        }
        let node = self.nodes.get_mut(&id).expect("a connection names a known node");
        node.status = status;
        node.has_told = true;
        self.view_changed |= node.presence.apply(now.mono_us, Event::Heartbeat);
    }

    fn handle_gateway_status(&mut self, now: Now, connection: ConnectionId, status: GatewayStatus) {
        let Some(&Member::Gateway(id)) = self.connections.get(&connection) else { return self.close(now, connection) };
        let policies_max = usize::from(self.settings.partition_count);
        let is_long = status.nodes.len() > NODES_SEEN_MAX || status.standings.len() > STANDINGS_MAX;
        if is_long || status.policies.len() > policies_max {
            return self.close(now, connection);
        }
        if !status.nodes.iter().all(NodeSeen::is_well_formed) {
            return self.close(now, connection);
        }
        self.await_gateways(now);
        self.handle_standings(now, id, &status.standings);
        self.note_serving(now, &status.nodes);
        let gateway = self.gateways.get_mut(&id).expect("a connection names a known gateway");
        gateway.recent.note(now.mono_us, &status.nodes);
        gateway.recent.note_refused(now.mono_us, status.totals.stores_refused_total);
        gateway.recent.note_repair(now.mono_us, &status.totals);
        gateway.keep_counted(&status.nodes);
        gateway.status = status;
        gateway.untold_losses = 0;
        gateway.has_told = true;
        gateway.is_unheard = false;
        gateway.presence.apply(now.mono_us, Event::Heartbeat);
        self.note_leaving(id);
        self.note_told_losses(id);
        self.note_met(now);
        self.note_reach(now, id);
        self.note_rebuilt(now);
        self.forget_removed(now);
    }

    fn handle_closed(&mut self, now: Now, connection: ConnectionId) {
        self.end_orders_of(connection);
        let Some(member) = self.connections.remove(&connection) else { return };
        if !self.leads {
            // It may have gone over to the one that leads. Were it told to be dead, others would give up what they
            // asked of it.
            self.presence_mut(member).connection = None;
            return;
        }
        self.view_changed |= self.presence_mut(member).apply(now.mono_us, Event::ConnectionClosed);
    }

    /// It surely leads again: who left meanwhile did not leave for another one.
    fn note_who_left(&mut self, now: Now) {
        let nodes = self.nodes.values_mut().map(|node| &mut node.presence);
        for presence in nodes.chain(self.gateways.values_mut().map(|gateway| &mut gateway.presence)) {
            if presence.is_alive() && presence.connection.is_none() {
                self.view_changed |= presence.apply(now.mono_us, Event::ConnectionClosed);
            }
        }
    }

    /// Moves members whose heartbeats are late, gives up nodes that stay dead and forgets gateways that do.
    pub(crate) fn handle_silence(&mut self, now: Now) {
        let members = self.nodes.keys().map(|&id| Member::Node(id));
        let members: Vec<Member> = members.chain(self.gateways.keys().map(|&id| Member::Gateway(id))).collect();
        for member in members {
            let presence = self.presence_mut(member);
            let connection = presence.connection;
            if !presence.apply_silence(now.mono_us) {
                continue;
            }
            let died = !presence.is_alive();
            self.view_changed |= died || matches!(member, Member::Node(_));
            if let Some(connection) = connection.filter(|_| died) {
                self.close(now, connection);
            }
        }
        self.retire_nodes(now);
        // While nothing can be saved nobody is let in.
        if self.rests() {
            return;
        }
        let is_over = |gateway: &GatewayMember| {
            let deadline = gateway.presence.deadline_us(FORGET_GATEWAY_AFTER_MS);
            !gateway.presence.is_alive() && deadline.is_some_and(|deadline| deadline <= now.mono_us)
        };
        // One that was told to end has done so, or says again that it is to.
        let leaving = self.gateways.iter().filter(|(_, gateway)| gateway.status.leaves && is_over(gateway));
        self.end_drains(&leaving.map(|(&id, _)| id).collect());
        let count = self.gateways.len();
        self.forget_gateways(|_, gateway| is_over(gateway));
        self.view_changed |= self.gateways.len() != count;
    }

    /// Of those for which this holds only what they counted is kept.
    pub(crate) fn forget_gateways(&mut self, is_gone: impl Fn(u16, &GatewayMember) -> bool) {
        let gone = self.gateways.extract_if(.., |&id, gateway| is_gone(id, gateway));
        gone.for_each(|(_, gateway)| self.gone.keep(&gateway));
    }

    fn presence_mut(&mut self, member: Member) -> &mut Presence {
        match member {
            Member::Node(id) => &mut self.nodes.get_mut(&id).expect("known node").presence,
            Member::Gateway(id) => &mut self.gateways.get_mut(&id).expect("known gateway").presence,
        }
    }

    pub(crate) fn persist(&mut self) {
        self.epoch_persisted = self.durable.epoch;
        // What follows one that waits may as well rest on more, but not leave before it.
        self.saves_behind.get_or_insert(self.outputs.len());
    }

    pub(crate) fn put_out(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(crate) fn send(&mut self, connection: ConnectionId, message: FromCoordinator) {
        self.outputs.push_back(Output::Send { connection, message });
    }

    /// Closes a connection from this side; what its member was told before still leaves.
    pub(crate) fn close(&mut self, now: Now, connection: ConnectionId) {
        self.handle_closed(now, connection);
        if self.closing.insert(connection) {
            self.outputs.push_back(Output::Close { connection });
        }
    }

    /// The last that was handed out.
    pub fn epoch(&self) -> u32 {
        self.durable.epoch
    }

    pub(crate) fn mark_view_changed(&mut self) {
        self.view_changed = true;
    }

    /// The membership as it is now, and who should own what.
    pub fn view(&self) -> View {
        let known = self.nodes.iter().map(|(&id, node)| NodeEntry {
            id: NodeId(id),
            incarnation: node.incarnation,
            address: node.address.clone(),
            domain: self.durable.nodes[&id].domain.clone(),
            state: node.presence.state,
            draining: self.is_draining(id),
            removed: self.is_removed(id),
        });
        // Stripes may name it for ever, if they are lost: nobody waits for it.
        let forgotten = self.durable.removed.iter().map(|id| NodeEntry {
            id: NodeId(id),
            incarnation: Incarnation(0),
            address: String::new(),
            domain: String::new(),
            state: NodeState::Retired,
            draining: false,
            removed: true,
        });
        let mut nodes: Vec<NodeEntry> = known.chain(forgotten).collect();
        nodes.sort_unstable_by_key(|node| node.id);
        let gateways = self.gateways.iter().map(|(&id, gateway)| GatewayEntry {
            id,
            is_alive: gateway.presence.is_alive(),
            draining: self.durable.draining.contains(&id),
            forward: gateway.registration.forward.clone(),
            memcached: gateway.registration.memcached.clone(),
            redis: gateway.registration.redis_told().cloned(),
        });
        View {
            number: self.view_number,
            node_count_expected: self.node_count_expected(),
            nodes,
            gateways: gateways.collect(),
            tenures: self.tenure_entries(),
        }
    }

    fn next_view(&mut self) -> Arc<View> {
        self.view_number += 1;
        Arc::new(self.view())
    }

    fn send_view(&mut self, view: &Arc<View>, is_told: impl Fn(Member) -> bool) {
        let told = self.connections.iter().filter(|(_, member)| is_told(**member));
        let told: Vec<ConnectionId> = told.map(|(&connection, _)| connection).collect();
        told.into_iter().for_each(|connection| self.send(connection, FromCoordinator::View(Arc::clone(view))));
    }

    /// Checks what must hold after every input.
    ///
    /// # Panics
    /// When an invariant is broken.
    pub fn check_invariants(&self) {
        self.invariant_epoch_persisted();
        self.invariant_connections_name_live_members();
        self.invariant_retired_incarnations_stay_out();
        self.invariant_partition_has_one_tenure();
        self.invariant_epochs_are_behind_the_last();
    }

    fn invariant_epoch_persisted(&self) {
        assert_eq!(self.durable.epoch, self.epoch_persisted, "an epoch was handed out that is not persisted");
    }

    fn invariant_connections_name_live_members(&self) {
        for (&connection, &member) in &self.connections {
            let presence = match member {
                Member::Node(id) => &self.nodes[&id].presence,
                Member::Gateway(id) => &self.gateways[&id].presence,
            };
            assert_eq!(presence.connection, Some(connection), "{member:?} is on another connection");
            assert!(presence.is_alive(), "{member:?} has a connection and is {:?}", presence.state);
        }
    }

    fn invariant_retired_incarnations_stay_out(&self) {
        for (id, node) in &self.nodes {
            let retired = self.durable.nodes[id].is_given_up(node.incarnation.0);
            assert_eq!(retired, node.presence.state == NodeState::Retired, "node {id}");
        }
    }
}

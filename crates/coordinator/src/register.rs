//! Registration: who is let in, and as whom.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use shorttail_units::{ClusterId, Incarnation, NodeId, Now};
use shorttail_wire::control::{
    CONTROL_PROTOCOL_VERSION, FromCoordinator, GatewayRegistration, GatewaySession, GatewayWelcome, NodeRegistration,
    NodeSession, NodeState, NodeStatus, NodeWelcome, Refusal, ToCoordinator,
};

use crate::coordinator::{ConnectionId, Coordinator, Member};
use crate::durable::DurableNode;
use crate::lifecycle::Event;
use crate::limits::{ADDRESS_BYTES_MAX, DOMAIN_BYTES_MAX, GATEWAY_COUNT_MAX, NODE_COUNT_MAX};
use crate::members::{GatewayMember, NodeMember, Presence, Silence};

impl Coordinator {
    pub(crate) fn register_node(&mut self, now: Now, connection: ConnectionId, registration: NodeRegistration) {
        match self.admit_node(connection, &registration) {
            Ok(id) => self.enter_node(now, connection, id, registration),
            Err(refusal) => self.refuse(now, connection, refusal),
        }
    }

    /// Which number the node gets.
    fn admit_node(&self, connection: ConnectionId, registration: &NodeRegistration) -> Result<u16, Refusal> {
        self.admit_version(registration.protocol_version)?;
        self.admit_connection(connection)?;
        admit_address(&registration.address)?;
        admit_domain(&registration.domain)?;
        if registration.incarnation.0 == 0 {
            return Err(Refusal::Malformed("an incarnation is never 0".into()));
        }
        if let Some(session) = registration.session {
            self.admit_cluster(session.cluster_id)?;
        }
        let wanted = registration.session.map(|session| session.node_id.0).or(registration.wanted_id);
        let known = || self.number_of_same_life(registration).or_else(|| self.number_of_same_place(registration));
        let id = match wanted.or_else(known) {
            Some(id) => id,
            None => self.free_node_id()?,
        };
        if self.is_removed(id) {
            return Err(Refusal::Removed(id));
        }
        if !self.nodes.contains_key(&id) && !self.has_room_for_node() {
            return Err(full_of_nodes());
        }
        if let Some(node) = self.nodes.get(&id) {
            let other_life = node.incarnation != registration.incarnation;
            let is_there = node.presence.is_alive() || self.is_reached_elsewhere(id);
            // One that was given up is told so, even if another one has its number by now.
            if is_there && other_life && !self.is_given_up(id, registration.incarnation) {
                return Err(Refusal::NodeIdTaken(id));
            }
        }
        let retired_through = self.retired_through_when_admitting(id, registration);
        match registration.incarnation.0 <= retired_through {
            true => Err(Refusal::Retired { retired_through }),
            false => Ok(id),
        }
    }

    /// The number of a node that is known, though it may not know it: it asked, and its welcome came too late for it.
    /// It may have been seen under another host then.
    fn number_of_same_life(&self, registration: &NodeRegistration) -> Option<u16> {
        let is_same = |node: &NodeMember| {
            node.incarnation == registration.incarnation && have_same_port(&node.address, &registration.address)
        };
        self.nodes.iter().find(|(_, node)| is_same(node)).map(|(&id, _)| id)
    }

    /// The number of a node that is gone and listened where this one does: that process is over. So one that ends at
    /// each start has one number, and one voice: of several that are gone the one that came last. An address of each
    /// machine's own says nothing, nor one where somebody is; what is to be emptied is not what somebody starts.
    ///
    /// Its memory may still lie in a file that the process was not told of, and is given up with its life: so no more
    /// lose theirs like that than may be missing.
    fn number_of_same_place(&self, registration: &NodeRegistration) -> Option<u16> {
        let place = socket(&registration.address)?;
        if place.ip().is_loopback() || place.ip().is_unspecified() {
            return None;
        }
        let there = || self.nodes_kept().filter(|(_, node)| socket(&node.address) == Some(place));
        let is_over = |node: &NodeMember| node.presence.state == NodeState::Retired;
        let by_age = |&(_, node): &(&u16, &NodeMember)| node.incarnation;
        let in_use = there().filter(|(_, node)| !is_over(node));
        let (&id, node) = in_use.max_by_key(by_age).or_else(|| there().max_by_key(by_age))?;
        let is_anybody_alive = there().any(|(_, node)| node.presence.is_alive());
        let may_be_lost = || self.is_empty(id) || self.lost_at_worst(id) < self.settings.code.tolerance();
        let is_free = !is_anybody_alive && !self.is_draining(id) && (is_over(node) || may_be_lost());
        is_free.then_some(id)
    }

    fn is_given_up(&self, id: u16, incarnation: Incarnation) -> bool {
        self.durable.nodes.get(&id).is_some_and(|node| node.is_given_up(incarnation.0))
    }

    /// Incarnations of this node that are given up once the registration is accepted: also the one it replaces.
    fn retired_through_when_admitting(&self, id: u16, registration: &NodeRegistration) -> u64 {
        let Some(known) = self.durable.nodes.get(&id) else { return 0 };
        let replaced = if known.incarnation == registration.incarnation.0 { 0 } else { known.incarnation };
        known.retired_through.max(replaced)
    }

    fn free_node_id(&self) -> Result<u16, Refusal> {
        let is_used = |id: u16| self.durable.nodes.contains_key(&id) || self.durable.removed.contains(id);
        let id = (0..=u16::MAX).find(|&id| !is_used(id)).ok_or_else(out_of_node_numbers)?;
        if self.has_room_for_node() { Ok(id) } else { Err(full_of_nodes()) }
    }

    /// Nodes that were taken out leave their place, not their number.
    fn has_room_for_node(&self) -> bool {
        self.nodes_kept().count() < NODE_COUNT_MAX
    }

    fn enter_node(&mut self, now: Now, connection: ConnectionId, id: u16, registration: NodeRegistration) {
        let old_connection = self.nodes.get(&id).and_then(|node| node.presence.connection);
        if let Some(old) = old_connection {
            self.close(now, old);
        }
        self.note_replaced(now, id, registration.incarnation);
        let known = self.nodes.get(&id);
        let (given_up_us, is_met) = known.map_or((None, true), |known| (known.given_up_us, known.is_met));
        let retired_through = self.retired_through_when_admitting(id, &registration);
        let known = self.durable.nodes.get(&id);
        let durable = DurableNode {
            incarnation: registration.incarnation.0,
            retired_through,
            rebuilt_through: known.map_or(0, |known| known.rebuilt_through),
            address: place_of(registration.address, known.map(|known| &*known.address)),
            domain: registration.domain,
            draining: self.is_draining(id),
            drained: known.is_some_and(|known| known.drained),
            removed: false,
        };
        let address = durable.address.clone();
        if self.durable.nodes.get(&id) != Some(&durable) {
            self.durable.nodes.insert(id, durable);
            self.persist();
        }
        let member = NodeMember {
            presence: Presence::registered(Silence::OF_NODE, now.mono_us, connection),
            since_us: now.mono_us,
            incarnation: registration.incarnation,
            address,
            pid: registration.pid,
            memory_limit_bytes: registration.memory_limit_bytes,
            core_count: registration.core_count,
            allows_chaos: registration.allows_chaos,
            status: NodeStatus::default(),
            has_told: false,
            given_up_us,
            reached_since_us: None,
            is_met,
        };
        match self.nodes.get_mut(&id) {
            Some(known) if known.incarnation == member.incarnation => {
                known.presence.apply(now.mono_us, Event::Registered);
                known.presence.connection = Some(connection);
                let (presence, status) = (known.presence.clone(), known.status.clone());
                let (since_us, has_told) = (known.since_us, known.has_told);
                *known = NodeMember { presence, status, since_us, has_told, ..member };
            }
            _ => {
                self.nodes.insert(id, member);
            }
        }
        self.connections.insert(connection, Member::Node(id));
        let session = NodeSession { cluster_id: ClusterId(self.durable.cluster_id), node_id: NodeId(id) };
        self.send(connection, FromCoordinator::NodeRegistered(NodeWelcome { session }));
        self.mark_view_changed();
    }

    pub(crate) fn register_gateway(&mut self, now: Now, connection: ConnectionId, registration: GatewayRegistration) {
        match self.admit_gateway(connection, &registration) {
            Ok(session) => self.enter_gateway(now, connection, session, registration),
            Err(refusal) => self.refuse(now, connection, refusal),
        }
    }

    /// Does this ask to let somebody in who is here on another connection?
    pub(crate) fn is_here(&self, message: &ToCoordinator) -> bool {
        let presence = match message {
            ToCoordinator::RegisterNode(node) => {
                let id = node.session.map(|session| session.node_id.0).or(node.wanted_id);
                let id = id.or_else(|| self.number_of_same_life(node));
                let known = id.and_then(|id| self.nodes.get(&id));
                known.filter(|known| known.incarnation == node.incarnation).map(|known| &known.presence)
            }
            ToCoordinator::RegisterGateway(gateway) => {
                self.gateway_of(gateway.life).map(|id| &self.gateways[&id].presence)
            }
            _ => None,
        };
        presence.is_some_and(|presence| presence.connection.is_some())
    }

    /// The session that a gateway gets: its own again, or a new one.
    fn admit_gateway(
        &self,
        connection: ConnectionId,
        registration: &GatewayRegistration,
    ) -> Result<GatewaySession, Refusal> {
        self.admit_version(registration.protocol_version)?;
        self.admit_connection(connection)?;
        let addresses = [
            &registration.forward,
            &registration.memcached,
            &registration.redis,
            &registration.redis_advertise,
            &registration.unix_socket,
            &registration.admin,
        ];
        addresses.into_iter().flatten().try_for_each(|address| admit_address(address))?;
        let known =
            registration.session.map(|session| session.gateway_id).or_else(|| self.gateway_of(registration.life));
        let is_alive = known.and_then(|id| self.gateways.get(&id)).is_some_and(|gateway| gateway.presence.is_alive());
        if !is_alive && self.alive_gateways().count() >= GATEWAY_COUNT_MAX {
            return Err(Refusal::Full("gateway".into()));
        }
        if let Some(session) = registration.session {
            self.admit_cluster(session.cluster_id)?;
            let id = session.gateway_id;
            return if self.is_another(id, registration.life) { Err(Refusal::Superseded(id)) } else { Ok(session) };
        }
        if let Some(gateway_id) = self.gateway_of(registration.life) {
            return Ok(GatewaySession { cluster_id: ClusterId(self.durable.cluster_id), gateway_id });
        }
        let next = self.durable.gateway_id_next;
        let mut ids = (0..=u16::MAX).map(|step| next.wrapping_add(step));
        let gateway_id = ids.find(|&id| !self.is_another(id, registration.life));
        Ok(GatewaySession {
            cluster_id: ClusterId(self.durable.cluster_id),
            gateway_id: gateway_id.ok_or_else(|| Refusal::Full("gateway".into()))?,
        })
    }

    /// The number of a process that is known, though it may not know it: it asked, and its welcome came too late for
    /// it.
    fn gateway_of(&self, life: u64) -> Option<u16> {
        self.gateways.iter().find(|(_, member)| member.registration.life == life).map(|(&id, _)| id)
    }

    /// Is this number that of another process, which may still own something?
    fn is_another(&self, id: u16, life: u64) -> bool {
        let member = self.gateways.get(&id).map(|member| member.registration.life);
        let of_tenures = self.durable.tenures.values().filter(|tenure| tenure.gateway == id);
        member.into_iter().chain(of_tenures.map(|tenure| tenure.gateway_life)).any(|other| other != life)
    }

    fn enter_gateway(
        &mut self,
        now: Now,
        connection: ConnectionId,
        session: GatewaySession,
        mut registration: GatewayRegistration,
    ) {
        let id = session.gateway_id;
        let known = self.gateways.get(&id).and_then(|known| known.registration.forward.as_deref());
        registration.forward = registration.forward.map(|forward| place_of(forward, known));
        // Should it be known, that waits for the store already, or is there: one that is slow is not given more to do.
        if registration.session.is_none() && self.gateway_of(registration.life).is_none() {
            self.durable.gateway_id_next = id.wrapping_add(1);
            // Whoever had it before is gone for so long that all other numbers were given meanwhile.
            self.durable.draining.remove(&id);
            self.persist();
        }
        self.await_gateways(now);
        if let Some(old) = self.gateways.get(&id).and_then(|gateway| gateway.presence.connection) {
            self.close(now, old);
        }
        // The first report of an owner may be older than what it has yet to hear.
        if self.durable.tenures.values().any(|tenure| tenure.gateway == id) {
            self.count_losses_anew(now);
        }
        let known = self.gateways.get(&id);
        let is_unheard = known.map_or(registration.session.is_some(), |known| known.is_unheard);
        let remembered = known.map(|known| (known.status.clone(), known.recent.clone(), known.reach.clone()));
        let (mut status, recent, reach) = remembered.unwrap_or_default();
        let mut counted_before = known.map(|known| known.counted_before.clone()).unwrap_or_default();
        let (since_us, untold_losses) = known.map_or((now.mono_us, 0), |known| (known.since_us, known.untold_losses));
        let is_replaced = |other: u16, gateway: &GatewayMember| {
            other != id && !gateway.presence.is_alive() && is_in_place_of(&registration, &gateway.registration)
        };
        let replaced = self.gateways.iter().filter(|(other, gateway)| is_replaced(**other, gateway));
        self.end_drains(&replaced.map(|(&other, _)| other).collect());
        self.forget_gateways(is_replaced);
        self.make_room_beside(id);
        if let Some(counted) = self.gone.take(registration.life) {
            (status.totals, counted_before) = (counted.totals, counted.nodes);
        }
        let presence = Presence::registered(Silence::OF_GATEWAY, now.mono_us, connection);
        let member = GatewayMember {
            presence,
            since_us,
            registration,
            status,
            has_told: false,
            is_unheard,
            is_missed: false,
            untold_losses,
            recent,
            counted_before,
            reach,
        };
        self.gateways.insert(id, member);
        self.connections.insert(connection, Member::Gateway(id));
        let welcome = GatewayWelcome {
            session,
            partition_count: self.settings.partition_count,
            code: self.settings.code,
            node_count_expected: self.node_count_expected(),
        };
        self.send(connection, FromCoordinator::GatewayRegistered(welcome));
        self.tell_served_to(connection);
        self.tell_terms_to(id);
        self.mark_view_changed();
    }

    /// The dead are kept for as long as there is room: those go first that are dead for longest. What it owns keeps its
    /// number, and it goes on to be drained.
    fn make_room_beside(&mut self, id: u16) {
        let others = self.gateways.iter().filter(|(other, _)| **other != id);
        let dead = others.clone().filter(|(_, gateway)| !gateway.presence.is_alive());
        let mut dead: Vec<_> = dead.map(|(&other, gateway)| (gateway.presence.since_us, other)).collect();
        dead.sort_unstable();
        let over_count = (others.count() + 1).saturating_sub(GATEWAY_COUNT_MAX);
        let over: BTreeSet<u16> = dead.into_iter().take(over_count).map(|(_, other)| other).collect();
        self.forget_gateways(|other, _| over.contains(&other));
    }

    fn admit_version(&self, version: u16) -> Result<(), Refusal> {
        if version == CONTROL_PROTOCOL_VERSION {
            return Ok(());
        }
        Err(Refusal::ProtocolVersion(CONTROL_PROTOCOL_VERSION))
    }

    /// A connection is one member for its whole life.
    fn admit_connection(&self, connection: ConnectionId) -> Result<(), Refusal> {
        if !self.connections.contains_key(&connection) {
            return Ok(());
        }
        Err(Refusal::Malformed("this connection has registered already".into()))
    }

    fn admit_cluster(&self, cluster_id: ClusterId) -> Result<(), Refusal> {
        if cluster_id.0 == self.durable.cluster_id {
            return Ok(());
        }
        Err(Refusal::OtherCluster(self.durable.cluster_id))
    }

    fn refuse(&mut self, now: Now, connection: ConnectionId, refusal: Refusal) {
        self.send(connection, FromCoordinator::Refused(refusal));
        self.close(now, connection);
    }
}

/// Does a gateway serve clients where a dead one did? Addresses such as 127.0.0.1 and 0.0.0.0 are those of another
/// machine if other gateways reach it under another host.
fn is_in_place_of(new: &GatewayRegistration, dead: &GatewayRegistration) -> bool {
    let places = |of: &GatewayRegistration| [of.memcached.clone(), of.redis.clone(), of.unix_socket.clone()];
    let host = |of: &GatewayRegistration| {
        let forward = of.forward.clone()?;
        Some(socket(&forward).map_or(forward, |address| address.ip().to_string()))
    };
    places(new) == places(dead) && places(new).iter().any(Option::is_some) && host(new) == host(dead)
}

/// The address for others of a member. One that still says that it listens anywhere comes from the coordinator's own
/// machine, where nobody sees what others call it: it is where it was seen from elsewhere, if it was.
fn place_of(address: String, known: Option<&str>) -> String {
    let Some(listening) = socket(&address).filter(|listening| listening.ip().is_unspecified()) else { return address };
    let known = known.and_then(socket).filter(|known| known.port() == listening.port());
    let here = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), listening.port());
    known.unwrap_or(here).to_string()
}

/// Of a socket's path all counts.
fn have_same_port(one: &str, other: &str) -> bool {
    match (socket(one), socket(other)) {
        (Some(one), Some(other)) => one.port() == other.port(),
        _ => one == other,
    }
}

fn socket(address: &str) -> Option<SocketAddr> {
    address.parse().ok()
}

fn full_of_nodes() -> Refusal {
    Refusal::Full("node; `shorttail remove node N` makes room for one".into())
}

/// Taking another one out would not help.
fn out_of_node_numbers() -> Refusal {
    Refusal::Full(
        "node: every number was given to one, for good; start it in the place of one that is gone (`--id N`)".into(),
    )
}

fn admit_domain(domain: &str) -> Result<(), Refusal> {
    if domain.len() > DOMAIN_BYTES_MAX {
        return Err(Refusal::Malformed(format!("a failure domain has at most {DOMAIN_BYTES_MAX} bytes")));
    }
    Ok(())
}

fn admit_address(address: &str) -> Result<(), Refusal> {
    if address.is_empty() || address.len() > ADDRESS_BYTES_MAX {
        return Err(Refusal::Malformed(format!("an address has 1 to {ADDRESS_BYTES_MAX} bytes")));
    }
    Ok(())
}

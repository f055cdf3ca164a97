//! Greeting a node: hello, fence, scan; then it is ready.
//!
//! The fence comes before anything else (a joining node is fenced before use), the scan before the node is used: while
//! serving, chunks are dropped of stripes that are gone, or that the node is no member of; while gathering, a new owner
//! learns the store from all of them.

use shorttail_units::{NodeId, Now, PartitionId, StripeId};
use shorttail_wire::node::{ChunkReport, Hello, HelloReply, NodeRequest, PROTOCOL_VERSION, Refusal, Scanned};

use super::node_session::{ChunkScan, Session, ToldEarly};
use super::nodes::{NodePhase, SessionId};
use crate::engine::limits::FENCE_AGAIN_US;
use crate::engine::read::near::NearOffer;
use crate::engine::takeover::lease::Voter;
use crate::engine::takeover::recovery::census_of;
use crate::engine::takeover::witness::is_first_id;
use crate::engine::{Engine, Phase, What};

/// Chunk reports asked for at once; each has at most 200 bytes.
const SCAN_COUNT: u16 = 1024;

impl Engine {
    /// The server connected a session.
    pub fn handle_session_opened(&mut self, now: Now, id: SessionId) {
        self.set_now(now);
        let Some(session) = self.nodes.session_mut(id) else { return };
        session.restart(true);
        let hello = Hello {
            version: PROTOCOL_VERSION,
            cluster: self.config.cluster,
            core: id.core,
            owner: self.config.owner,
            epoch: self.config.epoch,
        };
        self.ask_session(id, &NodeRequest::Hello(hello), What::Hello);
        self.run_work();
    }

    pub(in crate::engine) fn greeted(&mut self, id: SessionId, hello: &HelloReply) {
        let refused = hello.cluster != self.config.cluster
            || hello.node != id.node
            || id.core >= hello.core_count
            || self.is_retired(hello.node, hello.incarnation);
        let Some(node) = self.nodes.get_mut(id.node).filter(|_| !refused) else { return };
        node.phase = NodePhase::Greeting;
        node.sessions.resize_with(usize::from(hello.core_count), Session::default);
        let known = node.incarnation.replace(hello.incarnation);
        let forgotten = known.is_some_and(|old| old != hello.incarnation);
        self.lives.note(hello.node, hello.incarnation, self.now.mono_us);
        let session = &mut node.sessions[usize::from(id.core)];
        session.memory_bytes = hello.memory_bytes;
        session.used_bytes = hello.used_bytes;
        session.held_bytes = hello.held_bytes;
        session.incarnation = Some(hello.incarnation);
        let offers = [hello.near.clone().map(NearOffer::Memory), hello.ring.clone().map(NearOffer::Ring)];
        self.near.offers.extend(offers.into_iter().flatten().map(|offer| (id, offer)));
        session.unfenced = self.config.partitions.clone();
        self.lease.greeted(Voter { node: hello.node, incarnation: hello.incarnation }, self.now.mono_us);
        if forgotten {
            node.sessions.iter_mut().for_each(|session| session.changes_known = 0);
            self.forget_frees_of(id.node);
            self.moves.forgive(id.node);
            if let Some(census) = self.census_mut() {
                census.forget(id.node);
            }
        }
        if known != Some(hello.incarnation) {
            // Until the scan shows what is there.
            self.note_lost_of(id.node);
        }
        if self.is_preparing() {
            self.scan(id);
            self.scan_standing(id.node);
        }
        if !self.is_heir() {
            self.fence(id);
        }
    }

    /// Cores whose sessions stood while their node was away tell again what they hold: what they did of what they were
    /// ordered was not looked at, and what changed they were not told.
    fn scan_standing(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get(id) else { return };
        let is_preparing = self.is_preparing();
        let stood = |session: &Session| {
            let has_hello =
                session.connected && session.incarnation.is_some() && session.incarnation == node.incarnation;
            has_hello && !session.greeted && (is_preparing || session.is_fenced())
        };
        let cores = node.sessions_by_id().filter(|(_, session)| stood(session));
        let cores: Vec<_> = cores.map(|(core, _)| core).collect();
        cores.into_iter().for_each(|core| self.scan(core));
    }

    /// Asks a core for the fences that it does not have yet. Core 0 comes first: it may have promised that there will
    /// be none, and then the owner before is not to be disturbed on the others.
    pub(in crate::engine) fn fence(&mut self, id: SessionId) {
        if !self.may_fence(id) {
            return self.fence_again_at(id, self.now.mono_us + FENCE_AGAIN_US);
        }
        let is_decided = id.core == 0 || self.nodes.get(id.node).is_some_and(|node| node.sessions[0].is_fenced());
        let Some(session) = self.nodes.session_mut(id).filter(|_| is_decided && !self.ownership.is_deposed) else {
            return;
        };
        session.fence_due_us = None;
        let (epoch, unfenced) = (self.config.epoch, session.unfenced.clone());
        let next = self.next_stripe_id();
        for partition in unfenced {
            let fence = NodeRequest::Fence { partition: partition.0, epoch, next };
            self.ask_session(id, &fence, What::Fence { partition });
        }
    }

    /// See [`Lease::may_fence`](crate::engine::takeover::lease::Lease::may_fence).
    pub(in crate::engine) fn may_fence(&self, id: SessionId) -> bool {
        let life = self.nodes.session(id).and_then(|session| session.incarnation);
        let voter = life.map(|incarnation| Voter { node: id.node, incarnation });
        voter.is_none_or(|voter| self.lease.may_fence(voter, self.now.mono_us))
    }

    pub(in crate::engine) fn fenced(&mut self, id: SessionId, partition: PartitionId, joined: StripeId) {
        if !self.nodes.session(id).is_some_and(|session| session.unfenced.contains(&partition)) {
            // Asked twice: while it read ahead, and when that ended.
            return;
        }
        if self.reads_ahead() {
            self.end_preparing();
        }
        if let Some(census) = self.census_mut() {
            census.take_joined(id, partition, joined);
        }
        let Some(node) = self.nodes.get_mut(id.node) else { return };
        let session = &mut node.sessions[usize::from(id.core)];
        session.unfenced.retain(|&other| other != partition);
        session.joined_late.retain(|&other| other != partition);
        session.joined_late.extend((!is_first_id(joined)).then_some(partition));
        if !session.is_fenced() {
            return;
        }
        let others = node.sessions_by_id().skip(1).filter(|(_, session)| session.incarnation.is_some());
        let others: Vec<_> = others.map(|(core, _)| core).collect();
        let is_fenced = |session: &Session| session.is_fenced() && session.incarnation == node.incarnation;
        if let Some(incarnation) = node.incarnation.filter(|_| node.sessions.iter().all(is_fenced)) {
            self.lease.fenced(Voter { node: id.node, incarnation });
        }
        if id.core == 0 {
            self.renew(id.node);
            others.into_iter().for_each(|core| self.fence(core));
        }
        self.scan(id);
        self.scan_standing(id.node);
    }

    /// Asks what a core holds of this owner's partitions, or, if the census knows some of it, what changed since. One
    /// scan at a time: what it showed is compared at its end.
    pub(in crate::engine) fn scan(&mut self, id: SessionId) {
        let round = self.scan_round;
        let is_gathering = matches!(self.phase, Phase::Gathering(_));
        let Some(session) = self.nodes.session_mut(id) else { return };
        if session.scan.as_ref().is_some_and(|scan| scan.round == round) {
            return;
        }
        let since = if is_gathering { session.changes_known } else { 0 };
        self.scan_from(id, since);
    }

    fn scan_from(&mut self, id: SessionId, since: u64) {
        self.scan_count += 1;
        let (number, round) = (self.scan_count, self.scan_round);
        let Some(session) = self.nodes.session_mut(id) else { return };
        let (reported, undescribed, told_early) = (Vec::new(), Vec::new(), Vec::new());
        let (change, was_known) = (0, false);
        session.scan = Some(ChunkScan { number, round, since, change, was_known, reported, undescribed, told_early });
        self.scan_on(id, StripeId::default());
    }

    fn scan_on(&mut self, id: SessionId, after: StripeId) {
        let Some(scan) = self.nodes.session(id).and_then(|session| session.scan.as_ref()) else { return };
        let (number, since) = (scan.number, scan.since);
        let partitions = self.config.partitions.clone();
        let request = NodeRequest::Scan { since, after, count: SCAN_COUNT, partitions };
        self.ask_session(id, &request, What::Scan { number });
    }

    pub(in crate::engine) fn scanned(&mut self, id: SessionId, number: u32, scanned: Scanned) {
        let is_gathering = matches!(self.phase, Phase::Gathering(_));
        let Some(session) = self.nodes.session_mut(id) else { return };
        let (known, Some(scan)) = (session.changes_known, &mut session.scan) else { return };
        if scan.number != number || scan.round != self.scan_round {
            return;
        }
        let is_first = scan.change == 0;
        if is_first && scanned.is_complete {
            scan.since = 0;
        }
        if scan.since > 0 && (scanned.is_complete || scan.since != known || !is_gathering) {
            // The core, or this owner, does not know any more what was told before.
            return self.scan_from(id, 0);
        }
        if is_first {
            scan.change = scanned.change;
            scan.was_known = census_of(&mut self.phase, &mut self.completing).is_some_and(|census| census.begin(id));
        }
        let Scanned { reports, undescribed, freed, .. } = scanned;
        let last =
            reports.last().map(|chunk| chunk.description.stripe).max(undescribed.last().map(|&(stripe, _)| stripe));
        let more = reports.len() + undescribed.len() == usize::from(SCAN_COUNT);
        scan.reported.extend(reports.iter().map(|chunk| chunk.description.stripe));
        if is_gathering {
            scan.told_early.extend(reports.iter().map(|chunk| ToldEarly {
                stripe: chunk.description.stripe,
                index: chunk.description.index,
                is_sealed: chunk.sealed,
                is_damaged: chunk.damaged,
            }));
        }
        let logs = &self.logs;
        scan.undescribed.extend(undescribed.iter().filter(|(_, partition)| logs.contains_key(partition)));
        if let Some(census) = self.census_mut() {
            census.take_freed(id, &freed);
        }
        for chunk in reports {
            self.take_report(id, chunk);
        }
        match last.filter(|_| more) {
            Some(last) => self.scan_on(id, last),
            None => self.scan_ended(id),
        }
    }

    /// Of cores that did not tell in this round nothing is known: who is heard later tells everything.
    pub(in crate::engine) fn forget_unheard(&mut self) {
        let round = self.scan_round;
        let Phase::Gathering(gathering) = &mut self.phase else { return };
        for id in gathering.census.forget_unheard(&self.nodes) {
            let Some(session) = self.nodes.session_mut(id) else { continue };
            session.changes_known = 0;
            // What it tells now rests on what is forgotten. An earlier scan is over, and waits for the fence.
            if session.scan.as_ref().is_some_and(|scan| scan.round == round) {
                self.scan_from(id, 0);
            }
        }
    }

    fn take_report(&mut self, id: SessionId, chunk: ChunkReport) {
        let (node, stripe, partition) = (id.node, chunk.description.stripe, chunk.description.partition);
        if !self.logs.contains_key(&partition) {
            return;
        }
        self.note_found(node, &chunk);
        if chunk.damaged {
            self.note_damaged(node, stripe);
        } else if !chunk.sealed {
            self.note_left_open(node, stripe);
        }
        match self.census_mut() {
            Some(census) => census.take(id, chunk),
            None => self.reconcile(node, &chunk),
        }
    }

    fn scan_ended(&mut self, id: SessionId) {
        let Some(session) = self.nodes.session_mut(id) else { return };
        let Some(scan) = session.scan.take() else { return };
        session.changes_known = scan.change;
        match self.census_mut().filter(|_| scan.since > 0) {
            Some(census) => census.take_undescribed(id, &scan.undescribed),
            None => self.note_unreported(id, &scan),
        }
        if let Some(census) = self.census_mut() {
            census.end(id);
        }
        if !matches!(self.phase, Phase::Gathering(_)) {
            self.note_told_early(id.node, &scan.told_early);
        }
        self.session_ready(id);
    }

    fn session_ready(&mut self, id: SessionId) {
        let Some(node) = self.nodes.get_mut(id.node) else { return };
        let session = &mut node.sessions[usize::from(id.core)];
        (session.greeted, session.told) = (true, session.incarnation);
        if node.sessions.iter().all(|session| session.greeted) {
            node.phase = NodePhase::Ready;
            self.repair.is_away_stale = true;
            self.repair.wake_resting();
            self.note_back(id.node);
            self.forget_left(id.node);
            self.node_in_use_again(id.node);
        }
    }

    /// A node came while the owner serves: what it holds of stripes that are gone, or that others are members of by
    /// now, is dropped. What a member holds stays until the stripe is emptied, even if it is damaged or lacks
    /// operations: a later owner would take a member without a chunk for one that never had it, and may need what is
    /// left.
    fn reconcile(&mut self, node: NodeId, chunk: &ChunkReport) {
        let description = &chunk.description;
        if !self.is_to_keep(node, description.stripe) {
            return self.free_on(node, description.stripe, description.partition);
        }
        self.note_holder(description.stripe, node);
        self.refresh_configuration(node, description);
    }

    /// Is a node to hold a chunk of the stripe, or to keep what it has of it?
    pub(in crate::engine) fn is_to_keep(&self, node: NodeId, stripe: StripeId) -> bool {
        if let Some(slot) = self.stripes.slot_of(stripe) {
            return self.stripes.at(slot).member_of(node).is_some();
        }
        let striped = self.striped_of(stripe);
        self.is_lost(stripe) || striped.is_some_and(|(_, object)| object.members_of(stripe).1.contains(&node))
    }

    /// `version`: what the node speaks; 0: it does not say.
    pub(super) fn version_refused(&self, id: SessionId, version: u64) {
        let (node, own) = (id.node.0, PROTOCOL_VERSION);
        tracing::error!(
            node,
            "a node refused this owner: it speaks version {version} of the node protocol, and this process version {own}; \
             start one of the two with the version of the other"
        );
    }

    pub(super) fn scan_refused(&mut self, id: SessionId, number: u32, refusal: Option<Refusal>) {
        if let Some(session) = self.nodes.session_mut(id) {
            session.scan.take_if(|scan| scan.number == number);
        }
        self.greeting_refused(id, refusal);
    }

    pub(in crate::engine) fn greeting_refused(&mut self, id: SessionId, refusal: Option<Refusal>) {
        match refusal {
            Some(refusal) => tracing::error!(node = id.node.0, core = id.core, %refusal, "a node refused this owner"),
            // The node is in use by now, and would not be greeted anew.
            None if self.reads_ahead() && self.is_connected(id) => {
                self.fence_again_at(id, self.now.mono_us + FENCE_AGAIN_US);
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use shorttail_units::{Epoch, Incarnation, NodeId, Now, StripeId};

    use super::*;
    use crate::engine::reclaim::freeing::VoidRecord;
    use crate::engine::state::testing::{engine_of_one_node, hello_of_life};
    use crate::engine::takeover::lease::{Lease, LeaseConfig};
    use crate::engine::{Phase, Terms};

    #[test]
    fn a_core_that_the_node_does_not_have_does_not_greet() {
        let mut engine = engine_of_one_node();
        let hello = |core_count| HelloReply { core_count, ..hello_of_life(1) };
        let greets = |engine: &mut Engine, core, core_count| {
            engine.greeted(SessionId { node: NodeId(0), core }, &hello(core_count));
            let session = engine.nodes.session(SessionId { node: NodeId(0), core });
            session.is_some_and(|session| session.incarnation.is_some())
        };
        assert!(!greets(&mut engine, 0, 0), "a node without cores");
        assert!(greets(&mut engine, 0, 3) && greets(&mut engine, 2, 3));
        assert!(!greets(&mut engine, 1, 1), "fewer cores than were reached");
        assert!(greets(&mut engine, 1, 3));
    }

    /// Before it is scanned nobody knows what an owner before this one put there.
    #[test]
    fn a_later_life_confirms_nothing_by_its_greeting_alone() {
        let mut engine = engine_of_one_node();
        engine.greeted(SessionId { node: NodeId(0), core: 0 }, &hello_of_life(1));
        let (stripe, record) = (StripeId::new(Epoch(1), 1), VoidRecord { at: StripeId::new(Epoch(1), 2), bytes: 9 });
        engine.inherit_void(stripe, record, [NodeId(0)].into());
        engine.greeted(SessionId { node: NodeId(0), core: 0 }, &hello_of_life(2));
        assert!(engine.is_void_needed(stripe, record.at), "it may hold a chunk");
        engine.phase = Phase::Serving;
        engine.settle_voids_of(NodeId(0));
        assert!(!engine.is_void_needed(stripe, record.at), "it was scanned, and holds none");
    }

    /// As a node that is gone, whose address refuses twice a second.
    #[test]
    fn a_node_that_is_tried_in_vain_is_away_as_it_was() {
        let mut engine = engine_of_one_node();
        let (node, core) = (NodeId(0), SessionId { node: NodeId(0), core: 0 });
        let mut closes = |phase| {
            engine.nodes.get_mut(node).expect("a node").phase = phase;
            engine.repair.is_away_stale = false;
            engine.handle_session_closed(Now::default(), core);
            engine.repair.is_away_stale
        };
        assert!(closes(NodePhase::Ready) && closes(NodePhase::Suspect) && closes(NodePhase::Hung));
        assert!(!closes(NodePhase::Away) && !closes(NodePhase::Greeting));
    }

    /// Who is cut off may be the first that a fresh memory hears of, and knows of nothing that later owners put on that
    /// node.
    #[test]
    fn a_fresh_memory_is_not_fenced_by_who_may_have_been_followed() {
        let mut engine = engine_of_one_node();
        engine.lease = Lease::new(Some(LeaseConfig { lease_us: 1_000, margin_us: 100 }), 0);
        let id = SessionId { node: NodeId(0), core: 0 };
        engine.nodes.session_mut(id).expect("a session").connected = true;
        let voter = |incarnation| Voter { node: NodeId(0), incarnation: Incarnation(incarnation) };
        let terms = |incarnation| Terms { voters: vec![voter(incarnation)], before: Vec::new() };
        engine.handle_terms(Now::default(), terms(1));
        let fences = |engine: &mut Engine, mono_us| {
            engine.now.mono_us = mono_us;
            engine.advance_ownership();
            engine.awaited.iter().filter(|(_, awaited)| matches!(awaited.what, What::Fence { .. })).count()
        };
        engine.greeted(id, &hello_of_life(2));
        assert_eq!([0, 500, 50_000].map(|mono_us| fences(&mut engine, mono_us)), [0; 3]);
        engine.handle_terms(engine.now, terms(2));
        assert!(fences(&mut engine, 70_000) > 0, "the coordinator knows of that memory and of no later owner");
    }

    #[test]
    fn an_answer_to_a_scan_that_was_given_up_counts_for_nothing() {
        let mut engine = engine_of_one_node();
        let id = SessionId { node: NodeId(0), core: 0 };
        let covers = |engine: &Engine| engine.nodes.session(id).and_then(|session| Some(session.scan.as_ref()?.change));
        engine.scan_from(id, 7);
        let given_up = engine.scan_count;
        engine.scan_from(id, 0);
        engine.scanned(id, given_up, Scanned { change: 9, ..Scanned::default() });
        assert_eq!(covers(&engine), Some(0));
        engine.scanned(id, engine.scan_count, Scanned { change: 9, is_complete: true, ..Scanned::default() });
        let session = engine.nodes.session(id).expect("a session");
        assert_eq!((session.scan.is_some(), session.changes_known), (false, 9));
    }
}

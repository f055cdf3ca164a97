//! The life of an ownership: fenced, proven again and again, handed over or lost.
//!
//! ```text
//! Preparing --> Prepared --terms--.
//!                                 v
//! Waiting --accepted, everything loaded--> Serving --let_go--> LettingGo --drained, sealed, released--> Released
//!    '------------------------------------------'------------------'--a later epoch fenced, proof over--> Deposed
//! ```
//! An owner that has no predecessor that lets go begins with Waiting.
//! A later epoch that waits at a node ends the renewals. The owner serves on while it is proven, which is for less than
//! a lease, and is deposed then.
//!
//! Versions and stripe ids of an epoch end. Well before that an owner lets go without being told, and counts as deposed
//! when it has: the tenure ends, and goes on under a new epoch. Where nobody gives a new one, its process ends in the
//! end.
//!
//! Must not know: how stripes are sealed, what requests are about.

use shorttail_units::{Incarnation, NodeId, Now};
use shorttail_wire::node::NodeRequest;

use super::lease::Voter;
use crate::command::{BoxCommand, StoreError};
use crate::engine::limits::{LET_GO_STALL_US_MAX, LET_GO_US_MAX, RELEASE_US_MAX, STRIPE_IDS_MAX, VERSIONS_MAX};
use crate::engine::sessions::nodes::{Node, SessionId};
use crate::engine::{Engine, Phase, Terms, Token, VoterSet, What};
use crate::request::{Reply, Request};

/// How far an owner is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// To become the owner later: learns what it will inherit while another owner serves.
    Preparing,
    /// As preparing, and what it learnt is recent.
    Prepared,
    /// Not accepted yet, or still learning what the nodes hold.
    Waiting,
    Serving,
    /// Hands its partitions over: takes no requests any more, and ends those under way.
    LettingGo,
    /// Everything is handed over: the engine may be dropped.
    Released,
    /// A later epoch fenced, or this one's numbers are used up: the engine gives up what it was asked, and is dropped.
    Deposed,
}

/// Nodes that are still to release the partitions.
#[derive(Debug)]
struct Releasing {
    missing: Vec<(NodeId, usize)>,
    since_us: u64,
}

#[derive(Debug, Default)]
pub(in crate::engine) struct Ownership {
    /// Requests that are not answered.
    pub outstanding_count: usize,
    /// When a fence is asked again; as of the last look.
    pub fence_due_us: u64,
    /// When those that joined late are looked at again.
    pub witnesses_due_us: u64,
    renew_due_us: u64,
    is_superseded: bool,
    pub is_deposed: bool,
    letting_go_since_us: Option<u64>,
    /// It lets go as its numbers are used up, and other cores of the tenure may not.
    is_spent: bool,
    releasing: Option<Releasing>,
}

impl Engine {
    /// The coordinator's decision, when the engine begins and whenever it changes. The latest counts.
    pub fn handle_terms(&mut self, now: Now, terms: Terms) {
        self.set_now(now);
        let follows = self.lease.in_use().is_empty() && !terms.before.is_empty();
        self.lease.set_terms(terms, now.mono_us);
        if self.is_heir() {
            self.end_preparing();
        } else if follows {
            self.read_ahead();
        }
        self.run_work();
    }

    /// By which voters this owner proves itself.
    pub fn voters_in_use(&self) -> &VoterSet {
        self.lease.in_use()
    }

    /// Did enough voters promise, as of this time, to let no other owner serve?
    pub fn is_proven(&self, now: Now) -> bool {
        now.mono_us < self.lease.proven_until_us()
    }

    /// Requests that were taken and are not answered yet, replies that wait for the proof not counted.
    pub fn outstanding_count(&self) -> usize {
        self.ownership.outstanding_count
    }

    pub fn standing(&self) -> Standing {
        let ownership = &self.ownership;
        if let Some(preparing) = self.preparing.as_ref().filter(|_| self.is_heir()) {
            return if preparing.is_prepared { Standing::Prepared } else { Standing::Preparing };
        }
        if ownership.is_deposed {
            return Standing::Deposed;
        }
        if ownership.letting_go_since_us.is_some() {
            let is_done = ownership.releasing.as_ref().is_some_and(|releasing| releasing.missing.is_empty());
            return match is_done {
                true if ownership.is_spent => Standing::Deposed,
                true => Standing::Released,
                false => Standing::LettingGo,
            };
        }
        match self.phase {
            Phase::Gathering(_) | Phase::Completing => Standing::Waiting,
            Phase::Serving => Standing::Serving,
        }
    }

    pub(in crate::engine) fn is_deposed(&self) -> bool {
        self.ownership.is_deposed
    }

    /// Are the partitions about to be another's? Then nothing is begun that only this owner needs: a node that is
    /// fenced refuses new stripes, and each that is left for it would take memory.
    pub(in crate::engine) fn is_ending(&self) -> bool {
        self.ownership.letting_go_since_us.is_some() || self.ownership.is_superseded
    }

    /// Is memory to be reclaimed? While the owner lets go, for as long as a write waits for it, or a flush that holds
    /// up writes: no heir fences before the release, which waits for those.
    pub(in crate::engine) fn may_reclaim(&self) -> bool {
        let has_waiting = || !self.stalled.is_empty() || self.holds_writes_for_overdue();
        let is_awaited = || self.ownership.releasing.is_none() && has_waiting();
        !self.is_ending() || !self.is_superseded() && is_awaited()
    }

    /// Does it let go for so long that nothing may wait for memory any more?
    pub(in crate::engine) fn is_held_up(&self) -> bool {
        let since_us = self.ownership.letting_go_since_us;
        since_us.is_some_and(|since_us| self.now.mono_us >= since_us + LET_GO_STALL_US_MAX)
    }

    pub(in crate::engine) fn is_superseded(&self) -> bool {
        self.ownership.is_superseded
    }

    pub(in crate::engine) fn takes_requests(&self) -> bool {
        self.standing() == Standing::Serving
    }

    pub(in crate::engine) fn refuse_any(&mut self, token: Token, request: Request<BoxCommand>) {
        let error = StoreError::NotOwner;
        match request {
            Request::Key(command) => self.refuse(token, &command, error),
            Request::Group(_) => self.reply(token, Reply::Group(Err(error))),
            Request::Keyspace(_) => self.reply(token, Reply::Keyspace(Err(error))),
        }
    }

    /// Hands the partitions over: no request is taken any more, what is under way ends, open stripes are sealed, so
    /// that the next owner finds everything settled, and the nodes let it in. See [`Engine::standing`].
    pub fn let_go(&mut self, now: Now) {
        self.set_now(now);
        self.ownership.letting_go_since_us.get_or_insert(now.mono_us);
        self.give_back_flushes();
    }

    /// Ends the ownership while there are numbers for what is under way.
    fn let_go_when_spent(&mut self) {
        let is_spent = self.next_version >= VERSIONS_MAX || self.next_stripe >= STRIPE_IDS_MAX;
        // Where there is no lease there is no coordinator either, and nobody would follow.
        if is_spent && self.lease.config().is_some() && self.takes_requests() {
            tracing::warn!(epoch = self.config.epoch.0, "the numbers of this epoch are used up");
            self.ownership.is_spent = true;
            self.let_go(self.now);
        }
    }

    /// As if nearly all versions of the epoch had been given: for simulations, as that takes weeks.
    pub fn use_up_versions(&mut self) {
        self.next_version = VERSIONS_MAX;
    }

    /// Asks for what is due.
    pub(in crate::engine) fn advance_ownership(&mut self) {
        self.retry_fences();
        self.renew_all();
        self.tell_witnesses();
        self.let_go_when_spent();
        self.advance_letting_go();
        let ownership = &mut self.ownership;
        if !ownership.is_superseded || ownership.is_deposed {
            return;
        }
        if let Some(releasing) = &mut ownership.releasing {
            // The next owner is there already: as was wanted.
            releasing.missing.clear();
        } else if self.now.mono_us >= self.lease.proven_until_us() {
            tracing::info!(epoch = self.config.epoch.0, "a later epoch owns the partitions");
            ownership.is_deposed = true;
        }
    }

    /// A node refused something because of this epoch, or of none.
    pub(in crate::engine) fn note_fenced(&mut self, by: u64) {
        if by <= u64::from(self.config.epoch.0) || self.ownership.is_superseded {
            return;
        }
        self.ownership.is_superseded = true;
        if self.lease.config().is_none() {
            // Nothing is promised where there is no lease.
            self.lease.end();
        }
    }

    /// A node promised to let nobody in for so long. Meanwhile its owner reads ahead.
    pub(in crate::engine) fn fence_leased(&mut self, id: SessionId, left_us: u64) {
        self.fence_again_at(id, self.now.mono_us.saturating_add(left_us));
        // The nodes that are slow to come are waited for once the first may come.
        if let Phase::Gathering(gathering) = &mut self.phase {
            gathering.started_us = self.now.mono_us;
        }
        self.read_ahead_from_now();
    }

    pub(in crate::engine) fn fence_again_at(&mut self, id: SessionId, due_us: u64) {
        if let Some(session) = self.nodes.session_mut(id) {
            session.fence_due_us = Some(session.fence_due_us.unwrap_or(0).max(due_us));
        }
        self.ownership.fence_due_us = self.ownership.fence_due_us.min(due_us);
    }

    fn retry_fences(&mut self) {
        if self.now.mono_us < self.ownership.fence_due_us {
            return;
        }
        let mut next_us = u64::MAX;
        let mut due = Vec::new();
        for (id, session) in self.nodes.sessions_by_id() {
            match session.fence_due_us {
                Some(at_us) if at_us <= self.now.mono_us => due.push(id),
                Some(at_us) => next_us = next_us.min(at_us),
                None => {}
            }
        }
        self.ownership.fence_due_us = next_us;
        if self.reads_ahead() && due.iter().any(|&id| self.may_fence(id)) {
            return self.end_preparing();
        }
        due.into_iter().for_each(|id| self.fence(id));
    }

    fn renew_all(&mut self) {
        let Some(config) = self.lease.config() else { return };
        if self.now.mono_us < self.ownership.renew_due_us {
            return;
        }
        self.ownership.renew_due_us = self.now.mono_us + config.renew_every_us();
        for node in self.nodes.iter().map(|node| node.id).collect::<Vec<_>>() {
            self.renew(node);
        }
    }

    /// Asks a node for a promise, if it may give one.
    pub(in crate::engine) fn renew(&mut self, node: NodeId) {
        let Some(config) = self.lease.config() else { return };
        if self.ownership.is_superseded || self.ownership.releasing.is_some() {
            return;
        }
        let id = SessionId { node, core: 0 };
        let Some(session) = self.nodes.session_mut(id).filter(|session| session.connected && !session.is_renewing)
        else {
            return;
        };
        let Some(incarnation) = session.incarnation.filter(|_| session.is_fenced()) else { return };
        session.is_renewing = true;
        let lease_us = u32::try_from(config.lease_us).unwrap_or(u32::MAX);
        let partitions = self.config.partitions.clone();
        let renew = NodeRequest::Renew { epoch: self.config.epoch, lease_us, partitions };
        self.ask_session(id, &renew, What::Renew { incarnation });
    }

    pub(in crate::engine) fn renewed(&mut self, id: SessionId, incarnation: Incarnation, asked_us: u64) {
        self.renewal_failed(id);
        if self.ownership.releasing.is_none() {
            self.lease.promised(Voter { node: id.node, incarnation }, asked_us, self.now.mono_us);
        }
    }

    pub(in crate::engine) fn renewal_failed(&mut self, id: SessionId) {
        if let Some(session) = self.nodes.session_mut(id) {
            session.is_renewing = false;
        }
    }

    fn advance_letting_go(&mut self) {
        let Some(since_us) = self.ownership.letting_go_since_us else { return };
        if let Some(releasing) = &mut self.ownership.releasing {
            // As many may be missing when the next owner is accepted. And a lease later nothing is promised to this one
            // any more, give or take what clocks run apart: nodes know, and here nothing is answered since it releases.
            let are_enough = releasing.missing.len() <= self.config.tolerance();
            let lease_us = self.lease.config().map_or(0, |config| config.lease_us);
            let waits_us = if are_enough { RELEASE_US_MAX } else { lease_us.max(RELEASE_US_MAX) };
            if self.now.mono_us >= releasing.since_us + waits_us {
                releasing.missing.clear();
            }
            return;
        }
        if self.ownership.is_deposed {
            return;
        }
        // What is under way ends first, and its replies leave while they are proven.
        if self.ownership.outstanding_count > 0 || !self.replies.is_empty() {
            return;
        }
        let open: Vec<_> = self.logs.values().flat_map(|log| log.open.iter().copied()).collect();
        open.into_iter().for_each(|slot| self.begin_seal(slot));
        let has_waited = self.now.mono_us >= since_us + LET_GO_US_MAX;
        if self.stripes.unsealed().is_empty() || has_waited {
            self.release_all();
        }
    }

    /// From here on nothing is answered for any more.
    fn release_all(&mut self) {
        self.lease.end();
        let partitions = self.config.partitions.clone();
        let is_connected = |node: &&Node| node.sessions[0].connected && node.sessions[0].is_fenced();
        let nodes: Vec<NodeId> = self.nodes.iter().filter(is_connected).map(|node| node.id).collect();
        let missing = nodes.iter().map(|&node| (node, partitions.len())).collect();
        self.ownership.releasing = Some(Releasing { missing, since_us: self.now.mono_us });
        for node in nodes {
            for &partition in &partitions {
                let release = NodeRequest::Release { partition, epoch: self.config.epoch };
                self.ask_session(SessionId { node, core: 0 }, &release, What::Release);
            }
        }
    }

    /// A node let go of a partition, or cannot be asked: then its promise runs out.
    pub(in crate::engine) fn released(&mut self, node: NodeId) {
        let Some(releasing) = &mut self.ownership.releasing else { return };
        for (_, left) in releasing.missing.iter_mut().filter(|(other, _)| *other == node) {
            *left = left.saturating_sub(1);
        }
        releasing.missing.retain(|(_, left)| *left > 0);
    }
}

#[cfg(test)]
mod tests {
    use shorttail_units::{CodeShape, Epoch, Version};

    use super::*;
    use crate::engine::sessions::nodes::NodePhase;
    use crate::engine::state::testing::engine_of_ready_nodes;
    use crate::engine::takeover::lease::{Lease, LeaseConfig};

    fn serving(has_lease: bool) -> Engine {
        let shape = CodeShape::reed_solomon(1, 1).expect("a code");
        let mut engine = engine_of_ready_nodes(shape, 2);
        let config = has_lease.then_some(LeaseConfig::USUAL);
        engine.lease = Lease::new(config, 1);
        engine
    }

    #[test]
    fn an_owner_whose_numbers_are_used_up_lets_go_and_counts_as_deposed() {
        for (versions, stripes) in [(VERSIONS_MAX, 1), (1, STRIPE_IDS_MAX)] {
            let mut engine = serving(true);
            (engine.next_version, engine.next_stripe) = (versions - 1, stripes - 1);
            engine.advance_ownership();
            assert_eq!(engine.standing(), Standing::Serving, "one is left");
            (engine.next_version, engine.next_stripe) = (versions, stripes);
            engine.advance_ownership();
            assert_eq!(engine.standing(), Standing::Deposed, "nothing was under way");
        }
    }

    /// They are connected, and taken for hung already: no request to them fails before the connections end.
    #[test]
    fn an_owner_that_nodes_do_not_answer_has_let_go_a_lease_later() {
        let mut engine = serving(true);
        for node in engine.nodes.iter_mut() {
            node.phase = NodePhase::Hung;
            node.sessions[0].incarnation = Some(Incarnation(1));
        }
        engine.let_go(Now::default());
        let mut standing_at = |mono_us: u64| {
            engine.set_now(Now { mono_us, ..Now::default() });
            engine.advance_ownership();
            engine.standing()
        };
        assert_eq!([0, 999_999].map(&mut standing_at), [Standing::LettingGo; 2], "they may answer yet");
        assert_eq!(standing_at(1_000_000), Standing::Released);
    }

    #[test]
    fn an_owner_that_nobody_would_follow_goes_on() {
        let mut engine = serving(false);
        engine.use_up_versions();
        engine.advance_ownership();
        assert_eq!(engine.standing(), Standing::Serving);
        // Those that are left are numbers.
        _ = Version::new(Epoch::MAX, VERSIONS_MAX + (1 << 30) - 1);
        const { assert!(STRIPE_IDS_MAX + (1 << 24) <= 1 << crate::engine::CORE_SHIFT) };
    }
}

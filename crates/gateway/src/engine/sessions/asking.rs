//! Sessions with nodes: what arrives, what is late, what happens when one ends.

use shorttail_policy::Hedge;
use shorttail_units::{Incarnation, NodeId, Now, StripeId};
use shorttail_wire::node::{FrameError, NodeReply, NodeRequest, Refusal, next_frame};

use super::late::{Late, Owing};
use super::node_session::{Session, is_unhurried};
use super::nodes::{Node, NodePhase, SessionId};
use super::watch::class_of;
use crate::engine::limits::{
    BATCH_BYTES_MAX, GATHER_US, GREETING_US_MAX, HUNG_DEADLINES, TAKE_OVER_DEADLINES, TALKING_DEADLINES, USAGE_US,
};
use crate::engine::state::pool::PoolKey;
use crate::engine::{Awaited, Engine, What, Work};

/// Set in the tags of appends, which name their stripe; all other tags are pool keys.
const APPEND_TAG: u64 = 1 << 63;

pub(in crate::engine) fn append_tag(stripe: StripeId) -> u64 {
    stripe.raw() | APPEND_TAG
}

impl Engine {
    /// The nodes of the cluster, from configuration or from the coordinator. Known ones stay as they are.
    pub fn handle_nodes(&mut self, nodes: &[NodeId]) {
        for &node in nodes {
            self.nodes.add(node);
            self.monitor.add_node(node);
            self.domains.add(node, None);
        }
    }

    /// How many nodes the cluster has, as far as nobody was taken out: a take-over waits for those that are not known
    /// yet.
    pub fn handle_node_count(&mut self, count: u16) {
        self.config.node_count = count;
    }

    /// What a node fails together with; an empty label: it fails alone.
    pub fn handle_domain(&mut self, node: NodeId, label: &str) {
        self.domains.add(node, Some(label));
    }

    /// An incarnation is gone for good, and all before it: its memory counts as wiped, and it is refused should it come
    /// back (rule R3).
    pub fn handle_retired(&mut self, node: NodeId, incarnation: Incarnation) {
        let over = self.retired.get(&node).copied();
        let is_news = over.is_none_or(|over| over < incarnation);
        self.retired.insert(node, over.map_or(incarnation, |over| over.max(incarnation)));
        let known = self.nodes.get(node).and_then(|node| node.incarnation);
        // Of a node that has a later memory by now nothing more is lost. An earlier one may be all that was met here.
        if known.is_none_or(|known| known <= incarnation) {
            if is_news {
                self.leave(node);
                self.note_given_up(node);
                self.lose_chunks_of(node);
            }
            // In a later life it may hold what an owner before this one put there.
            if self.lives.present(node).is_none_or(|present| present <= incarnation) {
                self.void_frees_of(node);
            }
        }
        self.run_work();
    }

    /// Is a life of a node's memory over for good: given up, or followed by another one?
    pub(super) fn is_retired(&self, node: NodeId, life: Incarnation) -> bool {
        let is_followed = self.lives.present(node).is_some_and(|present| life < present);
        is_followed || self.retired.get(&node).is_some_and(|&over| life <= over)
    }

    /// A node was taken out of the cluster: it is gone for good, and nobody waits for it.
    pub fn handle_removed(&mut self, node: NodeId, incarnation: Incarnation) {
        // It may have begun another life that the coordinator did not hear of. What is over already is no news by the
        // name of another life.
        let known = self.nodes.get(node).and_then(|node| node.incarnation);
        let lives = [Some(incarnation), known, self.retired.get(&node).copied()];
        self.handle_retired(node, lives.into_iter().flatten().max().unwrap_or(incarnation));
        self.nodes.remove(node);
        self.domains.remove(node);
        self.moves.forgive(node);
        self.forget_absence(node);
        self.lives.forget(node);
    }

    /// Nothing is asked of a node any more, and nothing it says counts, until it is greeted again.
    fn leave(&mut self, id: NodeId) {
        self.note_away(id);
        let Some(node) = self.nodes.get_mut(id) else { return };
        let mut tags = Vec::new();
        for session in &mut node.sessions {
            session.restart(false);
            tags.extend(session.take_asked());
        }
        node.phase = NodePhase::Away;
        self.monitor.node_lost(id);
        self.repair.is_away_stale = true;
        self.drop_orders_of(id);
        self.leave_unsealed_stripes_of(id);
        self.work.push_back(Work::Failover(tags));
    }

    /// Is the node in use, even if it is slow?
    pub fn reaches(&self, node: NodeId) -> bool {
        self.nodes.is_reachable(node)
    }

    /// Does the node answer, though it may not be in use yet?
    pub fn hears(&self, node: NodeId) -> bool {
        self.nodes.get(node).is_some_and(|node| !matches!(node.phase, NodePhase::Away | NodePhase::Hung))
    }

    /// Sessions that should exist: the server connects those that do not.
    pub fn wanted_sessions(&self) -> Vec<SessionId> {
        self.nodes.sessions_by_id().map(|(id, _)| id).collect()
    }

    pub fn session_count_of(&self, node: NodeId) -> usize {
        self.nodes.get(node).map_or(0, |node| node.sessions.len())
    }

    /// Sessions whose greeting gets no further: the server closes them, and connects anew. A message may have been
    /// lost.
    pub fn hung_greetings(&self) -> Vec<SessionId> {
        let Some(before_us) = self.now.mono_us.checked_sub(GREETING_US_MAX) else { return Vec::new() };
        let owes = |session: &Session| {
            let oldest = session.asked.iter().find(|(_, tag)| self.awaited.get(*tag).is_some());
            oldest.is_some_and(|&(asked_us, _)| asked_us < before_us)
        };
        let hung = |session: &SessionId| {
            let node = self.nodes.get(session.node).filter(|node| node.phase.is_greeting());
            let session = node.and_then(|node| node.sessions.get(usize::from(session.core)));
            session.is_some_and(|session| session.connected && !session.greeted && owes(session))
        };
        self.wanted_sessions().into_iter().filter(hung).collect()
    }

    /// Does a session count? The server closes what was left: it may be of a node that hangs, and ends by itself never.
    pub fn is_connected(&self, id: SessionId) -> bool {
        self.nodes.session(id).is_some_and(|session| session.connected)
    }

    /// Bytes to send on a session now; the caller drains what it sent.
    pub fn session_output(&mut self, id: SessionId) -> Option<&mut Vec<u8>> {
        self.nodes.session_mut(id)?.batch()
    }

    /// Does no client wait for what is to be sent on a session?
    pub fn is_unhurried(&self, id: SessionId) -> bool {
        self.nodes.session(id).is_some_and(Session::is_unhurried)
    }

    /// Bytes that a full socket did not take: they go out before anything else, whatever is in flight.
    pub fn session_rest(&mut self, id: SessionId) -> Option<&mut Vec<u8>> {
        self.nodes.session_mut(id).map(Session::rest)
    }

    /// Sends a request whose reply is awaited. Without a session the request has failed already: the failure is
    /// handled as work, like that of a request whose session ends later.
    pub(in crate::engine) fn ask(
        &mut self,
        node: NodeId,
        stripe: StripeId,
        request: &NodeRequest<'_>,
        what: What,
    ) -> PoolKey {
        let session = self.nodes.session_of(node, stripe);
        self.ask_session(session, request, what)
    }

    pub(in crate::engine) fn ask_session(&mut self, id: SessionId, request: &NodeRequest<'_>, what: What) -> PoolKey {
        self.ask_as(id, request, what, is_unhurried(request))
    }

    /// The same of a request for which no client waits, though others of its kind may be waited for.
    pub(in crate::engine) fn ask_unhurried(&mut self, id: SessionId, request: &NodeRequest<'_>, what: What) -> PoolKey {
        self.ask_as(id, request, what, true)
    }

    fn ask_as(&mut self, id: SessionId, request: &NodeRequest<'_>, what: What, is_unhurried: bool) -> PoolKey {
        let now_us = self.now.mono_us;
        let tag = self.awaited.insert(Awaited {
            session: id,
            what,
            asked_us: now_us,
            at: 0,
            bytes: 0,
            ticket: None,
            is_unhurried,
            is_hedged: false,
        });
        let session = self.nodes.session_mut(id).filter(|session| session.connected);
        let Some(session) = session else {
            self.work.push_back(Work::Failover(vec![tag]));
            return tag;
        };
        let at = session.put_as(request, tag.raw(), is_unhurried);
        if is_unhurried {
            self.pacing.note_unhurried();
        }
        session.asked.push_back((now_us, tag));
        let awaited = self.awaited.get_mut(tag).expect("just inserted");
        awaited.at = at;
        if let Some((class, bytes)) = class_of(request, self.record_guess.bytes()) {
            awaited.bytes = bytes;
            awaited.ticket = Some(self.monitor.sent(id.node, class, bytes, now_us));
        }
        tag
    }

    /// Takes whole frames from the front of `input` and returns how many bytes they were.
    ///
    /// # Errors
    /// When the bytes are no messages: the caller closes the session.
    pub fn handle_session_input(&mut self, now: Now, session: SessionId, input: &[u8]) -> Result<usize, FrameError> {
        self.set_now(now);
        match self.nodes.session_mut(session).filter(|session| session.connected) {
            Some(session) => {
                session.answered();
                session.heard_us = now.mono_us;
            }
            None => return Ok(input.len()),
        }
        let outcome = self.handle_frames(session, input);
        self.stats.totals.messages_damaged_total += u64::from(outcome.is_err());
        outcome
    }

    fn handle_frames(&mut self, session: SessionId, input: &[u8]) -> Result<usize, FrameError> {
        let mut consumed = 0;
        while let Some((frame, length)) = next_frame(&input[consumed..])? {
            let reply = NodeReply::parse(&frame)?;
            self.handle_node_reply(session, frame.tag, reply);
            self.run_queued();
            consumed += length;
        }
        // Not after each answer: many of them may free something, and many may wait for it.
        self.run_work();
        Ok(consumed)
    }

    fn handle_node_reply(&mut self, session: SessionId, tag: u64, reply: NodeReply<'_>) {
        match reply {
            NodeReply::Acked { stripe, op } => return self.acknowledged(session.node, stripe, op),
            NodeReply::Damaged { stripe } => return self.suspect_chunk(session.node, stripe),
            NodeReply::Rebuilt { stripe, outcome, position } => {
                if self.is_moving_to(stripe, session.node) {
                    self.moved(session.node, stripe, outcome);
                } else {
                    self.rebuilt(session.node, stripe, outcome);
                }
                return self.placed(session, stripe, position);
            }
            _ => {}
        }
        if let (NodeReply::Done { used_bytes, held_bytes }, Some(session)) = (&reply, self.nodes.session_mut(session)) {
            (session.used_bytes, session.held_bytes) = (*used_bytes, *held_bytes);
        }
        if let NodeReply::Refused { refusal: Refusal::Fenced, detail } = reply {
            self.note_fenced(detail);
        }
        if tag & APPEND_TAG != 0 {
            // Only a refusal answers an append by its tag: the stripe cannot go on with this member.
            return self.abandon_by_id(StripeId::from_raw(tag & !APPEND_TAG));
        }
        let Some(awaited) = self.awaited.remove(PoolKey::from_raw(tag)) else { return };
        if let Some(ticket) = awaited.ticket {
            self.monitor.answered(ticket, self.now.mono_us);
        }
        self.forget_answered(session, awaited.asked_us);
        match (awaited.what, reply) {
            (What::Hello, NodeReply::Hello(hello)) => self.greeted(session, &hello),
            (What::Fence { partition }, NodeReply::Fenced { joined }) => self.fenced(session, partition, joined),
            (What::Hello, NodeReply::Refused { refusal: Refusal::WrongVersion, detail }) => {
                self.version_refused(session, detail);
            }
            (What::Fence { .. }, NodeReply::Refused { refusal: Refusal::Leased, detail }) => {
                self.fence_leased(session, detail);
            }
            (What::Renew { incarnation }, NodeReply::Done { .. }) => {
                self.renewed(session, incarnation, awaited.asked_us)
            }
            (What::Release, NodeReply::Done { .. }) => self.released(session.node),
            (What::Scan { number }, NodeReply::Chunks(scanned)) => self.scanned(session, number, scanned),
            (What::Nothing, _) => {}
            (What::Reconfigure { stripe, order }, NodeReply::Done { .. }) => self.reconfigured(stripe, order, true),
            (What::Rebuild { .. } | What::Move { .. }, NodeReply::Done { .. }) => {}
            (What::Announce { stripe, configuration }, NodeReply::Done { .. }) => {
                self.announced(stripe, configuration, true);
            }
            (What::Ping, NodeReply::Done { .. }) => self.core_answers(session),
            (What::Open { stripe }, NodeReply::Done { .. }) => self.stripe_opened(session.node, stripe),
            (What::Close, NodeReply::Done { .. }) => self.close_settled(),
            (What::Rescind { stripe }, NodeReply::Done { .. }) => self.rescind_answered(session.node, stripe, Ok(())),
            (What::GatherRead { stripe, member }, NodeReply::Bytes(bytes)) => {
                self.part_read(stripe, member, bytes);
            }
            (What::Install { write, number }, NodeReply::Done { .. }) => self.installed(write, number),
            (What::Seal { stripe }, NodeReply::Done { .. }) => self.seal_confirmed(session.node, stripe),
            (What::Free { first, asking }, NodeReply::Done { .. }) => self.freed(session, first, asking),
            (What::Fetch { fetch, part }, NodeReply::Bytes(bytes)) => self.fetched(fetch, part, bytes),
            (What::Piece { pieces, part }, NodeReply::Bytes(bytes)) => self.piece_arrived(pieces, part, bytes),
            (What::Locate { stripe, chunk }, NodeReply::Located { position }) => {
                self.located(session, stripe, chunk, Some(position));
            }
            (What::Inspect { stripe }, NodeReply::Inspected(report)) => self.inspected(session.node, stripe, &report),
            (What::Verify { stripe }, NodeReply::Inspected(report)) => self.verified(session.node, stripe, &report),
            (what, NodeReply::Refused { refusal, .. }) => self.refused(session, what, Some(refusal)),
            (what, _) => self.refused(session, what, None),
        }
    }

    /// A request failed: refused, or its session ended, or it is late (`None`).
    fn refused(&mut self, session: SessionId, what: What, refusal: Option<Refusal>) {
        if refusal == Some(Refusal::OutOfMemory) {
            // Nothing more goes there until an answer tells what is in use.
            if let Some(session) = self.nodes.session_mut(session) {
                session.used_bytes = session.memory_bytes;
            }
        }
        match what {
            What::Open { stripe } | What::Seal { stripe } => self.abandon_by_id(stripe),
            What::Locate { stripe, chunk } => self.located(session, stripe, chunk, None),
            What::Verify { stripe } => self.verify_refused(session.node, stripe, refusal),
            What::Fetch { fetch, part } => self.fetch_refused(fetch, part, refusal),
            What::Piece { pieces, part } => self.piece_refused(pieces, part, refusal),
            What::Install { write, .. } => self.install_refused(write, refusal),
            What::Inspect { stripe } | What::GatherRead { stripe, .. } => {
                self.part_refused(session.node, stripe, refusal);
            }
            What::Hello | What::Fence { .. } => self.greeting_refused(session, refusal),
            What::Scan { number } => self.scan_refused(session, number, refusal),
            What::Free { first, asking } => self.free_unanswered(session.node, first, asking),
            What::Close => self.close_settled(),
            What::Rescind { stripe } => self.rescind_answered(session.node, stripe, Err(refusal)),
            What::Reconfigure { stripe, order } => {
                self.reconfigured(stripe, order, false);
                self.doubt_chunk(session.node, stripe, refusal);
            }
            What::Rebuild { stripe } => self.order_refused(session.node, stripe, refusal),
            What::Announce { stripe, configuration } => {
                self.announced(stripe, configuration, false);
                self.doubt_chunk(session.node, stripe, refusal);
            }
            What::Move { stripe } => self.move_refused(session.node, stripe, refusal),
            What::Renew { .. } => {
                self.stats.totals.renewals_failed_total += 1;
                self.renewal_failed(session);
            }
            What::Release => self.released(session.node),
            What::Ping | What::Nothing => {}
        }
    }

    fn abandon_by_id(&mut self, id: StripeId) {
        if let Some(slot) = self.stripes.slot_of(id) {
            self.work.push_back(Work::Abandon(slot));
        }
    }

    /// Drops answered tags from the front of a session's queue: one that was asked then is.
    fn forget_answered(&mut self, id: SessionId, asked_us: u64) {
        let awaited = &self.awaited;
        if let Some(session) = self.nodes.session_mut(id) {
            session.reached_us = session.reached_us.max(asked_us);
            session.forget_asked(|tag| awaited.get(tag).is_some());
        }
    }

    /// A session ended: everything asked of it has failed, and its node is away until all its sessions are back.
    pub fn handle_session_closed(&mut self, now: Now, id: SessionId) {
        self.set_now(now);
        let Some(session) = self.nodes.session_mut(id) else { return };
        session.restart(false);
        let mut tags: Vec<_> = session.take_asked().collect();
        self.monitor.node_lost(id.node);
        self.note_away(id.node);
        let node = self.nodes.get_mut(id.node).expect("it has a session");
        if !node.phase.is_greeting() {
            // Not of one that was away before, and is tried in vain again and again: a count would never end.
            self.repair.is_away_stale = true;
            // Nobody looks after what its other cores owe while it is away. They go on with what they were ordered:
            // they tell anew what they hold when it is back.
            for session in &mut node.sessions {
                session.greeted = false;
                tags.extend(session.take_asked());
            }
        }
        node.phase = NodePhase::Away;
        self.drop_orders_of(id.node);
        self.leave_unsealed_stripes_of(id.node);
        self.work.push_back(Work::Failover(tags));
        self.run_work();
    }

    pub(super) fn leave_unsealed_stripes_of(&mut self, node: NodeId) {
        for &slot in self.stripes.unsealed() {
            if self.stripes.at(slot).member_of(node).is_some() {
                self.work.push_back(Work::Abandon(slot));
            }
        }
    }

    pub(in crate::engine) fn failover(&mut self, tags: Vec<PoolKey>) {
        for tag in tags {
            if let Some(awaited) = self.awaited.remove(tag) {
                if let Some(ticket) = awaited.ticket {
                    self.monitor.cancelled(ticket);
                }
                self.refused(awaited.session, awaited.what, None);
            }
        }
    }

    /// Treats nodes that owe an answer for too long as slow. Not those that answer one after the other: it may be the
    /// owner's own link that is full. For how long they may is bounded, too.
    pub(in crate::engine) fn check_deadlines(&mut self) {
        let Some(before_us) = self.now.mono_us.checked_sub(self.config.request_deadline_us) else { return };
        let deadlines_before = |count| self.now.mono_us.saturating_sub(self.config.request_deadline_us * count);
        let (hung_before_us, talking_before_us) =
            (deadlines_before(HUNG_DEADLINES), deadlines_before(TALKING_DEADLINES));
        // Who takes over keeps everybody waiting, and what it reads it has of others, too.
        let takes_over = !self.is_serving() && !self.is_heir();
        let suspect_before_us = if takes_over { deadlines_before(TAKE_OVER_DEADLINES) } else { hung_before_us };
        // Without hedges nothing else goes round them meanwhile.
        let hedges = self.policies.iter().any(|policy| policy.hedge == Hedge::Adaptive);
        let awaited = &self.awaited;
        let mut late = Late::default();
        let mut note = |node: NodeId, sent_us: u64, session: Option<&Session>| {
            let is_stuck = || !hedges || session.is_none_or(|session| session.is_stuck(sent_us, before_us));
            if sent_us < suspect_before_us || sent_us < before_us && is_stuck() {
                let heard_us = session.map_or(0, |session| session.heard_us);
                late.note_owing(node, Owing { oldest_us: sent_us, heard_us });
            }
        };
        for node in self.nodes.iter_mut().filter(|node| node.phase == NodePhase::Ready) {
            for session in &mut node.sessions {
                session.forget_asked(|tag| awaited.get(tag).is_some());
                let Some(&(asked_us, tag)) = session.asked.front() else { continue };
                let is_unhurried = awaited.get(tag).is_some_and(|awaited| awaited.is_unhurried);
                let sent_us = asked_us + if is_unhurried { GATHER_US } else { 0 };
                note(node.id, sent_us, Some(session));
            }
        }
        for &slot in self.stripes.unsealed() {
            let stripe = self.stripes.at(slot);
            let open = stripe.bytes();
            let Some(sent_us) = open.oldest_sent_us().filter(|&sent_us| sent_us < before_us) else { continue };
            for member in open.laggards(before_us) {
                let node = stripe.members[member];
                let owed_us = open.owed_since_us(member).unwrap_or(sent_us);
                note(node, owed_us, self.nodes.session(self.nodes.session_of(node, stripe.id)));
            }
        }
        let goes_round = self.policies.iter().any(|policy| policy.read_sidestep);
        for (node, owing) in late.owing {
            // Without a spare node to write to, leaving a slow one would fail writes that it only delays. What is known
            // to be slow is gone round already.
            let has_spare = self.nodes.ready_count() > self.config.member_count();
            let is_known = self.monitor.is_fail_slow(node);
            if owing.oldest_us < suspect_before_us || has_spare && !is_known && goes_round {
                self.suspect(node, owing);
            } else if goes_round {
                // Its reads are decoded from others, as far as there is a way; all else goes on waiting for it.
                self.hedge_all_of(node);
            }
        }
        self.wait_no_longer(hung_before_us, talking_before_us);
        self.ping_again(before_us);
    }

    /// Goes round a node until each of its cores answers a ping. What it said while it was late is a sign of life.
    fn suspect(&mut self, id: NodeId, owing: Owing) {
        let Some(node) = self.nodes.get_mut(id).filter(|node| node.phase == NodePhase::Ready) else { return };
        (node.phase, node.silent_since_us) = (NodePhase::Suspect, owing.oldest_us.max(owing.heard_us));
        let tags = node.sessions.iter_mut().flat_map(Session::take_asked).collect();
        self.work.push_back(Work::Failover(tags));
        self.leave_unsealed_stripes_of(id);
        self.ping(id);
    }

    /// Suspect nodes a core of which has said nothing since `before_us`, and owes its sign of life, are hung: what they
    /// were asked as a last resort has failed. On a full link that sign is behind all else, and comes when that has:
    /// for how long is bounded, too.
    fn wait_no_longer(&mut self, before_us: u64, talking_before_us: u64) {
        let is_silent = |node: &Node| {
            let mut owing = node.sessions.iter().filter(|session| session.sign.is_some());
            let since_us = node.silent_since_us;
            since_us < talking_before_us || owing.any(|session| session.heard_us.max(since_us) < before_us)
        };
        let is_hung = |node: &&mut Node| node.phase == NodePhase::Suspect && is_silent(node);
        let mut hung = Vec::new();
        for node in self.nodes.iter_mut().filter(is_hung) {
            tracing::warn!(node = node.id.0, epoch = self.config.epoch.0, "node is hung: nothing waits for it");
            node.phase = NodePhase::Hung;
            let tags = node.sessions.iter_mut().flat_map(Session::take_asked).collect();
            self.work.push_back(Work::Failover(tags));
            hung.push(node.id);
        }
        // Repair and moves wait for it no longer, either.
        self.repair.is_away_stale |= !hung.is_empty();
        hung.into_iter().for_each(|node| self.drop_orders_of(node));
    }

    /// Asks each core of a silent node for a sign of life, whatever it owes: an answer that was lost is not to be
    /// waited for. Which of them stand still is not known, and the node is used when none does.
    fn ping(&mut self, id: NodeId) {
        self.nodes.sessions_of(id).for_each(|session| self.ping_core(session));
    }

    fn ping_core(&mut self, id: SessionId) {
        let Some(session) = self.nodes.session_mut(id) else { return };
        session.answered();
        let tag = self.ask_session(id, &NodeRequest::Ping, What::Ping);
        if let Some(session) = self.nodes.session_mut(id) {
            session.sign = Some((tag, self.now.mono_us));
        }
    }

    /// The ping, or its answer, may have been lost too. It is the same one that is asked again: whichever is answered
    /// is a sign of life, and one is awaited however long that takes.
    fn ping_again(&mut self, before_us: u64) {
        let (awaited, now_us) = (&self.awaited, self.now.mono_us);
        let mut failed = Vec::new();
        for node in self.nodes.iter_mut().filter(|node| node.phase.is_silent()) {
            for (id, session) in node.sessions_by_id_mut() {
                session.forget_asked(|tag| awaited.get(tag).is_some());
                let Some((tag, _)) = session.sign.filter(|&(_, asked_us)| asked_us < before_us) else { continue };
                if awaited.get(tag).is_none() {
                    failed.push(id);
                    continue;
                }
                session.answered();
                // More than that lies here only if the node takes nothing: then what lies here is asked first.
                if session.outbox.len() < BATCH_BYTES_MAX {
                    session.put(&NodeRequest::Ping, tag.raw());
                }
                session.sign = Some((tag, now_us));
            }
        }
        failed.into_iter().for_each(|session| self.ping_core(session));
    }

    fn core_answers(&mut self, id: SessionId) {
        if let Some(session) = self.nodes.session_mut(id) {
            session.sign = None;
        }
        if self.nodes.get(id.node).is_some_and(|node| node.sessions.iter().all(|session| session.sign.is_none())) {
            self.node_answers(id.node);
        }
    }

    fn node_answers(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(id).filter(|node| node.phase.is_silent()) {
            if std::mem::replace(&mut node.phase, NodePhase::Ready) == NodePhase::Hung {
                tracing::info!(node = id.0, epoch = self.config.epoch.0, "node answers again");
                self.repair.is_away_stale = true;
            }
            self.node_in_use_again(id);
        }
    }

    pub(super) fn node_in_use_again(&mut self, id: NodeId) {
        // What was declared void meanwhile reckoned with a chunk here that was never told to go, as there is none.
        self.settle_voids_of(id);
        self.reread_from(id);
        self.verify_doubtful();
        self.look_at_room();
        self.stalled.press();
    }

    /// Asks every node now and then what it has in use: other owners use it too. What could not be read is tried again.
    pub(in crate::engine) fn refresh_usage(&mut self) {
        if self.now.mono_us < self.usage_us {
            return;
        }
        self.usage_us = self.now.mono_us + USAGE_US;
        self.verify_doubtful();
        self.forget_outlived();
        let ready = self.nodes.iter().filter(|node| node.phase == NodePhase::Ready);
        let sessions: Vec<_> = ready.flat_map(Node::sessions_by_id).map(|(id, _)| id).collect();
        for session in sessions {
            self.ask_session(session, &NodeRequest::Ping, What::Ping);
        }
    }
}

#[cfg(test)]
mod tests;

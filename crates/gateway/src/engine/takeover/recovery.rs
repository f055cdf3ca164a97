//! Taking over: a new owner learns from the nodes what the store holds, before it serves.
//!
//! ```text
//! Gathering --all but a few nodes fenced and scanned--> Loading --every stripe read, every open one closed-->
//! Completing --what was not certain is written anew--> Serving
//! ```
//! Nodes lost and away together may not be more than the code tolerates, stripe by stripe (see `census`): the
//! new owner waits for those that may come back. When they cannot, it serves, and says of what is missing that
//! it is (see `loss`).
//!
//! What is read of a stripe that was never sealed may rest on fewer nodes than an acknowledgement does (see
//! `reconstruct`). Such stripes are emptied before anybody is served (rule R10); only an owner that has no room or too
//! few nodes to write goes on without, and answers for the rest (see `doubts`).

use std::collections::BTreeSet;

use shorttail_units::{NodeId, PartitionId, StripeId};

use super::census::{Census, Member, Seat};
use super::doubts::Doubts;
use super::loading::Loading;
use super::picture::Picture;
use super::witness::is_first_id;
use crate::engine::limits::PREPARED_GATHER_US;
use crate::engine::write::manifest::Manifest;
use crate::engine::{Engine, Phase};

/// What was learnt so far.
#[derive(Debug)]
pub struct Gathering {
    pub(super) started_us: u64,
    pub(in crate::engine) census: Census,
    pub(super) loading: Option<Loading>,
    /// What earlier rounds brought, until it is loaded on.
    pub(super) picture: Option<Picture>,
    /// Some of it was read before the fence.
    pub(super) was_prepared: bool,
    /// Nodes that do not answer soon are not waited for.
    pub(super) is_brief: bool,
    /// Stripes that are read in this round.
    pub(super) to_read: usize,
}

/// What remains to be done once everything is read.
#[derive(Debug)]
pub struct Completing {
    /// Stripes that are emptied before anybody is served.
    pub(super) uncertain: BTreeSet<StripeId>,
    /// Stripes that hold what something in another one of these replaces.
    pub(super) shadowed: BTreeSet<StripeId>,
    /// What of them is in doubt until then.
    pub(super) doubts: Doubts,
    /// Who holds what: some of it belongs to nothing.
    pub(in crate::engine) census: Census,
    voids: BTreeSet<StripeId>,
}

impl Gathering {
    pub fn new(started_us: u64, picture: Picture, census: Census) -> Self {
        let picture = Some(picture);
        Gathering { started_us, census, loading: None, picture, was_prepared: false, is_brief: false, to_read: 0 }
    }
}

/// As [`Engine::census_mut`], where other parts of the engine are in use.
pub(in crate::engine) fn census_of<'a>(
    phase: &'a mut Phase,
    completing: &'a mut Option<Box<Completing>>,
) -> Option<&'a mut Census> {
    match (phase, completing) {
        (Phase::Gathering(gathering), _) => Some(&mut gathering.census),
        (Phase::Completing | Phase::Serving, completing) => completing.as_mut().map(|some| &mut some.census),
    }
}

impl Engine {
    /// Takes the next step towards serving, if it is due.
    pub(in crate::engine) fn advance_recovery(&mut self) {
        if self.rests_between_rounds() {
            return;
        }
        match &self.phase {
            Phase::Gathering(gathering) if gathering.loading.is_some() => self.retry_loads(),
            Phase::Gathering(gathering) => {
                let waited_us = self.now.mono_us.saturating_sub(gathering.started_us);
                // Of what is read ahead the rest is read later.
                let is_brief = gathering.is_brief || self.reads_ahead();
                let last_us = if is_brief { PREPARED_GATHER_US } else { self.config.gather_us };
                let is_accepted = self.is_preparing() || self.lease.is_accepted(self.now.mono_us);
                if is_accepted && self.is_heard_enough(waited_us >= last_us) {
                    self.begin_loading();
                }
            }
            Phase::Completing | Phase::Serving => self.end_completing_when_done(),
        }
    }

    pub(super) fn census(&self) -> Option<&Census> {
        match &self.phase {
            Phase::Gathering(gathering) => Some(&gathering.census),
            Phase::Completing | Phase::Serving => None,
        }
    }

    /// Are all nodes here, or at least as many as it takes after the wait for the last ones?
    fn is_heard_enough(&self, has_waited: bool) -> bool {
        let known: Vec<NodeId> = self.nodes.iter().map(|node| node.id).collect();
        let expected = known.len().max(usize::from(self.config.node_count));
        let gone = known.iter().filter(|&&node| self.is_gone(node)).count();
        let away = expected.saturating_sub(self.nodes.ready_count() + gone);
        let (data_count, tolerated) = (self.config.data_count(), self.config.tolerance());
        if self.nodes.ready_count() == 0 {
            return false;
        }
        // A stripe that no ready node tells of: all its members, but those that were never given their chunk, are away,
        // lost their memory or were given up, however long ago; and enough of them are away to decode it when they are
        // back.
        let rejoined = self.census().map_or(0, |census| census.rejoined_count(&self.nodes, is_first_id));
        let unopened = self.config.shape.unopened_max();
        let holders = self.config.member_count() - unopened;
        let may_hide = away + unopened >= data_count && away + gone + rejoined >= holders;
        away == 0 || has_waited && away <= tolerated && !may_hide
    }

    /// Where to note what nodes hold, until the take-over is complete.
    pub(in crate::engine) fn census_mut(&mut self) -> Option<&mut Census> {
        census_of(&mut self.phase, &mut self.completing)
    }

    /// What became of the chunk of a stripe on a node, as far as nodes told.
    pub(super) fn member(&self, seat: Seat, partition: PartitionId) -> Member {
        let census = self.census().expect("asked while gathering");
        census.member(&self.nodes, seat, partition, self.is_gone(seat.node))
    }

    /// Rule R8: a manifest whose pieces a node was never given, or has freed, does not make an object.
    pub(super) fn is_void_manifest(&self, partition: PartitionId, manifest: &Manifest) -> bool {
        let mut stripes = (0..manifest.stripe_count).map(|number| manifest.first.plus(u64::from(number)));
        // Of a stripe that was repaired nobody counts as never.
        stripes.any(|stripe| {
            let mut members = manifest.members.iter().enumerate();
            members.any(|(chunk, &node)| self.member(Seat { node, stripe, chunk }, partition) == Member::Never)
        })
    }

    /// Everything is read: the picture becomes this owner's own.
    pub(super) fn end_gathering_when_done(&mut self) {
        let Phase::Gathering(gathering) = &mut self.phase else { return };
        if !gathering.loading.as_ref().is_some_and(Loading::is_over) {
            return;
        }
        if self.is_epoch_used() {
            return;
        }
        if !self.is_preparing() && !self.does_all_hold() {
            return self.read_all_anew();
        }
        let Phase::Gathering(gathering) = std::mem::replace(&mut self.phase, Phase::Serving) else { return };
        let Gathering { census, loading, to_read, .. } = *gathering;
        self.inherited_read = to_read;
        let Some((Some(mut picture), uncertain, mut doubts)) = loading.map(Loading::into_parts) else { return };
        if self.is_preparing() {
            return self.end_round(picture, census);
        }
        let away: BTreeSet<NodeId> = {
            let nodes = self.nodes.iter().map(|node| node.id);
            nodes.filter(|&node| !self.nodes.is_ready(node) && !self.is_gone(node)).collect()
        };
        picture.settle();
        doubts.drop_copies(&picture);
        let shadowed = picture.take_shadowed();
        let voids = self.adopt(picture, &census, &away);
        self.phase = Phase::Completing;
        self.completing = Some(Box::new(Completing { uncertain, shadowed, doubts, census, voids }));
        self.end_completing_when_done();
    }

    /// Was this epoch another owner's before? That is over at once then: what it wrote would be taken for that one's.
    /// No coordinator gives an epoch twice; without one, people may.
    fn is_epoch_used(&mut self) -> bool {
        if self.is_deposed() {
            return true;
        }
        let epoch = self.config.epoch;
        let is_own = |census: &mut Census| census.reports().any(|(stripe, ..)| stripe.epoch() == epoch);
        if !self.census_mut().is_some_and(is_own) {
            return false;
        }
        tracing::error!(epoch = epoch.0, "this epoch was used before: start the gateway with a higher --epoch");
        self.ownership.is_deposed = true;
        true
    }

    /// Serves once every stripe that was not certain is emptied and gone, or nothing can be written anyway. What
    /// belongs to nothing is freed only then: until then the reason for that may still be lost.
    pub(in crate::engine) fn end_completing_when_done(&mut self) {
        let left = match &self.completing {
            Some(completing) => completing.uncertain.iter().filter(|&&id| self.stripes.slot_of(id).is_some()).count(),
            // It may still have to be accepted: by voters of which it was told meanwhile.
            None if matches!(self.phase, Phase::Completing) => 0,
            None => return,
        };
        if left == 0
            && let Some(completing) = self.completing.take()
        {
            self.drop_leftovers(&completing.census, &completing.voids);
            let ready = self.nodes.iter().map(|node| node.id).filter(|&node| self.nodes.is_ready(node));
            for node in ready.collect::<Vec<_>>() {
                self.settle_voids_of(node);
            }
            // Floors are certain by now.
            self.end_losses_below_floors();
        }
        let cannot_write = !self.awaits_suspects() && (self.too_few_nodes().is_err() || self.spare_stripes() == 0);
        let is_accepted = self.lease.is_accepted(self.now.mono_us);
        if (left == 0 || cannot_write) && is_accepted && !self.is_serving() {
            tracing::info!(objects = self.index.object_count(), left, "serves");
            self.phase = Phase::Serving;
            self.note_who_never_came();
        }
    }
}

#[cfg(test)]
mod tests;

//! Preparing: an engine that is to be the next owner learns what it will inherit while the present one serves.
//!
//! ```text
//! greet, scan --> read what is sealed --> rest --> scan --> read what is new, drop what is gone --> rest --> ...
//!                                          '------------- terms: it is its turn -------------------------------.
//! fence, scan --> read what is new or was never sealed, drop what is gone (`loading`) --> serves <-------------'
//! ```
//! Nothing is fenced before the terms come, so nobody is disturbed: reads pass no fence, and a sealed chunk never
//! changes. What was read of a stripe stays true as long as the stripe exists, so what is left to do at the hand-over
//! grows with what changed in the last round, not with what is stored.
//!
//! The census of the last round, under the fence, decides as at any take-over. A stripe of the picture that it does not
//! show as sealed everywhere and readable, or a manifest that it shows to be void, ends the picture as a whole: then
//! everything is read anew. That is slow and right; it takes the loss of a node's memory at just that time, or a stripe
//! that only some members have freed. So does a floor of which no record is left: its owner may have given it up.
//!
//! An owner that has its terms, and follows one that died, *reads ahead*: it does the same for as long as nodes let
//! nobody in, as they promised the one before. It has asked for the fences already. This ends with the first that is
//! given, or is to be asked for again.
//!
//! Must not know: when the terms come, what nodes promised.

use shorttail_units::StripeId;

use super::census::{Census, Seat};
use super::loading::{Loading, Verdict};
use super::picture::Picture;
use super::recovery::Gathering;
use crate::engine::sessions::nodes::NodePhase;
use crate::engine::{Engine, Phase};

/// Microseconds between the end of a round and the next one: what is written meanwhile is read at the hand-over.
const REST_US: u64 = 200_000;

#[derive(Debug, Default)]
pub struct Preparing {
    /// A round was completed.
    pub is_prepared: bool,
    /// Between two rounds.
    rests_until_us: Option<u64>,
    /// Since when an owner reads ahead, or has known of the last promise; `None`: it is an heir, without terms.
    ahead_since_us: Option<u64>,
}

impl Engine {
    /// Instead of taking over at once the engine prepares until it is given terms. Called before anything else.
    pub fn prepare(&mut self) {
        self.preparing = Some(Preparing::default());
    }

    /// An earlier owner may be proven yet. Nothing, if nodes were met already.
    pub(super) fn read_ahead(&mut self) {
        let has_met = self.nodes.iter().any(|node| node.incarnation.is_some());
        if self.lease.config().is_some() && !has_met {
            self.preparing = Some(Preparing { ahead_since_us: Some(self.now.mono_us), ..Preparing::default() });
        }
    }

    /// Nodes that are late are waited for from now on, and not from when it began.
    pub(super) fn read_ahead_from_now(&mut self) {
        let now_us = self.now.mono_us;
        if let Some(since_us) = self.preparing.as_mut().and_then(|preparing| preparing.ahead_since_us.as_mut()) {
            *since_us = now_us;
        }
    }

    /// How many packed stripes were read in the last round: with one that prepared, those that changed.
    pub fn inherited_read(&self) -> usize {
        self.inherited_read
    }

    pub fn stripe_count(&self) -> usize {
        self.stripes.len()
    }

    /// Does it learn what nodes hold without a fence, as an heir or reading ahead?
    pub(in crate::engine) fn is_preparing(&self) -> bool {
        self.preparing.is_some()
    }

    /// Does it prepare while another owner serves?
    pub(in crate::engine) fn is_heir(&self) -> bool {
        self.preparing.as_ref().is_some_and(|preparing| preparing.ahead_since_us.is_none())
    }

    pub(in crate::engine) fn reads_ahead(&self) -> bool {
        self.preparing.as_ref().is_some_and(|preparing| preparing.ahead_since_us.is_some())
    }

    /// Is a round over and the next one not due? If it is due, it begins.
    pub(super) fn rests_between_rounds(&mut self) -> bool {
        let now_us = self.now.mono_us;
        let Some(preparing) = &mut self.preparing else { return false };
        let Some(until_us) = preparing.rests_until_us else { return false };
        if now_us < until_us {
            return true;
        }
        preparing.rests_until_us = None;
        self.ask_all_again();
        true
    }

    /// What could be read is read.
    pub(super) fn end_round(&mut self, mut picture: Picture, census: Census) {
        picture.settle();
        if !picture.do_floors_hold() {
            picture = Picture::new(self.config.data_count());
        }
        if let Some(preparing) = &mut self.preparing {
            (preparing.is_prepared, preparing.rests_until_us) = (true, Some(self.now.mono_us + REST_US));
        }
        self.begin_round(picture, census);
    }

    /// What nodes told stays: they are asked what changed since.
    fn begin_round(&mut self, picture: Picture, mut census: Census) {
        self.scan_round += 1;
        census.begin_round();
        self.phase = Phase::Gathering(Box::new(Gathering::new(self.now.mono_us, picture, census)));
    }

    /// The engine is the owner from now on, as far as the coordinator is concerned; or nodes let it in.
    pub(in crate::engine) fn end_preparing(&mut self) {
        let Some(Preparing { ahead_since_us, .. }) = self.preparing.take() else { return };
        self.drop_gathering_fetches();
        let Phase::Gathering(gathering) = &mut self.phase else { return };
        let unread = gathering.picture.take();
        let picture = unread.or_else(|| gathering.loading.take().and_then(|loading| loading.into_parts().0));
        let mut picture = picture.unwrap_or_else(|| Picture::new(self.config.data_count()));
        picture.settle();
        let census = std::mem::take(&mut gathering.census);
        self.begin_round(picture, census);
        self.ask_all_again();
        if let Phase::Gathering(gathering) = &mut self.phase {
            // An heir has sessions with all that are alive.
            (gathering.was_prepared, gathering.is_brief) = (true, ahead_since_us.is_none());
            gathering.started_us = ahead_since_us.unwrap_or(gathering.started_us);
        }
    }

    /// Every node that was greeted is asked again what it holds; under a fence, if this is the owner. Those that let
    /// nobody in yet are asked in their time.
    fn ask_all_again(&mut self) {
        let (now_us, is_preparing) = (self.now.mono_us, self.is_preparing());
        if let Phase::Gathering(gathering) = &mut self.phase {
            gathering.started_us = now_us;
        }
        let mut sessions = Vec::new();
        for node in self.nodes.iter_mut() {
            if node.phase != NodePhase::Away {
                node.phase = NodePhase::Greeting;
            }
            for (id, session) in node.sessions_by_id_mut() {
                session.greeted = false;
                let lets_in = session.fence_due_us.is_none_or(|due_us| due_us <= now_us);
                if session.incarnation.is_some() && (is_preparing || lets_in) {
                    sessions.push(id);
                }
            }
        }
        for id in sessions {
            match is_preparing {
                true => self.scan(id),
                false => self.fence(id),
            }
        }
    }

    /// Does the census show a stripe to be sealed by all of its members, but those that are away?
    pub(super) fn is_settled(&self, stripe: StripeId) -> bool {
        let Some(census) = self.census() else { return false };
        let Some((_, members)) = census.members_of(stripe) else { return false };
        let is_away = |node: &&_| !self.nodes.is_ready(**node);
        let away = members.iter().filter(is_away).count();
        let sealed = census.intact(stripe).filter(|(node, report)| report.sealed && members.contains(node)).count();
        away <= self.config.tolerance() && sealed + away >= members.len()
    }

    /// Takes out of the picture what is gone. Under the fence: the picture as it still holds, or an empty one.
    pub(super) fn bring_up_to_date(&mut self, mut picture: Picture) -> Picture {
        let Some(touched) = self.census_mut().map(Census::take_touched) else { return picture };
        let Some(census) = self.census() else { return picture };
        for stripe in touched.into_iter().filter(|&stripe| picture.has(stripe)).collect::<Vec<_>>() {
            match census.members_of(stripe) {
                None => picture.drop_stripe(stripe),
                Some((configuration, members)) => picture.move_stripe(stripe, configuration, members.into()),
            }
        }
        picture.settle();
        if self.is_preparing() || self.does_hold(&picture) {
            return picture;
        }
        tracing::warn!("what was prepared does not hold any more: everything is read anew");
        Picture::new(self.config.data_count())
    }

    /// Now that everything is read: does every manifest make an object that was taken without a look at its pieces? Is
    /// every floor still there that something was left out for?
    pub(super) fn does_all_hold(&mut self) -> bool {
        let Phase::Gathering(gathering) = &mut self.phase else { return true };
        if !gathering.was_prepared {
            return true;
        }
        if let Some(picture) = gathering.loading.as_mut().and_then(Loading::picture_mut) {
            picture.settle();
        }
        let Phase::Gathering(gathering) = &self.phase else { return true };
        let Some(picture) = gathering.loading.as_ref().and_then(Loading::picture) else { return true };
        picture.do_floors_hold()
            && picture.striped().all(|found| !self.is_void_manifest(found.partition, &found.manifest))
    }

    /// Begins with an empty picture and the census that is there.
    pub(super) fn read_all_anew(&mut self) {
        tracing::warn!("what was prepared does not hold: everything is read anew");
        let picture = Picture::new(self.config.data_count());
        if let Phase::Gathering(gathering) = &mut self.phase {
            (gathering.loading, gathering.picture, gathering.was_prepared) = (None, Some(picture), false);
        }
    }

    fn does_hold(&self, picture: &Picture) -> bool {
        let is_readable = |stripe: StripeId| {
            let Some(census) = self.census() else { return false };
            let Some((partition, nodes)) =
                census.newest(stripe).map(|newest| newest.partition).zip(census.members_of(stripe).map(|of| of.1))
            else {
                return false;
            };
            let members: Vec<_> = nodes
                .iter()
                .enumerate()
                .map(|(chunk, &node)| self.member(Seat { node, stripe, chunk }, partition))
                .collect();
            self.weigh(stripe, &members) == Verdict::Enough && self.looks_sealed(stripe, &nodes, &members)
        };
        picture.stripe_ids().into_iter().all(is_readable)
    }
}

#[cfg(test)]
mod tests {
    use shorttail_units::{Incarnation, NodeId, Now};

    use super::*;
    use crate::engine::Terms;
    use crate::engine::limits::FENCE_AGAIN_US;
    use crate::engine::sessions::nodes::SessionId;
    use crate::engine::state::testing::{engine_of_one_node, hello_of_life};
    use crate::engine::takeover::lease::{Lease, LeaseConfig, Voter};

    const ID: SessionId = SessionId { node: NodeId(0), core: 0 };

    /// Who follows an owner to which a life of the node may have promised something; it greeted this life.
    fn follower(incarnation: u64) -> Engine {
        let mut engine = engine_of_one_node();
        engine.lease = Lease::new(Some(LeaseConfig::USUAL), 0);
        engine.nodes.session_mut(ID).expect("a session").connected = true;
        let voters = vec![Voter { node: NodeId(0), incarnation: Incarnation(1) }];
        engine.handle_terms(Now::default(), Terms { before: vec![voters.clone()], voters });
        engine.greeted(ID, &hello_of_life(incarnation));
        assert!(engine.reads_ahead());
        engine
    }

    fn reads_ahead_at(engine: &mut Engine, mono_us: u64) -> bool {
        engine.set_now(Now { mono_us, ..Now::default() });
        engine.advance_ownership();
        engine.reads_ahead()
    }

    #[test]
    fn reading_ahead_ends_when_a_promise_does() {
        let mut engine = follower(1);
        engine.fence_leased(ID, 700);
        assert_eq!([699, 700].map(|now_us| reads_ahead_at(&mut engine, now_us)), [true, false]);
    }

    /// Nothing else would ask for it, as the node is in use by then.
    #[test]
    fn who_reads_ahead_asks_again_for_a_fence_without_an_answer() {
        let mut engine = follower(1);
        engine.greeting_refused(ID, None);
        assert_eq!([0, FENCE_AGAIN_US].map(|now_us| reads_ahead_at(&mut engine, now_us)), [true, false]);
        let mut engine = follower(1);
        engine.nodes.session_mut(ID).expect("a session").connected = false;
        engine.greeting_refused(ID, None);
        assert!(reads_ahead_at(&mut engine, FENCE_AGAIN_US), "it is greeted anew");
    }

    /// It may not be fenced yet.
    #[test]
    fn a_life_that_no_terms_name_ends_nothing() {
        let mut engine = follower(2);
        assert!((1..10).all(|turn| reads_ahead_at(&mut engine, turn * FENCE_AGAIN_US)));
    }

    #[test]
    fn late_nodes_are_waited_for_from_the_last_promise_on() {
        let mut engine = follower(1);
        assert!(reads_ahead_at(&mut engine, 5_000));
        engine.fence_leased(ID, 700);
        assert!(!reads_ahead_at(&mut engine, 5_700));
        let Phase::Gathering(gathering) = &engine.phase else { panic!("it serves") };
        assert_eq!((gathering.started_us, gathering.is_brief), (5_000, false));
    }
}

//! Is this owner's word good? What nodes promised it, and for how long (rule R2).
//!
//! ```text
//! sent Renew    answered                                         promise ends at the node, at the earliest
//!   |              |                                                          |
//!   '--------------+-- proven, if m+1 voters answered -----------|-- margin --|
//! ```
//! A voter is one life of a node's memory. An owner is *proven* while one voter more promised than may be missing when
//! others are accepted; *accepted* by a set of voters when all but at most `m` of them are fenced by its epoch, core
//! for core. Any two such sets share a voter, so nobody else is accepted while an owner is proven.
//!
//! A voter whose node came back with a later memory is dead: what it promised ends one lease later, and from then on it
//! counts as fenced.
//!
//! Must not know: sessions, requests, replies.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use shorttail_units::{Incarnation, NodeId};
pub use shorttail_wire::control::Voter;

/// How long a node keeps a promise. The same for all owners of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseConfig {
    /// Microseconds for which a node promises, counted by it from when it was asked.
    pub lease_us: u64,
    /// By how much sooner the owner stops to rely on the promise: clocks run apart, and a reply takes
    /// a moment to leave.
    pub margin_us: u64,
}

impl LeaseConfig {
    /// What gateways use, and what is simulated. A gateway's death costs the lease at most, beside its detection and
    /// the take-over. The margin is a tenth: clocks run apart by a percent at most, the rest is for what is done
    /// between looking at the clock and answering.
    pub const USUAL: Self = LeaseConfig { lease_us: 1_000_000, margin_us: 100_000 };
    /// Renewals a lease: some may be late.
    const RENEWALS: u64 = 4;

    pub fn renew_every_us(&self) -> u64 {
        self.lease_us / Self::RENEWALS
    }
}

/// Those that decide together.
pub type VoterSet = Vec<Voter>;

/// What the coordinator decided about a tenure.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Terms {
    /// By whom the owner proves itself.
    pub voters: VoterSet,
    /// By whom earlier owners may prove themselves: each set has to accept this epoch before it serves.
    pub before: Vec<VoterSet>,
}

/// What is known of a node.
#[derive(Clone, Copy, Debug)]
struct Known {
    incarnation: Incarnation,
    /// Since when this memory is known: the one before it is dead.
    since_us: u64,
    is_fenced: bool,
    /// When the last renewal was sent that it answered.
    promised_us: Option<u64>,
}

#[derive(Debug)]
pub(in crate::engine) struct Lease {
    config: Option<LeaseConfig>,
    /// How many of a set of voters may be missing.
    tolerance: usize,
    in_use: VoterSet,
    /// These take their place once the owner is proven by them too.
    next: Option<VoterSet>,
    before: Vec<VoterSet>,
    nodes: BTreeMap<NodeId, Known>,
    proven_until_us: u64,
}

impl Lease {
    pub fn new(config: Option<LeaseConfig>, tolerance: usize) -> Self {
        let proven_until_us = if config.is_none() { u64::MAX } else { 0 };
        Lease {
            config,
            tolerance,
            in_use: Vec::new(),
            next: None,
            before: Vec::new(),
            nodes: BTreeMap::new(),
            proven_until_us,
        }
    }

    pub fn config(&self) -> Option<LeaseConfig> {
        self.config
    }

    pub fn in_use(&self) -> &VoterSet {
        &self.in_use
    }

    pub fn set_terms(&mut self, terms: Terms, now_us: u64) {
        self.before = terms.before;
        if self.in_use.is_empty() {
            self.in_use = terms.voters;
        } else {
            self.next = (terms.voters != self.in_use).then_some(terms.voters);
        }
        self.prove(now_us);
    }

    /// A node was greeted: this is its memory now.
    pub fn greeted(&mut self, voter: Voter, now_us: u64) {
        let known = Known { incarnation: voter.incarnation, since_us: now_us, is_fenced: false, promised_us: None };
        let entry = self.nodes.entry(voter.node).or_insert(known);
        if entry.incarnation != voter.incarnation {
            *entry = known;
        }
    }

    /// May a life of a node be fenced? One that begins while this owner is not proven may be the next of a life that a
    /// later owner used: whoever fences it first says since when it has been there, and an owner that knows nothing of
    /// the later one would say too early a time (see `census`). One that the terms name began before there was a later
    /// owner.
    pub fn may_fence(&self, voter: Voter, now_us: u64) -> bool {
        let mut named = self.before.iter().chain(&self.next).chain([&self.in_use]);
        let known = self.nodes.get(&voter.node).filter(|known| known.incarnation == voter.incarnation);
        let is_fenced = known.is_some_and(|known| known.is_fenced);
        is_fenced || now_us < self.proven_until_us || named.any(|set| set.contains(&voter))
    }

    /// Every core of the node is fenced.
    pub fn fenced(&mut self, voter: Voter) {
        if let Some(known) = self.known_mut(voter) {
            known.is_fenced = true;
        }
    }

    /// A renewal that was sent then was answered with a promise.
    pub fn promised(&mut self, voter: Voter, sent_us: u64, now_us: u64) {
        if let Some(known) = self.known_mut(voter) {
            known.promised_us = known.promised_us.max(Some(sent_us));
            self.prove(now_us);
        }
    }

    /// From now on nothing is proven: the partitions are handed over.
    pub fn end(&mut self) {
        self.nodes.values_mut().for_each(|known| known.promised_us = None);
        self.proven_until_us = 0;
    }

    fn known_mut(&mut self, voter: Voter) -> Option<&mut Known> {
        self.nodes.get_mut(&voter.node).filter(|known| known.incarnation == voter.incarnation)
    }

    fn prove(&mut self, now_us: u64) {
        let Some(config) = self.config else { return };
        self.proven_until_us = self.proven_until(&self.in_use, config);
        if let Some(next) = &self.next {
            let until_us = self.proven_until(next, config);
            if until_us > now_us {
                self.in_use = self.next.take().unwrap_or_default();
                self.proven_until_us = until_us;
            }
        }
    }

    fn proven_until(&self, voters: &VoterSet, config: LeaseConfig) -> u64 {
        let promised = |voter: &Voter| {
            let known = self.nodes.get(&voter.node).filter(|known| known.incarnation == voter.incarnation);
            known.and_then(|known| known.promised_us)
        };
        let mut sent: Vec<u64> = voters.iter().filter_map(promised).collect();
        sent.sort_unstable_by(|one, other| other.cmp(one));
        sent.get(self.tolerance).map_or(0, |sent_us| sent_us + config.lease_us.saturating_sub(config.margin_us))
    }

    /// Until when the owner is proven: always, if there is no other gateway.
    pub fn proven_until_us(&self) -> u64 {
        self.proven_until_us
    }

    /// Did every set accept this epoch by which an earlier owner may be proven?
    pub fn is_accepted(&self, now_us: u64) -> bool {
        let Some(config) = self.config else { return true };
        let accepts = |voter: &&Voter| {
            let Some(known) = self.nodes.get(&voter.node) else { return false };
            match known.incarnation.cmp(&voter.incarnation) {
                Ordering::Equal => known.is_fenced,
                Ordering::Greater => now_us >= known.since_us + config.lease_us,
                // It is not met yet: what is known died before it, and says nothing of it.
                Ordering::Less => false,
            }
        };
        let is_enough = |set: &VoterSet| set.iter().filter(accepts).count() + self.tolerance >= set.len();
        self.before.iter().all(is_enough)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: LeaseConfig = LeaseConfig { lease_us: 1_000, margin_us: 100 };

    fn voter(node: u16, incarnation: u64) -> Voter {
        Voter { node: NodeId(node), incarnation: Incarnation(incarnation) }
    }

    fn voters(nodes: std::ops::Range<u16>) -> VoterSet {
        nodes.map(|node| voter(node, 1)).collect()
    }

    /// Five voters, all greeted; one of them may be missing.
    fn lease(before: Vec<VoterSet>) -> Lease {
        let mut lease = Lease::new(Some(LEASE), 1);
        lease.set_terms(Terms { voters: voters(0..5), before }, 0);
        voters(0..5).into_iter().for_each(|voter| lease.greeted(voter, 0));
        lease
    }

    #[test]
    fn without_other_gateways_everything_is_proven() {
        let lease = Lease::new(None, 2);
        assert!(lease.is_accepted(0) && lease.proven_until_us() == u64::MAX);
    }

    #[test]
    fn an_owner_is_proven_by_one_voter_more_than_may_be_missing() {
        let mut lease = lease(Vec::new());
        assert_eq!(lease.proven_until_us(), 0);
        lease.promised(voter(0, 1), 500, 510);
        assert_eq!(lease.proven_until_us(), 0, "one is not enough");
        lease.promised(voter(1, 1), 300, 510);
        assert_eq!(lease.proven_until_us(), 300 + 900, "from when the older one was sent");
        lease.promised(voter(2, 1), 400, 510);
        assert_eq!(lease.proven_until_us(), 400 + 900);
        lease.promised(voter(2, 1), 200, 510);
        assert_eq!(lease.proven_until_us(), 400 + 900, "an answer that comes late takes nothing back");
    }

    #[test]
    fn who_is_no_voter_or_has_another_memory_proves_nothing() {
        let mut lease = lease(Vec::new());
        lease.promised(voter(0, 1), 500, 510);
        lease.greeted(voter(7, 1), 500);
        lease.promised(voter(7, 1), 500, 510);
        lease.promised(voter(1, 2), 500, 510);
        assert_eq!(lease.proven_until_us(), 0);
        lease.promised(voter(1, 1), 500, 510);
        assert_eq!(lease.proven_until_us(), 1_400);
        lease.greeted(voter(1, 2), 600);
        lease.promised(voter(2, 1), 300, 610);
        assert_eq!(lease.proven_until_us(), 1_200, "what a dead memory promised counts no more");
    }

    #[test]
    fn new_voters_count_once_they_prove_the_owner_too() {
        let mut lease = lease(Vec::new());
        [0, 1].into_iter().for_each(|node| lease.promised(voter(node, 1), 500, 500));
        let next: VoterSet = vec![voter(1, 1), voter(2, 1), voter(9, 4)];
        lease.set_terms(Terms { voters: next.clone(), before: Vec::new() }, 510);
        assert_eq!((lease.in_use(), lease.proven_until_us()), (&voters(0..5), 1_400));
        lease.greeted(voter(9, 4), 520);
        lease.promised(voter(9, 4), 600, 610);
        assert_eq!((lease.in_use(), lease.proven_until_us()), (&next, 1_400));
        lease.promised(voter(0, 1), 900, 910);
        assert_eq!(lease.proven_until_us(), 1_400, "the old ones are out");
    }

    #[test]
    fn all_but_those_that_may_be_missing_have_to_accept_in_every_set() {
        let mut lease = lease(vec![voters(0..5), voters(3..6)]);
        (0..3).for_each(|node| lease.fenced(voter(node, 1)));
        assert!(!lease.is_accepted(10));
        lease.fenced(voter(3, 1));
        assert!(!lease.is_accepted(10), "four of the first set, one of three of the second");
        lease.fenced(voter(4, 1));
        assert!(lease.is_accepted(10));
    }

    #[test]
    fn a_dead_voter_accepts_when_what_it_promised_has_ended() {
        let mut lease = lease(vec![voters(0..3)]);
        lease.fenced(voter(0, 1));
        lease.greeted(voter(1, 2), 700);
        lease.fenced(voter(1, 2));
        assert!(!lease.is_accepted(1_699));
        assert!(lease.is_accepted(1_700));
    }

    /// The coordinator tells of it before the node's connection does.
    #[test]
    fn a_voter_that_is_not_met_yet_is_not_taken_for_a_dead_one() {
        let mut lease = Lease::new(Some(LEASE), 1);
        lease.greeted(voter(1, 1), 0);
        lease.greeted(voter(0, 1), 0);
        lease.set_terms(Terms { voters: voters(0..3), before: vec![vec![voter(0, 1), voter(1, 2), voter(2, 1)]] }, 0);
        lease.fenced(voter(0, 1));
        assert!([0, 1_000, u64::MAX].iter().all(|&now_us| !lease.is_accepted(now_us)));
        lease.greeted(voter(1, 2), 5_000);
        assert!(!lease.is_accepted(u64::MAX), "it may be promised to another");
        lease.fenced(voter(1, 2));
        assert!(lease.is_accepted(5_000));
    }

    #[test]
    fn a_life_that_began_while_the_owner_was_not_proven_is_not_fenced_before_it_is_named() {
        let mut lease = lease(vec![vec![voter(7, 3)]]);
        assert!(lease.may_fence(voter(1, 1), 0) && lease.may_fence(voter(7, 3), 0), "the terms name them");
        let may_fence_later = |lease: &Lease, now_us| lease.may_fence(voter(1, 2), now_us);
        assert!(!may_fence_later(&lease, 0));
        [0, 2].into_iter().for_each(|node| lease.promised(voter(node, 1), 500, 500));
        assert!(may_fence_later(&lease, 1_399) && !may_fence_later(&lease, 1_400), "while it is proven");
        lease.set_terms(Terms { voters: vec![voter(0, 1), voter(1, 2)], before: Vec::new() }, 1_500);
        assert!(may_fence_later(&lease, 1_500) && lease.may_fence(voter(1, 1), 1_500));
        lease.greeted(voter(8, 1), 1_600);
        lease.fenced(voter(8, 1));
        assert!(lease.may_fence(voter(8, 1), 1_600), "greeted again");
        assert!(!lease.may_fence(voter(8, 2), 1_600));
        assert!(Lease::new(None, 1).may_fence(voter(8, 2), u64::MAX - 1));
    }

    #[test]
    fn what_was_handed_over_is_proven_no_more() {
        let mut lease = lease(Vec::new());
        [0, 1].into_iter().for_each(|node| lease.promised(voter(node, 1), 500, 500));
        lease.end();
        lease.promised(voter(3, 1), 500, 500);
        assert_eq!(lease.proven_until_us(), 0);
    }
}

//! What must hold after every event; checked in tests and in the simulator.

use std::collections::HashMap;

use super::index::StripeSlot;
use super::limits::OPEN_MAX;
use super::stripes::StripePhase;
use crate::engine::Engine;
use crate::engine::repair::queue::Reparable;

impl Engine {
    /// # Panics
    /// When a claim does not hold.
    pub fn check_invariants(&self) {
        self.invariant_index_names_existing_stripes();
        self.invariant_only_the_confirmed_prefix_is_stable();
        self.invariant_unsealed_stripes_keep_their_bytes();
        self.invariant_members_are_distinct();
        self.invariant_the_log_knows_its_open_stripes();
        self.invariant_values_under_way_have_room();
        self.invariant_who_is_to_free_holds_nothing_that_counts();
        self.repair.check_invariants();
        let number_of = |stripe| match self.reparable(stripe) {
            Reparable::Whole(facts) => Some(facts.configuration),
            Reparable::NotYet | Reparable::Over => None,
        };
        self.moves.check_invariants(|stripe| self.repair.orders.contains(stripe), number_of);
    }

    fn invariant_index_names_existing_stripes(&self) {
        self.index.check_invariants();
        let mut counts: HashMap<StripeSlot, u32> = HashMap::new();
        for location in self.index.locations() {
            let (slot, _) = self.stripes.place_of(location);
            assert!(self.stripes.get(slot).is_some(), "the index names a stripe that is gone");
            *counts.entry(slot).or_default() += 1;
        }
        for (slot, stripe) in self.stripes.iter() {
            assert_eq!(stripe.live_count, counts.get(&slot).copied().unwrap_or(0), "live objects of {:?}", stripe.id);
        }
    }

    /// Rule R11: a free that is repeated cannot hit what was ordered after it.
    fn invariant_who_is_to_free_holds_nothing_that_counts(&self) {
        for (node, stripe) in self.pending_frees() {
            let Reparable::Whole(facts) = self.reparable(stripe) else { continue };
            assert!(!facts.members.contains(&node), "{node} is to free its chunk of {stripe:?}");
            assert!(!self.is_moving_to(stripe, node), "{node} is to free {stripe:?}, which moves there");
        }
    }

    /// What is read takes no more than there is room for, unless it is one value.
    fn invariant_values_under_way_have_room(&self) {
        let bytes: usize = self.striped_reads.iter().map(|(_, read)| read.value_bytes()).sum();
        let count = self.striped_reads.iter().count();
        assert!(bytes <= self.config.read_bytes_max || count == 1, "{count} values of {bytes} bytes are read at once");
    }

    /// Rule R1.
    fn invariant_only_the_confirmed_prefix_is_stable(&self) {
        for (_, stripe) in self.stripes.iter().filter(|(_, stripe)| stripe.is_unsealed()) {
            let open = stripe.bytes();
            open.invariant_only_the_confirmed_prefix_is_stable();
        }
    }

    /// Rule R5: until every member confirmed the seal the owner keeps all bytes.
    fn invariant_unsealed_stripes_keep_their_bytes(&self) {
        for (_, stripe) in self.stripes.iter() {
            assert!(stripe.open.is_some() || !stripe.is_unsealed(), "{:?} lost its bytes", stripe.id);
            assert!(stripe.open.is_none() || stripe.phase() != StripePhase::Sealed, "{:?} kept bytes", stripe.id);
        }
    }

    fn invariant_members_are_distinct(&self) {
        for (_, stripe) in self.stripes.iter() {
            let mut members = stripe.members.to_vec();
            members.sort_unstable();
            members.dedup();
            assert_eq!(members.len(), self.config.member_count(), "members of {:?}", stripe.id);
        }
    }

    /// Few stripes of a partition take appends, and the log knows which, oldest first.
    fn invariant_the_log_knows_its_open_stripes(&self) {
        for (slot, stripe) in self.stripes.iter().filter(|(_, stripe)| stripe.phase() == StripePhase::Open) {
            let log = self.logs.get(&stripe.partition).expect("a partition of this core");
            assert!(log.open.contains(&slot), "{:?} is open beside the log's own", stripe.id);
            assert!(stripe.reach >= stripe.id && stripe.reach <= log.newest, "reach of {:?}", stripe.id);
        }
        for log in self.logs.values() {
            assert!(log.open.len() <= OPEN_MAX, "{} stripes are open", log.open.len());
            let ids: Vec<_> = log.open.iter().map(|&slot| self.stripes.at(slot).id).collect();
            assert!(ids.is_sorted(), "{ids:?}");
        }
    }
}

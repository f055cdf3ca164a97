//! Stripes that cannot be read, as more of their chunks are lost or away than the code survives: nothing is begun on
//! them, and a job that finds its stripe to be one leaves its place to another.
//!
//! ```text
//! choice of a stripe -- readable, or nothing in it is needed --> job --a chunk cannot be read--> parked
//!                    '- else: not now                             ^------ every half second -------'
//! ```
//! What is in them stays named by the index: reads of it are errors, until enough nodes are back or it is written anew.
//!
//! Must not know: why a stripe is to be emptied.

use std::collections::BTreeMap;

use shorttail_codes::Code;
use shorttail_units::{PartitionId, StripeId};
use smallvec::SmallVec;

use crate::engine::Engine;
use crate::engine::limits::{JOB_RETRY_US, SHARE_LOOKS_MAX};
use crate::engine::state::index::StripeSlot;
use crate::engine::state::stripes::{Stripe, StripePhase};
use crate::engine::write::log::Purpose;

/// By what it is told whether stripes can be read: made once for many of them.
pub(super) struct Sight {
    code: Code,
    /// Every node is there and nothing is lost.
    is_all_there: bool,
    /// Stripes whose jobs wait for locks.
    stuck: SmallVec<[StripeSlot; 4]>,
}

/// Where the stripes of partitions begin that can be read, as of some time ago.
#[derive(Debug, Default)]
pub struct PassedOver {
    next: BTreeMap<PartitionId, StripeId>,
    /// Then it is looked anew.
    until_us: u64,
}

impl Engine {
    pub(super) fn sight(&mut self) -> Sight {
        let is_all_there = !self.repair.lacks_any() && self.nodes.iter().all(|node| self.nodes.is_reachable(node.id));
        Sight { code: self.codes.get(self.config.shape), is_all_there, stuck: self.stripes_stuck().collect() }
    }

    /// Can all of a packed stripe be read that it holds, or is nothing in it needed?
    pub(super) fn can_be_emptied(&self, sight: &Sight, stripe: &Stripe<Purpose>) -> bool {
        sight.is_all_there || self.is_readable(sight, stripe) || self.is_void_anyway(stripe)
    }

    /// What of the stripe is not alive and has to be kept all the same.
    pub(super) fn needed_bytes(&self, stripe: &Stripe<Purpose>) -> u64 {
        let partition = stripe.partition;
        stripe.kept.needed_bytes(self.oldest_beside(partition, stripe.id), self.first_order(partition))
    }

    /// Nothing in the stripe is alive or kept. What is outlived may be another key's (see `outlived`).
    pub(in crate::engine) fn is_void_anyway(&self, stripe: &Stripe<Purpose>) -> bool {
        let is_dead = stripe.live_count == 0 && !self.outlived.holds(stripe.id);
        is_dead && self.needed_bytes(stripe) == 0
    }

    fn is_readable(&self, sight: &Sight, stripe: &Stripe<Purpose>) -> bool {
        if stripe.open.is_some() {
            return true;
        }
        let away = stripe.members.iter().enumerate().filter(|&(_, &node)| !self.nodes.is_reachable(node));
        let without = self.repair.lacks(stripe.id) | away.map(|(chunk, _)| chunk).collect();
        if without.len() <= self.config.tolerance() {
            return true;
        }
        let is_there = |chunk: usize| !without.contains(chunk);
        let filled = stripe.fills.iter().enumerate().filter(|&(_, &fill)| fill > 0);
        filled.map(|(chunk, _)| chunk).all(|chunk| sight.code.read_plan(chunk, &is_there).is_ok())
    }

    /// The oldest stripe of a partition that can be emptied, or is being. Older ones that cannot be read, or whose jobs
    /// wait for locks, are passed over, some at a time.
    pub(super) fn oldest_in_sight(&mut self, sight: &Sight, partition: PartitionId) -> Option<(StripeId, StripeSlot)> {
        if self.now.mono_us >= self.passed_over.until_us {
            // They may be readable by now.
            self.passed_over = PassedOver { until_us: self.now.mono_us + JOB_RETRY_US, next: BTreeMap::new() };
        }
        let from = self.passed_over.next.get(&partition).copied().unwrap_or_default();
        let (mut next, mut are_unreadable) = (from, true);
        let mut looked_at = self.stripes.by_age_from(partition, from).take(SHARE_LOOKS_MAX);
        let found = looked_at.find(|&(id, slot)| {
            let can_be_emptied = self.can_be_emptied(sight, self.stripes.at(slot));
            // What is stuck may go on in a moment.
            if are_unreadable {
                next = if can_be_emptied { id } else { id.plus(1) };
            }
            are_unreadable &= !can_be_emptied;
            can_be_emptied && !sight.stuck.contains(&slot)
        });
        if next != from {
            self.passed_over.next.insert(partition, next);
        }
        found
    }

    /// As [`Engine::oldest_in_sight`], if it is sealed.
    pub(super) fn oldest_to_evict(&mut self, sight: &Sight, partition: PartitionId) -> Option<(StripeId, StripeSlot)> {
        let oldest = self.oldest_in_sight(sight, partition);
        oldest.filter(|&(id, slot)| self.stripes.at(slot).phase() == StripePhase::Sealed && !self.is_held_back(id))
    }
}

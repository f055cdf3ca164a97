//! Losses of which nobody may tell: more memory went than the code survives while no owner was there that knew what it
//! held.
//!
//! An owner that lives knows what it lost, and its clients get errors. The next one knows what nodes tell it: a stripe
//! of which every chunk is gone leaves no trace, and what was in it is answered as absent. So that is remembered here,
//! by partition, until the operator acknowledges it.
//!
//! ```text
//! tenure ends --its sets of voters--> `stored_on` of those that follow --one serves: more than m lives of a set are gone?--.
//!   '--its owner told, while it served, that a stripe lost more than m chunks: `lost`--------------------> lossy partitions
//! ```
//! What an owner tells is kept with its tenure at once: its gateway may be forgotten before the tenure ends, or the
//! coordinator begin anew. It is no loss of the partition before: what is stored anew, or deleted, is not missed. What
//! goes while an owner serves it rebuilds, and lives that went are its voters no more: they are not counted here.
//!
//! Must not know: stripes.

use std::collections::BTreeMap;

use crate::coordinator::Coordinator;
use crate::durable::{Durable, DurableNode, DurableTenure, DurableVoter};
use crate::tenures::Tenures;

impl Coordinator {
    /// Partitions whose losses are remembered.
    pub(crate) fn lossy_count(&self) -> u16 {
        self.durable.lossy.len() as u16
    }

    /// In words, if there are such.
    pub(crate) fn lossy_problem(&self) -> Option<String> {
        let lossy = &self.durable.lossy;
        let (count, all, code) = (lossy.len(), self.settings.partition_count, self.settings.code);
        let nodes = lossy.values().max()?;
        Some(format!(
            "{count} of {all} partitions were taken over when {nodes} nodes had lost the memory that they were stored in, and \
             {code} survives the loss of {}: what was acknowledged may be gone, and is absent where nothing is left to \
             tell of it; `shorttail acknowledge` ends this line",
            code.tolerance()
        ))
    }

    /// The operator knows what may be gone.
    ///
    /// # Errors
    /// Nothing is remembered.
    pub(crate) fn acknowledge_losses(&mut self) -> Result<String, String> {
        let count = std::mem::take(&mut self.durable.lossy).len();
        if count == 0 {
            return Err(match self.has_unreadable_stripes() {
                true => "nothing to acknowledge: keys that cannot be read stay errors until they are written again or flushed",
                false => "no loss is known that is not acknowledged",
            }
            .into());
        }
        self.persist();
        Ok(format!("the losses of {count} partition(s) are acknowledged"))
    }

    /// A gateway told how many chunks some stripe lost. Of what lets go it may count no more.
    pub(crate) fn note_told_losses(&mut self, id: u16) {
        let owner = &self.gateways[&id];
        let life = owner.registration.life;
        let lost = u16::try_from(owner.status.totals.lost_of_stripe_max).unwrap_or(u16::MAX);
        let lost = if usize::from(lost) > self.settings.code.tolerance() { lost } else { 0 };
        let (tenures, plan) = (&self.tenures, &self.tenures.hand_over);
        let counts = |epoch: u32| tenures.serves(epoch) && plan.as_ref().is_none_or(|plan| !plan.is_ordered(epoch));
        let mut changed = false;
        for (&epoch, tenure) in &mut self.durable.tenures {
            if (tenure.gateway, tenure.gateway_life) != (id, life) || !tenures.has_served(epoch) {
                continue;
            }
            let lost = if counts(epoch) { lost } else { lost.max(tenure.lost) };
            changed |= std::mem::replace(&mut tenure.lost, lost) != lost;
        }
        if changed {
            self.persist();
        }
    }

    /// These tenures end: what their owners knew to be lost the next ones may not find.
    pub(crate) fn note_known_losses(&mut self, ended: &[u32]) {
        let Durable { tenures, lossy, .. } = &mut self.durable;
        for tenure in ended.iter().map(|epoch| &tenures[epoch]).filter(|tenure| tenure.lost > 0) {
            remember(lossy, &tenure.partitions, usize::from(tenure.lost));
        }
    }

    /// Tenures that serve have read what was left.
    pub(crate) fn note_losses_met(&mut self) {
        let Durable { nodes, tenures, lossy, .. } = &mut self.durable;
        let mut changed = false;
        for (epoch, tenure) in tenures {
            if tenure.stored_on.is_empty() || !self.tenures.has_served(*epoch) {
                continue;
            }
            let sets = std::mem::take(&mut tenure.stored_on);
            let lost = sets.iter().map(|set| gone_of(set, nodes)).max().unwrap_or(0);
            if lost > self.settings.code.tolerance() {
                remember(lossy, &tenure.partitions, lost);
            }
            changed = true;
        }
        if changed {
            self.persist();
        }
    }
}

/// In whose memory all that a tenure leaves is, if it left anything.
pub(crate) fn stored_on(epoch: u32, tenure: &DurableTenure, tenures: &Tenures) -> Vec<Vec<DurableVoter>> {
    match tenure.stored_on.is_empty() {
        // It has not read it: nothing that was lost before is made up for.
        false => tenure.stored_on.clone(),
        true if tenures.is_to_serve(epoch) => Vec::new(),
        true => tenure.voters.clone(),
    }
}

/// How many of these lives came to an end with what they held.
fn gone_of(set: &[DurableVoter], nodes: &BTreeMap<u16, DurableNode>) -> usize {
    let is_gone = |&&(id, life): &&DurableVoter| {
        nodes.get(&id).is_some_and(|node| node.incarnation > life || node.is_given_up(life))
    };
    set.iter().filter(is_gone).count()
}

fn remember(lossy: &mut BTreeMap<u16, u16>, partitions: &[u16], lost: usize) {
    let lost = u16::try_from(lost).unwrap_or(u16::MAX);
    for &partition in partitions {
        let known = lossy.entry(partition).or_default();
        *known = lost.max(*known);
    }
}

//! What an owner that took over has read, and cannot vouch for: the failures that are left to happen may take it away.
//!
//! ```text
//! read, held by too few --can be written--> written anew before anybody is served
//!                        '-- cannot: too few nodes, or no room --> in doubt: whoever asks is told so, the rest is served;
//!                                                                 written anew when it can be
//! ```
//! Whoever was shown such a record might find it gone with the next owner, and so might whoever was not (rule R10). A
//! record that is younger than what is in doubt is not.
//!
//! What it replaces may be all that was ever acknowledged of its key. So the stripe that holds that stays until the one
//! with what is in doubt is emptied, however little of it is alive. Of what a control record says nothing shows where it
//! matters: all stripes of its partition stay. The youngest can be emptied first, so that memory for one suffices.
//!
//! Must not know: why it cannot be written.

use std::collections::{BTreeMap, HashMap};

use shorttail_store::record::{Record, RecordKind};
use shorttail_units::{PartitionId, Slot, StripeId, Version};

use super::Engine;
use super::config::EngineConfig;
use super::log::Purpose;
use super::reconstruct::Content;
use super::stripes::Stripe;
use crate::command::Command;

/// The youngest of what is in doubt.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// By the keys' hashes.
    keys: HashMap<u64, Version>,
    /// What a control record says concerns any key.
    partitions: BTreeMap<PartitionId, Version>,
}

impl Doubts {
    /// Takes what is not certain of a stripe.
    pub fn take(&mut self, stripe: StripeId, partition: PartitionId, content: &Content, config: &EngineConfig) {
        for (chunk, &certain) in content.chunks.iter().zip(&content.certain_bytes) {
            let mut offset = certain;
            while let Ok((record, length)) = Record::parse(&chunk[offset..], stripe) {
                let doubted = match record.kind {
                    RecordKind::Control => self.partitions.entry(partition).or_default(),
                    _ => self.keys.entry(config.hash_of(record.key)).or_default(),
                };
                *doubted = record.version.max(*doubted);
                offset += length;
            }
        }
    }

    /// May there be something else of a key than a record of this version, or than nothing (`None`)?
    fn concern(&self, hash: u64, partition: PartitionId, found: Option<Version>) -> bool {
        let concerns = |doubted: &Version| found.is_none_or(|version| version <= *doubted);
        self.keys.get(&hash).is_some_and(concerns) || self.partitions.get(&partition).is_some_and(concerns)
    }

    fn concern_all(&self, partition: PartitionId) -> bool {
        self.partitions.contains_key(&partition)
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.partitions.is_empty()
    }
}

impl<C: Command> Engine<C> {
    /// May the next owner find something else of this key?
    pub(super) fn is_in_doubt(&self, hash: u64, slot: Slot, found: Option<Version>) -> bool {
        let doubts = self.completing.as_ref().map(|completing| &completing.doubts);
        doubts.is_some_and(|doubts| doubts.concern(hash, self.config.partition_of(slot), found))
    }

    /// Must a stripe stay, although nothing in it is alive? What replaces it is in doubt, and not written anew yet.
    pub(super) fn is_held_back(&self, id: StripeId) -> bool {
        let Some(completing) = &self.completing else { return false };
        let Some(held) = self.stripes.slot_of(id).map(|slot| self.stripes.at(slot)) else { return false };
        if id.epoch() == self.config.epoch {
            return false;
        }
        let may_be_all_there_is = |by: &Stripe<Purpose>| match completing.doubts.concern_all(held.partition) {
            true => true,
            false => completing.shadowed.contains(&id) && id <= by.reach,
        };
        let uncertain = completing.uncertain.iter().filter(|&&other| other != id && !self.voids.is_emptied(other));
        let mut uncertain = uncertain.filter_map(|&other| Some(self.stripes.at(self.stripes.slot_of(other)?)));
        uncertain.any(|by| by.partition == held.partition && may_be_all_there_is(by))
    }

    pub(super) fn has_doubts(&self) -> bool {
        self.completing.as_ref().is_some_and(|completing| !completing.doubts.is_empty())
    }
}

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
//! A record of which a copy lies elsewhere for certain, from where it was moved, is not in doubt either.
//!
//! What it replaces, or is a copy of, may be all that was ever acknowledged of its key. So the stripe that holds that
//! stays until the one with what is in doubt is emptied, however little of it is alive; the youngest can be emptied
//! first, so that memory for one suffices. Of what a control record says nothing shows where it matters: all other
//! stripes of its partition stay until the one that holds it is emptied, which is the first therefore.
//!
//! Must not know: why it cannot be written.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use shorttail_store::record::{Control, RecordKind, records};
use shorttail_units::{PartitionId, StripeId, Version};

use super::newest::KeyId;
use super::picture::Picture;
use super::reconstruct::Content;
use crate::engine::Engine;
use crate::engine::state::config::EngineConfig;
use crate::engine::state::index::HashedKey;
use crate::engine::state::stripes::Stripe;
use crate::engine::write::log::Purpose;

/// What is in doubt.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// By the keys' hashes, the youngest.
    keys: HashMap<u64, (KeyId, Version)>,
    /// What a control record says concerns any key.
    controls: BTreeMap<PartitionId, Vec<(Version, Option<Control>)>>,
    /// Stripes that hold such records, also those of which there are certain copies elsewhere.
    with_controls: BTreeSet<StripeId>,
}

impl Doubts {
    /// Takes what is not certain of a stripe.
    pub fn take(&mut self, stripe: StripeId, partition: PartitionId, content: &Content, config: &EngineConfig) {
        for (chunk, &certain) in content.chunks.iter().zip(&content.certain_bytes) {
            for (_, record, _) in records(&chunk[certain..], stripe) {
                if record.kind == RecordKind::Control {
                    let doubted = (record.version, Control::parse(record.value));
                    self.controls.entry(partition).or_default().push(doubted);
                    self.with_controls.insert(stripe);
                } else {
                    let key = KeyId::of(record.key, config);
                    let youngest = self.keys.entry(key.hash).or_insert((key, record.version));
                    youngest.1 = record.version.max(youngest.1);
                }
            }
        }
    }

    /// Once everything is read: what lies somewhere else for certain is not in doubt, only the copy of it.
    pub fn drop_copies(&mut self, picture: &Picture) {
        self.keys.retain(|_, &mut (key, version)| !picture.is_certain(key, version));
        self.controls.retain(|&partition, controls| {
            let is_said = |version, says| picture.is_said(partition, version, says);
            controls.retain(|&(version, says)| !says.is_some_and(|says| is_said(version, says)));
            !controls.is_empty()
        });
    }

    /// May there be something else of a key than a record of this version, or than nothing (`None`)?
    fn concern(&self, hash: u64, partition: PartitionId, found: Option<Version>) -> bool {
        let concerns = |doubted: Version| found.is_none_or(|version| version <= doubted);
        let mut controls = self.controls.get(&partition).into_iter().flatten();
        self.keys.get(&hash).is_some_and(|&(_, doubted)| concerns(doubted))
            || controls.any(|&(doubted, _)| concerns(doubted))
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.controls.is_empty()
    }
}

impl Engine {
    /// May the next owner find something else of this key?
    pub(in crate::engine) fn is_in_doubt(&self, key: HashedKey, found: Option<Version>) -> bool {
        let doubts = self.completing.as_ref().map(|completing| &completing.doubts);
        doubts.is_some_and(|doubts| doubts.concern(key.hash, self.config.partition_of(key.slot), found))
    }

    /// Must a stripe stay, although nothing in it is alive? What replaces it is in doubt, and not written anew yet.
    pub(in crate::engine) fn is_held_back(&self, id: StripeId) -> bool {
        let Some(completing) = &self.completing else { return false };
        let Some(held) = self.stripes.slot_of(id).map(|slot| self.stripes.at(slot)) else { return false };
        if id.epoch() == self.config.epoch {
            return false;
        }
        let may_be_all_there_is = |by: &Stripe<Purpose>| {
            let has_control = completing.doubts.with_controls.contains(&by.id);
            has_control || completing.shadowed.contains(&id) && id <= by.reach
        };
        let uncertain = completing.uncertain.iter().filter(|&&other| other != id && !self.voids.is_emptied(other));
        let mut uncertain = uncertain.filter_map(|&other| Some(self.stripes.at(self.stripes.slot_of(other)?)));
        uncertain.any(|by| by.partition == held.partition && may_be_all_there_is(by))
    }

    /// Is everybody kept waiting, or somebody refused, until the stripe is emptied?
    pub(in crate::engine) fn is_uncertain(&self, id: StripeId) -> bool {
        self.completing.as_ref().is_some_and(|completing| completing.uncertain.contains(&id))
    }

    pub(in crate::engine) fn has_doubts(&self) -> bool {
        self.completing.as_ref().is_some_and(|completing| !completing.doubts.is_empty())
    }
}

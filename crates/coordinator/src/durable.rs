//! What survives a restart of the coordinator: who the cluster is, who should own what, and what must never be handed
//! out twice.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use shorttail_units::CodeShape;

use crate::numbers::Numbers;
use crate::stored::Stored;

/// State that is on disk before any message that rests on it leaves; how it is written down: [`Stored`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "Stored", try_from = "Stored")]
pub struct Durable {
    /// Version of this layout.
    pub format: u32,
    pub cluster_id: u64,
    /// Settled at the first start.
    pub choice: Option<DurableChoice>,
    /// The last epoch that was handed out.
    pub epoch: u32,
    /// The next gateway gets this number.
    pub gateway_id_next: u16,
    /// By node id.
    pub nodes: BTreeMap<u16, DurableNode>,
    /// By epoch. A partition that is in none was never owned.
    pub tenures: BTreeMap<u32, DurableTenure>,
    /// Of nodes that were taken out, and of which nothing else needs to be known any more.
    pub removed: Numbers,
    /// Gateways that are to own nothing, also such as are forgotten: it is the same process whenever it comes.
    pub draining: BTreeSet<u16>,
    /// Partitions of which acknowledged writes may be gone, with how many nodes' memory; until that is acknowledged.
    pub lossy: BTreeMap<u16, u16>,
}

/// What every object that is stored rests on: the same for the whole life of the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DurableChoice {
    pub code: String,
    pub partitions: u16,
}

/// A node that is a member, or was until lately. Its number is never given to another.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DurableNode {
    /// The incarnation that registered last.
    pub incarnation: u64,
    /// Incarnations up to this one were given up; 0: none.
    pub retired_through: u64,
    /// Owners reported that everything lost with incarnations up to this one has been rebuilt. Not written while it is
    /// 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rebuilt_through: u64,
    pub address: String,
    /// What it fails together with; empty: it fails alone.
    #[serde(default)]
    pub domain: String,
    /// It is to be emptied.
    #[serde(default)]
    pub draining: bool,
    /// It drains, and held nothing: owners put nothing there since, as far as they told. Not written while it is not
    /// so.
    #[serde(default, skip_serializing_if = "is_false")]
    pub drained: bool,
    /// It was taken out of the cluster.
    #[serde(default)]
    pub removed: bool,
}

impl DurableNode {
    pub(crate) fn is_given_up(&self, incarnation: u64) -> bool {
        incarnation <= self.retired_through
    }

    /// May something be missing of what it had that was given up?
    pub(crate) fn may_miss(&self) -> bool {
        self.retired_through > self.rebuilt_through
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_false(holds: &bool) -> bool {
    !*holds
}

/// A node and one of its incarnations.
pub type DurableVoter = (u16, u64);

/// Some partitions, one gateway, one epoch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DurableTenure {
    pub gateway: u16,
    /// Which process of that number.
    pub gateway_life: u64,
    /// In order.
    pub partitions: Vec<u16>,
    /// Grows when the owner must go by something else.
    pub terms: u32,
    /// Sets by which the owner may prove itself: one, or while it changes from the first to the last, those between
    /// too.
    pub voters: Vec<Vec<DurableVoter>>,
    /// Each must accept the tenure before it serves; empty once it does.
    pub before: Vec<Vec<DurableVoter>>,
    /// Sets of node lives that predecessors stored data on, including lives that have ended since. Emptied once this
    /// tenure serves.
    pub stored_on: Vec<Vec<DurableVoter>>,
    /// Chunks of one stripe that its owner knows to be lost, if the code does not survive so many; 0: none.
    pub lost: u16,
}

impl Durable {
    pub const FORMAT: u32 = 3;

    /// A new cluster.
    pub fn new(cluster_id: u64) -> Self {
        Durable {
            format: Self::FORMAT,
            cluster_id,
            choice: None,
            epoch: 0,
            gateway_id_next: 0,
            nodes: BTreeMap::new(),
            tenures: BTreeMap::new(),
            removed: Numbers::default(),
            draining: BTreeSet::new(),
            lossy: BTreeMap::new(),
        }
    }
}

impl Durable {
    /// The number of partitions of this cluster: at its first start that wanted, or else `partitions_default`.
    ///
    /// # Errors
    /// It was made with another code or number, which says what to do.
    pub fn settle(
        &mut self,
        code: CodeShape,
        partitions_wanted: Option<u16>,
        partitions_default: u16,
    ) -> Result<u16, String> {
        let first =
            || DurableChoice { code: code.to_string(), partitions: partitions_wanted.unwrap_or(partitions_default) };
        let choice = self.choice.get_or_insert_with(first);
        choice.check(code, partitions_wanted)?;
        Ok(choice.partitions)
    }
}

impl DurableChoice {
    /// May a coordinator that was told this lead the cluster?
    ///
    /// # Errors
    /// It was made with another code or number of partitions, which says what to do.
    pub fn check(&self, code: CodeShape, partitions_wanted: Option<u16>) -> Result<(), String> {
        let (code, DurableChoice { code: made_with, partitions }) = (code.to_string(), self);
        let anew = "start it so, or make a new cluster in another directory, or under another prefix, and copy over what is stored";
        if *made_with != code {
            return Err(format!(
                "this cluster was made with --code {made_with}, in which everything is stored, and cannot be changed to {code}: {anew}"
            ));
        }
        if partitions_wanted.is_some_and(|wanted| wanted != *partitions) {
            return Err(format!(
                "this cluster was made with --partitions {partitions}, which cannot be changed: {anew}"
            ));
        }
        Ok(())
    }
}

impl DurableTenure {
    /// The set that the owner is told: the newest.
    pub fn voters_told(&self) -> &[DurableVoter] {
        self.voters.last().expect("a tenure has voters")
    }

    /// Sets by which it may still be proven, though it is told another one.
    pub fn voters_past(&self) -> &[Vec<DurableVoter>] {
        self.voters.split_last().map_or(&[], |(_, past)| past)
    }
}

//! How the durable state is written down: each set of voters once.
//!
//! ```text
//! voter_sets   [[(node, incarnation), ...], ...]
//! tenures      epoch -> { .., voters: [0], before: [0, 1] }    places in voter_sets
//! ```
//! Tenures are many and all know every node, but they differ in few sets. Written out in each, the state of a large
//! cluster would be longer than a metadata store takes.
//!
//! Must not know: what the state means.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::durable::{Durable, DurableChoice, DurableNode, DurableTenure, DurableVoter};
use crate::numbers::Numbers;

/// The state, to be written or just read. An older layout lacks what came later: its format says so.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    format: u32,
    cluster_id: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    choice: Option<DurableChoice>,
    epoch: u32,
    gateway_id_next: u16,
    nodes: BTreeMap<u16, DurableNode>,
    #[serde(default)]
    voter_sets: Vec<Vec<DurableVoter>>,
    #[serde(default)]
    tenures: BTreeMap<u32, StoredTenure>,
    #[serde(default, skip_serializing_if = "Numbers::is_empty")]
    removed: Numbers,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    draining: BTreeSet<u16>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    lossy: BTreeMap<u16, u16>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredTenure {
    gateway: u16,
    gateway_life: u64,
    partitions: Vec<u16>,
    terms: u32,
    voters: Vec<usize>,
    before: Vec<usize>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    stored_on: Vec<usize>,
    #[serde(default, skip_serializing_if = "is_zero")]
    lost: u16,
}

fn is_zero(count: &u16) -> bool {
    *count == 0
}

impl From<Durable> for Stored {
    fn from(durable: Durable) -> Self {
        let Durable { format, cluster_id, choice, epoch, gateway_id_next, nodes, tenures, removed, draining, lossy } =
            durable;
        let mut places: BTreeMap<Vec<DurableVoter>, usize> = BTreeMap::new();
        let mut place_all = |sets: Vec<Vec<DurableVoter>>| -> Vec<usize> {
            let mut place = |set| {
                let next = places.len();
                *places.entry(set).or_insert(next)
            };
            sets.into_iter().map(&mut place).collect()
        };
        let mut stored = |tenure: DurableTenure| StoredTenure {
            gateway: tenure.gateway,
            gateway_life: tenure.gateway_life,
            partitions: tenure.partitions,
            terms: tenure.terms,
            voters: place_all(tenure.voters),
            before: place_all(tenure.before),
            stored_on: place_all(tenure.stored_on),
            lost: tenure.lost,
        };
        let tenures = tenures.into_iter().map(|(epoch, tenure)| (epoch, stored(tenure))).collect();
        let mut voter_sets = vec![Vec::new(); places.len()];
        places.into_iter().for_each(|(set, place)| voter_sets[place] = set);
        Stored {
            format,
            cluster_id,
            choice,
            epoch,
            gateway_id_next,
            nodes,
            voter_sets,
            tenures,
            removed,
            draining,
            lossy,
        }
    }
}

impl TryFrom<Stored> for Durable {
    type Error = String;

    fn try_from(stored: Stored) -> Result<Self, String> {
        let Stored {
            format,
            cluster_id,
            choice,
            epoch,
            gateway_id_next,
            nodes,
            voter_sets,
            tenures,
            removed,
            draining,
            lossy,
        } = stored;
        let set = |place: usize| {
            let no_such = || format!("a tenure names set {place} of voters, and there are {}", voter_sets.len());
            voter_sets.get(place).cloned().ok_or_else(no_such)
        };
        let sets = |places: Vec<usize>| places.into_iter().map(set).collect::<Result<Vec<_>, String>>();
        let read = |tenure: StoredTenure| -> Result<DurableTenure, String> {
            let StoredTenure { gateway, gateway_life, partitions, terms, voters, before, stored_on, lost } = tenure;
            let (voters, before, stored_on) = (sets(voters)?, sets(before)?, sets(stored_on)?);
            Ok(DurableTenure { gateway, gateway_life, partitions, terms, voters, before, stored_on, lost })
        };
        let tenures = tenures.into_iter().map(|(epoch, tenure)| Ok((epoch, read(tenure)?)));
        let tenures = tenures.collect::<Result<BTreeMap<_, _>, String>>()?;
        Ok(Durable { format, cluster_id, choice, epoch, gateway_id_next, nodes, tenures, removed, draining, lossy })
    }
}

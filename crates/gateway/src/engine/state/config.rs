//! What one engine is told when it is made.

use std::fmt;
use std::str::FromStr;

use shorttail_codes::Code;
use shorttail_monitor::MonitorConfig;
use shorttail_placement::Placement;
use shorttail_policy::Policy;
use shorttail_units::{ClusterId, CodeShape, Epoch, PartitionId, Slot};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::index::Tag;
use super::limits::{CHUNK_BYTES, READ_BYTES_MAX};
use crate::engine::takeover::lease::LeaseConfig;

/// What happens to a store that is full of live objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenFull {
    /// The coldest objects give way, as in a cache.
    #[default]
    Evict,
    /// Stores are refused with an out-of-memory error; nothing stored is dropped.
    Error,
}

impl FromStr for WhenFull {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "evict" => Ok(WhenFull::Evict),
            "error" => Ok(WhenFull::Error),
            _ => Err(format!("{text:?} is neither evict nor error")),
        }
    }
}

impl fmt::Display for WhenFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WhenFull::Evict => "evict",
            WhenFull::Error => "error",
        })
    }
}

#[derive(Clone, Debug)]
pub struct EngineConfig {
    pub cluster: ClusterId,
    pub epoch: Epoch,
    /// Name of this engine towards nodes: no other engine of the cluster has it, now or later.
    pub owner: u32,
    /// Tells apart the engines of one epoch, each on a core of its own: stripe ids are taken from a range of each.
    pub core: u16,
    /// Engines in the whole cluster: each leaves memory to the others' cleaning.
    pub engine_count: u16,
    /// Partitions of the cluster, and those that are this engine's.
    pub partition_count: u16,
    pub partitions: Vec<PartitionId>,
    /// `None`: there is no other gateway, and nothing to be proven.
    pub lease: Option<LeaseConfig>,
    pub shape: CodeShape,
    /// The code of that shape.
    pub code: Code,
    /// Payload bytes of a packed chunk.
    pub chunk_bytes: usize,
    /// Unit of the small-write threshold (`s` blocks) and of padding, in bytes.
    pub block_bytes: usize,
    pub value_bytes_max: usize,
    pub when_full: WhenFull,
    /// Nodes that the cluster should have; a new owner serves when all but as many as may be lost accepted it.
    pub node_count: u16,
    /// After this long without an answer a node is treated as slow: its requests go elsewhere.
    pub request_deadline_us: u64,
    /// How long a new owner waits for these last nodes before it serves without them.
    pub gather_us: u64,
    /// Seed of the key hash.
    pub hash_seed: u64,
    /// Bytes of data chunks per byte of live records above which cleaning starts: what is left to the bound of 1.35 is
    /// for open stripes and for stripes on their way out.
    pub clean_above: f64,
    /// What is done about slow nodes, for every partition until it is changed.
    pub policy: Policy,
    pub monitor: MonitorConfig,
    /// How the members of new stripes are chosen.
    pub placement: Placement,
    /// Hedges for each request, at most, in the long run.
    pub hedge_budget: f64,
    /// Bytes of striped values that are read at once; a larger one is read alone.
    pub read_bytes_max: usize,
}

impl EngineConfig {
    pub fn new(shape: CodeShape, epoch: Epoch, cluster: ClusterId, node_count: u16) -> Self {
        EngineConfig {
            cluster,
            epoch,
            owner: 0,
            core: 0,
            engine_count: 1,
            partition_count: 4,
            partitions: (0..4).map(PartitionId).collect(),
            lease: None,
            shape,
            code: Code::new(shape),
            chunk_bytes: CHUNK_BYTES,
            block_bytes: 4096,
            value_bytes_max: 1 << 20,
            when_full: WhenFull::Evict,
            node_count,
            request_deadline_us: 100_000,
            gather_us: 1_000_000,
            hash_seed: cluster.0 ^ 0x5348_4f52_5454_4149,
            clean_above: 1.28,
            policy: Policy::default(),
            monitor: MonitorConfig::default(),
            placement: Placement::default(),
            hedge_budget: 0.05,
            read_bytes_max: READ_BYTES_MAX,
        }
    }

    /// What the index knows of a key beside its slot. Keys that are alike in both are told apart by their records.
    pub fn tag_of(&self, key: &[u8]) -> u32 {
        Tag::of_hash(self.hash_of(key)).number()
    }

    pub(crate) fn hash_of(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.hash_seed)
    }

    pub fn data_count(&self) -> usize {
        self.shape.data_count()
    }

    /// How many nodes may be lost: the `m` of every promise.
    pub fn tolerance(&self) -> usize {
        self.shape.tolerance()
    }

    pub fn member_count(&self) -> usize {
        self.shape.chunk_count()
    }

    pub fn partition_of(&self, slot: Slot) -> PartitionId {
        slot.partition(usize::from(self.partition_count))
    }

    /// `s`: so many blocks, stored once more than may be lost, cost no more than a stripe of single blocks (ShortTail
    /// 3.3: `floor((k+m)/(m+1))`).
    pub fn small_blocks_max(&self) -> usize {
        self.member_count() / (self.tolerance() + 1)
    }

    /// Largest record that is packed: `s` blocks, and never more than a quarter of a chunk, so that a chunk's unused
    /// tail stays small.
    pub fn packed_bytes_max(&self) -> usize {
        let threshold = self.small_blocks_max() * self.block_bytes;
        threshold.min(self.chunk_bytes / 4).max(self.chunk_bytes.min(2048))
    }
}

//! What a node tells about itself.

use shorttail_store::Counters;

/// Counts since the start, except the first four, which are now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeStats {
    pub chunks: u64,
    pub sealed_chunks: u64,
    /// Sealed chunks that are known to be damaged.
    pub damaged_chunks: u64,
    /// Bytes that parity chunks hold raw.
    pub raw_bytes: u64,
    pub appends: u64,
    pub duplicate_appends: u64,
    pub folds: u64,
    pub seals: u64,
    pub opens: u64,
    pub installs: u64,
    pub frees: u64,
    /// Chunks rebuilt by order of an owner, their bytes in use, and orders that failed.
    pub rebuilds: u64,
    pub rebuilt_bytes: u64,
    pub rebuild_failures: u64,
    /// What the scrubber looked at, damaged chunks that were found, and those that were rebuilt in place; with what was
    /// damaged of a memory file, and mended.
    pub scrubbed_bytes: u64,
    pub corruptions_found: u64,
    pub corruptions_repaired: u64,
    /// Messages that were hurt on their way, and ended their session.
    pub messages_damaged: u64,
}

impl NodeStats {
    /// These counts, with those that the store keeps filled in.
    pub(crate) fn with_store(self, chunk_count: usize, store: Counters) -> Self {
        NodeStats {
            chunks: chunk_count as u64,
            sealed_chunks: store.sealed_chunks as u64,
            damaged_chunks: store.damaged_chunks as u64,
            raw_bytes: store.raw_bytes as u64,
            appends: store.appends,
            duplicate_appends: store.duplicate_appends,
            folds: store.folds,
            seals: store.seals,
            opens: store.opens,
            installs: store.installs,
            frees: store.frees,
            corruptions_found: store.corruptions_found,
            corruptions_repaired: self.corruptions_repaired + store.corruptions_repaired,
            ..self
        }
    }
}

//! What the store counts about itself.

/// Counts since the start, except the last three, which are now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    pub appends: u64,
    pub duplicate_appends: u64,
    /// Batches of operations folded into a parity chunk.
    pub folds: u64,
    pub seals: u64,
    pub opens: u64,
    pub installs: u64,
    pub frees: u64,
    /// Sealed chunks that were found damaged, what was found damaged of a memory file, and chunks whose content was
    /// not what their owner wanted to seal.
    pub corruptions_found: u64,
    /// What is in a memory file twice, and was mended.
    pub corruptions_repaired: u64,
    pub sealed_chunks: usize,
    /// Sealed chunks that are known to be damaged.
    pub damaged_chunks: usize,
    /// Bytes of operations that parity chunks hold raw.
    pub raw_bytes: usize,
}

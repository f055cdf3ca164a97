//! How to decode: which chunks to read, and what to multiply them by.

use crate::kernel::Engine;

/// What it costs to read a chunk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cost {
    /// The usual.
    Low,
    /// To be read only if it cannot be avoided: its node is slow, or busier than others.
    High,
    /// It cannot be read.
    Infinite,
}

/// How to get one chunk, or a range of it, from the same range of others.
#[derive(PartialEq, Eq, Debug)]
pub struct Plan {
    /// The chunks to read, ascending.
    pub sources: Vec<usize>,
    /// One for each source; the wanted chunk is the sum of the scaled sources.
    pub coefficients: Vec<u8>,
    pub(crate) engine: Engine,
}

impl Plan {
    /// Computes the wanted bytes.
    ///
    /// `sources: sources.len() x out.len()`: the wanted range of the chunks named by [`Plan::sources`], in that order.
    ///
    /// # Panics
    /// If the number of sources is not the plan's, or the lengths differ.
    #[inline]
    pub fn decode(&self, sources: &[&[u8]], out: &mut [u8]) {
        self.engine.combine(&self.coefficients, sources, &mut [out]);
    }
}

/// How to get several chunks of a stripe from one reading of others.
#[derive(PartialEq, Eq, Debug)]
pub struct RepairPlan {
    /// The chunks that this plan gives, ascending, each once.
    pub wanted: Vec<usize>,
    /// The chunks to read, ascending.
    pub sources: Vec<usize>,
    /// `wanted.len() x sources.len()`: each wanted chunk is the sum of the sources scaled by its row.
    pub coefficients: Vec<u8>,
    pub(crate) engine: Engine,
}

impl RepairPlan {
    /// Computes the wanted chunks, or the same range of each.
    ///
    /// `sources: sources.len() x bytes`, in the order of [`RepairPlan::sources`]; `outs: wanted.len() x bytes`, in the
    /// order of [`RepairPlan::wanted`].
    ///
    /// # Panics
    /// If the number of sources or outputs is not the plan's, or the lengths differ.
    #[inline]
    pub fn decode(&self, sources: &[&[u8]], outs: &mut [&mut [u8]]) {
        assert_eq!(outs.len(), self.wanted.len(), "one output for each wanted chunk");
        self.engine.combine(&self.coefficients, sources, outs);
    }
}

//! One erasure code: encodes, folds, and plans decoding.

use std::sync::Arc;

use crate::cache::{Pattern, PlanCache};
use crate::chunk_set::ChunkSet;
use crate::kernel::Engine;
use crate::limits::{DATA_COUNT_MAX, PARITY_COUNT_MAX, PLAN_CACHE_ENTRIES_MAX};
use crate::matrix::Generator;
use crate::planner::{self, Combination};
use crate::{CodeError, Kernel, Plan, RepairPlan};

/// An erasure code. Immutable, cheap to clone; clones share the plans they remember, behind a lock that finding one only
/// shares. A core that wants no cache line in common with others makes its own by [`Code::with_kernel`].
///
/// Chunks of a stripe are counted from zero, data chunks first: chunk `data_count + p` is parity `p`.
#[derive(Clone)]
pub struct Code(Arc<Inner>);

struct Inner {
    generator: Generator,
    is_reed_solomon: bool,
    engine: Engine,
    plans: PlanCache<Plan>,
    repair_plans: PlanCache<RepairPlan>,
}

impl Code {
    /// A Reed-Solomon code from a Cauchy matrix: any `parity_count` lost chunks can be decoded.
    ///
    /// # Errors
    /// [`CodeError::DataCount`] or [`CodeError::ParityCount`] outside 1 to 64 and 0 to 16.
    pub fn reed_solomon(data_count: usize, parity_count: usize) -> Result<Code, CodeError> {
        check_counts(data_count, parity_count)?;
        Ok(Code::new(Generator::cauchy(data_count, parity_count), true, Engine::best()))
    }

    /// A code from the rows of its parities, `parity_count x data_count` coefficients.
    ///
    /// Which losses such a code survives is decided by its matrix, loss by loss.
    ///
    /// # Errors
    /// As [`Code::reed_solomon`], and [`CodeError::RowLength`].
    pub fn from_generator(data_count: usize, parity_rows: &[impl AsRef<[u8]>]) -> Result<Code, CodeError> {
        check_counts(data_count, parity_rows.len())?;
        let mut coefficients = Vec::with_capacity(parity_rows.len() * data_count);
        for (parity_index, row) in parity_rows.iter().enumerate() {
            let row = row.as_ref();
            if row.len() != data_count {
                return Err(CodeError::RowLength { parity_index, expected: data_count, actual: row.len() });
            }
            coefficients.extend_from_slice(row);
        }
        Ok(Code::new(Generator::new(data_count, coefficients), false, Engine::best()))
    }

    /// The same code, computed by this kernel instead of the fastest one. It remembers its own plans.
    ///
    /// # Errors
    /// [`CodeError::KernelUnsupported`].
    pub fn with_kernel(&self, kernel: Kernel) -> Result<Code, CodeError> {
        let generator = Generator::new(self.data_count(), self.0.generator.coefficients().to_vec());
        Ok(Code::new(generator, self.0.is_reed_solomon, Engine::new(kernel)?))
    }

    fn new(generator: Generator, is_reed_solomon: bool, engine: Engine) -> Code {
        let plans = PlanCache::new(PLAN_CACHE_ENTRIES_MAX);
        let repair_plans = PlanCache::new(PLAN_CACHE_ENTRIES_MAX);
        Code(Arc::new(Inner { generator, is_reed_solomon, engine, plans, repair_plans }))
    }

    pub fn data_count(&self) -> usize {
        self.0.generator.data_count()
    }

    pub fn parity_count(&self) -> usize {
        self.0.generator.parity_count()
    }

    /// Data and parity chunks together.
    pub fn chunk_count(&self) -> usize {
        self.data_count() + self.parity_count()
    }

    /// The kernel that computes.
    pub fn kernel(&self) -> Kernel {
        self.0.engine.kernel()
    }

    pub(crate) fn is_reed_solomon(&self) -> bool {
        self.0.is_reed_solomon
    }

    /// What data chunk `data_index` is multiplied by in parity `parity_index`.
    ///
    /// # Panics
    /// If there is no such chunk.
    pub fn coefficient(&self, parity_index: usize, data_index: usize) -> u8 {
        self.0.generator.row(parity_index)[data_index]
    }

    /// Computes all parities of a stripe, or of the same range of all its chunks.
    ///
    /// `data: data_count x bytes`, `parities: parity_count x bytes`.
    ///
    /// # Panics
    /// If the counts are not the code's, or the lengths differ.
    #[inline]
    pub fn encode(&self, data: &[&[u8]], parities: &mut [&mut [u8]]) {
        assert_eq!(data.len(), self.data_count(), "one slice for each data chunk");
        assert_eq!(parities.len(), self.parity_count(), "one slice for each parity chunk");
        self.0.engine.combine(self.0.generator.coefficients(), data, parities);
    }

    /// `parity ^= coefficient(parity_index, data_index) * delta`: makes a change of a data chunk, or its first bytes
    /// where there were zeros, a change of the parity.
    ///
    /// # Panics
    /// If there is no such chunk, or the lengths differ.
    #[inline]
    pub fn fold(&self, parity_index: usize, data_index: usize, delta: &[u8], parity: &mut [u8]) {
        self.0.engine.fold(self.coefficient(parity_index, data_index), delta, parity);
    }

    /// How to get chunk `wanted` from chunks that may be read.
    ///
    /// Plans few chunks: the chunk itself, the smallest group around one parity, or as many as the losses demand, data
    /// chunks before parities, parities of few data chunks before others, then those of a low index. Remembered by
    /// pattern.
    ///
    /// # Errors
    /// [`CodeError::NotDecodable`], [`CodeError::NoSuchChunk`].
    pub fn read_plan(&self, wanted: usize, available: &dyn Fn(usize) -> bool) -> Result<Arc<Plan>, CodeError> {
        self.check_index(wanted)?;
        let available: ChunkSet = (0..self.chunk_count()).filter(|&index| available(index)).collect();
        let pattern = Pattern { available, wanted: [wanted].into_iter().collect() };
        self.0.plans.get_or_make(pattern, || {
            let (sources, coefficients) = self.combination(wanted, available)?.into_iter().unzip();
            Ok(Plan { sources, coefficients, engine: self.0.engine })
        })
    }

    /// How to get the `wanted` chunks, each once and ascending in the plan, when the `erased` ones cannot be read.
    /// Remembered by pattern.
    ///
    /// # Errors
    /// [`CodeError::NotDecodable`] naming the first that cannot be decoded, [`CodeError::NoSuchChunk`].
    pub fn repair_plan(&self, erased: &[usize], wanted: &[usize]) -> Result<Arc<RepairPlan>, CodeError> {
        erased.iter().chain(wanted).try_for_each(|&index| self.check_index(index))?;
        let mut available = ChunkSet::first(self.chunk_count());
        erased.iter().for_each(|&index| available.remove(index));
        let wanted: ChunkSet = wanted.iter().copied().collect();
        let pattern = Pattern { available, wanted };
        self.0.repair_plans.get_or_make(pattern, || self.make_repair_plan(wanted, available))
    }

    fn make_repair_plan(&self, wanted: ChunkSet, available: ChunkSet) -> Result<RepairPlan, CodeError> {
        let rows = wanted.iter().map(|index| self.combination(index, available)).collect::<Result<Vec<_>, _>>()?;
        let sources: ChunkSet = rows.iter().flatten().map(|&(source, _)| source).collect();
        let coefficient_in = |row: &Combination, source: usize| {
            row.iter().find(|&&(index, _)| index == source).map_or(0, |&(_, coefficient)| coefficient)
        };
        let coefficients = rows.iter().flat_map(|row| sources.iter().map(move |source| coefficient_in(row, source)));
        Ok(RepairPlan {
            coefficients: coefficients.collect(),
            wanted: wanted.iter().collect(),
            sources: sources.iter().collect(),
            engine: self.0.engine,
        })
    }

    fn combination(&self, wanted: usize, available: ChunkSet) -> Result<Combination, CodeError> {
        planner::combination(&self.0.generator, wanted, available)
            .ok_or(CodeError::NotDecodable { wanted, available_count: available.len() })
    }

    fn check_index(&self, index: usize) -> Result<(), CodeError> {
        let chunk_count = self.chunk_count();
        if index < chunk_count { Ok(()) } else { Err(CodeError::NoSuchChunk { index, chunk_count }) }
    }
}

fn check_counts(data_count: usize, parity_count: usize) -> Result<(), CodeError> {
    if !(1..=DATA_COUNT_MAX).contains(&data_count) {
        return Err(CodeError::DataCount(data_count));
    }
    if parity_count > PARITY_COUNT_MAX {
        return Err(CodeError::ParityCount(parity_count));
    }
    Ok(())
}

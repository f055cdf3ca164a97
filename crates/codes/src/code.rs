//! One erasure code: encodes, folds, and plans decoding.

use std::sync::Arc;

use shorttail_units::CodeShape;

use crate::cache::{Pattern, PlanCache};
use crate::chunk_set::ChunkSet;
use crate::kernel::Engine;
use crate::limits::PLAN_CACHE_ENTRIES_MAX;
use crate::matrix::Generator;
use crate::planner::{self, Combination, Readable};
use crate::{CodeError, Cost, Kernel, Plan, RepairPlan, lrc};

/// An erasure code. Immutable, cheap to clone; clones share the plans they remember, behind a lock that finding one
/// only shares. A core that wants no cache line in common with others makes its own by [`Code::with_kernel`].
///
/// Chunks of a stripe are counted from zero, data chunks first: chunk `data_count + p` is parity `p`.
#[derive(Clone)]
pub struct Code(Arc<Inner>);

struct Inner {
    generator: Generator,
    shape: CodeShape,
    engine: Engine,
    plans: PlanCache<Plan>,
    repair_plans: PlanCache<RepairPlan>,
}

impl Code {
    /// The code of this shape: the same coefficients wherever it is made.
    pub fn new(shape: CodeShape) -> Code {
        let generator = match shape.local_count() {
            0 => Generator::cauchy(shape.data_count(), shape.parity_count()),
            _ => lrc::generator(shape),
        };
        Code::with_parts(generator, shape, Engine::best())
    }

    /// A Reed-Solomon code from a Cauchy matrix: any `parity_count` lost chunks can be decoded.
    ///
    /// # Errors
    /// [`CodeError::Shape`]: a count outside its limits.
    pub fn reed_solomon(data_count: usize, parity_count: usize) -> Result<Code, CodeError> {
        Ok(Code::new(CodeShape::reed_solomon(data_count, parity_count)?))
    }

    /// A local reconstruction code: the data chunks are in `local_count` groups, each with a parity of its own, and
    /// `global_count` parities are of all data chunks. Any `global_count + 1` lost chunks can be decoded, and more if
    /// they are spread well: see [`Code::is_maximally_recoverable`].
    ///
    /// # Errors
    /// [`CodeError::Shape`]: a count outside its limits.
    pub fn lrc(data_count: usize, local_count: usize, global_count: usize) -> Result<Code, CodeError> {
        Ok(Code::new(CodeShape::lrc(data_count, local_count, global_count)?))
    }

    /// The same code, computed by this kernel instead of the fastest one. It remembers its own plans.
    ///
    /// # Errors
    /// [`CodeError::KernelUnsupported`].
    pub fn with_kernel(&self, kernel: Kernel) -> Result<Code, CodeError> {
        let generator = Generator::new(self.data_count(), self.0.generator.coefficients().to_vec());
        Ok(Code::with_parts(generator, self.0.shape, Engine::new(kernel)?))
    }

    fn with_parts(generator: Generator, shape: CodeShape, engine: Engine) -> Code {
        let plans = PlanCache::new(PLAN_CACHE_ENTRIES_MAX);
        let repair_plans = PlanCache::new(PLAN_CACHE_ENTRIES_MAX);
        Code(Arc::new(Inner { generator, shape, engine, plans, repair_plans }))
    }

    pub fn shape(&self) -> CodeShape {
        self.0.shape
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

    /// How many chunks may be lost, whichever they are: all parities of a Reed-Solomon code, one more than the
    /// global parities of a code with groups.
    pub fn tolerance(&self) -> usize {
        self.0.shape.tolerance()
    }

    /// Does it decode every pattern of losses that any code of its shape could? Reed-Solomon codes do. Codes with
    /// groups do with one group, with at most one global parity, with two and at most fifteen data chunks in a group,
    /// and in many small shapes with more.
    pub fn is_maximally_recoverable(&self) -> bool {
        self.0.shape.local_count() == 0 || lrc::is_maximally_recoverable(self.0.shape)
    }

    /// Can everything be decoded from the chunks that may be read?
    pub fn is_decodable(&self, available: &dyn Fn(usize) -> bool) -> bool {
        planner::is_decodable(&self.0.generator, self.set_of(available))
    }

    /// The kernel that computes.
    pub fn kernel(&self) -> Kernel {
        self.0.engine.kernel()
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

    /// How to get chunk `wanted` from chunks that may be read: [`Code::cheapest_plan`] with one cost for all.
    ///
    /// # Errors
    /// [`CodeError::NotDecodable`], [`CodeError::NoSuchChunk`].
    pub fn read_plan(&self, wanted: usize, available: &dyn Fn(usize) -> bool) -> Result<Arc<Plan>, CodeError> {
        let readable = Readable { low: self.set_of(available), high: ChunkSet::EMPTY };
        self.plan_within(wanted, readable)
    }

    /// How to get chunk `wanted` most cheaply.
    ///
    /// With as few chunks of high cost as possible, and then from few chunks: the chunk itself, the smallest group
    /// around one parity, or as many as the losses demand, data chunks before parities, parities of few data chunks
    /// before others, then those of a low index. Remembered by pattern.
    ///
    /// # Errors
    /// [`CodeError::NotDecodable`], [`CodeError::NoSuchChunk`].
    pub fn cheapest_plan(&self, wanted: usize, cost: &dyn Fn(usize) -> Cost) -> Result<Arc<Plan>, CodeError> {
        self.plan_within(wanted, self.readable(cost))
    }

    fn plan_within(&self, wanted: usize, readable: Readable) -> Result<Arc<Plan>, CodeError> {
        self.check_index(wanted)?;
        let pattern = Pattern { readable, wanted: ChunkSet::of(wanted) };
        self.0.plans.get_or_make(pattern, || {
            let (sources, coefficients) = self.combination(wanted, readable)?.into_iter().unzip();
            Ok(Plan { sources, coefficients, engine: self.0.engine })
        })
    }

    /// How to get the `wanted` chunks, each once and ascending in the plan, when the `erased` ones cannot be read. Each
    /// is planned as by [`Code::read_plan`]. Remembered by pattern.
    ///
    /// # Errors
    /// [`CodeError::NotDecodable`] naming the first that cannot be decoded, [`CodeError::NoSuchChunk`].
    pub fn repair_plan(&self, erased: &[usize], wanted: &[usize]) -> Result<Arc<RepairPlan>, CodeError> {
        erased.iter().chain(wanted).try_for_each(|&index| self.check_index(index))?;
        let low = ChunkSet::first(self.chunk_count()) - erased.iter().copied().collect();
        let readable = Readable { low, high: ChunkSet::EMPTY };
        let wanted: ChunkSet = wanted.iter().copied().collect();
        let pattern = Pattern { readable, wanted };
        self.0.repair_plans.get_or_make(pattern, || self.make_repair_plan(wanted, readable))
    }

    fn make_repair_plan(&self, wanted: ChunkSet, readable: Readable) -> Result<RepairPlan, CodeError> {
        let rows = wanted.iter().map(|index| self.combination(index, readable)).collect::<Result<Vec<_>, _>>()?;
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

    fn combination(&self, wanted: usize, readable: Readable) -> Result<Combination, CodeError> {
        planner::combination(&self.0.generator, wanted, readable)
            .ok_or(CodeError::NotDecodable { wanted, available_count: readable.all().len() })
    }

    fn set_of(&self, contains: &dyn Fn(usize) -> bool) -> ChunkSet {
        (0..self.chunk_count()).filter(|&index| contains(index)).collect()
    }

    fn readable(&self, cost: &dyn Fn(usize) -> Cost) -> Readable {
        let mut readable = Readable::default();
        for index in 0..self.chunk_count() {
            match cost(index) {
                Cost::Low => readable.low.insert(index),
                Cost::High => readable.high.insert(index),
                Cost::Infinite => {}
            }
        }
        readable
    }

    fn check_index(&self, index: usize) -> Result<(), CodeError> {
        let chunk_count = self.chunk_count();
        if index < chunk_count { Ok(()) } else { Err(CodeError::NoSuchChunk { index, chunk_count }) }
    }
}

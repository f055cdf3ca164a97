//! The one coding loop, written over the vector instructions of a processor.
//!
//! A block of columns is kept in registers for up to [`GROUP_MAX`] outputs while all sources pass by, so each source
//! byte is loaded once for a whole group and each output byte is stored once.
//!
//! Everything here is `inline(always)`: it must be compiled inside the `target_feature` function of each kernel.

/// Outputs that share one pass over the sources. Four outputs of four vectors leave room in 32 registers for the
/// sources' bytes and the factors.
const GROUP_MAX: usize = 4;

/// Columns, in bytes, that all groups of outputs work through before the next ones, so that with more outputs than
/// [`GROUP_MAX`] the later passes find the sources in cache.
const STRIP_BYTES: usize = 4096;

/// From this many outputs on, arithmetic keeps the processor busy for so long that it pays to ask for the next block
/// of a source early: 15 % of the time of RS(10,4) with chunks of 64 KiB on Zen 5. With fewer, loads follow each other
/// fast enough, and asking costs 10 % with chunks of 512 B.
const PREFETCH_OUTPUTS_MIN: usize = 3;

/// A vector of bytes: what all kernels of one width share.
///
/// # Safety
/// Every function needs the processor features of its kernel. Loads and stores need that many bytes at the pointer:
/// `COUNT`, or `count < COUNT` for the partial ones.
pub trait Bytes: Copy {
    const COUNT: usize;

    unsafe fn zero() -> Self;
    unsafe fn load(from: *const u8) -> Self;
    /// Says that the bytes at `from`, which need not exist, are wanted soon.
    #[inline(always)]
    unsafe fn prefetch(_from: *const u8) {}
    unsafe fn store(self, to: *mut u8);
    unsafe fn load_partial(from: *const u8, count: usize) -> Self;
    unsafe fn store_partial(self, to: *mut u8, count: usize);
    unsafe fn xor(self, other: Self) -> Self;
}

/// How one kernel multiplies.
///
/// # Safety
/// Every function needs the processor features of its kernel.
pub trait Lanes {
    /// Vectors of one output that are worked on at once, when a group has one, two, or more outputs.
    const UNROLL: [usize; 3];
    type Vector: Bytes;
    /// A vector made ready for being multiplied by several factors.
    type Operand: Copy;
    /// A coefficient in the form that `multiply` wants.
    type Factor: Copy;

    unsafe fn factor(coefficient: u8) -> Self::Factor;
    unsafe fn operand(vector: Self::Vector) -> Self::Operand;
    unsafe fn multiply(operand: Self::Operand, factor: Self::Factor) -> Self::Vector;
}

/// What a kernel is to do: `outputs[o] = [outputs[o] +] sum over s of coefficients[o][s] * sources[s]`.
pub struct Job<'a, 'b> {
    /// Row by row: `outputs.len() x sources.len()`.
    pub coefficients: &'a [u8],
    /// `sources.len() x bytes`.
    pub sources: &'a [&'a [u8]],
    /// `outputs.len() x bytes`.
    pub outputs: &'a mut [&'b mut [u8]],
    pub bytes: usize,
    /// Whether the outputs' old content is added to.
    pub accumulate: bool,
}

/// Runs a job.
///
/// # Safety
/// The processor has the features of `L`, and the job's lengths are as described there.
#[inline(always)]
pub unsafe fn run<L: Lanes>(job: &mut Job<'_, '_>) {
    let mut strip = 0;
    while strip < job.bytes {
        let end = job.bytes.min(strip + STRIP_BYTES);
        let mut first = 0;
        while first < job.outputs.len() {
            let count = GROUP_MAX.min(job.outputs.len() - first);
            // SAFETY: `strip..end` lies within the chunks and `first..first + count` within the outputs.
            unsafe {
                match count {
                    1 => group::<L, 1>(job, first, strip, end),
                    2 => group::<L, 2>(job, first, strip, end),
                    3 => group::<L, 3>(job, first, strip, end),
                    _ => group::<L, 4>(job, first, strip, end),
                }
            }
            first += count;
        }
        strip = end;
    }
}

/// Columns `start..end` of outputs `first..first + OUTPUTS`.
#[inline(always)]
unsafe fn group<L: Lanes, const OUTPUTS: usize>(job: &mut Job<'_, '_>, first: usize, start: usize, end: usize) {
    let unroll = L::UNROLL[OUTPUTS.min(3) - 1];
    let mut column = start;
    // SAFETY: in all three cases the columns touched end at or before `end`.
    unsafe {
        while column + unroll * L::Vector::COUNT <= end {
            match unroll {
                1 => block::<L, OUTPUTS, 1>(job, first, column),
                2 => block::<L, OUTPUTS, 2>(job, first, column),
                4 => block::<L, OUTPUTS, 4>(job, first, column),
                _ => block::<L, OUTPUTS, 8>(job, first, column),
            }
            column += unroll.min(8) * L::Vector::COUNT;
        }
        while column + L::Vector::COUNT <= end {
            block::<L, OUTPUTS, 1>(job, first, column);
            column += L::Vector::COUNT;
        }
        if column < end {
            partial_block::<L, OUTPUTS>(job, first, column, end - column);
        }
    }
}

/// `VECTORS` whole vectors at `column`.
#[inline(always)]
unsafe fn block<L: Lanes, const OUTPUTS: usize, const VECTORS: usize>(
    job: &mut Job<'_, '_>,
    first: usize,
    column: usize,
) {
    let source_count = job.sources.len();
    let coefficients = job.coefficients.as_ptr();
    // SAFETY: the caller keeps `column + VECTORS * COUNT` within all chunks; coefficient and chunk indexes are below
    // the counts of the job.
    unsafe {
        let mut sums = [[L::Vector::zero(); VECTORS]; OUTPUTS];
        if job.accumulate {
            for (output, sums) in sums.iter_mut().enumerate() {
                let from = job.outputs.get_unchecked(first + output).as_ptr().add(column);
                for (vector, sum) in sums.iter_mut().enumerate() {
                    *sum = L::Vector::load(from.add(vector * L::Vector::COUNT));
                }
            }
        }
        for source in 0..source_count {
            let from = job.sources.get_unchecked(source).as_ptr().add(column);
            let mut operands = [L::operand(L::Vector::zero()); VECTORS];
            for (vector, operand) in operands.iter_mut().enumerate() {
                *operand = L::operand(L::Vector::load(from.add(vector * L::Vector::COUNT)));
                if OUTPUTS >= PREFETCH_OUTPUTS_MIN {
                    L::Vector::prefetch(from.wrapping_add((VECTORS + vector) * L::Vector::COUNT));
                }
            }
            for (output, sums) in sums.iter_mut().enumerate() {
                let factor = L::factor(*coefficients.add((first + output) * source_count + source));
                for (sum, &operand) in sums.iter_mut().zip(&operands) {
                    *sum = sum.xor(L::multiply(operand, factor));
                }
            }
        }
        for (output, sums) in sums.iter().enumerate() {
            let to = job.outputs.get_unchecked_mut(first + output).as_mut_ptr().add(column);
            for (vector, &sum) in sums.iter().enumerate() {
                sum.store(to.add(vector * L::Vector::COUNT));
            }
        }
    }
}

/// The last `count < COUNT` bytes of the chunks, at `column`.
#[inline(always)]
unsafe fn partial_block<L: Lanes, const OUTPUTS: usize>(
    job: &mut Job<'_, '_>,
    first: usize,
    column: usize,
    count: usize,
) {
    let source_count = job.sources.len();
    // SAFETY: the caller keeps `column + count` within all chunks; indexes are below the counts of the job.
    unsafe {
        let mut sums = [L::Vector::zero(); OUTPUTS];
        if job.accumulate {
            for (output, sum) in sums.iter_mut().enumerate() {
                *sum = L::Vector::load_partial(job.outputs.get_unchecked(first + output).as_ptr().add(column), count);
            }
        }
        for source in 0..source_count {
            let from = job.sources.get_unchecked(source).as_ptr().add(column);
            let operand = L::operand(L::Vector::load_partial(from, count));
            for (output, sum) in sums.iter_mut().enumerate() {
                let coefficient = *job.coefficients.get_unchecked((first + output) * source_count + source);
                *sum = sum.xor(L::multiply(operand, L::factor(coefficient)));
            }
        }
        for (output, &sum) in sums.iter().enumerate() {
            let to = job.outputs.get_unchecked_mut(first + output).as_mut_ptr().add(column);
            sum.store_partial(to, count);
        }
    }
}

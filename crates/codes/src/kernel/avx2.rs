//! 256-bit vectors; a multiplication is two byte shuffles, one for the low and one for the high nibbles.
//!
//! Source: Plank, Greenan, Miller, "Screaming fast Galois field arithmetic using Intel SIMD instructions" (FAST 2013).

use std::arch::x86_64::*;

use super::lanes::{self, Job, Lanes};
use crate::field::NIBBLE_PRODUCTS;

struct Avx2;

pub fn is_supported() -> bool {
    is_x86_feature_detected!("avx2")
}

/// # Safety
/// [`is_supported`], and the job's lengths are as it describes.
#[target_feature(enable = "avx2")]
pub unsafe fn run(job: &mut Job<'_, '_>) {
    // SAFETY: as promised by the caller.
    unsafe { lanes::run::<Avx2>(job) }
}

/// Two vectors of one kind of thing: of nibbles in an operand, of products in a factor.
#[derive(Clone, Copy)]
struct LowHigh {
    low: __m256i,
    high: __m256i,
}

#[expect(clippy::undocumented_unsafe_blocks, reason = "each needs what the trait demands of its callers")]
impl Lanes for Avx2 {
    // Sixteen registers: at most four sums, each source vector as two of nibbles, and a factor of two.
    const UNROLL: [usize; 3] = [2, 2, 1];
    type Vector = __m256i;
    type Operand = LowHigh;
    type Factor = LowHigh;

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> LowHigh {
        let products = &NIBBLE_PRODUCTS[usize::from(coefficient)];
        unsafe {
            LowHigh {
                low: _mm256_broadcastsi128_si256(_mm_loadu_si128(products.low.as_ptr().cast())),
                high: _mm256_broadcastsi128_si256(_mm_loadu_si128(products.high.as_ptr().cast())),
            }
        }
    }

    #[inline(always)]
    unsafe fn operand(vector: __m256i) -> LowHigh {
        unsafe {
            let nibble = _mm256_set1_epi8(15);
            LowHigh {
                low: _mm256_and_si256(vector, nibble),
                high: _mm256_and_si256(_mm256_srli_epi64::<4>(vector), nibble),
            }
        }
    }

    #[inline(always)]
    unsafe fn multiply(operand: LowHigh, factor: LowHigh) -> __m256i {
        unsafe {
            let low = _mm256_shuffle_epi8(factor.low, operand.low);
            let high = _mm256_shuffle_epi8(factor.high, operand.high);
            _mm256_xor_si256(low, high)
        }
    }
}

//! 256-bit vectors; a multiplication is one `gf2p8affineqb`.

use std::arch::x86_64::*;

use super::lanes::{self, Job, Lanes};
use crate::field::BIT_MATRICES;

struct Avx2Gfni;

pub fn is_supported() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("gfni")
}

/// # Safety
/// [`is_supported`], and the job's lengths are as it describes.
#[target_feature(enable = "avx2,gfni")]
pub unsafe fn run(job: &mut Job<'_, '_>) {
    // SAFETY: as promised by the caller.
    unsafe { lanes::run::<Avx2Gfni>(job) }
}

#[expect(clippy::undocumented_unsafe_blocks, reason = "each needs what the trait demands of its callers")]
impl Lanes for Avx2Gfni {
    // Sixteen registers: eight sums, the sources' bytes and a factor.
    const UNROLL: [usize; 3] = [4, 4, 2];
    type Vector = __m256i;
    type Operand = __m256i;
    type Factor = __m256i;

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> __m256i {
        unsafe { _mm256_set1_epi64x(BIT_MATRICES[usize::from(coefficient)].cast_signed()) }
    }

    #[inline(always)]
    unsafe fn operand(vector: __m256i) -> __m256i {
        vector
    }

    #[inline(always)]
    unsafe fn multiply(operand: __m256i, factor: __m256i) -> __m256i {
        unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(operand, factor) }
    }
}

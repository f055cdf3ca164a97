//! 512-bit vectors; a multiplication is one `gf2p8affineqb`.

use std::arch::x86_64::*;

use super::lanes::{self, Bytes, Job, Lanes};
use crate::field::BIT_MATRICES;

struct Avx512Gfni;

pub fn is_supported() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("gfni")
}

/// # Safety
/// [`is_supported`], and the job's lengths are as it describes.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
pub unsafe fn run(job: &mut Job<'_, '_>) {
    // SAFETY: as promised by the caller.
    unsafe { lanes::run::<Avx512Gfni>(job) }
}

/// The lowest `count` of 64 lanes.
#[inline(always)]
fn mask(count: usize) -> __mmask64 {
    (1 << count) - 1
}

#[expect(clippy::undocumented_unsafe_blocks, reason = "each needs what the trait demands of its callers")]
impl Bytes for __m512i {
    const COUNT: usize = 64;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn prefetch(from: *const u8) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm512_storeu_si512(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn load_partial(from: *const u8, count: usize) -> Self {
        unsafe { _mm512_maskz_loadu_epi8(mask(count), from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_partial(self, to: *mut u8, count: usize) {
        unsafe { _mm512_mask_storeu_epi8(to.cast(), mask(count), self) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        unsafe { _mm512_xor_si512(self, other) }
    }
}

#[expect(clippy::undocumented_unsafe_blocks, reason = "each needs what the trait demands of its callers")]
impl Lanes for Avx512Gfni {
    // Of 32 registers, at most sixteen for sums, eight for the sources' bytes and one for a factor.
    const UNROLL: [usize; 3] = [8, 8, 4];
    type Vector = __m512i;
    type Operand = __m512i;
    type Factor = __m512i;

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> __m512i {
        unsafe { _mm512_set1_epi64(BIT_MATRICES[usize::from(coefficient)].cast_signed()) }
    }

    #[inline(always)]
    unsafe fn operand(vector: __m512i) -> __m512i {
        vector
    }

    #[inline(always)]
    unsafe fn multiply(operand: __m512i, factor: __m512i) -> __m512i {
        unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(operand, factor) }
    }
}

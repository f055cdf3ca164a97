//! 128-bit vectors; a multiplication is two table look-ups, one for the low and one for the high nibbles.

use std::arch::aarch64::*;

use super::lanes::{self, Bytes, Job, Lanes};
use super::partial;
use crate::field::NIBBLE_PRODUCTS;

struct Neon;

pub fn is_supported() -> bool {
    std::arch::is_aarch64_feature_detected!("neon")
}

/// # Safety
/// [`is_supported`], and the job's lengths are as it describes.
#[target_feature(enable = "neon")]
pub unsafe fn run(job: &mut Job<'_, '_>) {
    // SAFETY: as promised by the caller.
    unsafe { lanes::run::<Neon>(job) }
}

/// Two vectors of one kind of thing: of nibbles in an operand, of products in a factor.
#[derive(Clone, Copy)]
struct LowHigh {
    low: uint8x16_t,
    high: uint8x16_t,
}

#[expect(clippy::undocumented_unsafe_blocks, reason = "each needs what the trait demands of its callers")]
impl Bytes for uint8x16_t {
    const COUNT: usize = 16;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { vdupq_n_u8(0) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { vld1q_u8(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { vst1q_u8(to, self) }
    }

    #[inline(always)]
    unsafe fn load_partial(from: *const u8, count: usize) -> Self {
        unsafe { Self::load(partial::read::<16>(from, count).as_ptr()) }
    }

    #[inline(always)]
    unsafe fn store_partial(self, to: *mut u8, count: usize) {
        let mut bytes = [0; 16];
        unsafe {
            self.store(bytes.as_mut_ptr());
            partial::write(to, count, &bytes);
        }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        unsafe { veorq_u8(self, other) }
    }
}

#[expect(clippy::undocumented_unsafe_blocks, reason = "each needs what the trait demands of its callers")]
impl Lanes for Neon {
    const UNROLL: [usize; 3] = [4, 4, 2];
    type Vector = uint8x16_t;
    type Operand = LowHigh;
    type Factor = LowHigh;

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> LowHigh {
        let products = &NIBBLE_PRODUCTS[usize::from(coefficient)];
        unsafe { LowHigh { low: vld1q_u8(products.low.as_ptr()), high: vld1q_u8(products.high.as_ptr()) } }
    }

    #[inline(always)]
    unsafe fn operand(vector: uint8x16_t) -> LowHigh {
        unsafe { LowHigh { low: vandq_u8(vector, vdupq_n_u8(15)), high: vshrq_n_u8::<4>(vector) } }
    }

    #[inline(always)]
    unsafe fn multiply(operand: LowHigh, factor: LowHigh) -> uint8x16_t {
        unsafe { veorq_u8(vqtbl1q_u8(factor.low, operand.low), vqtbl1q_u8(factor.high, operand.high)) }
    }
}

//! 256-bit vectors of AVX2: moving and adding bytes.

use std::arch::x86_64::*;

use super::lanes::Bytes;
use super::partial;

const BYTES: usize = 32;

#[expect(clippy::undocumented_unsafe_blocks, reason = "each needs what the trait demands of its callers")]
impl Bytes for __m256i {
    const COUNT: usize = BYTES;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm256_storeu_si256(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn load_partial(from: *const u8, count: usize) -> Self {
        unsafe { Self::load(partial::read::<BYTES>(from, count).as_ptr()) }
    }

    #[inline(always)]
    unsafe fn store_partial(self, to: *mut u8, count: usize) {
        let mut bytes = [0; BYTES];
        unsafe {
            self.store(bytes.as_mut_ptr());
            partial::write(to, count, &bytes);
        }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        unsafe { _mm256_xor_si256(self, other) }
    }
}

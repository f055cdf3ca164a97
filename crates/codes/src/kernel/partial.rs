//! Part of a vector, for kernels whose processor has no masked loads and stores.

/// The `count` bytes at `from`, followed by zeros.
///
/// # Safety
/// `count <= BYTES` bytes can be read at `from`.
#[inline(always)]
pub unsafe fn read<const BYTES: usize>(from: *const u8, count: usize) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    // SAFETY: the caller promises the source; the target holds `BYTES`, is new and so does not overlap it.
    unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), count) };
    bytes
}

/// Writes the first `count` of `bytes` to `to`.
///
/// # Safety
/// `count <= BYTES` bytes can be written at `to`, and they do not overlap `bytes`.
#[inline(always)]
pub unsafe fn write<const BYTES: usize>(to: *mut u8, count: usize, bytes: &[u8; BYTES]) {
    // SAFETY: as promised by the caller.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, count) }
}

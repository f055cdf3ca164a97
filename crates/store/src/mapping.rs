//! One anonymous mapping of memory: the only `unsafe` code of the store.
//!
//! The mapping is private, readable and writable from its creation to its drop, and starts as zeros; pages are taken
//! from the machine only when they are first written. Transparent huge pages are declined, so that the resident size
//! counts what is used and not its neighbourhood.

use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// An owned range of zeroed memory, used as a byte slice.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is owned by this value alone and has no tie to the thread that made it; access goes through
// `&self` and `&mut self` as with a `Box<[u8]>`.
unsafe impl Send for Mapping {}
// SAFETY: as above: `&self` only gives `&[u8]`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` bytes, a multiple of the page size, of zeros.
    ///
    /// # Errors
    /// What the kernel says, usually that it has no room for the reservation.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: without MAP_FIXED the kernel chooses a range that nothing else uses.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, kind) }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // A kernel without transparent huge pages refuses the advice, and then it is not needed.
        // SAFETY: the range was just mapped, and this advice changes no contents.
        let _ = unsafe { madvise(base.as_ptr().cast(), bytes, Advice::LinuxNoHugepage) };
        Ok(Mapping { base, bytes })
    }

    /// Makes `range` zeros and gives its pages back to the kernel.
    ///
    /// # Panics
    /// If the range is not made of whole pages inside the mapping.
    pub fn discard(&mut self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.bytes, "discard inside the mapping");
        assert!(range.start.is_multiple_of(4096) && range.end.is_multiple_of(4096), "discard of whole pages");
        // SAFETY: the range lies inside the mapping (asserted), which is private and anonymous, so its pages read as
        // zeros afterwards: a change of contents that `&mut self` allows.
        let given_back = unsafe {
            madvise(self.base.as_ptr().add(range.start).cast(), range.end - range.start, Advice::LinuxDontNeed)
        };
        if given_back.is_err() {
            // Locked pages, or pages larger than the range: the promise of zeros holds all the same.
            self[range].fill(0);
        }
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `base` is the start of a live mapping of `bytes` readable, initialised (zeroed) bytes, fewer than
        // isize::MAX; it is unmapped only by `drop`, and written only through `&mut self`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Mapping {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no slice of it outlives the value.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_as_zeros_and_is_zeros_again_after_a_discard() {
        let mut mapping = Mapping::new(1 << 20).expect("memory");
        assert!(mapping.iter().all(|&byte| byte == 0));
        mapping.fill(7);
        mapping.discard(65_536..131_072);
        assert!(mapping[65_536..131_072].iter().all(|&byte| byte == 0));
        assert_eq!((mapping[65_535], mapping[131_072]), (7, 7));
    }
}

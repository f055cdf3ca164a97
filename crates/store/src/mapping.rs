//! A mapping of memory, anonymous, shared, or of a part of a file. The store's `unsafe` code is here, in `rooms_view`
//! and in `page_maker`.
//!
//! It is readable and writable from its creation to its drop. An anonymous one is private and starts as zeros; pages
//! are taken from the machine only when they are first written. Transparent huge pages are declined, so that the
//! resident size counts what is used and not its neighbourhood. A shared one is that of a file without a name, through
//! which other processes of the machine can read it. One of a file is shared with it: what is written stays when the
//! process dies.

use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use rustix::fs::{
    FallocateFlags, MemfdFlags, Mode, SealFlags, fallocate, fchmod, fcntl_add_seals, fcntl_get_seals, memfd_create,
};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// Granularity of mappings.
pub(crate) const PAGE_BYTES: usize = 4096;

/// An owned range of memory, used as a byte slice.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    /// The file that it is a part of, and where in it.
    file: Option<(Arc<File>, u64)>,
}

// SAFETY: the mapping is owned by this value alone and has no tie to the thread that made it; access goes through
// `&self` and `&mut self` as with a `Box<[u8]>`.
unsafe impl Send for Mapping {}
// SAFETY: as above: `&self` only gives `&[u8]`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` bytes of zeros.
    ///
    /// # Errors
    /// What the kernel says, usually that it has no room for the reservation.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: without MAP_FIXED the kernel chooses a range that nothing else uses.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, kind) }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Mapping { base, bytes, file: None };
        mapping.decline_huge_pages();
        Ok(mapping)
    }

    /// Where it begins: the other mappings of this store make no slices of theirs.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    pub(crate) fn decline_huge_pages(&self) {
        // A kernel without transparent huge pages refuses the advice, and then it is not needed.
        // SAFETY: the mapping lives, and this advice changes no contents.
        let _ = unsafe { madvise(self.base.as_ptr().cast(), self.bytes, Advice::LinuxNoHugepage) };
    }

    /// As [`Mapping::new`], of a file that has no name and goes with its last user. Others are to read it: nobody can
    /// make it shorter, and those of the same user open it for writing only if they mean to.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn shared(bytes: usize) -> io::Result<Self> {
        let mapping = Self::of_file(&file_without_name(bytes, Mode::RUSR)?, 0, bytes)?;
        mapping.decline_huge_pages();
        Ok(mapping)
    }

    /// Maps `bytes` bytes of a file from `offset` on, both multiples of the page size. The caller sees to it that it
    /// never gets shorter and that nobody else writes to it (its lock, or that it has no name), but to rooms, which are
    /// not looked at meanwhile (see `room`): every page of the mapping is there.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn of_file(file: &Arc<File>, offset: u64, bytes: usize) -> io::Result<Self> {
        Self::of_file_for(ProtFlags::READ | ProtFlags::WRITE, file, offset, bytes)
    }

    fn of_file_for(access: ProtFlags, file: &Arc<File>, offset: u64, bytes: usize) -> io::Result<Self> {
        let kind = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: without MAP_FIXED the kernel chooses a range that nothing else uses. That others do not write to the
        // file while it is looked at as bytes is the caller's promise.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, access, kind, file, offset) }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { base, bytes, file: Some((Arc::clone(file), offset)) })
    }

    /// The file that it is a part of, and where in it it begins.
    pub(crate) fn file(&self) -> Option<(&Arc<File>, u64)> {
        self.file.as_ref().map(|(file, offset)| (file, *offset))
    }

    /// Sees to it that writing to `range` finds memory: a full file system would end the process instead.
    ///
    /// # Errors
    /// What the kernel says, usually that the file system is full.
    pub(crate) fn reserve(&self, range: Range<usize>) -> io::Result<()> {
        let Some((file, offset)) = &self.file else { return Ok(()) };
        let bytes = (range.end - range.start) as u64;
        // Before Linux 6.7 any signal cuts it short.
        let reserve = || fallocate(file, FallocateFlags::KEEP_SIZE, offset + range.start as u64, bytes);
        Ok(rustix::io::retry_on_intr(reserve)?)
    }

    /// Writes two bytes that tell of others, at once: after all that was written before, and before all that is written
    /// after, as far as a process that dies in between can tell.
    pub(crate) fn put_mark(&mut self, at: usize, mark: [u8; 2]) {
        compiler_fence(Ordering::SeqCst);
        *<&mut [u8; 2]>::try_from(&mut self[at..at + 2]).expect("two bytes") = mark;
        compiler_fence(Ordering::SeqCst);
    }

    /// Writes `bytes` at `start`. Where it is a file, by the system: pages that are new and wholly written need neither
    /// be cleared nor be mapped first.
    ///
    /// # Panics
    /// If that is not inside the mapping.
    pub(crate) fn write(&mut self, start: usize, bytes: &[u8]) {
        let range = start..start + bytes.len();
        assert!(range.end <= self.bytes, "write inside the mapping");
        let is_written =
            self.file.as_ref().is_some_and(|(file, offset)| file.write_all_at(bytes, offset + start as u64).is_ok());
        if !is_written {
            // Memory of a file was reserved, so the mapping takes it.
            self[range].copy_from_slice(bytes);
        }
    }

    /// Takes the pages of `range` from the machine at once: cheaper than one after the other when they are written
    /// first.
    ///
    /// # Panics
    /// If the range is not inside the mapping.
    pub fn populate(&mut self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.bytes, "populate inside the mapping");
        let start = range.start - range.start % PAGE_BYTES;
        // SAFETY: the pages lie inside the mapping, which is made of whole ones, and their contents do not change. A
        // kernel that does not know the advice refuses it; then the pages come when they are written.
        let _ = unsafe { madvise(self.base.as_ptr().add(start).cast(), range.end - start, Advice::LinuxPopulateWrite) };
    }

    /// Makes `range` zeros and gives its pages back to the kernel.
    ///
    /// # Panics
    /// If the range is not made of whole pages inside the mapping.
    pub(crate) fn discard(&mut self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.bytes, "discard inside the mapping");
        assert!(range.start.is_multiple_of(4096) && range.end.is_multiple_of(4096), "discard of whole pages");
        if range.is_empty() {
            return;
        }
        // Of a file the pages themselves go; else only our view of them.
        let advice = if self.file.is_some() { Advice::LinuxRemove } else { Advice::LinuxDontNeed };
        // SAFETY: the range lies inside the mapping (asserted), which nobody else uses, so its pages read as zeros
        // afterwards: a change of contents that `&mut self` allows.
        let given_back =
            unsafe { madvise(self.base.as_ptr().add(range.start).cast(), range.end - range.start, advice) };
        if given_back.is_err() {
            // Locked pages, pages larger than the range, a file without holes: the promise of zeros holds all the same.
            self[range].fill(0);
        }
    }
}

/// A file of zeros in memory that goes with its last user, and that nobody makes shorter or longer.
fn file_without_name(bytes: usize, mode: Mode) -> io::Result<Arc<File>> {
    let kind = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 do not know the flag, and later ones may insist on it.
    let file = memfd_create("shorttail", kind | MemfdFlags::NOEXEC_SEAL).or_else(|_| memfd_create("shorttail", kind));
    let file = Arc::new(File::from(file?));
    file.set_len(bytes as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    fchmod(&file, mode)?;
    Ok(file)
}

/// Words of memory that is shared with another process: each is read and written as a whole.
#[derive(Debug)]
pub(crate) struct SharedWords {
    view: WordsView,
}

impl SharedWords {
    /// Zeros that another process may share.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new(count: usize) -> io::Result<Self> {
        let file = file_without_name(count * size_of::<u64>(), Mode::RUSR | Mode::WUSR)?;
        Self::of_file(&file)
    }

    /// Those that another process made.
    ///
    /// # Errors
    /// What the kernel says; `InvalidData`: it is not of whole pages, or may get shorter.
    pub fn of_file(file: &Arc<File>) -> io::Result<Self> {
        Ok(SharedWords { view: WordsView::new(ProtFlags::READ | ProtFlags::WRITE, file)? })
    }

    pub fn file(&self) -> &Arc<File> {
        self.view.mapping.file().expect("it is of a file").0
    }

    pub fn get(&self) -> &[AtomicU64] {
        self.view.words()
    }
}

/// As [`SharedWords`], only to read.
#[derive(Debug)]
pub(crate) struct WordsView {
    /// Never looked at as bytes: nothing says what they are from one moment to the next.
    mapping: Mapping,
}

impl WordsView {
    /// # Errors
    /// As of [`SharedWords::of_file`].
    pub fn of_file(file: &Arc<File>) -> io::Result<Self> {
        Self::new(ProtFlags::READ, file)
    }

    fn new(access: ProtFlags, file: &Arc<File>) -> io::Result<Self> {
        // A file that somebody could make shorter would end this process when it is touched. First this, then its
        // length.
        let is_fixed = fcntl_get_seals(file)?.contains(SealFlags::SHRINK);
        let bytes = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        if !is_fixed || bytes == 0 || !bytes.is_multiple_of(PAGE_BYTES) || bytes > isize::MAX as usize {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mapping = Mapping::of_file_for(access, file, 0, bytes)?;
        mapping.decline_huge_pages();
        Ok(WordsView { mapping })
    }

    fn words(&self) -> &[AtomicU64] {
        let count = self.mapping.bytes / size_of::<u64>();
        // SAFETY: the mapping begins at a page, is `bytes` long and lives as long as `self`; its memory is only ever
        // accessed through these atomics, here and in the other process (of which nothing is believed unproven); who
        // may only read it calls nothing but `load`.
        unsafe { std::slice::from_raw_parts(self.mapping.base.as_ptr().cast(), count) }
    }

    /// Fills `into` with the bytes from `position` on; how many there are. Each word is as it was at some moment.
    pub fn read(&self, position: u64, into: &mut [u8]) -> usize {
        let Ok(start) = usize::try_from(position) else { return 0 };
        let length = into.len().min(self.mapping.bytes.saturating_sub(start));
        let (into, behind) = (&mut into[..length], start % size_of::<u64>() * 8);
        let mut words = self.words()[start.min(self.mapping.bytes) / size_of::<u64>()..].iter();
        let mut next = || words.next().map_or(0, |word| u64::from_le(word.load(Ordering::Relaxed)));
        if behind == 0 {
            into.chunks_mut(size_of::<u64>()).for_each(|bytes| put(bytes, next()));
            return length;
        }
        let mut word = next();
        for bytes in into.chunks_mut(size_of::<u64>()) {
            // The next word may be on a page that is not there, and is not to be.
            let is_whole = bytes.len() * 8 <= u64::BITS as usize - behind;
            let after = if is_whole { 0 } else { next() };
            put(bytes, word >> behind | after << (u64::BITS as usize - behind));
            word = after;
        }
        length
    }

    /// Lets go of the pages that were looked at: they count as this process's, too, until then.
    pub fn let_go(&self) {
        // SAFETY: pages of a shared file: the next access finds the same contents, in the file.
        let result = unsafe { madvise(self.mapping.base.as_ptr().cast(), self.mapping.bytes, Advice::LinuxDontNeed) };
        debug_assert!(result.is_ok(), "whole pages that are mapped: {result:?}");
    }
}

/// The first bytes of a word, as many as there is room for.
fn put(bytes: &mut [u8], word: u64) {
    match <&mut [u8; size_of::<u64>()]>::try_from(&mut *bytes) {
        Ok(bytes) => *bytes = word.to_le_bytes(),
        Err(_) => bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]),
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `base` is the start of a live mapping of `bytes` readable, initialised (zeroed) bytes, fewer than
        // isize::MAX; it is unmapped only by `drop`, and written only through `&mut self`; what another thread
        // writes through the file is a room's, whose bytes nobody reads or writes here until that is over.
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
    fn what_is_written_is_read_whatever_memory_it_is() {
        for mut mapping in [Mapping::new(1 << 20), Mapping::shared(1 << 20)].map(|mapping| mapping.expect("memory")) {
            mapping[5000..5010].fill(3);
            mapping.write(5002, &[7; 70_000]);
            assert_eq!((mapping[5001], mapping[75_002]), (3, 0));
            assert!(mapping[5002..75_002].iter().all(|&byte| byte == 7));
            mapping[5002] = 9;
            assert_eq!(mapping[5002..5004], [9, 7]);
        }
    }

    #[test]
    fn a_view_shows_what_is_written_at_any_place() {
        let mut mapping = Mapping::shared(2 * PAGE_BYTES).expect("memory");
        let view = WordsView::of_file(mapping.file().expect("it is of a file").0).expect("a view");
        for (at, byte) in mapping.iter_mut().enumerate() {
            *byte = (at * 7 % 251) as u8;
        }
        for start in (0..24).chain(PAGE_BYTES - 20..PAGE_BYTES + 4).chain(2 * PAGE_BYTES - 40..2 * PAGE_BYTES + 2) {
            for length in 0..36 {
                let mut bytes = [99; 36];
                let expected = &mapping[start.min(2 * PAGE_BYTES)..(start + length).min(2 * PAGE_BYTES)];
                assert_eq!(view.read(start as u64, &mut bytes[..length]), expected.len(), "{start}");
                assert_eq!(&bytes[..expected.len()], expected, "{start}");
                assert!(bytes[expected.len()..].iter().all(|&byte| byte == 99));
            }
        }
        assert_eq!(view.read(u64::MAX, &mut [0; 8]), 0);
        view.let_go();
        mapping[5000] = 1;
        let mut byte = [0];
        assert_eq!((view.read(5000, &mut byte), byte), (1, [1]));
        view.read(5001, &mut byte);
        assert_eq!(byte, [(5001 * 7 % 251) as u8]);
    }

    #[test]
    fn what_could_get_shorter_is_not_looked_at() {
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        file.set_len(PAGE_BYTES as u64).expect("room");
        assert!(WordsView::of_file(&file).is_err());
    }

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

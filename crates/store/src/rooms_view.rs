//! Memory of a file, to be written beside the core that it belongs to: rooms alone (see `room`), which nobody else
//! looks at meanwhile.
//!
//! A system call that writes to a file locks all of it. Who runs only while nobody else wants to may have to stop
//! there, and the core, which takes memory from the file and gives it back, would wait for it. Pages that are mapped
//! are locked one by one, and pages that are made (see `page_maker`) are not there before.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use rustix::mm::{Advice, madvise};

use crate::mapping::{Mapping, PAGE_BYTES};
use crate::page_maker::PageMaker;

/// A file's rooms, written where they are mapped.
#[derive(Debug)]
pub struct RoomsView {
    /// Never looked at as bytes: most of them are others'.
    mapping: Mapping,
    /// `None`: pages are taken one by one, cleared, and written.
    page_maker: Option<PageMaker>,
}

impl RoomsView {
    /// Of a file in memory that never gets shorter.
    ///
    /// # Errors
    /// What the kernel says: it may be one (before Linux 5.14) that cannot be asked whether there is a page.
    pub fn of_file(file: &Arc<File>) -> io::Result<Self> {
        let mut view = Self::without_page_maker(file)?;
        view.page_maker = PageMaker::of(&view.mapping).ok();
        Ok(view)
    }

    /// Are pages made of what is written? Else they are taken one by one and cleared first: the kernel is older than
    /// Linux 5.11, or lets this process not do it.
    pub fn makes_pages(&self) -> bool {
        self.page_maker.is_some()
    }

    fn without_page_maker(file: &Arc<File>) -> io::Result<Self> {
        let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let mapping = Mapping::of_file(file, 0, bytes)?;
        mapping.decline_huge_pages();
        let view = RoomsView { mapping, page_maker: None };
        view.take_pages(0..0)?;
        Ok(view)
    }

    /// Takes memory for `room_bytes` from the machine and writes `bytes` at the beginning of it.
    ///
    /// # Errors
    /// What the kernel says, usually that there is no memory; what is in the room then does not count.
    ///
    /// # Panics
    /// If that is not inside the file, or more than there is room for.
    pub fn write(&self, position: u64, room_bytes: usize, bytes: &[u8]) -> io::Result<()> {
        assert!(bytes.len() <= room_bytes, "inside the room");
        let range = self.range(position, room_bytes);
        match &self.page_maker {
            Some(page_maker) => self.make_pages(page_maker, range, bytes),
            None => self.write_to_pages(range, bytes),
        }
    }

    fn make_pages(&self, page_maker: &PageMaker, range: Range<usize>, mut bytes: &[u8]) -> io::Result<()> {
        let mut at = range.start;
        while at < range.end {
            let (behind, whole) = (at % PAGE_BYTES, bytes.len() - bytes.len() % PAGE_BYTES);
            let mut page = [0; PAGE_BYTES];
            let (contents, mut length) = if behind == 0 && whole > 0 {
                (&bytes[..whole], whole)
            } else {
                let length = (PAGE_BYTES - behind).min(range.end - at);
                let first = &bytes[..length.min(bytes.len())];
                page[behind..behind + first.len()].copy_from_slice(first);
                (&page[..], length)
            };
            // SAFETY: the pages lie inside the mapping (`range` asserts it), of which no slice is ever made. Where one
            // is made in part for others than this room, nobody wrote anything to it: it was not there.
            let made = unsafe { page_maker.make(self.mapping.base().add(at - behind), contents) }?;
            if made < contents.len() {
                // That one is there. Usually all are, then.
                (at, bytes) = (at + made, &bytes[made.min(bytes.len())..]);
                if self.write_to_pages(at..range.end, bytes).is_ok() {
                    return Ok(());
                }
                length = (PAGE_BYTES - at % PAGE_BYTES).min(range.end - at);
                self.write_to_pages(at..at + length, &bytes[..length.min(bytes.len())])?;
            }
            (at, bytes) = (at + length, &bytes[length.min(bytes.len())..]);
        }
        Ok(())
    }

    fn write_to_pages(&self, range: Range<usize>, bytes: &[u8]) -> io::Result<()> {
        let start = range.start;
        self.take_pages(range)?;
        // SAFETY: the range lies inside the mapping (`range` asserts it), whose pages are there now. It is a room's, so
        // nobody else reads or writes there, and no slice is ever made of this mapping.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.mapping.base().add(start), bytes.len()) };
        Ok(())
    }

    /// Lets go of all pages that were written: they count as this process's twice until then.
    pub fn let_go(&self) {
        let base = self.mapping.base().cast();
        // SAFETY: pages of a shared file, all of the mapping: they stay what they are, in the file.
        let result = unsafe { madvise(base, self.mapping.len(), Advice::LinuxDontNeed) };
        debug_assert!(result.is_ok(), "pages that are mapped: {result:?}");
    }

    fn range(&self, position: u64, bytes: usize) -> Range<usize> {
        let start = usize::try_from(position).expect("inside the file");
        let end = start.checked_add(bytes).filter(|&end| end <= self.mapping.len());
        start..end.expect("inside the file")
    }

    /// Unlike a page that is not there when it is written, this does not end the process.
    fn take_pages(&self, range: Range<usize>) -> io::Result<()> {
        let start = range.start - range.start % PAGE_BYTES;
        let take = || {
            // SAFETY: the pages lie inside the mapping, which is made of whole ones, and their contents do not change.
            unsafe { madvise(self.mapping.base().add(start).cast(), range.end - start, Advice::LinuxPopulateWrite) }
        };
        Ok(rustix::io::retry_on_intr(take)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Make = fn(&Arc<File>) -> io::Result<RoomsView>;
    const BOTH: [Make; 2] = [RoomsView::of_file, RoomsView::without_page_maker];

    fn pages_of(file: &File) -> u64 {
        use std::os::unix::fs::MetadataExt;
        file.metadata().expect("it is a file").blocks() * 512 / PAGE_BYTES as u64
    }

    #[test]
    fn what_is_written_into_a_room_is_there_and_nothing_else_changes() {
        // Where it begins, its bytes, those that are written, and the pages that were there before.
        let cases: [(usize, usize, usize, &[usize]); 9] = [
            (4097, 3 * PAGE_BYTES, 5000, &[0, 1]),
            (4097, 3 * PAGE_BYTES, 5000, &[]),
            (256, 16 * PAGE_BYTES - 256, 16 * PAGE_BYTES - 256, &[]),
            (256, 16 * PAGE_BYTES - 256, 16 * PAGE_BYTES - 300, &[0, 3, 4, 15]),
            (PAGE_BYTES, 4 * PAGE_BYTES, 4 * PAGE_BYTES, &[1, 4]),
            (PAGE_BYTES, 4 * PAGE_BYTES, 4 * PAGE_BYTES, &[]),
            (PAGE_BYTES + 1024, 1024, 1, &[1]),
            (PAGE_BYTES + 1024, 1024, 1024, &[]),
            (3 * PAGE_BYTES, 2 * PAGE_BYTES, 0, &[3]),
        ];
        for (make, (start, room_bytes, length, there)) in
            BOTH.into_iter().flat_map(|make| cases.map(|case| (make, case)))
        {
            let mut mapping = Mapping::shared(16 * PAGE_BYTES).expect("memory");
            let file = Arc::clone(mapping.file().expect("it is of a file").0);
            let rooms = make(&file).expect("a view");
            for page in there {
                mapping[page * PAGE_BYTES..(page + 1) * PAGE_BYTES].fill(9);
            }
            let before = mapping.to_vec();
            // That looked at every page: they are there now.
            mapping.discard(0..16 * PAGE_BYTES);
            for page in there {
                mapping[page * PAGE_BYTES..(page + 1) * PAGE_BYTES].fill(9);
            }
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            rooms.write(start as u64, room_bytes, &bytes).expect("written");
            let of_room = start / PAGE_BYTES..(start + room_bytes).div_ceil(PAGE_BYTES);
            let taken = (0..16).filter(|page| of_room.contains(page) || there.contains(page)).count();
            assert_eq!(pages_of(&file), taken as u64, "no more and no less than its room: {start} {there:?}");
            rooms.let_go();
            let mut expected = before;
            expected[start..start + length].copy_from_slice(&bytes);
            assert!(*mapping == *expected, "{start}, {room_bytes}, {length}, {there:?}");
            rooms.write(16 * PAGE_BYTES as u64, 0, &[]).expect("nothing");
        }
    }

    #[test]
    #[should_panic(expected = "inside the file")]
    fn nothing_is_written_behind_a_file() {
        let mapping = Mapping::shared(PAGE_BYTES).expect("memory");
        let rooms = RoomsView::of_file(mapping.file().expect("it is of a file").0).expect("a view");
        let _ = rooms.write(PAGE_BYTES as u64 - 1, 2, &[1]);
    }
}

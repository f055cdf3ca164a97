//! A few KiB that outlive the process, replaced as a whole.
//!
//! ```text
//! copy: sequence u64 | length u32 | CRC32C of the rest of the copy in use u32 | bytes
//! ```
//! Each change writes the first copy, then the second. A process that dies meanwhile leaves one that is whole, and a
//! bit that turns over spoils one; one of zeros is whole, and older than any other. The next process begins by making
//! both the same: what it believes must not be forgotten when it dies in its turn.
//!
//! Must not know: what the bytes mean.

use std::sync::atomic::{Ordering, compiler_fence};

use crate::limits::NOTES_BYTES;
use crate::mapping::Mapping;
use shorttail_wire::crc32c_of;

const HEAD_BYTES: usize = 16;

/// Both copies are spoilt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("what was kept of fences is damaged")]
pub struct NotesDamaged;

#[derive(Debug)]
pub struct Notes {
    memory: Mapping,
    mended: u64,
}

impl Notes {
    pub(crate) fn new(memory: Mapping) -> Self {
        let mut notes = Notes { memory, mended: 0 };
        notes.mend();
        notes
    }

    fn mend(&mut self) {
        let copies: Vec<&[u8]> = self.memory.chunks_exact(NOTES_BYTES).collect();
        let whole = copies.iter().filter_map(|copy| Some((read_copy(copy)?.0, copy)));
        let Some((_, newest)) = whole.max_by_key(|&(sequence, _)| sequence) else { return };
        self.mended = copies.iter().filter(|copy| read_copy(copy).is_none()).count() as u64;
        let newest = newest.to_vec();
        for copy in self.memory.chunks_exact_mut(NOTES_BYTES).filter(|copy| **copy != newest) {
            copy.copy_from_slice(&newest);
        }
    }

    /// Copies that were damaged.
    pub(crate) fn mended_count(&self) -> u64 {
        self.mended
    }

    /// A bit near the beginning of one of the copies turns over.
    pub(crate) fn damage(&mut self, pick: u64) {
        let bit = (pick / 2) as usize % (4 * HEAD_BYTES * 8);
        self.memory[(pick % 2) as usize * NOTES_BYTES + bit / 8] ^= 1 << (bit % 8);
    }

    /// Most bytes that can be kept.
    const BYTES_MAX: usize = NOTES_BYTES - HEAD_BYTES;

    /// What was written last; nothing if nothing ever was.
    ///
    /// # Errors
    /// Neither copy is whole.
    pub fn read(&self) -> Result<Vec<u8>, NotesDamaged> {
        let whole = self.memory.chunks_exact(NOTES_BYTES).filter_map(read_copy);
        whole.max_by_key(|&(sequence, _)| sequence).map(|(_, bytes)| bytes.to_vec()).ok_or(NotesDamaged)
    }

    /// Keeps these bytes instead of those before. False, with nothing changed: they are too many.
    #[must_use]
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() > Self::BYTES_MAX {
            return false;
        }
        let known = self.memory.chunks_exact(NOTES_BYTES).filter_map(read_copy).map(|(sequence, _)| sequence).max();
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(&(known.unwrap_or(0) + 1).to_le_bytes());
        head[8..12].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        let sum = checksum(&head, bytes);
        head[12..].copy_from_slice(&sum.to_le_bytes());
        for copy in self.memory.chunks_exact_mut(NOTES_BYTES) {
            copy[..HEAD_BYTES].copy_from_slice(&head);
            copy[HEAD_BYTES..][..bytes.len()].copy_from_slice(bytes);
            // The first one is whole before the second one is touched.
            compiler_fence(Ordering::SeqCst);
        }
        true
    }
}

fn read_copy(copy: &[u8]) -> Option<(u64, &[u8])> {
    let (head, rest) = copy.split_first_chunk::<HEAD_BYTES>()?;
    let sequence = u64::from_le_bytes(head[..8].try_into().ok()?);
    let length = u32::from_le_bytes(head[8..12].try_into().ok()?);
    let bytes = rest.get(..usize::try_from(length).ok()?)?;
    let is_whole = match sequence {
        0 => copy.iter().all(|&byte| byte == 0),
        _ => head[12..] == checksum(head, bytes).to_le_bytes(),
    };
    is_whole.then_some((sequence, bytes))
}

fn checksum(head: &[u8; HEAD_BYTES], bytes: &[u8]) -> u32 {
    crc32c_of([&head[..12], bytes])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes() -> Notes {
        Notes::new(Mapping::new(2 * NOTES_BYTES).expect("memory"))
    }

    #[test]
    fn what_was_written_last_is_read() {
        let mut notes = notes();
        assert_eq!(notes.read(), Ok(Vec::new()));
        for bytes in [&b"first"[..], b"", b"the third, longer"] {
            assert!(notes.write(bytes));
            assert_eq!(notes.read().as_deref(), Ok(bytes));
        }
        assert!(notes.write(&vec![7; Notes::BYTES_MAX]) && !notes.write(&vec![8; Notes::BYTES_MAX + 1]));
        assert_eq!(notes.read(), Ok(vec![7; Notes::BYTES_MAX]));
    }

    #[test]
    fn one_spoilt_copy_does_no_harm_and_two_are_noticed() {
        let mut notes = notes();
        assert!(notes.write(b"old") && notes.write(b"new"));
        for place in [0, NOTES_BYTES] {
            for bit in 0..(HEAD_BYTES + 3) * 8 {
                notes.memory[place + bit / 8] ^= 1 << (bit % 8);
                assert_eq!(notes.read().as_deref(), Ok(&b"new"[..]), "copy at {place}, bit {bit}");
                notes.memory[place + bit / 8] ^= 1 << (bit % 8);
            }
        }
        notes.memory[HEAD_BYTES] ^= 1;
        notes.memory[NOTES_BYTES + HEAD_BYTES] ^= 1;
        assert_eq!(notes.read(), Err(NotesDamaged));
    }

    #[test]
    fn what_a_process_believes_the_next_one_does_not_forget() {
        let mut notes = notes();
        assert!(notes.write(b"old"));
        let second = notes.memory[NOTES_BYTES..].to_vec();
        assert!(notes.write(b"new"));
        // The process died between the copies.
        notes.memory[NOTES_BYTES..].copy_from_slice(&second);
        let mut notes = Notes::new(notes.memory);
        assert_eq!((notes.read().as_deref(), notes.mended_count()), (Ok(&b"new"[..]), 0));
        notes.memory[HEAD_BYTES] ^= 1;
        assert_eq!(notes.read().as_deref(), Ok(&b"new"[..]), "both copies say it");
        let notes = Notes::new(notes.memory);
        assert_eq!(notes.mended_count(), 1);
        assert!(notes.memory[..NOTES_BYTES] == notes.memory[NOTES_BYTES..]);
    }

    /// A bit turned over in notes that nobody wrote, or the process died while it wrote the first ones.
    #[test]
    fn notes_that_were_never_written_are_none_whatever_lies_in_one_copy() {
        for place in [0, 13, HEAD_BYTES + 5, NOTES_BYTES + 1] {
            let mut memory = notes().memory;
            memory[place] ^= 1;
            let notes = Notes::new(memory);
            assert_eq!((notes.read(), notes.mended_count()), (Ok(Vec::new()), 1));
            assert!(notes.memory.iter().all(|&byte| byte == 0));
        }
    }

    /// The process died while it wrote the first copy.
    #[test]
    fn a_torn_write_leaves_the_one_before() {
        let mut notes = notes();
        assert!(notes.write(b"before"));
        let second = notes.memory[NOTES_BYTES..].to_vec();
        assert!(notes.write(b"after, and longer"));
        notes.memory[NOTES_BYTES..].copy_from_slice(&second);
        notes.memory[20..].iter_mut().take(4).for_each(|byte| *byte = 0);
        assert_eq!(notes.read().as_deref(), Ok(&b"before"[..]));
    }
}

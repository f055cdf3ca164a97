//! Pages of a file in memory that are not there yet, made of what is to be in them (Linux's `userfaultfd`).
//!
//! A page that is touched first is cleared, then written; one after the other is looked up and mapped. `write` does
//! neither, but locks the whole file. Here the kernel takes new pages, copies into them, and only then are they there,
//! for everybody at once, and no lock is held that others wait for.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::mm::{UserfaultfdFlags, userfaultfd};

use crate::mapping::{Mapping, PAGE_BYTES};

/// Version and group of the kernel's interface.
const VERSION: u64 = 0xAA;
const GROUP: u8 = 0xAA;
const AGREE: Opcode = opcode::read_write::<Agreement>(GROUP, 0x3F);
const REGISTER: Opcode = opcode::read_write::<Registration>(GROUP, 0x00);
const COPY: Opcode = opcode::read_write::<Copying>(GROUP, 0x03);

/// Of faults in the kernel it knows nothing then, and needs no privileges (Linux 5.11).
const USER_MODE_ONLY: u32 = 1;

/// Who touches a page that is not there gets a signal, as with a file that is too short; by default it would wait for
/// ever.
const SIGNAL_WHERE_MISSING: u64 = 1 << 7;

/// What is asked for: pages that are not there.
const MISSING: u64 = 1;

#[repr(C)]
struct Agreement {
    version: u64,
    features: u64,
    calls: u64,
}

#[repr(C)]
struct Registration {
    start: u64,
    bytes: u64,
    mode: u64,
    calls: u64,
}

#[repr(C)]
struct Copying {
    to: u64,
    from: u64,
    bytes: u64,
    mode: u64,
    /// Bytes that were copied, or a negative error.
    copied: i64,
}

/// Makes the pages of one mapping; nobody touches pages of it that are not there.
#[derive(Debug)]
pub(crate) struct PageMaker {
    handle: OwnedFd,
}

impl PageMaker {
    /// # Errors
    /// What the kernel says: it does not know how, or may not do it.
    pub fn of(mapping: &Mapping) -> io::Result<Self> {
        let flags =
            UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK | UserfaultfdFlags::from_bits_retain(USER_MODE_ONLY);
        // SAFETY: it is only used to make pages where there are none.
        let handle = unsafe { userfaultfd(flags) }?;
        let mut agreement = Agreement { version: VERSION, features: SIGNAL_WHERE_MISSING, calls: 0 };
        // SAFETY: the call reads and writes such a struct, which lives as long.
        unsafe { ioctl(&handle, Updater::<AGREE, _>::new(&mut agreement)) }?;
        let (start, bytes) = (mapping.base().addr() as u64, mapping.len() as u64);
        let mut registration = Registration { start, bytes, mode: MISSING, calls: 0 };
        // SAFETY: as above; the mapping is its owner's, who asks for this.
        unsafe { ioctl(&handle, Updater::<REGISTER, _>::new(&mut registration)) }?;
        Ok(PageMaker { handle })
    }

    /// Makes pages of `bytes`, whole ones, from page `at` on: so many bytes until one is there already, or there is no
    /// memory for it. Pages that are there stay what they are; new ones are there as a whole, for everybody.
    ///
    /// # Errors
    /// What the kernel says.
    ///
    /// # Safety
    /// `at` is a page of the mapping, in which so many follow; no slice is ever made of that mapping.
    pub unsafe fn make(&self, at: *mut u8, bytes: &[u8]) -> io::Result<usize> {
        debug_assert!(at.addr().is_multiple_of(PAGE_BYTES) && bytes.len().is_multiple_of(PAGE_BYTES), "whole pages");
        let mut made = 0;
        while made < bytes.len() {
            let rest = &bytes[made..];
            let (to, from) = ((at.addr() + made) as u64, rest.as_ptr().addr() as u64);
            let mut copying = Copying { to, from, bytes: rest.len() as u64, mode: 0, copied: 0 };
            // SAFETY: the call reads and writes such a struct, and reads `rest`, which live as long; it writes to pages
            // that were not there, of the mapping, as the caller promises.
            match unsafe { ioctl(&self.handle, Updater::<COPY, _>::new(&mut copying)) } {
                Ok(()) => made = bytes.len(),
                Err(Errno::AGAIN) => made += usize::try_from(copying.copied).unwrap_or(0),
                Err(Errno::INTR) => {}
                Err(Errno::EXIST) => break,
                // It is looked for before anybody looks whether there is a page.
                Err(Errno::NOMEM | Errno::NOSPC) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the kernel has it at all, and lets this process use it, the rest of it must do what is asked for.
    #[test]
    fn pages_are_made_where_there_are_none() {
        let mut mapping = Mapping::shared(4 * PAGE_BYTES).expect("memory");
        let file = std::sync::Arc::clone(mapping.file().expect("it is of a file").0);
        let other = Mapping::of_file(&file, 0, 4 * PAGE_BYTES).expect("mapped");
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::from_bits_retain(USER_MODE_ONLY);
        let refusals = [Errno::PERM, Errno::ACCESS, Errno::INVAL, Errno::NOSYS];
        // SAFETY: it is closed at once.
        match unsafe { userfaultfd(flags) } {
            Err(error) if refusals.contains(&error) => {
                // Past what the tests' runner keeps to itself.
                let told = format!("\nnot tested here: pages that are made, which this system refuses: {error}\n");
                return std::io::Write::write_all(&mut io::stderr(), told.as_bytes()).expect("told");
            }
            handle => drop(handle.expect("the system tells")),
        }
        let maker = PageMaker::of(&other).expect("registered");
        mapping[2 * PAGE_BYTES] = 9;
        let bytes = [7; 4 * PAGE_BYTES];
        // SAFETY: pages of that mapping, of which no slice is made.
        let make =
            |page: usize| unsafe { maker.make(other.base().add(page * PAGE_BYTES), &bytes[page * PAGE_BYTES..]) };
        assert_eq!(make(0).expect("made"), 2 * PAGE_BYTES, "until one is there");
        assert_eq!(make(2).expect("nothing"), 0);
        assert_eq!(make(3).expect("made"), PAGE_BYTES);
        assert!(mapping[..2 * PAGE_BYTES].iter().chain(&mapping[3 * PAGE_BYTES..]).all(|&byte| byte == 7));
        assert_eq!((mapping[2 * PAGE_BYTES], mapping[2 * PAGE_BYTES + 1]), (9, 0));
    }
}

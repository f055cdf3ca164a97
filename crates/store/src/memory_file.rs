//! A node's memory in a file, so that another process of the node goes on with it.
//!
//! ```text
//! at 0        identity: one page, twice in it, written last when the file is new
//! each core   notes:  two copies of 32 KiB         what the core keeps beside its chunks: its fences
//!             operations: a page and a ring        those of open chunks, see kept_ops.rs
//!             table:  two bytes for each unit      how many units the chunk that begins here has, see table.rs
//!             arena:  blocks of 64 KiB             chunks, each with its header
//! ```
//! A process may die between any two instructions. So whatever tells of something is written after it: the table's
//! entry after the chunk; and taken back before it. Of the notes one copy is always whole.
//!
//! A bit of the file may turn over, whatever it is of. What tells of all else is there twice, with checks, and is
//! mended by the next process; a chunk, or an operation, has a checksum, and is lost. Numbers are little-endian. The
//! page, at 0 and at 2048:
//!
//! | at | type | field |
//! |---:|---|---|
//! | 0 | u8 x 4 | `STM4`: the layout |
//! | 4 | u32 | CRC32C of bytes 8 to 55 |
//! | 8 | u64 | cluster |
//! | 16 | u64 | incarnation |
//! | 24 | u64 | memory of a core, in bytes |
//! | 32 | u16, u16 | node, cores |
//! | 36 | u32 | zero |
//! | 40 | u8 x 16 | which start of the machine it was written in |
//!
//! All of it zero from byte 8 on: it is nobody's, for however many cores and bytes it was made.
//!
//! What is not on tmpfs outlives the machine, but in no certain state: memory of an earlier start of it is *stale*.
//!
//! Must not know: where the file is, what is in the notes.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, memfd_create};
use shorttail_units::{ClusterId, Incarnation, NodeId};
use shorttail_wire::crc32c;

use crate::chunk_store::{ChunkStore, StoreError};
use crate::kept_ops::KeptOps;
use crate::limits::NOTES_BYTES;
use crate::mapping::{Mapping, PAGE_BYTES};
use crate::notes::Notes;
use crate::table::Table;

/// What a memory file begins with: its layout.
pub const MEMORY_FILE_LAYOUT: &str = "STM4";
const MAGIC: [u8; 4] = *b"STM4";
/// Of every layout that there ever was.
const MAGIC_ANY: [u8; 3] = *b"STM";
const IDENTITY_BYTES: usize = 56;
const IDENTITY_AT: [usize; 2] = [0, PAGE_BYTES / 2];
const BOOT: std::ops::Range<usize> = 40..56;

/// Whose memory it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryIdentity {
    pub cluster: ClusterId,
    pub node: NodeId,
    pub incarnation: Incarnation,
}

/// Which start of the machine it is: memory does not outlive it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BootId(pub [u8; 16]);

/// Why a file cannot be a node's memory.
#[derive(Debug, thiserror::Error)]
pub enum MemoryFileError {
    #[error("it is something else than a node's memory")]
    Foreign,
    #[error("it was written by another version, with another layout")]
    Layout,
    #[error("it was made for {cores} core(s) with {core_bytes} bytes each")]
    Size { cores: u16, core_bytes: u64 },
    #[error("it is {found} bytes long instead of {wanted}: it was cut or grown")]
    Length { found: u64, wanted: u64 },
    #[error("another process uses it")]
    InUse,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A file that is a node's memory, or is to be.
#[derive(Debug)]
pub struct MemoryFile {
    file: Arc<File>,
    boot: BootId,
    identity: Option<MemoryIdentity>,
    is_stale: bool,
    cores: u16,
    core_bytes: usize,
}

/// One core's part.
#[derive(Debug)]
pub struct CoreMemory {
    pub(crate) notes: Notes,
    pub(crate) kept: KeptOps,
    pub(crate) table: Table,
    pub(crate) arena: Mapping,
}

impl CoreMemory {
    /// The chunks that are in it, and what is kept beside them.
    ///
    /// # Errors
    /// As [`ChunkStore::restore`].
    pub fn open(self, memory_bytes: usize) -> Result<(ChunkStore, Notes), StoreError> {
        let mut store = ChunkStore::restore(memory_bytes, self.arena, self.table, self.kept)?;
        store.note_mended(self.notes.mended_count());
        Ok((store, self.notes))
    }
}

impl MemoryFile {
    /// Takes a file, new or left by an earlier process, for so many cores with so many bytes of budget each.
    ///
    /// # Errors
    /// It is not to be used as it is; nothing was changed.
    pub fn take(file: File, boot: BootId, cores: u16, core_bytes: usize) -> Result<Self, MemoryFileError> {
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => MemoryFileError::InUse,
            TryLockError::Error(error) => MemoryFileError::Io(error),
        })?;
        let mut memory = MemoryFile { file: Arc::new(file), boot, identity: None, is_stale: false, cores, core_bytes };
        let length = memory.file.metadata()?.len();
        let page = if length > 0 { memory.read_page(length)? } else { None };
        match page {
            // The other copy may be damaged.
            Some(page) => memory.write_page(&page)?,
            // Nothing of what may lie in it counts.
            None => memory.empty()?,
        }
        Ok(memory)
    }

    /// A file without a name, gone when nobody has it open any more: memory that outlives a machine,
    /// but not the process.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn without_name(cores: u16, core_bytes: usize) -> Result<Self, MemoryFileError> {
        let file = memfd_create("shorttail", MemfdFlags::CLOEXEC).map_err(io::Error::from)?;
        Self::take(File::from(file), BootId::default(), cores, core_bytes)
    }

    /// Was it written before the machine started last? Then it must be wiped before it is used.
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Whose memory it holds; `None`: nobody's.
    pub fn identity(&self) -> Option<MemoryIdentity> {
        self.identity
    }

    /// Bytes that its file system lacks for all of it; none also if that does not tell how large it is.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn lacking_bytes(&self) -> io::Result<u64> {
        let system = rustix::fs::fstatvfs(&self.file)?;
        let free_bytes = if system.f_blocks == 0 { u64::MAX } else { system.f_bavail.saturating_mul(system.f_frsize) };
        let held_bytes = self.file.metadata()?.blocks() * 512;
        Ok(self.length().saturating_sub(held_bytes).saturating_sub(free_bytes))
    }

    /// From now on it is this node's memory. Everything else that is to be found in it must have been written.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn begin(&mut self, identity: MemoryIdentity) -> io::Result<()> {
        let mut page = [0; IDENTITY_BYTES];
        page[..4].copy_from_slice(&MAGIC);
        page[8..16].copy_from_slice(&identity.cluster.0.to_le_bytes());
        page[16..24].copy_from_slice(&identity.incarnation.0.to_le_bytes());
        page[24..32].copy_from_slice(&(self.core_bytes as u64).to_le_bytes());
        page[32..34].copy_from_slice(&identity.node.0.to_le_bytes());
        page[34..36].copy_from_slice(&self.cores.to_le_bytes());
        page[BOOT].copy_from_slice(&self.boot.0);
        self.write_page(&with_sum(page))?;
        self.identity = Some(identity);
        Ok(())
    }

    /// At once, so that a process that dies leaves the copies alike.
    fn write_page(&self, identity: &[u8; IDENTITY_BYTES]) -> io::Result<()> {
        let mut page = [0; PAGE_BYTES];
        for at in IDENTITY_AT {
            page[at..at + IDENTITY_BYTES].copy_from_slice(identity);
        }
        self.file.write_all_at(&page, 0)
    }

    /// Forgets everything. No part of it may be in use.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn wipe(&mut self) -> io::Result<()> {
        self.empty()
    }

    fn empty(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        // Before it is long: a process that dies leaves nothing of which nobody can tell what it is.
        self.void()?;
        self.file.set_len(self.length())
    }

    /// Nothing that is in it counts any more, even if it is in use.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn void(&mut self) -> io::Result<()> {
        (self.identity, self.is_stale) = (None, false);
        self.write_page(&nobody_s())
    }

    /// The part of a core, below the number of cores.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn core(&self, core: u16) -> io::Result<CoreMemory> {
        assert!(core < self.cores, "core {core} of {}", self.cores);
        assert!(!self.is_stale, "memory of an earlier start of the machine is wiped first");
        let arena_bytes = crate::chunk_store::arena_bytes(self.core_bytes);
        let mut offset = (PAGE_BYTES + usize::from(core) * part_bytes(self.core_bytes)) as u64;
        let mut part = |bytes: usize| {
            let mapping = Mapping::of_file(&self.file, offset, bytes);
            offset += bytes as u64;
            mapping
        };
        let notes = part(2 * NOTES_BYTES)?;
        let kept = part(KeptOps::bytes_for(self.core_bytes))?;
        let table = part(Table::bytes_for(arena_bytes))?;
        let arena = part(arena_bytes)?;
        for beside in [&notes, &kept, &table] {
            beside.reserve(0..beside.len())?;
        }
        Ok(CoreMemory { notes: Notes::new(notes), kept: KeptOps::new(kept), table: Table::new(table), arena })
    }

    pub(crate) fn all_cores(&self) -> io::Result<Vec<CoreMemory>> {
        (0..self.cores).map(|core| self.core(core)).collect()
    }

    fn length(&self) -> u64 {
        (PAGE_BYTES + usize::from(self.cores) * part_bytes(self.core_bytes)) as u64
    }

    /// The copy of the identity that counts, of a file of so many bytes; `None`: it is nobody's.
    fn read_page(&mut self, length: u64) -> Result<Option<[u8; IDENTITY_BYTES]>, MemoryFileError> {
        let mut copies = [[0; IDENTITY_BYTES]; IDENTITY_AT.len()];
        for (copy, at) in copies.iter_mut().zip(IDENTITY_AT) {
            self.file.read_exact_at(copy, at as u64).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => MemoryFileError::Foreign,
                _ => MemoryFileError::Io(error),
            })?;
        }
        let is_whole =
            |page: &[u8; IDENTITY_BYTES]| page[..4] == MAGIC && page[4..8] == crc32c(&page[8..]).to_le_bytes();
        let Some(page) = copies.into_iter().find(is_whole) else {
            // So earlier versions left it.
            if length == self.length() && copies == [[0; IDENTITY_BYTES]; IDENTITY_AT.len()] {
                return Ok(None);
            }
            let is_other = copies[0][..3] == MAGIC_ANY && copies[0][..4] != MAGIC;
            return Err(if is_other { MemoryFileError::Layout } else { MemoryFileError::Foreign });
        };
        if page == nobody_s() {
            return Ok(None);
        }
        let identity = self.read_identity(&page)?;
        if length != self.length() {
            return Err(MemoryFileError::Length { found: length, wanted: self.length() });
        }
        self.identity = Some(identity);
        Ok(Some(page))
    }

    fn read_identity(&mut self, page: &[u8; IDENTITY_BYTES]) -> Result<MemoryIdentity, MemoryFileError> {
        let u64_at = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
        let u16_at = |at: usize| u16::from_le_bytes([page[at], page[at + 1]]);
        let (cores, core_bytes) = (u16_at(34), u64_at(24));
        if (cores, core_bytes) != (self.cores, self.core_bytes as u64) {
            return Err(MemoryFileError::Size { cores, core_bytes });
        }
        self.is_stale = page[BOOT] != self.boot.0;
        Ok(MemoryIdentity {
            cluster: ClusterId(u64_at(8)),
            node: NodeId(u16_at(32)),
            incarnation: Incarnation(u64_at(16)),
        })
    }
}

/// The identity of a file that is nobody's.
fn nobody_s() -> [u8; IDENTITY_BYTES] {
    let mut page = [0; IDENTITY_BYTES];
    page[..4].copy_from_slice(&MAGIC);
    with_sum(page)
}

fn with_sum(mut page: [u8; IDENTITY_BYTES]) -> [u8; IDENTITY_BYTES] {
    let sum = crc32c(&page[8..]);
    page[4..8].copy_from_slice(&sum.to_le_bytes());
    page
}

fn part_bytes(core_bytes: usize) -> usize {
    let arena_bytes = crate::chunk_store::arena_bytes(core_bytes);
    2 * NOTES_BYTES + KeptOps::bytes_for(core_bytes) + Table::bytes_for(arena_bytes) + arena_bytes
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt;

    use proptest::prelude::*;
    use shorttail_units::{OpNumber, StripeId};
    use shorttail_wire::node::{ChunkDescription, ChunkKind, Refusal};

    use super::*;
    use crate::limits::MEMORY_BYTES_MIN;
    use crate::tests::{PARTITION, description, stripe_id};

    const BYTES: usize = 2 * MEMORY_BYTES_MIN;
    const BOOT_ID: BootId = BootId([7; 16]);

    fn memory() -> MemoryFile {
        MemoryFile::without_name(2, BYTES).expect("memory")
    }

    fn open(memory: &MemoryFile) -> ChunkStore {
        let (store, _) = memory.core(1).expect("mapped").open(BYTES).expect("a store");
        store.check_invariants();
        store
    }

    fn described(counter: u64) -> ChunkDescription {
        ChunkDescription { stripe: stripe_id(counter), kind: ChunkKind::Striped, ..description(1, 1, 1, 20_000) }
    }

    fn read(store: &ChunkStore, stripe: StripeId, length: usize) -> Result<Vec<u8>, Refusal> {
        Ok(store.chunk(stripe)?.read_range(0, length as u32, OpNumber(0))?.to_vec())
    }

    #[test]
    fn sealed_chunks_are_there_again_and_freed_ones_are_not() {
        let memory = memory();
        let mut store = open(&memory);
        store.install(&described(1), &[7; 3000]).expect("room");
        store.install(&described(2), &[8; 900]).expect("room");
        store.free(stripe_id(2), 1, PARTITION).expect("here");
        drop(store);
        let mut store = open(&memory);
        assert_eq!(read(&store, stripe_id(1), 3000), Ok(vec![7; 3000]));
        assert_eq!(store.chunk(stripe_id(2)).map(|_| ()), Err(Refusal::NoChunk));
        assert_eq!(store.chunk_count(), 1);
        store.free(stripe_id(1), 1, PARTITION).expect("here");
        drop(store);
        assert_eq!(open(&memory).chunk_count(), 0);
    }

    #[test]
    fn a_chunk_that_cannot_be_identified_is_dropped_and_a_damaged_one_kept_as_such() {
        let memory = memory();
        let mut store = open(&memory);
        store.install(&described(1), &[7; 3000]).expect("room");
        store.install(&described(2), &[8; 3000]).expect("room");
        store.chunk_mut(stripe_id(1)).expect("here").bytes[50] ^= 1;
        store.chunk_mut(stripe_id(2)).expect("here").bytes[1000] ^= 1;
        drop(store);
        let mut store = open(&memory);
        assert_eq!(store.chunk_count(), 1);
        assert_eq!(store.look_at(stripe_id(2)).map(|looked| looked.is_damaged), Some(true));
    }

    #[test]
    fn what_is_somebody_else_s_is_refused_and_nothing_is_changed() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("memory");
        let file = || {
            let options = File::options().read(true).write(true).create(true).truncate(false).open(&path);
            options.expect("a file")
        };
        let write_twice = |bytes: &[u8], at: usize| {
            IDENTITY_AT.iter().for_each(|copy| file().write_all_at(bytes, (copy + at) as u64).expect("written"));
        };
        let identity = MemoryIdentity { cluster: ClusterId(7), node: NodeId(3), incarnation: Incarnation(11) };
        let mut memory = MemoryFile::take(file(), BOOT_ID, 2, BYTES).expect("a new file");
        assert_eq!(memory.identity(), None);
        memory.begin(identity).expect("written");
        assert!(matches!(MemoryFile::take(file(), BOOT_ID, 2, BYTES), Err(MemoryFileError::InUse)));
        drop(memory);
        assert_eq!(MemoryFile::take(file(), BOOT_ID, 2, BYTES).expect("ours").identity(), Some(identity));
        for (cores, bytes) in [(1, BYTES), (2, 2 * BYTES)] {
            assert!(matches!(
                MemoryFile::take(file(), BOOT_ID, cores, bytes),
                Err(MemoryFileError::Size { cores: 2, .. })
            ));
        }
        let mut later = MemoryFile::take(file(), BootId([8; 16]), 2, BYTES).expect("ours");
        assert_eq!((later.identity(), later.is_stale()), (Some(identity), true), "the machine was started anew");
        later.wipe().expect("wiped");
        assert_eq!((later.identity(), later.is_stale()), (None, false));
        later.begin(identity).expect("written");
        drop(later);
        assert!(!MemoryFile::take(file(), BootId([8; 16]), 2, BYTES).expect("ours").is_stale());
        let length = file().metadata().expect("a file").len();
        for found in [length - 4096, length + 4096] {
            file().set_len(found).expect("another length");
            let error = MemoryFile::take(file(), BOOT_ID, 2, BYTES).expect_err("who knows what is gone");
            assert!(
                matches!(error, MemoryFileError::Length { found: told, wanted } if (told, wanted) == (found, length))
            );
        }
        file().set_len(length).expect("as it was");
        for (page, is_layout) in [(*b"STM9", true), (*b"PK 3", false)] {
            write_twice(&page, 0);
            let error = MemoryFile::take(file(), BOOT_ID, 2, BYTES).expect_err("not ours");
            assert_eq!(matches!(error, MemoryFileError::Layout), is_layout, "{error}");
        }
        write_twice(&MAGIC, 0);
        write_twice(&[9], 20);
        assert!(
            matches!(MemoryFile::take(file(), BOOT_ID, 2, BYTES), Err(MemoryFileError::Foreign)),
            "its checksum fails"
        );
        file().set_len(0).expect("cut");
        file().set_len(8192).expect("zeros");
        assert!(matches!(MemoryFile::take(file(), BOOT_ID, 2, BYTES), Err(MemoryFileError::Foreign)), "who knows");
    }

    /// What the system refuses is no word about whose it is: nobody is to look for another process, or give another
    /// path.
    #[test]
    fn what_the_system_refuses_is_told_as_that() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("memory");
        std::fs::write(&path, [0; 100]).expect("written");
        let open = |options: &mut std::fs::OpenOptions| options.open(&path).expect("a file");
        let take = |file: File| MemoryFile::take(file, BOOT_ID, 1, BYTES).expect_err("it is none");
        let only_a_path = open(File::options().read(true).custom_flags(rustix::fs::OFlags::PATH.bits().cast_signed()));
        assert!(matches!(take(only_a_path), MemoryFileError::Io(_)), "it cannot be locked");
        assert!(matches!(take(open(File::options().write(true))), MemoryFileError::Io(_)), "it cannot be read");
        assert!(matches!(take(open(File::options().read(true))), MemoryFileError::Foreign), "it is too short");
    }

    #[test]
    fn whose_it_is_is_known_whatever_bit_turns_over() {
        let dir = tempfile::tempdir().expect("a directory");
        let options =
            File::options().read(true).write(true).create(true).truncate(false).open(dir.path().join("memory"));
        let file = options.expect("a file");
        let take = || MemoryFile::take(file.try_clone().expect("a file"), BOOT_ID, 2, BYTES);
        let identity = MemoryIdentity { cluster: ClusterId(7), node: NodeId(3), incarnation: Incarnation(11) };
        take().expect("a new file").begin(identity).expect("written");
        let mut before = [0; PAGE_BYTES];
        file.read_exact_at(&mut before, 0).expect("a page");
        for bit in (0..PAGE_BYTES * 8).filter(|bit| bit % (PAGE_BYTES * 4) < (IDENTITY_BYTES + 1) * 8) {
            file.write_all_at(&[before[bit / 8] ^ 1 << (bit % 8)], (bit / 8) as u64).expect("written");
            assert_eq!(take().expect("ours").identity(), Some(identity), "bit {bit}");
            let mut page = [0; PAGE_BYTES];
            file.read_exact_at(&mut page, 0).expect("a page");
            assert!(page == before, "bit {bit} is mended");
        }
        take().expect("ours").void().expect("written");
        file.write_all_at(&[1], 9).expect("written");
        assert_eq!(take().expect("nobody's").identity(), None);
        for at in IDENTITY_AT {
            file.write_all_at(&[1], at as u64 + 9).expect("written");
        }
        assert!(matches!(take(), Err(MemoryFileError::Foreign)), "who knows");
    }

    #[test]
    fn zeros_of_the_right_length_are_nobody_s() {
        let file = tempfile::tempfile().expect("a file");
        let length = MemoryFile::take(file.try_clone().expect("the same"), BOOT_ID, 1, BYTES).expect("new").length();
        for (length, is_taken) in [(length, true), (length + 1, false)] {
            let file = tempfile::tempfile().expect("a file");
            file.set_len(length).expect("zeros");
            let taken = MemoryFile::take(file, BOOT_ID, 1, BYTES).map(|memory| memory.identity().is_none());
            assert_eq!(taken.ok(), is_taken.then_some(true), "{length}");
        }
    }

    #[test]
    fn what_is_nobody_s_is_taken_for_any_number_of_cores_and_bytes() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("memory");
        let take = |cores: u16, core_bytes: usize| {
            let options = File::options().read(true).write(true).create(true).truncate(false).open(&path);
            MemoryFile::take(options.expect("a file"), BOOT_ID, cores, core_bytes)
        };
        let identity = MemoryIdentity { cluster: ClusterId(7), node: NodeId(3), incarnation: Incarnation(11) };
        drop(take(2, BYTES).expect("a new file"));
        for (cores, core_bytes) in [(1, BYTES), (1, 2 * BYTES), (3, BYTES)] {
            let mut memory = take(cores, core_bytes).expect("nobody's");
            assert_eq!(memory.identity(), None);
            memory.begin(identity).expect("written");
            drop(memory);
            assert!(matches!(take(2, BYTES), Err(MemoryFileError::Size { .. })), "somebody's");
            take(cores, core_bytes).expect("ours").void().expect("written");
        }
        let memory = take(2, BYTES).expect("nobody's");
        assert_eq!(memory.file.metadata().expect("it is a file").len(), memory.length());
        assert_eq!(open(&memory).chunk_count(), 0);
    }

    /// A process that says that its memory is void may still be writing to it.
    #[test]
    fn nothing_of_void_memory_is_there_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("memory");
        let take = || {
            let options = File::options().read(true).write(true).create(true).truncate(false).open(&path);
            MemoryFile::take(options.expect("a file"), BOOT_ID, 2, BYTES).expect("a node's memory")
        };
        let identity = MemoryIdentity { cluster: ClusterId(7), node: NodeId(3), incarnation: Incarnation(11) };
        let mut memory = take();
        memory.begin(identity).expect("written");
        let mut store = open(&memory);
        memory.void().expect("written");
        store.install(&described(1), &[7; 3000]).expect("room");
        drop((store, memory));
        let mut memory = take();
        assert_eq!(memory.identity(), None);
        memory.begin(identity).expect("written");
        assert_eq!(open(&memory).chunk_count(), 0);
    }

    proptest! {
        /// Whatever was installed and freed, another process finds the same, as often as it is restarted; memory that
        /// was freed is zeros and whole again.
        #[test]
        fn a_restart_changes_nothing(steps in proptest::collection::vec((0u8..8, 1usize..20_000), 1..60)) {
            let memory = memory();
            let mut store = open(&memory);
            let mut held = std::collections::BTreeMap::new();
            for (counter, (kind, size)) in (1u64..).zip(steps) {
                match kind {
                    0 => store = { drop(store); open(&memory) },
                    1 | 2 => if let Some((&stripe, _)) = held.iter().nth(size % held.len().max(1)) {
                        store.free(stripe_id(stripe), 1, PARTITION).expect("here");
                        held.remove(&stripe);
                    },
                    _ => {
                        let bytes = vec![counter as u8; size];
                        if store.install(&described(counter), &bytes).is_ok() {
                            held.insert(counter, bytes);
                        }
                    }
                }
                store.check_invariants();
            }
            drop(store);
            let store = open(&memory);
            prop_assert_eq!(store.chunk_count(), held.len());
            for (&stripe, bytes) in &held {
                prop_assert_eq!(&read(&store, stripe_id(stripe), bytes.len()).expect("here"), bytes);
            }
        }
    }
}

//! Memory of a node that gateways and nodes on the same machine may read, and rings that gateways may write to: how
//! they are offered, and how they are opened.
//!
//! The node keeps its chunks in a file without a name, and reads it beside its cores, too. It tells the path under
//! which the kernel shows that file to processes of the same user; who opens it looks whether it is that file (in
//! another container the path may lead elsewhere, or nowhere). A gateway maps what nobody can make shorter: a read of a
//! small object costs a fraction of a system call. The pages that it looked at count as its own, too, so it lets go of
//! them now and then. Nodes, which read whole chunks, do so by system calls.
//!
//! Who closes the memory of a node that is dead as the last one gives its pages back to the system: a quarter of a
//! second for each GiB. So a thread of its own closes it, and only while nothing else wants the processor.
//!
//! Must not know: what lies in it.

mod views;

use std::cell::Cell;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::thread;

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate};
use rustix::io::preadv;
use shorttail_node::{MakeRing, Node, NodeConfig, NodeError};
use shorttail_store::{NearReader, NearWriter, RingReader, RingWriter, RoomsView};
use shorttail_wire::node::NearMemory;

use crate::scheduling;
pub use views::{LettingGo, Views};

/// Of a file system in memory: reading never waits for a disk.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Bytes that a background writes at once: the system looks for memory for them, page by page.
const WRITTEN_BYTES: usize = 16 << 10;

/// Bytes of rooms of which a background lets go at once: the core's processor has to forget them, too, each time.
const MAPPED_BYTES_MAX: usize = 16 << 20;

/// Of a thread that closes a file.
const STACK_BYTES: usize = 64 << 10;

/// A node with memory that can be read, where the system lets it have some; else without.
///
/// # Errors
/// As of [`Node::new`].
pub fn node(config: NodeConfig) -> Result<Node, NodeError> {
    Node::sharing(config.clone()).or_else(|_| Node::new(config))
}

/// For a background of this process to read beside the node's core.
pub fn own(node: &Node) -> Option<Box<dyn NearReader>> {
    Some(Box::new(GivingWay(NearFile(Arc::clone(node.memory()?)))))
}

/// For a background of this process to write beside the node's core, if the memory is no file on a disk: where that is
/// full, pages that were not written are not there.
pub fn own_to_write(node: &Node) -> Option<Box<dyn NearWriter>> {
    let file = node.memory()?;
    is_in_memory(file).ok()?.then(|| writer(file))
}

fn writer(file: &Arc<File>) -> Box<dyn NearWriter> {
    let read = GivingWay(NearFile(Arc::clone(file)));
    match RoomsView::of_file(file) {
        Ok(rooms) => {
            if !rooms.makes_pages() {
                tracing::debug!(
                    "this system has no userfaultfd for this process: pages that are rebuilt are cleared first"
                );
            }
            Box::new(NearRooms { read, rooms, mapped_bytes: Cell::new(0) })
        }
        Err(error) => {
            tracing::debug!(%error, "what is rebuilt is written by system calls");
            Box::new(read)
        }
    }
}

fn is_in_memory(file: &File) -> io::Result<bool> {
    Ok(u64::try_from(rustix::fs::fstatfs(file)?.f_type).ok() == Some(TMPFS_MAGIC))
}

/// From now on a node tells owners and other nodes where they can read its memory, if they can.
pub fn offer(node: &mut Node) {
    if let Err(error) = try_offer(node) {
        tracing::debug!(%error, "this node's memory cannot be read by others");
    }
}

fn try_offer(node: &mut Node) -> io::Result<()> {
    let Some(file) = node.memory() else { return Ok(()) };
    if !is_in_memory(file)? {
        return Ok(());
    }
    node.offer_memory(place_of(file)?);
    if !node.outlives_process() {
        node.offer_rings(Box::new(Rings));
    }
    Ok(())
}

/// Where other processes of the same user find a file that this one has open.
fn place_of(file: &File) -> io::Result<NearMemory> {
    let metadata = file.metadata()?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    Ok(NearMemory { device: metadata.dev(), inode: metadata.ino(), path })
}

#[derive(Debug)]
struct Rings;

impl MakeRing for Rings {
    fn make(&mut self) -> Option<(RingReader, NearMemory)> {
        let made = RingReader::new().and_then(|ring| {
            let place = place_of(ring.file())?;
            Ok((ring, place))
        });
        made.inspect_err(|error| tracing::debug!(%error, "no ring for an owner")).ok()
    }
}

/// For a background.
///
/// # Errors
/// What the system says; `NotFound`: another file is there.
pub fn open(near: &NearMemory) -> io::Result<Box<dyn NearReader>> {
    let file = Arc::new(open_file(near, OFlags::RDONLY)?);
    Ok(opened(GivingWay(NearFile(Arc::clone(&file))), file))
}

/// # Errors
/// As of [`open`]; `InvalidData`: it is no ring.
pub fn open_ring(near: &NearMemory) -> io::Result<RingWriter> {
    RingWriter::open(&Arc::new(open_file(near, OFlags::RDWR)?))
}

fn open_file(near: &NearMemory, access: OFlags) -> io::Result<File> {
    // Whatever is there, opening it must not wait.
    let how = access | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(&near.path, how, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() || (metadata.dev(), metadata.ino()) != (near.device, near.inode) {
        return Err(io::Error::new(io::ErrorKind::NotFound, "another file is there"));
    }
    Ok(file)
}

/// Memory of another process: a way to read it, and the file that it is. Both are there until it is dropped.
#[derive(Debug)]
struct Opened<M: Send + 'static>(Option<(M, Arc<File>)>);

fn opened<M: NearReader + 'static>(memory: M, file: Arc<File>) -> Box<dyn NearReader> {
    Box::new(Opened(Some((memory, file))))
}

impl<M: NearReader> NearReader for Opened<M> {
    fn read(&self, position: u64, into: &mut [u8]) -> usize {
        self.0.as_ref().map(|(memory, _)| memory.read(position, into)).unwrap_or_default()
    }

    fn read_both(&self, position: u64, first: &mut [u8], second: &mut [u8]) -> usize {
        self.0.as_ref().map(|(memory, _)| memory.read_both(position, first, second)).unwrap_or_default()
    }
}

impl<M: Send + 'static> Drop for Opened<M> {
    fn drop(&mut self) {
        let Some((memory, file)) = self.0.take() else { return };
        let close = move || {
            // To unmap it takes a lock of the process that its other threads may want. To give the pages back takes
            // long, and none; but not as long as in the lowest class: a process that is killed meanwhile keeps its
            // sockets until it is done.
            drop(memory);
            scheduling::yield_to_most();
            drop(file);
        };
        // Where there is no thread to be had, the memory is closed with what it should have done.
        if let Err(error) = thread::Builder::new().name("closer".to_owned()).stack_size(STACK_BYTES).spawn(close) {
            tracing::debug!(%error, "a node's memory is closed by who used it");
        }
    }
}

/// Memory read by system calls. What cannot be read is asked of the node.
#[derive(Clone, Debug)]
struct NearFile(Arc<File>);

impl NearReader for NearFile {
    fn read(&self, position: u64, into: &mut [u8]) -> usize {
        self.0.read_at(into, position).unwrap_or_default()
    }

    fn read_both(&self, position: u64, first: &mut [u8], second: &mut [u8]) -> usize {
        preadv(&self.0, &mut [first, second].map(IoSliceMut::new), position).unwrap_or_default()
    }
}

impl NearWriter for NearFile {
    fn write(&self, position: u64, room_bytes: usize, bytes: &[u8]) -> bool {
        // Pages that are wholly written need not be cleared; what is behind them must be there all the same.
        let rest = (position + bytes.len() as u64, (room_bytes - bytes.len()) as u64);
        let has_rest = || rest.1 == 0 || fallocate(&self.0, FallocateFlags::KEEP_SIZE, rest.0, rest.1).is_ok();
        self.0.write_all_at(bytes, position).is_ok() && has_rest()
    }
}

/// Memory that backgrounds read and write: others get the processor between the pieces.
#[derive(Debug)]
struct GivingWay(NearFile);

impl NearReader for GivingWay {
    fn read(&self, position: u64, into: &mut [u8]) -> usize {
        let count = self.0.read(position, into);
        scheduling::give_way();
        count
    }

    fn read_both(&self, position: u64, first: &mut [u8], second: &mut [u8]) -> usize {
        let count = self.0.read_both(position, first, second);
        scheduling::give_way();
        count
    }
}

impl NearWriter for GivingWay {
    fn write(&self, position: u64, room_bytes: usize, bytes: &[u8]) -> bool {
        write_in_pieces(position, room_bytes, bytes, |at, room_bytes, bytes| self.0.write(at, room_bytes, bytes))
    }
}

/// Memory that is written where it is mapped: so the core never waits for the lock of the whole file, which a
/// background may have when it has to stop. To read by system calls takes no lock that others wait for.
#[derive(Debug)]
struct NearRooms {
    read: GivingWay,
    rooms: RoomsView,
    /// Written since they were let go of.
    mapped_bytes: Cell<usize>,
}

impl NearReader for NearRooms {
    fn read(&self, position: u64, into: &mut [u8]) -> usize {
        self.read.read(position, into)
    }

    fn read_both(&self, position: u64, first: &mut [u8], second: &mut [u8]) -> usize {
        self.read.read_both(position, first, second)
    }
}

impl NearWriter for NearRooms {
    fn write(&self, position: u64, room_bytes: usize, bytes: &[u8]) -> bool {
        let write = |at: u64, room_bytes: usize, bytes: &[u8]| self.rooms.write(at, room_bytes, bytes).is_ok();
        let is_written = if self.rooms.makes_pages() {
            scheduling::give_way();
            write(position, room_bytes, bytes)
        } else {
            write_in_pieces(position, room_bytes, bytes, write)
        };
        self.mapped_bytes.set(self.mapped_bytes.get() + room_bytes);
        if self.mapped_bytes.get() >= MAPPED_BYTES_MAX {
            self.mapped_bytes.set(0);
            self.rooms.let_go();
        }
        is_written
    }
}

/// Others get the processor between the pieces.
fn write_in_pieces(position: u64, room_bytes: usize, bytes: &[u8], write: impl Fn(u64, usize, &[u8]) -> bool) -> bool {
    // Some tens of microseconds of decoding are behind it.
    scheduling::give_way();
    let last = bytes.len().saturating_sub(1) / WRITTEN_BYTES * WRITTEN_BYTES;
    for at in (0..last).step_by(WRITTEN_BYTES) {
        if !write(position + at as u64, WRITTEN_BYTES, &bytes[at..at + WRITTEN_BYTES]) {
            return false;
        }
        scheduling::give_way();
    }
    write(position + last as u64, room_bytes - last, &bytes[last..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_file_that_was_offered_is_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("memory");
        std::fs::write(&path, b"0123456789").expect("written");
        let metadata = std::fs::metadata(&path).expect("it is there");
        let path = path.to_str().expect("text").to_owned();
        let near = NearMemory { device: metadata.dev(), inode: metadata.ino(), path };
        let mut bytes = [0; 4];
        // It is one that can be made shorter, so it is not mapped.
        let opened = Views::default().open(&near).expect("opens");
        assert_eq!((opened.read(8, &mut bytes), &bytes[..2]), (2, &b"89"[..]));
        assert_eq!(opened.read(100, &mut bytes), 0);
        let other = NearMemory { inode: near.inode + 1, ..near.clone() };
        assert_eq!(open(&other).expect_err("another file").kind(), io::ErrorKind::NotFound);
        std::fs::remove_file(&near.path).expect("removed");
        assert_eq!(open(&near).expect_err("gone").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_lies_side_by_side_is_read_at_one_go() {
        let file = File::from(rustix::fs::memfd_create("memory", rustix::fs::MemfdFlags::CLOEXEC).expect("memory"));
        file.write_all_at(b"0123456789", 0).expect("written");
        let memory = GivingWay(NearFile(Arc::new(file)));
        let (mut first, mut second) = ([0; 3], [0; 4]);
        assert_eq!(memory.read_both(1, &mut first, &mut second), 7);
        assert_eq!((&first, &second), (b"123", b"4567"));
        assert_eq!(memory.read_both(8, &mut first, &mut second), 2, "as far as there is something");
        assert_eq!(memory.read_both(10, &mut first, &mut second), 0);
    }

    fn memory(bytes: usize) -> Arc<File> {
        let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
        let file = File::from(rustix::fs::memfd_create("memory", flags).expect("memory"));
        file.set_len(bytes as u64).expect("longer");
        Arc::new(file)
    }

    #[test]
    fn all_that_is_written_piece_by_piece_is_there_and_the_rest_of_its_room() {
        let room_bytes = 4 * WRITTEN_BYTES;
        let by_calls = |file: &Arc<File>| -> Box<dyn NearWriter> { Box::new(GivingWay(NearFile(Arc::clone(file)))) };
        for length in [0, 1, WRITTEN_BYTES, WRITTEN_BYTES + 1, 3 * WRITTEN_BYTES - 1] {
            for make in [by_calls, writer] {
                let file = memory(2 * room_bytes);
                let memory = make(&file);
                let bytes: Vec<u8> = (0..length).map(|at| at as u8 ^ (at >> 8) as u8).collect();
                assert!(memory.write(4096, room_bytes, &bytes), "{length}");
                let mut read = vec![1; room_bytes];
                assert_eq!(memory.read(4096, &mut read), room_bytes);
                assert!(read[..length] == bytes && read[length..].iter().all(|&byte| byte == 0), "{length}");
                let taken_bytes = file.metadata().expect("it is a file").blocks() * 512;
                assert_eq!(taken_bytes, room_bytes as u64, "{length}: no more and no less than its room");
            }
        }
    }

    /// Each of them would lock the file, and the core would wait.
    #[test]
    fn rooms_are_written_without_system_calls_that_write() {
        let file = memory(2 * WRITTEN_BYTES);
        let memory = writer(&file);
        rustix::fs::fcntl_add_seals(&file, rustix::fs::SealFlags::FUTURE_WRITE).expect("sealed");
        assert!(!NearFile(Arc::clone(&file)).write(64, WRITTEN_BYTES, &[7; 9000]), "it is refused");
        assert!(memory.write(64, WRITTEN_BYTES, &[7; 9000]));
        let mut read = vec![0; 9000];
        assert_eq!(memory.read(64, &mut read), 9000);
        assert!(read.iter().all(|&byte| byte == 7));
    }

    /// Tells in which scheduling class it goes.
    #[derive(Debug)]
    struct Mapped(std::sync::mpsc::Sender<i32>);

    impl NearReader for Mapped {
        fn read(&self, _: u64, _: &mut [u8]) -> usize {
            0
        }
    }

    impl Drop for Mapped {
        fn drop(&mut self) {
            // SAFETY: the call reads no memory; 0 is the calling thread.
            self.0.send(unsafe { libc::sched_getscheduler(0) }).expect("somebody listens");
        }
    }

    /// Others of the process wait for the lock that it takes.
    #[test]
    fn memory_is_unmapped_in_the_usual_class() {
        let (tell, told) = std::sync::mpsc::channel();
        drop(opened(Mapped(tell), memory(4096)));
        // SAFETY: as above.
        assert_eq!(told.recv().expect("it is unmapped"), unsafe { libc::sched_getscheduler(0) });
    }

    #[test]
    fn another_thread_closes_what_was_opened() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("memory");
        std::fs::write(&path, b"0123456789").expect("written");
        let metadata = std::fs::metadata(&path).expect("it is there");
        let path = path.to_str().expect("text").to_owned();
        let opened = open(&NearMemory { device: metadata.dev(), inode: metadata.ino(), path: path.clone() });
        let opened = opened.expect("opens");
        let is_open = || {
            let files = std::fs::read_dir("/proc/self/fd").expect("the process's files");
            files.flatten().any(|file| std::fs::read_link(file.path()).is_ok_and(|to| to.as_os_str() == path.as_str()))
        };
        assert!(is_open());
        drop(opened);
        let begun = std::time::Instant::now();
        while is_open() {
            assert!(begun.elapsed() < std::time::Duration::from_secs(60), "nobody closes it");
            thread::yield_now();
        }
    }
}

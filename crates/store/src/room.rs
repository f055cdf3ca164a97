//! Room for a chunk that is written beside the core, by another thread, before it is installed.
//!
//! ```text
//! reserve --Room--> written beside the core --Room, what was written--> install_in
//!                                           '-Room------------------> give_back
//! ```
//! As long as a room exists its memory is nobody else's, so whoever has it may write there through the file that the
//! memory is. No later process takes what lies there for a chunk: it is told of once it is installed.
//!
//! Must not know: threads, how a chunk is made.

use shorttail_units::OpNumber;
use shorttail_wire::crc32c;
use shorttail_wire::node::{ChunkDescription, Refusal};

use crate::arena::{Allocation, Arena};
use crate::chunk::split_mut;
use crate::chunk_store::{ChunkStore, check_description};
use crate::header::{self, ChunkState};
use crate::limits::HEADER_BYTES;

/// Memory for one chunk, in the file of a store. It must come back to that store.
#[derive(Debug)]
#[must_use = "its memory is lost otherwise"]
pub struct Room {
    allocation: Allocation,
    begin: u64,
}

impl Room {
    /// Where in the file the chunk's payload is to begin.
    pub fn position(&self) -> u64 {
        self.begin + HEADER_BYTES as u64
    }

    /// Bytes that the payload may take.
    pub fn payload_bytes(&self) -> usize {
        self.allocation.bytes() - HEADER_BYTES
    }
}

/// What was written into a room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Bytes in use.
    pub length: u32,
    /// Their CRC32C.
    pub payload_crc: u32,
    /// Final operation of the chunk's stripe (0: it is not known).
    pub last: OpNumber,
}

impl Written {
    pub fn of(bytes: &[u8], last: OpNumber) -> Self {
        let length = u32::try_from(bytes.len()).expect("a room is smaller");
        Written { length, payload_crc: crc32c(bytes), last }
    }
}

impl ChunkStore {
    /// Room for a chunk of a stripe that is not here yet; `None` if there is none, or if nobody else could write there.
    pub fn reserve(&mut self, description: &ChunkDescription) -> Option<Room> {
        self.file()?;
        check_description(description).ok()?;
        self.check_new(description).ok()?;
        let allocation = self.arena.allocate_bare(Arena::units_for(HEADER_BYTES + description.chunk_bytes as usize))?;
        if self.budget.charge(allocation.bytes()).is_err() {
            self.arena.free_bare(allocation);
            return None;
        }
        let begin = self.arena.position(&allocation)?;
        self.reserved.push(allocation);
        Some(Room { allocation, begin })
    }

    /// Makes a sealed chunk of what was written into its room. Whatever comes of it, the room is gone.
    ///
    /// # Errors
    /// As [`ChunkStore::install_at`].
    pub fn install_in(&mut self, room: Room, description: &ChunkDescription, written: Written) -> Result<(), Refusal> {
        let fits = written.length <= description.chunk_bytes && written.length as usize <= room.payload_bytes();
        let may = check_description(description).and_then(|()| self.check_new(description));
        if let Err(refusal) = may.and(if fits { Ok(()) } else { Err(Refusal::OutOfRange) }) {
            self.give_back(room);
            return Err(refusal);
        }
        let allocation = self.take_back(room);
        let units = Arena::units_for(HEADER_BYTES + written.length as usize);
        let kept = self.arena.shrink(allocation, units);
        self.budget.release(allocation.bytes() - kept.bytes());
        let Written { length, payload_crc, last } = written;
        let state = ChunkState { sealed: true, length, last, folded: last, payload_crc, ..ChunkState::default() };
        header::write_new(description, &state, split_mut(self.arena.bytes_mut(&kept)).0);
        self.arena.commit(&kept);
        self.chunks.insert(description.stripe, description.partition, kept, None);
        self.counters.installs += 1;
        self.counters.sealed_chunks += 1;
        Ok(())
    }

    /// No chunk comes of it.
    pub fn give_back(&mut self, room: Room) {
        let allocation = self.take_back(room);
        self.budget.release(allocation.bytes());
        self.arena.free_bare(allocation);
    }

    /// Rooms that have not come back.
    pub fn room_count(&self) -> usize {
        self.reserved.len()
    }

    fn take_back(&mut self, room: Room) -> Allocation {
        let place = self.reserved.iter().position(|allocation| *allocation == room.allocation);
        self.reserved.swap_remove(place.expect("a room comes back to the store that it is of"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use shorttail_units::StripeId;
    use shorttail_wire::node::ChunkKind;

    use super::*;
    use crate::limits::{BLOCK_BYTES, MEMORY_BYTES_MIN};
    use crate::memory_file::MemoryFile;
    use crate::tests::{description, stripe_id};

    const CHUNK_BYTES: u32 = (BLOCK_BYTES - HEADER_BYTES) as u32;

    fn described(counter: u64, chunk_bytes: u32) -> ChunkDescription {
        ChunkDescription { stripe: stripe_id(counter), kind: ChunkKind::Striped, ..description(1, 1, 1, chunk_bytes) }
    }

    fn write(store: &ChunkStore, room: &Room, bytes: &[u8]) -> Written {
        store.file().expect("a file").write_all_at(bytes, room.position()).expect("written");
        Written::of(bytes, OpNumber(3))
    }

    fn read(store: &ChunkStore, stripe: StripeId, length: u32) -> Vec<u8> {
        store.chunk(stripe).expect("here").read_range(0, length, OpNumber(0)).expect("it holds").to_vec()
    }

    #[test]
    fn what_was_written_beside_is_a_chunk_as_any_other() {
        let mut store = ChunkStore::shared(MEMORY_BYTES_MIN).expect("memory");
        for (counter, length) in [(1, CHUNK_BYTES as usize), (2, 30_000), (3, 1)] {
            let described = described(counter, CHUNK_BYTES);
            let room = store.reserve(&described).expect("room");
            store.check_invariants();
            let bytes: Vec<u8> = (0..length).map(|at| (at * counter as usize % 251) as u8).collect();
            let written = write(&store, &room, &bytes);
            store.install_in(room, &described, written).expect("installed");
            store.check_invariants();
            assert_eq!(read(&store, described.stripe, length as u32), bytes);
            let looked = store.look_at(described.stripe).expect("here");
            assert!(!looked.is_damaged);
        }
        let used: usize = [BLOCK_BYTES, 30 << 10, 1 << 10].iter().sum();
        assert_eq!(store.used_bytes(), used, "no more than what they hold takes");
    }

    #[test]
    fn rooms_count_as_used_until_they_come_back() {
        let mut store = ChunkStore::shared(MEMORY_BYTES_MIN).expect("memory");
        let rooms: Vec<Room> = (1..).map_while(|counter| store.reserve(&described(counter, CHUNK_BYTES))).collect();
        assert_eq!((rooms.len(), store.used_bytes()), (3, 3 * BLOCK_BYTES));
        assert_eq!(store.install(&described(9, CHUNK_BYTES), &[1; 40_000]), Err(Refusal::OutOfMemory));
        for room in rooms {
            // Half of it was written when it turned out that nothing comes of it.
            write(&store, &room, &[7; 30_000]);
            store.give_back(room);
            store.check_invariants();
        }
        assert_eq!(store.used_bytes(), 0);
        store.install(&described(9, CHUNK_BYTES), &[]).expect("room");
        assert_eq!(read(&store, stripe_id(9), CHUNK_BYTES), vec![0; CHUNK_BYTES as usize], "nothing is left of it");
    }

    #[test]
    fn a_stripe_that_was_freed_or_came_meanwhile_is_refused() {
        let mut store = ChunkStore::shared(MEMORY_BYTES_MIN).expect("memory");
        let [freed, come] = [1, 2].map(|counter| described(counter, 5_000));
        let rooms = [&freed, &come].map(|described| store.reserve(described).expect("room"));
        store.free(freed.stripe, 1, freed.partition).expect("it may be");
        store.install(&come, &[2; 10]).expect("room");
        for (room, described) in rooms.into_iter().zip([&freed, &come]) {
            let written = write(&store, &room, &[7; 3000]);
            assert_eq!(store.install_in(room, described, written), Err(Refusal::Exists));
            store.check_invariants();
            assert!(store.reserve(described).is_none());
        }
        assert_eq!(read(&store, come.stripe, 10), [2; 10]);
        let other = described(3, 1_000);
        let room = store.reserve(&other).expect("room");
        let written = Written { length: 1_001, ..write(&store, &room, &[1; 1_000]) };
        assert_eq!(store.install_in(room, &other, written), Err(Refusal::OutOfRange));
        store.check_invariants();
    }

    #[test]
    fn memory_of_one_process_alone_has_no_rooms() {
        let mut store = ChunkStore::new(MEMORY_BYTES_MIN).expect("memory");
        assert!(store.reserve(&described(1, 5_000)).is_none());
    }

    #[test]
    fn a_later_process_finds_what_was_installed_and_no_room() {
        let memory = MemoryFile::without_name(1, MEMORY_BYTES_MIN).expect("memory");
        let open = || memory.core(0).expect("mapped").open(MEMORY_BYTES_MIN).expect("a store").0;
        let mut store = open();
        let (whole, half) = (described(1, CHUNK_BYTES), described(2, CHUNK_BYTES));
        let room = store.reserve(&whole).expect("room");
        let written = write(&store, &room, &[5; 50_000]);
        store.install_in(room, &whole, written).expect("installed");
        let room = store.reserve(&half).expect("room");
        write(&store, &room, &[6; 50_000]);
        let _never_back = room;
        drop(store);
        let store = open();
        store.check_invariants();
        assert_eq!(store.chunk_count(), 1);
        assert_eq!(read(&store, whole.stripe, 50_000), [5; 50_000]);
        assert!(store.chunk(half.stripe).is_err() && !store.has_unidentified());
    }
}

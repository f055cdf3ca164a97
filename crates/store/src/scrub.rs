//! Are sealed chunks still what they were? What a scrubber asks, and how a damaged chunk gives way to a rebuilt one.
//!
//! A sealed chunk holds if its header's two checksums hold, its payload's does, and, in a data chunk, every record or
//! piece in it does too: its payload's checksum was made when it was sealed, which may have been after the damage.
//!
//! Must not know: when it is asked, who mends what is damaged.

use std::sync::atomic::{Ordering, compiler_fence};

use shorttail_units::{OpNumber, PartitionId, StripeId};
use shorttail_wire::crc32c;
use shorttail_wire::node::{ChunkDescription, Refusal};

use crate::chunk::{intact_state, split, split_mut};
use crate::chunk_store::{ChunkStore, check_description, sealed_state};
use crate::chunk_view::ChunkView;
use crate::chunks::Place;
use crate::content::used_bytes;
use crate::header::{self, ChunkState};
use crate::limits::HEADER_BYTES;

/// What a look at a chunk showed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Looked {
    /// Header and payload, in bytes.
    pub bytes: usize,
    pub is_damaged: bool,
}

impl ChunkStore {
    /// The sealed chunk that comes next behind this place.
    pub fn sealed_behind(&self, place: Place) -> Option<Place> {
        self.chunks.sealed_behind(place)
    }

    /// The highest stripe of the partition with a chunk here, open or not.
    pub fn last_of(&self, partition: PartitionId) -> Option<StripeId> {
        self.chunks.last_of(partition)
    }

    /// Looks at a sealed chunk; `None`: there is none. What is damaged is remembered, and counted once, until a later
    /// look finds that it holds: memory may be read wrong once.
    pub fn look_at(&mut self, stripe: StripeId) -> Option<Looked> {
        let chunk = self.chunk(stripe).ok().filter(|chunk| chunk.open.is_none() && !chunk.was_left_open())?;
        let looked = Looked { bytes: chunk.bytes.len(), is_damaged: !chunk.holds() };
        if looked.is_damaged {
            self.note_damaged(stripe);
        } else if self.damaged.remove(&stripe) {
            // Owners that heard of the damage hear that it is over.
            self.chunks.touch(stripe);
        }
        Some(looked)
    }

    /// Is a chunk of this stripe to be made here, to take the place of a damaged one perhaps? False: an
    /// intact one is here.
    ///
    /// # Errors
    /// `Exists`: another chunk of the stripe is here, or it was ordered before the stripe was freed here. `Invalid`: a
    /// description of no chunk.
    pub fn check_rebuild(&mut self, description: &ChunkDescription) -> Result<bool, Refusal> {
        let stripe = description.stripe;
        check_description(description)?;
        self.check_late(description)?;
        match self.look_at(stripe) {
            None => self.check_new(description).map(|()| true),
            Some(looked) if looked.is_damaged => Ok(true),
            Some(_) if self.chunk(stripe)?.facts().index == description.index => Ok(false),
            Some(_) => Err(Refusal::Exists),
        }
    }

    /// The intact chunk that is here is the one that was ordered. It is of the order's configuration from now on: a
    /// free from before the order does not drop it.
    ///
    /// # Errors
    /// As [`crate::ChunkMut::reconfigure`].
    pub fn adopt(&mut self, description: &ChunkDescription) -> Result<(), Refusal> {
        let mut chunk = self.chunk_mut(description.stripe)?;
        if description.configuration <= chunk.facts().configuration {
            return Ok(());
        }
        chunk.reconfigure(description.configuration, &description.members)
    }

    /// Makes a sealed chunk in the place of one that is damaged; false: there is none, and nothing was done.
    ///
    /// At no moment is there no chunk: an owner would take this node for one that was never given it. A later process
    /// finds the one or the other, or that nobody can tell which chunk it was.
    ///
    /// # Errors
    /// As [`ChunkStore::install`]; the damaged chunk is still there.
    pub fn replace_damaged(
        &mut self,
        description: &ChunkDescription,
        bytes: &[u8],
        last: OpNumber,
    ) -> Result<bool, Refusal> {
        let stripe = description.stripe;
        if !self.look_at(stripe).is_some_and(|looked| looked.is_damaged) {
            return Ok(false);
        }
        self.check_late(description)?;
        let state = sealed_state(description, bytes, last)?;
        let held = self.chunks.get(stripe).map(|chunk| chunk.allocation).ok_or(Refusal::NoChunk)?;
        let memory = self.arena.bytes_mut(&held);
        if memory.len() >= HEADER_BYTES + bytes.len() {
            rewrite(memory, description, &state, bytes, None);
        } else {
            let allocation = self.place(description, &state, bytes.len())?;
            self.arena.bytes_mut(&allocation)[HEADER_BYTES..][..bytes.len()].copy_from_slice(bytes);
            self.arena.commit(&allocation);
            self.chunks.insert(stripe, description.partition, allocation, None);
            self.budget.release(held.bytes());
            self.arena.free(held);
        }
        self.damaged.remove(&stripe);
        self.chunks.touch(stripe);
        self.counters.installs += 1;
        Ok(true)
    }
}

/// Where a test lets a chunk's renewal be interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cut {
    Described,
    Written,
}

/// Writes a chunk over another one: damaged, until all of it is there.
fn rewrite(memory: &mut [u8], description: &ChunkDescription, state: &ChunkState, bytes: &[u8], cut: Option<Cut>) {
    let (header, payload) = split_mut(memory);
    header::write_new(description, &ChunkState { fold_mark: true, ..*state }, header);
    if cut == Some(Cut::Described) {
        return;
    }
    compiler_fence(Ordering::SeqCst);
    payload[..bytes.len()].copy_from_slice(bytes);
    compiler_fence(Ordering::SeqCst);
    if cut != Some(Cut::Written) {
        header::write_state(state, header);
    }
}

impl ChunkView<'_> {
    /// An earlier process left it open.
    fn was_left_open(&self) -> bool {
        header::read_state(split(self.bytes).0).is_some_and(|state| !state.sealed)
    }

    /// Does everything hold that a sealed chunk is told by?
    pub(crate) fn holds(&self) -> bool {
        let (header, payload) = split(self.bytes);
        let Ok(state) = intact_state(header) else { return false };
        let Some(used) = payload.get(..state.length as usize) else { return false };
        let facts = header::read_facts(header);
        let is_content = || facts.is_parity() || used_bytes(facts.kind, facts.stripe, used) == Some(used.len());
        self.description_holds() && crc32c(used) == state.payload_crc && is_content()
    }
}

#[cfg(test)]
mod tests {
    use shorttail_units::PartitionId;
    use shorttail_wire::node::ChunkKind;

    use super::*;
    use crate::chunks::Wanted;
    use crate::limits::MEMORY_BYTES_MIN as MEMORY_BYTES;
    use crate::memory_file::MemoryFile;
    use crate::piece::seal_piece;
    use crate::tests::{description, everything, stripe_id};

    fn piece() -> Vec<u8> {
        let mut bytes = b"a piece of a striped object".to_vec();
        seal_piece(&mut bytes, stripe_id(1));
        bytes
    }

    /// A data chunk and a parity chunk of the same bytes, in a store each.
    fn stores() -> Vec<(ChunkStore, ChunkDescription)> {
        let store = |index: u8| {
            let described = description(index, 1, 1, piece().len() as u32);
            let described = ChunkDescription { kind: ChunkKind::Striped, ..described };
            let mut store = ChunkStore::new(MEMORY_BYTES).expect("memory");
            store.install(&described, &piece()).expect("room");
            (store, described)
        };
        vec![store(0), store(1)]
    }

    #[test]
    fn a_bit_that_turns_over_anywhere_in_a_sealed_chunk_shows() {
        for (mut store, described) in stores() {
            let stripe = described.stripe;
            let used = HEADER_BYTES + piece().len();
            assert_eq!(store.look_at(stripe).map(|looked| looked.is_damaged), Some(false));
            for bit in (0..used * 8).filter(|bit| !(72..96).contains(&(bit / 8)) || bit % 8 == 0) {
                let flip =
                    |store: &mut ChunkStore| store.chunk_mut(stripe).expect("here").bytes[bit / 8] ^= 1 << (bit % 8);
                flip(&mut store);
                let is_damaged = store.look_at(stripe).expect("here").is_damaged;
                assert!(is_damaged || bit / 8 < 4, "bit {bit}");
                flip(&mut store);
            }
            assert_eq!(store.look_at(stripe).map(|looked| looked.is_damaged), Some(false));
        }
    }

    #[test]
    fn what_was_damaged_and_holds_again_is_not_told_as_damaged() {
        let (mut store, described) = stores().remove(0);
        let stripe = described.stripe;
        let flip = |store: &mut ChunkStore| store.chunk_mut(stripe).expect("here").payload()[5] ^= 4;
        flip(&mut store);
        for _ in 0..2 {
            assert_eq!(store.look_at(stripe).map(|looked| looked.is_damaged), Some(true));
        }
        let seen = store.scan(everything());
        let damaged_chunks = store.counters().damaged_chunks;
        assert_eq!((seen.reports[0].damaged, damaged_chunks, store.counters().corruptions_found), (true, 1, 1));
        flip(&mut store);
        let before = store.scan(everything()).change;
        assert_eq!(store.look_at(stripe).map(|looked| looked.is_damaged), Some(false));
        let later = store.scan(Wanted { since: before, ..everything() });
        assert_eq!(later.reports.iter().map(|report| report.damaged).collect::<Vec<_>>(), [false], "it is told");
        assert_eq!(store.counters().damaged_chunks, 0);
        store.check_invariants();
    }

    /// What went meanwhile, and what is open, is passed over.
    #[test]
    fn a_pass_comes_to_each_sealed_chunk_once() {
        let mut store = ChunkStore::new(MEMORY_BYTES).expect("memory");
        let of = |partition: u16, counter: u64| ChunkDescription {
            stripe: stripe_id(counter),
            partition: PartitionId(partition),
            kind: ChunkKind::Striped,
            ..description(1, 1, 1, 300)
        };
        // Their ids go up and down from partition to partition.
        for (partition, counter) in [(7, 1), (2, 2), (7, 3), (0, 4), (2, 5)] {
            store.install(&of(partition, counter), &[1; 300]).expect("room");
        }
        store.open(&ChunkDescription { kind: ChunkKind::Packed, ..of(2, 6) }).expect("room");
        let pass = |store: &ChunkStore| {
            let mut stripes = Vec::new();
            let mut place = Place::default();
            while let Some(next) = store.sealed_behind(place) {
                place = next;
                stripes.push(place.stripe);
            }
            stripes
        };
        assert_eq!(pass(&store), [4, 2, 5, 1, 3].map(stripe_id));
        let at = Place { partition: PartitionId(2), stripe: stripe_id(2) };
        store.free(at.stripe, 1, at.partition).expect("here");
        store.free(stripe_id(5), 1, at.partition).expect("here");
        assert_eq!(store.sealed_behind(at).map(|place| place.stripe), Some(stripe_id(1)));
        assert_eq!(pass(&store), [4, 1, 3].map(stripe_id));
    }

    #[test]
    fn damage_from_before_the_seal_shows_in_a_data_chunk() {
        let (mut store, described) = stores().remove(0);
        store.drop_chunk(described.stripe);
        let mut damaged = piece();
        damaged[3] ^= 4;
        store.install(&described, &damaged).expect("room");
        assert_eq!(store.look_at(described.stripe).map(|looked| looked.is_damaged), Some(true));
    }

    #[test]
    fn a_damaged_chunk_gives_way_and_an_intact_one_does_not() {
        let (mut store, described) = stores().remove(0);
        let stripe = described.stripe;
        assert_eq!(store.check_rebuild(&described), Ok(false));
        assert_eq!(store.check_rebuild(&ChunkDescription { index: 1, ..described.clone() }), Err(Refusal::Exists));
        assert_eq!(store.replace_damaged(&described, &piece(), OpNumber(0)), Ok(false));
        assert_eq!(store.flip_bits(1, || 9), 1);
        assert_eq!(store.check_rebuild(&described), Ok(true));
        assert!(store.scan(everything()).reports[0].damaged, "it is remembered");
        assert_eq!(store.replace_damaged(&described, &piece(), OpNumber(0)), Ok(true));
        assert_eq!(store.check_rebuild(&described), Ok(false));
        assert!(!store.scan(everything()).reports[0].damaged);
        store.free(stripe, 1, described.partition).expect("here");
        assert_eq!(store.check_rebuild(&described), Err(Refusal::Exists), "it was freed");
        store.check_invariants();
    }

    /// A piece whose zeros were left out takes more when it is rebuilt.
    #[test]
    fn what_takes_more_room_than_there_is_leaves_the_damaged_chunk() {
        let long =
            |stripe: StripeId| ChunkDescription { stripe, kind: ChunkKind::Striped, ..description(1, 1, 1, 60_000) };
        let mut store = ChunkStore::new(MEMORY_BYTES).expect("memory");
        let damaged = long(crate::tests::stripe_id(1));
        store.install(&damaged, &[1; 300]).expect("room");
        let others = (2..).map(|counter| long(crate::tests::stripe_id(counter)));
        let filling: Vec<_> = others.take_while(|other| store.install(other, &[2; 60_000]).is_ok()).collect();
        store.chunk_mut(damaged.stripe).expect("here").payload()[7] ^= 1;
        let is_damaged = |store: &ChunkStore| store.scan(everything()).reports[0].damaged;
        assert!(store.look_at(damaged.stripe).is_some() && is_damaged(&store));
        assert_eq!(store.replace_damaged(&damaged, &[1; 60_000], OpNumber(0)), Err(Refusal::OutOfMemory));
        assert!(is_damaged(&store), "it is still there");
        store.free(filling[0].stripe, 1, damaged.partition).expect("here");
        assert_eq!(store.replace_damaged(&damaged, &[1; 60_000], OpNumber(0)), Ok(true));
        assert!(!is_damaged(&store) && store.look_at(damaged.stripe).is_some_and(|looked| !looked.is_damaged));
        store.check_invariants();
    }

    #[test]
    fn a_process_that_dies_while_it_mends_a_chunk_leaves_a_damaged_one() {
        let (_, described) = stores().remove(0);
        for cut in [Cut::Described, Cut::Written] {
            let memory = MemoryFile::without_name(1, MEMORY_BYTES).expect("memory");
            let open = || memory.core(0).expect("mapped").open(MEMORY_BYTES).expect("a store").0;
            let mut store = open();
            store.install(&described, b"nonsense").expect("room");
            let state = sealed_state(&described, &piece(), OpNumber(0)).expect("it fits");
            let held = store.chunks.get(described.stripe).expect("here").allocation;
            rewrite(store.arena.bytes_mut(&held), &described, &state, &piece(), Some(cut));
            drop(store);
            let mut store = open();
            assert!(store.scan(everything()).reports[0].damaged);
            assert_eq!(store.replace_damaged(&described, &piece(), OpNumber(0)), Ok(true));
            drop(store);
            assert_eq!(open().look_at(described.stripe).map(|looked| looked.is_damaged), Some(false));
        }
    }
}

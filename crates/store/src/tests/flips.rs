//! A file with chunks of all sorts, of which one byte is damaged while no process uses it: whatever it is of, the next
//! process shows each chunk as it was, or tells that it is damaged, or that something is missing.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use shorttail_units::StripeId;
use shorttail_wire::node::{ChunkDescription, ChunkKind, InspectReport, Refusal};

use super::{PARTITION, description, op, stripe_id};
use crate::chunk_store::arena_bytes;
use crate::kept_ops::KeptOps;
use crate::limits::{CHUNK_BYTES_MAX, HEADER_BYTES, MEMORY_BYTES_MIN, NOTES_BYTES};
use crate::mapping::PAGE_BYTES;
use crate::memory_file::MemoryFile;
use crate::notes::Notes;
use crate::{Append, ChunkStore};

const BYTES: usize = 2 * MEMORY_BYTES_MIN;
const CHUNK_BYTES: u32 = 8000;
const FENCES: &[u8] = b"fences";

const NOTES_AT: usize = PAGE_BYTES;
const KEPT_AT: usize = NOTES_AT + 2 * NOTES_BYTES;

/// Data and parity of a stripe that is open, and of one of which all is folded.
const OPEN: [u64; 3] = [1, 2, 3];
/// Sealed chunks, and how many bytes of payload each holds.
const SEALED: [(u64, usize); 5] = [(10, 2000), (11, 500), (12, CHUNK_BYTES_MAX), (13, 3000), (14, 700)];
const FREED: [(u64, usize); 5] = [(20, 500), (21, 3000), (22, CHUNK_BYTES_MAX), (23, 4000), (24, 20_000)];

struct Kept {
    memory: MemoryFile,
    file: Arc<File>,
    image: Vec<u8>,
    /// Where the memory of each chunk lies.
    places: BTreeMap<u64, Range<usize>>,
    /// The units at which chunks begin, or began.
    begins: Vec<usize>,
    before: Picture,
}

/// What is to be seen of each chunk; none: it is damaged.
type Picture = BTreeMap<u64, Option<Seen>>;

#[derive(Clone, PartialEq, Eq, Debug)]
struct Seen {
    told: String,
    /// As of no operation, and of each.
    reads: Vec<Result<Vec<u8>, Refusal>>,
}

/// What the next process finds.
struct Found {
    picture: Picture,
    lacks_something: bool,
    notes: Vec<u8>,
    counted: (u64, u64),
}

fn open(memory: &MemoryFile) -> (ChunkStore, Notes) {
    memory.core(0).expect("mapped").open(BYTES).expect("a store")
}

fn look(store: &ChunkStore) -> Picture {
    let all = OPEN.into_iter().chain([SEALED, FREED].into_iter().flatten().map(|(counter, _)| counter));
    let here = all.filter_map(|counter| Some((counter, store.chunk(stripe_id(counter)).ok()?)));
    here.map(|(counter, chunk)| {
        let length = if OPEN.contains(&counter) { CHUNK_BYTES } else { CHUNK_BYTES_MAX as u32 };
        let reads = (0..9).map(|at| Ok(chunk.read_range(0, length, op(at))?.to_vec()));
        let seen = |inspected: InspectReport<'_>| Seen { told: format!("{inspected:?}"), reads: reads.collect() };
        (counter, chunk.inspect().ok().filter(|inspected| !inspected.report.damaged).map(seen))
    })
    .collect()
}

fn sealed(counter: u64) -> ChunkDescription {
    let kind = ChunkKind::Striped;
    ChunkDescription { stripe: stripe_id(counter), kind, ..description(1, 1, 1, CHUNK_BYTES_MAX as u32) }
}

fn append(store: &mut ChunkStore, stripe: StripeId, number: u32, stable: u32) {
    let bytes = [number as u8; 100];
    let (previous, stable, offset) = (op(number - 1), op(stable), (number - 1) * 100);
    let append = Append { op: op(number), previous, stable, data_index: 0, offset, bytes: &bytes };
    store.chunk_mut(stripe).expect("open").append(&append).expect("room");
}

/// Returns the units at which chunks begin, or began.
fn fill(store: &mut ChunkStore) -> Vec<usize> {
    let bytes =
        |counter: u64, length: usize| -> Vec<u8> { (0..length).map(|at| (at as u64 * counter) as u8).collect() };
    let install = |store: &mut ChunkStore, counter, length| {
        store.install(&sealed(counter), &bytes(counter, length)).expect("room");
    };
    for (counter, index) in OPEN.into_iter().zip([0, 2, 2]) {
        let opened = ChunkDescription { stripe: stripe_id(counter), ..description(index, 2, 1, CHUNK_BYTES) };
        store.open(&opened).expect("room");
    }
    // What is freed lies between what stays.
    for (&(stays, length), (goes, freed_length)) in SEALED.iter().zip(FREED) {
        install(store, goes, freed_length);
        install(store, stays, length);
    }
    for number in 1..=6 {
        OPEN.iter().for_each(|&counter| append(store, stripe_id(counter), number, number.saturating_sub(4)));
    }
    store.chunk_mut(stripe_id(OPEN[2])).expect("open").stable(op(6)).expect("held");
    let unit = |(stripe, _): (StripeId, bool)| store.chunks.get(stripe).expect("here").allocation.place();
    let begins = store.stripes().map(unit).collect();
    for (counter, _) in FREED {
        store.free(stripe_id(counter), 1, PARTITION).expect("here");
    }
    begins
}

impl Kept {
    fn make() -> Self {
        let memory = MemoryFile::without_name(1, BYTES).expect("memory");
        let (mut store, mut notes) = open(&memory);
        assert!(notes.write(FENCES));
        let begins = fill(&mut store);
        store.check_invariants();
        let (before, file) = (look(&store), Arc::clone(store.file().expect("a file")));
        let place = |(stripe, _): (StripeId, bool)| {
            let allocation = store.chunks.get(stripe).expect("here").allocation;
            let begin = store.arena.position(&allocation).expect("of a file") as usize;
            (stripe.counter(), begin..begin + allocation.bytes())
        };
        let places: BTreeMap<u64, Range<usize>> = store.stripes().map(place).collect();
        drop((store, notes));
        let mut image = vec![0; file.metadata().expect("a file").len() as usize];
        file.read_exact_at(&mut image, 0).expect("all of it");
        assert_eq!((before.len(), places.len()), (OPEN.len() + SEALED.len(), before.len()));
        assert!(before.values().all(Option::is_some));
        Kept { memory, file, image, places, begins, before }
    }

    /// The entry of a unit of the arena.
    fn entry(&self, unit: usize) -> usize {
        KEPT_AT + KeptOps::bytes_for(BYTES) + unit * 2
    }

    fn arena_at(&self) -> usize {
        self.image.len() - arena_bytes(BYTES)
    }

    fn units(&self) -> usize {
        arena_bytes(BYTES) / 1024
    }

    fn damage(&self, at: usize, change: u8) -> Found {
        self.overwrite(at, &[self.image[at] ^ change])
    }

    fn overwrite(&self, at: usize, bytes: &[u8]) -> Found {
        self.file.write_all_at(&self.image, 0).expect("written");
        self.file.write_all_at(bytes, at as u64).expect("written");
        self.next_process()
    }

    fn next_process(&self) -> Found {
        let (mut store, notes) = open(&self.memory);
        store.check_invariants();
        let counters = store.counters();
        let found = Found {
            picture: look(&store),
            lacks_something: store.has_unidentified(),
            notes: notes.read().expect("one copy is whole"),
            counted: (counters.corruptions_found, counters.corruptions_repaired),
        };
        store.free_unidentified();
        store.check_invariants();
        found
    }

    /// Nothing is lost, all is counted and mended.
    fn is_harmless(&self, at: usize, change: u8) {
        let found = self.damage(at, change);
        assert!(found.picture == self.before && !found.lacks_something, "{at}: {change:08b}");
        assert_eq!((found.counted, found.notes), ((1, 1), FENCES.to_vec()), "{at}: {change:08b}");
        let again = self.next_process();
        assert!(again.picture == self.before && again.counted == (0, 0), "{at}: {change:08b} is mended");
    }

    /// What is lost is told, and nothing else is there than was. How many chunks are not what they were.
    fn is_told(&self, at: usize, change: u8) -> usize {
        let found = self.damage(at, change);
        let what = || format!("{at}: {change:08b}");
        assert_eq!(found.notes, FENCES, "{}", what());
        assert!(found.picture.keys().all(|counter| self.before.contains_key(counter)), "{}: it was freed", what());
        let mut lost = 0;
        for (counter, before) in &self.before {
            match found.picture.get(counter) {
                None => assert!(found.lacks_something, "{}: {counter} is missed by nobody", what()),
                Some(seen) => assert!(seen.is_none() || seen == before, "{}: {counter}", what()),
            }
            lost += usize::from(found.picture.get(counter) != Some(before));
        }
        assert!(lost <= 1 && (lost == 0 || found.counted.0 > 0 || self.is_found_later(at)), "{}", what());
        let again = self.next_process();
        assert!(again.picture == found.picture && !again.lacks_something, "{}: as before", what());
        lost
    }

    /// A damaged chunk is counted when it is looked at.
    fn is_found_later(&self, at: usize) -> bool {
        at >= self.arena_at()
    }
}

#[test]
fn a_flipped_bit_of_what_tells_of_chunks_is_mended() {
    let kept = Kept::make();
    let of_units = (0..kept.units()).map(|unit| (unit, unit * 7 % 16));
    let of_chunks = kept.begins.iter().flat_map(|&unit| (0..16).map(move |bit| (unit, bit)));
    for (unit, bit) in of_units.chain(of_chunks) {
        kept.is_harmless(kept.entry(unit) + bit / 8, 1 << (bit % 8));
    }
    let of_notes = [NOTES_AT, NOTES_AT + NOTES_BYTES].into_iter().flat_map(|at| at..at + 16 + FENCES.len());
    let of_places = [KEPT_AT, KEPT_AT + 64].into_iter().flat_map(|at| at..at + 20);
    for at in of_notes.chain(of_places) {
        kept.is_harmless(at, 1 << (at % 8));
    }
}

#[test]
fn a_damaged_byte_of_the_table_hides_revives_and_cuts_nothing_unseen() {
    let kept = Kept::make();
    let changes = [0b11, 0b101, 0b110, 0b1010, 0b1100_0000, 0b1000_0001, 0b1111, 0b1101_1000, 0b111, u8::MAX];
    let of_units = (0..kept.units()).map(|unit| (kept.entry(unit) + unit % 2, changes[unit % changes.len()]));
    of_units.for_each(|(at, change)| _ = kept.is_told(at, change));
    let mut lost = 0;
    for at in kept.begins.iter().flat_map(|&unit| [kept.entry(unit), kept.entry(unit) + 1]) {
        // What it says becomes zero, or is said of zero.
        let own = [kept.image[at]].into_iter().filter(|&own| own > 0);
        lost += changes.into_iter().chain(own).map(|change| kept.is_told(at, change)).sum::<usize>();
    }
    assert!(lost > 0, "not all of it can be mended");
}

/// More than one byte was damaged. What is there is compared with what it says of itself, and with its neighbours.
#[test]
fn an_entry_that_is_another_one_cuts_and_covers_nothing_unseen() {
    let kept = Kept::make();
    let used = kept.begins.iter().map(|&unit| kept.entry(unit)).filter(|&at| kept.image[at] != 0);
    let others = (1..=64u8).map(|units| [units << 1 | (units.count_ones() % 2) as u8; 2]);
    for (at, other) in used.flat_map(|at| others.clone().map(move |other| (at, other))) {
        let found = kept.overwrite(at, &other);
        for (counter, before) in &kept.before {
            let seen = found.picture.get(counter);
            assert!(seen == Some(before) || seen.is_none() && found.lacks_something, "{at}: {other:?}, {counter}");
        }
        assert!(found.picture.keys().all(|counter| kept.before.contains_key(counter)), "{at}: {other:?}");
    }
}

#[test]
fn a_flipped_bit_of_anything_else_is_told_or_does_no_harm() {
    let kept = Kept::make();
    let mut lost = 0;
    let log = KEPT_AT..KEPT_AT + PAGE_BYTES + 3 * 6 * 144;
    for at in log.step_by(3) {
        lost += kept.is_told(at, 1 << (at % 8));
    }
    assert!(lost > 0, "operations are needed");
    for (counter, place) in &kept.places {
        for at in place.start..place.start + HEADER_BYTES {
            assert_eq!(kept.is_told(at, 1 << (at % 8)), 1, "{counter}");
        }
        if !OPEN.contains(counter) {
            (place.start + HEADER_BYTES..place.end).step_by(997).for_each(|at| _ = kept.is_told(at, 1));
        }
    }
    // All that is in use by nobody, and the rest.
    let open = || OPEN.iter().map(|counter| &kept.places[counter]);
    for at in (NOTES_AT..kept.image.len()).step_by(1021) {
        if !open().any(|place| place.contains(&at)) {
            kept.is_told(at, 1 << (at % 8));
        }
    }
}

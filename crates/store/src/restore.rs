//! What an earlier process of the node left in its memory, for the one that goes on with it.
//!
//! ```text
//! sealed                                   what it was; reads and the scrubber check it
//! open, all operations above its folded    what it was; a parity takes no append and no seal any more
//!   one are kept without a gap
//! open, an operation is missing, or a      damaged (rule R6): told of, and refused, until its owner frees it
//!   fold or a change of state was cut
//!   short
//! nobody can tell which chunk it was,      freed, once it is noted elsewhere that something is missing; its
//!   or whether there was one               owner has it rebuilt
//! ```
//!
//! Must not know: files, fences.

use std::collections::BTreeMap;

use shorttail_codes::CodeCache;
use shorttail_units::StripeId;

use crate::arena::{Allocation, Arena};
use crate::chunk_store::{ChunkStore, StoreError, arena_bytes};
use crate::header::{self, ChunkFacts, ChunkState, HeaderBytes};
use crate::kept_ops::{KeptOp, KeptOps};
use crate::limits::{HEADER_BYTES, MEMORY_BYTES_MAX, MEMORY_BYTES_MIN, UNIT_BYTES};
use crate::mapping::Mapping;
use crate::open_state::{DataLog, OpenState, RawBuffer};
use crate::table::Table;

impl ChunkStore {
    /// A store in memory that an earlier process may have left.
    ///
    /// # Errors
    /// When the budget is outside its limits, or the memory is of another budget.
    pub(crate) fn restore(
        memory_bytes: usize,
        memory: Mapping,
        table: Table,
        kept: KeptOps,
    ) -> Result<Self, StoreError> {
        if !(MEMORY_BYTES_MIN..=MEMORY_BYTES_MAX).contains(&memory_bytes) || memory.len() != arena_bytes(memory_bytes) {
            return Err(StoreError::MemoryBytes { asked: memory_bytes });
        }
        let (arena, live) = Arena::restore(memory, table);
        let mut store = Self::over(arena, memory_bytes);
        let (ops, damaged_ops) = kept.by_stripe();
        // First of all: raw operations find what is left of the budget, or they do not.
        for allocation in &live {
            store.budget.charge(allocation.bytes()).expect("chunks alone are less than the budget");
        }
        for allocation in live {
            store.take_over(allocation, &ops);
        }
        store.note_mended(store.arena.table().map_or(0, Table::mended_count) + kept.mended_count());
        store.counters.corruptions_found += (damaged_ops + store.unidentified.len() + store.doubtful_count()) as u64;
        store.kept = Some(kept);
        Ok(store)
    }

    /// So much was damaged of what is there twice.
    pub(crate) fn note_mended(&mut self, count: u64) {
        self.counters.corruptions_found += count;
        self.counters.corruptions_repaired += count;
    }

    fn doubtful_count(&self) -> usize {
        self.arena.table().map_or(0, Table::doubtful_count)
    }

    /// Is there a chunk of which nobody can tell which it was, or may there have been one?
    pub fn has_unidentified(&self) -> bool {
        !self.unidentified.is_empty() || self.doubtful_count() > 0
    }

    /// Gives up what [`ChunkStore::has_unidentified`] tells of. A later process will not know of it.
    pub fn free_unidentified(&mut self) {
        for allocation in std::mem::take(&mut self.unidentified) {
            self.budget.release(allocation.bytes());
            self.arena.free(allocation);
        }
        if let Some(table) = self.arena.table_mut() {
            table.clear_doubtful();
        }
    }

    fn take_over(&mut self, allocation: Allocation, ops: &BTreeMap<StripeId, Vec<KeptOp>>) {
        let bytes = self.arena.bytes_mut(&allocation);
        let (header, payload) = bytes.split_first_chunk_mut::<HEADER_BYTES>().expect("a unit is longer than a header");
        let state = header::read_state(header);
        let fits = |facts: &ChunkFacts| state.is_none_or(|state| bytes_told(facts, &state) <= payload.len());
        let named = header::description_holds(header).then(|| header::read_facts(header)).filter(fits);
        let Some((stripe, partition)) = named.map(|facts| (facts.stripe, facts.partition)) else {
            return self.unidentified.push(allocation);
        };
        if self.chunks.contains(stripe) {
            self.budget.release(allocation.bytes());
            return self.arena.free(allocation);
        }
        let mut open = None;
        if let Some(state) = state.filter(|state| !state.sealed && !state.fold_mark) {
            open = open_state(header, &state, ops.get(&stripe).map_or(&[], Vec::as_slice), &mut self.codes);
            if open.as_ref().is_none_or(|open| self.budget.charge(open.charged_bytes()).is_err()) {
                open = None;
                header::write_state(&ChunkState { fold_mark: true, ..state }, header);
            }
            if let Some(OpenState::Data(_)) = open {
                // Bytes of an operation that the state does not tell of.
                payload[state.length as usize..].fill(0);
            }
        }
        match &open {
            None => self.counters.sealed_chunks += 1,
            Some(OpenState::Data(_)) => {}
            Some(OpenState::Parity(raw)) => self.counters.raw_bytes += raw.raw_bytes(),
        }
        self.opened_units = self.opened_units.max(allocation.bytes() / UNIT_BYTES);
        self.chunks.insert(stripe, partition, allocation, open.map(Box::new));
    }
}

/// Payload that is there, if the header is right.
fn bytes_told(facts: &ChunkFacts, state: &ChunkState) -> usize {
    if state.sealed { state.length as usize } else { facts.chunk_bytes as usize }
}

/// What an open chunk keeps beside its bytes; `None`: some of it is missing.
fn open_state(header: &HeaderBytes, state: &ChunkState, ops: &[KeptOp], codes: &mut CodeCache) -> Option<OpenState> {
    let description = header::read_description(header)?;
    let facts = header::read_facts(header);
    let ops: Vec<&KeptOp> = ops.iter().filter(|op| op.op > state.folded && op.op <= state.last).collect();
    let follows = |pair: &[&KeptOp]| pair[1].previous == pair[0].op;
    let is_whole = match (ops.first(), ops.last()) {
        (Some(first), Some(last)) => first.previous <= state.folded && last.op == state.last,
        _ => state.last <= state.folded,
    };
    let end = |op: &KeptOp| op.offset.checked_add(op.length);
    let is_sound =
        ops.iter().all(|op| facts.takes(op.data_index) && end(op).is_some_and(|end| end <= facts.chunk_bytes));
    if !is_whole || !is_sound || !ops.windows(2).all(follows) || state.length > facts.chunk_bytes {
        return None;
    }
    if facts.is_parity() {
        let mut raw = RawBuffer::inherited(codes.get(description.shape));
        for op in ops {
            if op.bytes.len() != op.length as usize || !raw.fits(op.bytes.len()) {
                return None;
            }
            raw.push(op.op, op.data_index, op.offset, &op.bytes);
        }
        return Some(OpenState::Parity(raw));
    }
    let joins = |pair: &[&KeptOp]| end(pair[0]) == Some(pair[1].offset);
    if !ops.windows(2).all(joins) || ops.last().is_some_and(|op| end(op) != Some(state.length)) {
        return None;
    }
    let mut log = DataLog::default();
    ops.iter().for_each(|op| log.push(op.op, op.offset));
    Some(OpenState::Data(log))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use shorttail_units::CodeShape;
    use shorttail_wire::node::{ChunkDescription, ChunkReport, Refusal};

    use super::*;
    use crate::chunk::FoldStep;
    use crate::limits::KEPT_OPS_BYTES_MIN;
    use crate::memory_file::MemoryFile;
    use crate::tests::{Stripe, description_of, op, stripe_id};

    const BYTES: usize = 2 * MEMORY_BYTES_MIN;
    const CHUNK_BYTES: u32 = 8000;

    /// The stores of a stripe, each in memory that outlives it.
    struct Kept {
        memories: Vec<MemoryFile>,
        stripe: Stripe,
    }

    impl Kept {
        fn open(data_count: u8, parity_count: u8) -> Self {
            let shape = CodeShape::reed_solomon(usize::from(data_count), usize::from(parity_count)).expect("a shape");
            let memories: Vec<MemoryFile> =
                (0..shape.chunk_count()).map(|_| MemoryFile::without_name(1, BYTES).expect("memory")).collect();
            let mut stores: Vec<ChunkStore> = memories.iter().map(store).collect();
            for (index, store) in (0..).zip(&mut stores) {
                store.open(&description_of(index, shape, CHUNK_BYTES)).expect("a new stripe");
            }
            let last_sent = vec![0; shape.chunk_count()];
            Kept { memories, stripe: Stripe { stores, shape, chunk_bytes: CHUNK_BYTES, sent: Vec::new(), last_sent } }
        }

        fn restart(&mut self, participant: usize) {
            self.stripe.stores[participant] = ChunkStore::new(BYTES).expect("memory");
            self.stripe.stores[participant] = store(&self.memories[participant]);
            self.stripe.check_invariants();
        }

        fn seen(&self, participant: usize) -> Seen {
            let chunk = self.stripe.stores[participant].chunk(stripe_id(1)).expect("here");
            let inspected = chunk.inspect().expect("a good description");
            let reads = (0..=self.stripe.sent.len() as u32 + 1).map(|at| self.stripe.read(participant, at));
            let raw = inspected.raw.iter().map(|raw| format!("{raw:?}")).collect();
            Seen { report: inspected.report, raw, reads: reads.collect() }
        }
    }

    /// All that an owner can see of a chunk.
    #[derive(Clone, PartialEq, Debug)]
    struct Seen {
        report: ChunkReport,
        raw: Vec<String>,
        /// As of each operation.
        reads: Vec<Result<Vec<u8>, Refusal>>,
    }

    fn store(memory: &MemoryFile) -> ChunkStore {
        memory.core(0).expect("mapped").open(BYTES).expect("a store").0
    }

    fn report_of(store: &ChunkStore, stripe: u64) -> ChunkReport {
        store.chunk(stripe_id(stripe)).expect("here").report().expect("a good description")
    }

    fn damaged(kept: &Kept, participant: usize) -> bool {
        kept.stripe.report(participant).damaged
    }

    #[test]
    fn an_inherited_parity_folds_what_it_holds_and_takes_nothing_more() {
        let mut kept = Kept::open(2, 1);
        for number in 0..4 {
            kept.stripe.append(number % 2, &[number + 1; 50], 0);
        }
        kept.restart(2);
        assert_eq!(kept.stripe.stable(2, 3), Ok(()));
        assert_eq!(kept.stripe.read(2, 3).expect("folded"), kept.stripe.expected(2, 3));
        kept.restart(2);
        assert_eq!(kept.stripe.stable(2, 4), Ok(()));
        assert_eq!(kept.stripe.read(2, 4).expect("folded"), kept.stripe.expected(2, 4));
        assert_eq!(kept.stripe.seal(2), Err(Refusal::Immutable), "its length is not known");
        kept.stripe.stores[2].free(stripe_id(1), 1, crate::tests::PARTITION).expect("here");
        kept.restart(2);
        assert_eq!(kept.stripe.stores[2].chunk_count(), 0);
    }

    #[test]
    fn r6_a_fold_that_was_cut_short_is_an_erasure() {
        for stop in [FoldStep::Marked, FoldStep::Folded] {
            let mut kept = Kept::open(2, 1);
            kept.stripe.append(0, &[1; 50], 0);
            let mut chunk = kept.stripe.stores[2].chunk_mut(stripe_id(1)).expect("here");
            let mut state = chunk.state().expect("intact");
            chunk.fold(&mut state, op(1), Some(stop));
            kept.restart(2);
            assert!(damaged(&kept, 2));
            assert_eq!(kept.stripe.stable(2, 1), Err(Refusal::Damaged));
        }
    }

    #[test]
    fn a_chunk_of_which_an_operation_is_missing_is_an_erasure() {
        let mut kept = Kept::open(2, 1);
        kept.stripe.append(0, &[1; 50], 0);
        kept.stripe.append(1, &[2; 50], 0);
        kept.stripe.stores[2].kept.as_mut().expect("kept").drop_oldest();
        kept.restart(2);
        assert!(damaged(&kept, 2) && !damaged(&kept, 0) && !damaged(&kept, 1));
    }

    /// Nothing of what they hold is stable yet: no append is taken that another chunk would be lost for.
    #[test]
    fn an_append_for_which_a_needed_operation_had_to_go_is_refused() {
        for (participant, length) in [(0, 1), (0, 20), (2, 1), (2, 300), (2, 2_500)] {
            let mut kept = Kept::open(2, 1);
            kept.stripe.append(0, &[1; 50], 0);
            let others = |stripe: u64| ChunkDescription {
                stripe: stripe_id(stripe),
                ..description_of(participant as u8, kept.stripe.shape, CHUNK_BYTES)
            };
            let append_to = |store: &mut ChunkStore, stripe: u64, number: u32| {
                let (op, previous) = (op(number), op(number - 1));
                let (offset, bytes) = ((number - 1) * length, &vec![7; length as usize]);
                let append = crate::Append { op, previous, stable: crate::tests::op(0), data_index: 0, offset, bytes };
                store.chunk_mut(stripe_id(stripe)).expect("here").append(&append)
            };
            let each = CHUNK_BYTES.min(length * 300) / length;
            let store = &mut kept.stripe.stores[participant];
            let (mut stripe, mut number, mut held) = (2, 0, 0);
            let refusal = loop {
                if number == 0 {
                    store.open(&others(stripe)).expect("room");
                }
                number += 1;
                if let Err(refusal) = append_to(store, stripe, number) {
                    break refusal;
                }
                held += 1;
                if number == each {
                    (stripe, number) = (stripe + 1, 0);
                }
            };
            assert_eq!(refusal, Refusal::OutOfMemory);
            let size = (40 + if participant == 2 { length as usize } else { 0 }).next_multiple_of(8);
            assert!(held * size > KEPT_OPS_BYTES_MIN * 3 / 4, "{held} of {size} bytes");
            let before: Vec<_> = (2..=stripe).map(|stripe| report_of(store, stripe)).collect();
            let rested = kept.seen(participant);
            kept.restart(participant);
            assert_eq!(kept.seen(participant), rested);
            let store = &mut kept.stripe.stores[participant];
            let after: Vec<_> = (2..=stripe).map(|stripe| report_of(store, stripe)).collect();
            assert!(before == after && after.iter().all(|report| !report.damaged));
        }
    }

    /// One rests, in front of all that is not needed any more.
    #[test]
    fn appends_are_taken_again_once_what_filled_the_log_is_stable() {
        let mut kept = Kept::open(2, 1);
        kept.stripe.append(0, &[1; 2_000], 0);
        let rested = kept.seen(2);
        let other = description_of(2, kept.stripe.shape, CHUNK_BYTES);
        let store = &mut kept.stripe.stores[2];
        let append_to = |store: &mut ChunkStore, stripe: u64, stable: u32| {
            let mut chunk = store.chunk_mut(stripe_id(stripe)).expect("here");
            let last = chunk.state().expect("intact").last.0;
            let (next, offset) = (op(last + 1), last * 1_000);
            let append = crate::Append {
                op: next,
                previous: op(last),
                stable: op(stable),
                data_index: 0,
                offset,
                bytes: &[3; 1_000],
            };
            chunk.append(&append)
        };
        let mut full = 2;
        loop {
            store.open(&ChunkDescription { stripe: stripe_id(full), ..other.clone() }).expect("room");
            if (0..7).any(|_| append_to(store, full, 0).is_err()) {
                break;
            }
            full += 1;
        }
        for stripe in 2..full {
            store.chunk_mut(stripe_id(stripe)).expect("here").stable(op(7)).expect("it holds it");
        }
        store.open(&ChunkDescription { stripe: stripe_id(full + 1), ..other }).expect("room");
        let tries = (0..20).take_while(|_| append_to(store, full + 1, 0).is_err()).count();
        assert!(tries < 3, "{tries}");
        for number in 1..7 {
            append_to(store, full + 1, number).expect("room");
        }
        kept.restart(2);
        assert_eq!(kept.seen(2), rested);
    }

    /// Its owner says that an operation is stable with the next one only, and there may be none for a long time.
    #[test]
    fn a_chunk_that_rests_is_what_it_was_however_much_is_written_to_others() {
        let mut kept = Kept::open(2, 1);
        kept.stripe.append(0, &[1; 50], 0);
        kept.stripe.append(1, &[2; 60], 1);
        kept.stripe.append(0, &[3; 70], 2);
        let before: Vec<Seen> = (0..3).map(|participant| kept.seen(participant)).collect();
        for (participant, store) in (0..).zip(&mut kept.stripe.stores) {
            for stripe in 2..40 {
                let other = description_of(participant, kept.stripe.shape, CHUNK_BYTES);
                store.open(&ChunkDescription { stripe: stripe_id(stripe), ..other }).expect("room");
                for number in 1..400 {
                    let append = crate::Append {
                        op: op(number),
                        previous: op(number - 1),
                        stable: op(number - 1),
                        data_index: if participant == 2 { 0 } else { participant },
                        offset: number - 1,
                        bytes: &[4],
                    };
                    store.chunk_mut(stripe_id(stripe)).expect("here").append(&append).expect("room");
                }
                store.free(stripe_id(stripe), 1, crate::tests::PARTITION).expect("here");
            }
        }
        for (participant, before) in before.into_iter().enumerate() {
            kept.restart(participant);
            assert!(!damaged(&kept, participant), "chunk {participant}");
            assert_eq!(kept.seen(participant), before);
        }
    }

    /// It was told that all it holds is stable, as those that rest are. What others hold is not, and fills the log.
    #[test]
    fn a_chunk_that_knows_all_it_holds_to_be_stable_needs_nothing_of_the_log() {
        let mut kept = Kept::open(2, 1);
        kept.stripe.append(0, &[1; 50], 0);
        kept.stripe.append(0, &[2; 60], 1);
        let other = description_of(0, kept.stripe.shape, CHUNK_BYTES);
        let store = &mut kept.stripe.stores[0];
        store.chunk_mut(stripe_id(1)).expect("here").stable(op(2)).expect("it holds it");
        let is_full = (2..22).any(|stripe| {
            store.open(&ChunkDescription { stripe: stripe_id(stripe), ..other.clone() }).expect("room");
            (1..=400).any(|number| {
                let (offset, previous) = (number - 1, op(number - 1));
                let append =
                    crate::Append { op: op(number), previous, stable: op(0), data_index: 0, offset, bytes: &[4] };
                store.chunk_mut(stripe_id(stripe)).expect("here").append(&append).is_err()
            })
        });
        assert!(is_full);
        let before = kept.seen(0);
        kept.restart(0);
        assert!(!damaged(&kept, 0));
        assert_eq!(kept.seen(0), before);
    }

    /// Its owner waits for another member, and nothing becomes stable: more than an eighth of the log is needed, and
    /// behind it is what nobody needs.
    #[test]
    fn what_is_needed_stays_whatever_lies_before_and_behind_it() {
        let mut kept = Kept::open(3, 1);
        for number in 0..6 {
            kept.stripe.append(number % 3, &[number + 1; 3_900], 0);
        }
        let before = kept.seen(3);
        let other = description_of(3, kept.stripe.shape, CHUNK_BYTES);
        let store = &mut kept.stripe.stores[3];
        for stripe in 2..60 {
            store.open(&ChunkDescription { stripe: stripe_id(stripe), ..other.clone() }).expect("room");
            for number in 1..200 {
                let (op, previous) = (op(number), op(number - 1));
                let offset = (number - 1) * 40;
                let append = crate::Append { op, previous, stable: previous, data_index: 0, offset, bytes: &[4; 40] };
                store.chunk_mut(stripe_id(stripe)).expect("here").append(&append).expect("room");
            }
            store.free(stripe_id(stripe), 1, crate::tests::PARTITION).expect("here");
        }
        kept.restart(3);
        assert!(!damaged(&kept, 3));
        assert_eq!(kept.seen(3), before);
    }

    #[test]
    fn what_the_state_does_not_tell_of_reads_as_zeros() {
        let mut kept = Kept::open(1, 1);
        kept.stripe.append(0, &[1; 50], 0);
        let before = kept.seen(0);
        // The process died between the bytes of an operation and the state.
        kept.stripe.stores[0].chunk_mut(stripe_id(1)).expect("here").bytes[HEADER_BYTES + 50..][..20].fill(9);
        kept.restart(0);
        assert_eq!(kept.seen(0), before);
        let chunk = kept.stripe.stores[0].chunk(stripe_id(1)).expect("here");
        assert!(chunk.bytes[HEADER_BYTES + 50..].iter().all(|&byte| byte == 0));
    }

    proptest! {
        /// Whatever was appended and became stable, another process shows the same to owners, operation for operation.
        #[test]
        fn a_restart_changes_no_open_chunk(
            steps in proptest::collection::vec((0u8..3, 1usize..150, 0u32..6, 0usize..8), 1..60),
        ) {
            let mut kept = Kept::open(3, 2);
            for (data_index, length, lag, participant) in steps {
                let sent = kept.stripe.sent.len() as u32;
                if kept.stripe.length(data_index) as usize + length <= CHUNK_BYTES as usize {
                    kept.stripe.append(data_index, &vec![sent as u8 + 1; length], sent.saturating_sub(lag));
                }
                if participant < 5 {
                    let stable = kept.stripe.own_stable(participant, sent.saturating_sub(lag));
                    kept.stripe.stable(participant, stable).expect("held");
                }
            }
            for participant in 0..5 {
                let before = kept.seen(participant);
                for _ in 0..2 {
                    kept.restart(participant);
                    prop_assert_eq!(kept.seen(participant), before.clone());
                }
            }
        }
    }
}

//! The operations of open chunks in memory that outlives the process: the last ones of a core, in the order in which
//! they came.
//!
//! ```text
//! at 0, 64  tail u64 | head u64 | CRC32C of both u32    places, which only grow; the operations between them are kept
//! at 4096   ring    an operation lies at its place modulo the ring's length, and may wrap
//!
//! operation: CRC32C of the rest u32 | bytes kept u32 | stripe u64 | op u32 | op before it u32 | offset u32
//!            | length u32 | data index u8 | bytes kept u24 x 2 | zero u8 | bytes, and zeros up to a multiple of 8
//! ```
//! The places are there twice: one copy is always whole, and the first one counts if it is. How many bytes are kept is
//! there three times, so that a damaged operation does not hide those behind it.
//!
//! A data chunk has the bytes in place already: none are kept of it. When little room is left, the oldest operation
//! goes, or goes to the end, as whoever knows its chunk says (see `chunk_store`), so much at a time that all of them
//! were looked at before there is none. Then all are needed, and no other is admitted. One may be damaged, so whoever
//! reads must see from the numbers whether any is missing: each names the one before.
//!
//! Must not know: chunks; which operations are stable.

use std::collections::BTreeMap;
use std::sync::atomic::{Ordering, compiler_fence};

use shorttail_units::{OpNumber, StripeId};
use shorttail_wire::{crc32c, crc32c_of};

use crate::chunk::Append;
use crate::limits::{
    BLOCK_BYTES, KEPT_OPS_BYTES_MAX, KEPT_OPS_BYTES_MIN, KEPT_OPS_CARRIED, KEPT_OPS_FREE_PART, RAW_RESERVE_PART,
};
use crate::mapping::{Mapping, PAGE_BYTES};

const HEAD_BYTES: usize = 40;
/// Where the copies of the places are, and how long one is.
const PLACES_AT: [usize; 2] = [0, 64];
const PLACES_BYTES: usize = 20;

const _: () = assert!(KEPT_OPS_BYTES_MAX < 1 << 24, "three bytes say how many are kept");

/// An operation that an earlier process held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeptOp {
    pub op: OpNumber,
    pub previous: OpNumber,
    pub data_index: u8,
    pub offset: u32,
    pub length: u32,
    /// Empty if they are in place.
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct KeptOps {
    memory: Mapping,
    tail: u64,
    head: u64,
    mended: u64,
    /// Bytes that may still go to the end before the next operation comes.
    carried_max: usize,
}

impl KeptOps {
    /// Memory for it beside a budget, in bytes.
    pub fn bytes_for(memory_bytes: usize) -> usize {
        let ring = (memory_bytes / RAW_RESERVE_PART).clamp(KEPT_OPS_BYTES_MIN, KEPT_OPS_BYTES_MAX);
        PAGE_BYTES + ring.next_multiple_of(PAGE_BYTES)
    }

    pub fn new(memory: Mapping) -> Self {
        let mut kept = KeptOps { memory, tail: 0, head: 0, mended: 0, carried_max: 0 };
        let copies = PLACES_AT.map(|at| kept.read_places(at));
        (kept.tail, kept.head) = copies.into_iter().flatten().next().unwrap_or_default();
        let is_written = |at: usize| kept.memory[at..at + PLACES_BYTES] != [0; PLACES_BYTES];
        let damaged = PLACES_AT.into_iter().zip(copies).filter(|&(at, copy)| copy.is_none() && is_written(at));
        kept.mended = damaged.count() as u64;
        kept.put_places();
        kept
    }

    /// Copies of the places that were damaged.
    pub fn mended_count(&self) -> u64 {
        self.mended
    }

    /// A bit of one of the copies turns over.
    pub fn damage_places(&mut self, pick: u64) {
        let bit = (pick / 2) as usize % (PLACES_BYTES * 8);
        self.memory[PLACES_AT[(pick % 2) as usize] + bit / 8] ^= 1 << (bit % 8);
    }

    /// `None`: the copy is damaged.
    fn read_places(&self, at: usize) -> Option<(u64, u64)> {
        let copy = &self.memory[at..at + PLACES_BYTES];
        let place = |at: usize| u64::from_le_bytes(copy[at..at + 8].try_into().expect("eight bytes"));
        let (tail, head) = (place(0), place(8));
        let is_sound = head.checked_sub(tail).is_some_and(|bytes| bytes <= self.ring_bytes() as u64);
        let is_whole = copy[16..] == crc32c(&copy[..16]).to_le_bytes();
        (is_whole && is_sound && tail.is_multiple_of(8) && head.is_multiple_of(8)).then_some((tail, head))
    }

    /// What the oldest operation says it is, if little is free. It may be damaged.
    pub fn crowding(&self) -> Option<(StripeId, OpNumber)> {
        let free_bytes_min = self.ring_bytes() / KEPT_OPS_FREE_PART + BLOCK_BYTES;
        let is_crowded = self.head > self.tail && self.free_bytes() < free_bytes_min;
        is_crowded.then(|| name_of(&self.get(self.tail, HEAD_BYTES)))
    }

    fn free_bytes(&self) -> usize {
        self.ring_bytes() - (self.head - self.tail) as usize
    }

    /// The oldest operation goes.
    pub fn drop_oldest(&mut self) {
        self.pass_oldest();
        self.put_places();
    }

    /// The oldest operation goes to the end. False: it stays, as there is no room for both, or enough was carried for
    /// now.
    pub fn carry_oldest(&mut self) -> bool {
        let size = self.oldest_bytes();
        if size > self.free_bytes().min(self.carried_max) {
            return false;
        }
        self.carried_max -= size;
        let op = self.get(self.tail, size);
        self.put(self.head, &op);
        self.head += size as u64;
        self.drop_oldest();
        true
    }

    fn pass_oldest(&mut self) {
        self.tail += self.oldest_bytes() as u64;
    }

    fn oldest_bytes(&self) -> usize {
        size_of_op(self.kept_bytes_at(self.tail)).min((self.head - self.tail) as usize)
    }

    /// Is there room for an operation of which so many bytes are kept, and for the oldest to go to the end after it? If
    /// not, more of them are looked at before the next one.
    pub fn admits(&mut self, kept_bytes: usize) -> bool {
        let spare_bytes = (self.ring_bytes() / KEPT_OPS_FREE_PART).min(BLOCK_BYTES);
        let is_admitted = size_of_op(kept_bytes) + spare_bytes <= self.free_bytes();
        if !is_admitted {
            self.save_up(kept_bytes);
        }
        is_admitted
    }

    /// More may go to the end before the next operation comes. What is saved up is enough for the longest.
    fn save_up(&mut self, kept_bytes: usize) {
        let carried = size_of_op(kept_bytes) * KEPT_OPS_CARRIED;
        self.carried_max = carried.max((self.carried_max + carried).min(2 * BLOCK_BYTES));
    }

    /// Keeps an operation, with its bytes or without.
    ///
    /// # Panics
    /// If there is no room for it.
    pub fn push(&mut self, stripe: StripeId, append: &Append<'_>, with_bytes: bool) {
        let bytes = if with_bytes { append.bytes } else { &[] };
        let size = size_of_op(bytes.len());
        assert!(size <= self.free_bytes(), "only what is admitted is kept");
        self.save_up(bytes.len());
        let mut op = [0; HEAD_BYTES];
        let kept_bytes = (bytes.len() as u32).to_le_bytes();
        op[4..8].copy_from_slice(&kept_bytes);
        op[33..36].copy_from_slice(&kept_bytes[..3]);
        op[36..39].copy_from_slice(&kept_bytes[..3]);
        op[8..16].copy_from_slice(&stripe.raw().to_le_bytes());
        let numbers = [append.op.0, append.previous.0, append.offset, append.bytes.len() as u32];
        for (place, number) in op[16..32].chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        op[32] = append.data_index;
        let sum = crc32c_of([&op[4..], bytes]);
        op[..4].copy_from_slice(&sum.to_le_bytes());
        self.put(self.head, &op);
        self.put(self.head + HEAD_BYTES as u64, bytes);
        self.head += size as u64;
        self.put_places();
    }

    /// What is kept, by stripe and in the order of their numbers; what is damaged is left out, and how many are.
    pub fn by_stripe(&self) -> (BTreeMap<StripeId, Vec<KeptOp>>, usize) {
        let mut ops: BTreeMap<StripeId, Vec<KeptOp>> = BTreeMap::new();
        let (mut place, mut damaged) = (self.tail, 0);
        while place + HEAD_BYTES as u64 <= self.head {
            let size = size_of_op(self.kept_bytes_at(place)) as u64;
            if place + size > self.head {
                break;
            }
            match self.op_at(place) {
                Some((stripe, op)) => ops.entry(stripe).or_default().push(op),
                None => damaged += 1,
            }
            place += size;
        }
        // Some were carried to the end.
        ops.values_mut().for_each(|ops| ops.sort_by_key(|op| op.op));
        (ops, damaged)
    }

    fn op_at(&self, place: u64) -> Option<(StripeId, KeptOp)> {
        let head = self.get(place, HEAD_BYTES);
        let bytes = self.get(place + HEAD_BYTES as u64, self.kept_bytes_at(place));
        let sum = crc32c_of([&head[4..], &bytes]);
        let number = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let (stripe, op) = name_of(&head);
        let op = KeptOp {
            op,
            previous: OpNumber(number(20)),
            data_index: head[32],
            offset: number(24),
            length: number(28),
            bytes,
        };
        (number(0) == sum).then_some((stripe, op))
    }

    /// As at least two of three numbers say, bit by bit.
    fn kept_bytes_at(&self, place: u64) -> usize {
        // Places are multiples of 8, so none of these wraps.
        let eight = |place: u64| &self.memory[self.at(place)..][..8];
        let (first, last) = (eight(place), eight(place + 32));
        let [one, two, three] =
            [&first[4..7], &last[1..4], &last[4..7]].map(|n| u32::from_le_bytes([n[0], n[1], n[2], 0]));
        ((one & two) | (two & three) | (three & one)) as usize
    }

    fn ring_bytes(&self) -> usize {
        self.memory.len() - PAGE_BYTES
    }

    fn at(&self, place: u64) -> usize {
        PAGE_BYTES + (place % self.ring_bytes() as u64) as usize
    }

    fn put(&mut self, place: u64, bytes: &[u8]) {
        let at = self.at(place);
        let (first, rest) = bytes.split_at(bytes.len().min(self.memory.len() - at));
        self.memory[at..at + first.len()].copy_from_slice(first);
        self.memory[PAGE_BYTES..PAGE_BYTES + rest.len()].copy_from_slice(rest);
    }

    fn get(&self, place: u64, length: usize) -> Vec<u8> {
        let at = self.at(place);
        let first = length.min(self.memory.len() - at);
        let mut bytes = self.memory[at..at + first].to_vec();
        bytes.extend_from_slice(&self.memory[PAGE_BYTES..PAGE_BYTES + length - first]);
        bytes
    }

    /// After everything that they tell of, and before what is written next.
    fn put_places(&mut self) {
        let mut places = [0; PLACES_BYTES];
        places[..8].copy_from_slice(&self.tail.to_le_bytes());
        places[8..16].copy_from_slice(&self.head.to_le_bytes());
        let sum = crc32c(&places[..16]);
        places[16..].copy_from_slice(&sum.to_le_bytes());
        compiler_fence(Ordering::SeqCst);
        for at in PLACES_AT {
            self.memory[at..at + PLACES_BYTES].copy_from_slice(&places);
            compiler_fence(Ordering::SeqCst);
        }
    }
}

/// Of an operation that begins so.
fn name_of(head: &[u8]) -> (StripeId, OpNumber) {
    let stripe = u64::from_le_bytes(head[8..16].try_into().expect("eight bytes"));
    let op = u32::from_le_bytes(head[16..20].try_into().expect("four bytes"));
    (StripeId::from_raw(stripe), OpNumber(op))
}

fn size_of_op(kept_bytes: usize) -> usize {
    (HEAD_BYTES + kept_bytes).next_multiple_of(8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::CHUNK_BYTES_MAX;
    use crate::tests::{op, stripe_id};

    fn kept() -> KeptOps {
        KeptOps::new(Mapping::new(KeptOps::bytes_for(0)).expect("memory"))
    }

    fn append(number: u32, bytes: &[u8]) -> Append<'_> {
        Append { op: op(number), previous: op(number - 1), stable: op(0), data_index: 3, offset: number * 7, bytes }
    }

    /// As a core keeps it whose chunks need nothing of what is old.
    fn push(kept: &mut KeptOps, stripe: u64, append: &Append<'_>) {
        while !kept.admits(append.bytes.len()) {
            kept.drop_oldest();
        }
        kept.push(stripe_id(stripe), append, true);
    }

    fn numbers(kept: &KeptOps, stripe: u64) -> Vec<u32> {
        kept.by_stripe().0.get(&stripe_id(stripe)).into_iter().flatten().map(|op| op.op.0).collect()
    }

    #[test]
    fn what_was_pushed_is_there_for_the_next_process() {
        let mut kept = kept();
        kept.push(stripe_id(1), &append(1, b"raw bytes"), true);
        kept.push(stripe_id(2), &append(1, b"in place"), false);
        kept.push(stripe_id(1), &append(2, b"more"), true);
        let (ops, damaged) = KeptOps::new(kept.memory).by_stripe();
        let of = |number, length, bytes: &[u8]| KeptOp {
            op: op(number),
            previous: op(number - 1),
            data_index: 3,
            offset: number * 7,
            length,
            bytes: bytes.to_vec(),
        };
        assert_eq!(ops[&stripe_id(1)], [of(1, 9, b"raw bytes"), of(2, 4, b"more")]);
        assert_eq!(ops[&stripe_id(2)], [of(1, 8, b"")]);
        assert_eq!(damaged, 0);
    }

    #[test]
    fn the_oldest_go_when_it_is_full_and_what_wraps_is_whole() {
        let mut kept = kept();
        let bytes = [9; 5000];
        for number in 1..=200 {
            push(&mut kept, 1, &append(number, &bytes[..4000 + number as usize]));
            let numbers = numbers(&kept, 1);
            assert_eq!(numbers.last(), Some(&number));
            assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
        }
        let kept_bytes = KEPT_OPS_BYTES_MIN - KEPT_OPS_BYTES_MIN / KEPT_OPS_FREE_PART;
        assert!(numbers(&kept, 1).len() >= kept_bytes / 4300 - 1);
    }

    #[test]
    fn after_what_is_admitted_the_oldest_can_go_to_the_end() {
        for length in [1, 100, 5_000, KEPT_OPS_BYTES_MIN / KEPT_OPS_FREE_PART - HEAD_BYTES] {
            let (mut kept, mut number) = (kept(), 0);
            while kept.admits(length) {
                number += 1;
                kept.push(stripe_id(1), &append(number, &vec![9; length]), true);
            }
            assert!(number as usize * size_of_op(length) > KEPT_OPS_BYTES_MIN / 2, "{number} of {length} bytes");
            kept.carried_max = 0;
            assert!(!kept.admits(length) && kept.carry_oldest(), "{length} bytes");
            assert_eq!(numbers(&kept, 1).len(), number as usize);
        }
    }

    #[test]
    fn an_empty_one_admits_the_longest() {
        assert!(kept().admits(CHUNK_BYTES_MAX));
    }

    #[test]
    fn what_goes_to_the_end_is_whole_and_in_its_place() {
        let mut kept = kept();
        kept.push(stripe_id(1), &append(1, b"first"), true);
        kept.push(stripe_id(2), &append(1, b"another"), true);
        kept.push(stripe_id(1), &append(2, b"second"), true);
        let before = kept.by_stripe();
        for _ in 0..5000 {
            kept.carried_max = usize::MAX;
            assert!(kept.carry_oldest());
            assert_eq!(kept.by_stripe(), before);
        }
        assert!(kept.head > kept.ring_bytes() as u64, "around");
        kept.drop_oldest();
        let left = KeptOps::new(kept.memory).by_stripe().0;
        assert_eq!(left.values().map(Vec::len).sum::<usize>(), 2);
    }

    #[test]
    fn a_flipped_bit_of_an_operation_costs_that_one_only() {
        let mut kept = kept();
        for number in 1..=3 {
            kept.push(stripe_id(1), &append(number, b"some bytes here"), true);
        }
        for bit in 0..kept.head as usize * 8 {
            let at = PAGE_BYTES + bit / 8;
            kept.memory[at] ^= 1 << (bit % 8);
            let (mut ops, damaged) = kept.by_stripe();
            let ops = ops.remove(&stripe_id(1)).expect("two at least");
            let is_padding = (bit / 8) % 56 == 55;
            assert_eq!((ops.len(), damaged), if is_padding { (3, 0) } else { (2, 1) }, "bit {bit}");
            assert!(ops.iter().all(|op| op.bytes == b"some bytes here"), "bit {bit}");
            kept.memory[at] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_flipped_bit_of_the_places_costs_nothing() {
        let mut before = kept();
        for number in 1..=90 {
            push(&mut before, 1, &append(number, &[9; 4000]));
        }
        let held = numbers(&before, 1);
        let mut memory = before.memory;
        for bit in 0..2 * PLACES_AT[1] * 8 {
            memory[bit / 8] ^= 1 << (bit % 8);
            let is_used = bit / 8 % PLACES_AT[1] < PLACES_BYTES;
            let kept = KeptOps::new(memory);
            assert_eq!((numbers(&kept, 1), kept.mended_count()), (held.clone(), u64::from(is_used)), "bit {bit}");
            memory = kept.memory;
            memory[bit / 8] ^= if is_used { 0 } else { 1 << (bit % 8) };
        }
        assert_eq!(KeptOps::new(memory).mended_count(), 0, "each was mended");
    }

    /// Nobody knows any more where operations are.
    #[test]
    fn places_of_which_no_copy_is_whole_are_begun_anew() {
        let mut kept = kept();
        kept.push(stripe_id(1), &append(1, b"gone"), true);
        PLACES_AT.iter().for_each(|at| kept.memory[at + 8] ^= 1);
        let mut again = KeptOps::new(kept.memory);
        assert!(numbers(&again, 1).is_empty() && again.mended_count() == 2);
        again.push(stripe_id(1), &append(1, b"anew"), true);
        assert_eq!(numbers(&again, 1), [1]);
    }

    /// The process died between the copies: the first one counts.
    #[test]
    fn a_push_that_was_told_of_once_counts() {
        let mut kept = kept();
        kept.push(stripe_id(1), &append(1, b"first"), true);
        let second = kept.memory[PLACES_AT[1]..][..PLACES_BYTES].to_vec();
        kept.push(stripe_id(1), &append(2, b"second"), true);
        kept.memory[PLACES_AT[1]..][..PLACES_BYTES].copy_from_slice(&second);
        let mut kept = KeptOps::new(kept.memory);
        assert_eq!((numbers(&kept, 1), kept.mended_count()), (vec![1, 2], 0));
        kept.memory[8] ^= 1;
        assert_eq!(numbers(&KeptOps::new(kept.memory), 1), [1, 2], "both tell of it now");
    }
}

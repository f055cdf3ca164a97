//! A stripe that still takes appends, or waits to be sealed: its bytes at the owner, its operations, who holds what.
//!
//! ```text
//! record -> pending operation -> (end of turn) sent to its participants -> confirmed by all of them -> stable prefix
//! ```
//! Participants of an operation are the node of its data chunk and those of the parities that cover it: at least one
//! more than may be lost. Records that arrive in one turn share one operation: one message to each participant,
//! whatever their number.
//!
//! A local parity is passed by the operations of other groups, so each participant counts by its own: what it is told
//! is previous or stable are operations that it was sent.
//!
//! Invariants: rule R1, nothing beyond the prefix that every participant confirmed is ever told stable; rule R7, each
//! append names the participant's previous operation.
//!
//! Must not know: nodes, sessions, keys. `I` is whatever the engine wants to be told about when a record is confirmed.

use std::collections::VecDeque;

use shorttail_codes::ChunkSet;
use shorttail_monitor::Ticket;
use shorttail_store::Mapping;
use shorttail_units::{CodeShape, OpNumber};
use smallvec::SmallVec;

use crate::engine::limits::PUT_UNSTABLE_BYTES_MAX;

/// An operation that is not confirmed yet.
#[derive(Debug)]
pub struct Op<I> {
    pub op: OpNumber,
    pub data_index: usize,
    pub offset: usize,
    pub length: usize,
    pub sent_us: u64,
    pub confirmed: bool,
    /// It was appended once more, or that is of no use.
    pub raced: bool,
    pub items: Vec<Item<I>>,
}

/// A record within an operation.
#[derive(Clone, Copy, Debug)]
pub struct Item<I> {
    pub purpose: I,
    pub data_index: usize,
    pub offset: usize,
    pub length: usize,
}

/// What to send for an operation, to each of its participants with their [`Share`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Append {
    pub op: OpNumber,
    pub data_index: usize,
    pub offset: usize,
    pub length: usize,
}

/// What of an append differs from participant to participant: operations that it was sent before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    pub member: usize,
    pub previous: OpNumber,
    pub stable: OpNumber,
}

/// What is known of a member, in operations that it was sent.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    sent: OpNumber,
    acked: OpNumber,
    /// Confirmed by all participants, and so is every operation of the stripe before it.
    stable: OpNumber,
    /// The stable one that it was told last.
    told: OpNumber,
}

/// What a member was sent.
#[derive(Clone, Copy, Debug)]
struct Owed {
    op: OpNumber,
    sent_us: u64,
    ticket: Ticket,
}

/// An operation that waits for some of its participants.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub sent_us: u64,
    pub length: usize,
    /// Participants that have not acknowledged it; if all have, the members whose chunk is awaited.
    pub laggards: SmallVec<[usize; 8]>,
}

#[derive(Debug)]
pub struct OpenStripe<I> {
    shape: CodeShape,
    chunk_bytes: usize,
    /// `data_count x chunk_bytes`. A mapping of its own: pages are taken as records fill them, and all go back with it.
    bytes: Mapping,
    fills: Vec<usize>,
    /// Chunk that this turn's records go to.
    turn_index: usize,
    /// Data chunks that take no appends for now.
    hampered: ChunkSet,
    pending: Option<Op<I>>,
    last_op: OpNumber,
    members: Box<[Progress]>,
    /// Members that have their chunks. Nothing is confirmed before all but a few have (see
    /// [`CodeShape::unopened_max`]): so a new owner hears of the stripe.
    opened: ChunkSet,
    /// Per member, what it was sent and has not acknowledged.
    owed: Vec<VecDeque<Owed>>,
    ops: VecDeque<Op<I>>,
    /// Of those operations; parities keep as many raw.
    unstable_bytes: usize,
    stable: OpNumber,
    /// When operations told anyone what is stable.
    told_us: u64,
    /// Of the last flush; kept for its memory.
    shares: Vec<Share>,
    /// Members that confirmed the seal.
    pub seal_confirmed: ChunkSet,
}

impl<I> OpenStripe<I> {
    /// # Panics
    /// If the kernel has no memory for it.
    pub fn new(shape: CodeShape, chunk_bytes: usize) -> Self {
        let bytes = Mapping::new(shape.data_count() * chunk_bytes);
        let bytes = bytes.unwrap_or_else(|error| panic!("no memory for the bytes of a stripe: {error}"));
        Self::in_memory_of(shape, chunk_bytes, bytes)
    }

    /// A stripe whose bytes lie where those of another, alike, have been.
    ///
    /// # Panics
    /// If it was not alike.
    pub fn in_memory_of(shape: CodeShape, chunk_bytes: usize, bytes: Mapping) -> Self {
        assert_eq!(bytes.len(), shape.data_count() * chunk_bytes, "memory for all data chunks");
        OpenStripe {
            shape,
            chunk_bytes,
            bytes,
            fills: vec![0; shape.data_count()],
            turn_index: 0,
            hampered: ChunkSet::EMPTY,
            pending: None,
            last_op: OpNumber(0),
            members: vec![Progress::default(); shape.chunk_count()].into(),
            opened: ChunkSet::EMPTY,
            owed: vec![VecDeque::new(); shape.chunk_count()],
            ops: VecDeque::new(),
            unstable_bytes: 0,
            stable: OpNumber(0),
            told_us: 0,
            shares: Vec::new(),
            seal_confirmed: ChunkSet::EMPTY,
        }
    }

    /// What it was about is over: its memory, for another.
    pub fn into_memory(self) -> Mapping {
        self.bytes
    }

    /// A stripe that was read back from nodes and only waits to be emptied.
    pub fn from_chunks(shape: CodeShape, chunks: &[Vec<u8>], chunk_bytes: usize) -> Self {
        let mut stripe = Self::new(shape, chunk_bytes);
        for (place, chunk) in stripe.bytes.chunks_exact_mut(chunk_bytes).zip(chunks) {
            place[..chunk.len()].copy_from_slice(chunk);
        }
        stripe.fills = chunks.iter().map(Vec::len).collect();
        stripe
    }

    /// Bytes of data chunk `data_index` in use.
    pub fn chunk(&self, data_index: usize) -> &[u8] {
        let start = data_index * self.chunk_bytes;
        &self.bytes[start..start + self.fills[data_index]]
    }

    pub fn fills(&self) -> &[usize] {
        &self.fills
    }

    /// The data chunk that a record of `length` goes to, keeping to this turn's chunk while it has room. Hampered
    /// chunks have none.
    pub fn room_for(&self, length: usize) -> Option<usize> {
        self.chunks_with_room(length).find(|&index| !self.hampered.contains(index))
    }

    /// As [`OpenStripe::room_for`], hampered or not: every one, first the one whose turn it is.
    pub fn chunks_with_room(&self, length: usize) -> impl Iterator<Item = usize> {
        let data_count = self.shape.data_count();
        let turned = (0..data_count).map(move |step| (self.turn_index + step) % data_count);
        turned.filter(move |&index| self.fills[index] + length <= self.chunk_bytes)
    }

    /// Which data chunks take no appends if others can.
    pub fn set_hampered(&mut self, chunks: ChunkSet) {
        self.hampered = chunks;
    }

    /// Was nothing ever appended?
    pub fn is_empty(&self) -> bool {
        self.last_op == OpNumber(0) && self.pending.is_none()
    }

    /// Must the pending operation be sent before a record can go to `data_index`?
    pub fn needs_flush(&self, data_index: usize, length: usize, append_bytes_max: usize) -> bool {
        self.pending
            .as_ref()
            .is_some_and(|pending| pending.data_index != data_index || pending.length + length > append_bytes_max)
    }

    /// Adds a record to the pending operation; the caller writes it into the returned bytes. Also its offset.
    ///
    /// # Panics
    /// If there is no room, or the pending operation had to be flushed first.
    pub fn append(&mut self, data_index: usize, length: usize, purpose: I) -> (usize, &mut [u8]) {
        let offset = self.fills[data_index];
        assert!(offset + length <= self.chunk_bytes, "room in the chunk");
        let op = self.last_op.next();
        let pending = self.pending.get_or_insert_with(|| Op {
            op,
            data_index,
            offset,
            length: 0,
            sent_us: 0,
            confirmed: false,
            raced: false,
            items: Vec::new(),
        });
        assert_eq!(pending.data_index, data_index, "one operation goes to one chunk");
        pending.length += length;
        pending.items.push(Item { purpose, data_index, offset, length });
        self.turn_index = data_index;
        self.fills[data_index] += length;
        let start = data_index * self.chunk_bytes + offset;
        (offset, &mut self.bytes[start..start + length])
    }

    /// The pending operation becomes an operation in flight; what to send for it, to each participant with its share.
    pub fn flush(&mut self, now_us: u64) -> Option<Append> {
        let mut op = self.pending.take()?;
        op.sent_us = now_us;
        let append = Append { op: op.op, data_index: op.data_index, offset: op.offset, length: op.length };
        self.shares.clear();
        for member in self.shape.participants(op.data_index) {
            let progress = &mut self.members[member];
            self.shares.push(Share { member, previous: progress.sent, stable: progress.stable });
            (progress.sent, progress.told) = (op.op, progress.stable);
        }
        self.last_op = op.op;
        self.told_us = now_us;
        self.unstable_bytes += op.length;
        self.ops.push_back(op);
        Some(append)
    }

    /// The shares of the operation that was flushed last.
    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// Does the member hold all it was sent before, and has it place for this? Then nothing that is on its way to it
    /// could be overtaken, and it refuses nothing.
    pub fn is_level(&self, share: &Share) -> bool {
        let is_opened = self.opened.contains(share.member);
        is_opened && self.members[share.member].acked == share.previous && self.unstable_bytes <= PUT_UNSTABLE_BYTES_MAX
    }

    pub fn append_bytes(&self, append: &Append) -> &[u8] {
        self.item_bytes(append.data_index, append.offset, append.length)
    }

    /// Records of turn `turn` go to the chunk whose turn it is.
    pub fn begin_turn(&mut self, turn: u64) {
        self.turn_index = (turn % self.shape.data_count() as u64) as usize;
    }

    /// Takes a cumulative acknowledgement of `member`; the records that are confirmed by it, in order.
    pub fn acknowledge(&mut self, member: usize, op: OpNumber) -> Vec<Item<I>> {
        if op > self.last_op || op <= self.members[member].acked {
            return Vec::new();
        }
        self.members[member].acked = op;
        // A member that acknowledges has its chunk, whatever became of the answer to its opening.
        if self.opened.contains(member) { self.confirm_through(op) } else { self.open(member) }
    }

    /// A member has its chunk; the records that are confirmed by it, in order.
    pub fn open(&mut self, member: usize) -> Vec<Item<I>> {
        self.opened.insert(member);
        self.confirm_through(self.last_op)
    }

    fn confirm_through(&mut self, op: OpNumber) -> Vec<Item<I>> {
        if !self.is_opened() {
            return Vec::new();
        }
        let (shape, members) = (self.shape, &mut self.members);
        let mut confirmed = Vec::new();
        for op in self.ops.iter_mut().take_while(|other| other.op <= op).filter(|op| !op.confirmed) {
            if shape.participants(op.data_index).all(|member| members[member].acked >= op.op) {
                op.confirmed = true;
                confirmed.append(&mut op.items);
            }
        }
        while let Some(op) = self.ops.pop_front_if(|op| op.confirmed) {
            self.stable = op.op;
            self.unstable_bytes -= op.length;
            shape.participants(op.data_index).for_each(|member| members[member].stable = op.op);
        }
        confirmed
    }

    /// `member` was sent an operation.
    pub fn owe(&mut self, member: usize, op: OpNumber, sent_us: u64, ticket: Ticket) {
        self.owed[member].push_back(Owed { op, sent_us, ticket });
    }

    /// What `member` was sent up to `op`, one by one, and no longer owes; with when it was sent.
    pub fn settle(&mut self, member: usize, op: OpNumber) -> Option<(u64, Ticket)> {
        self.owed[member].pop_front_if(|owed| owed.op <= op).map(|owed| (owed.sent_us, owed.ticket))
    }

    /// When the oldest was sent that `member` owes.
    pub fn owed_since_us(&self, member: usize) -> Option<u64> {
        self.owed[member].front().map(|owed| owed.sent_us)
    }

    /// Does `member` owe what it was sent before this time?
    pub fn owes_since(&self, member: usize, before_us: u64) -> bool {
        self.owed[member].front().is_some_and(|owed| owed.sent_us < before_us)
    }

    /// The oldest operation that is not confirmed and was not raced.
    pub fn next_to_race(&self) -> Option<Waiting> {
        let op = self.ops.iter().find(|op| !op.confirmed && !op.raced)?;
        let participants = self.shape.participants(op.data_index);
        let mut laggards: SmallVec<_> = participants.filter(|&member| self.members[member].acked < op.op).collect();
        if laggards.is_empty() {
            laggards.extend(self.unopened());
        }
        Some(Waiting { sent_us: op.sent_us, length: op.length, laggards })
    }

    /// Members without their chunk, as long as too few have theirs.
    pub fn unopened(&self) -> impl Iterator<Item = usize> {
        let is_awaited = !self.is_opened();
        (0..self.members.len()).filter(move |member| is_awaited && !self.opened.contains(*member))
    }

    fn is_opened(&self) -> bool {
        self.opened.len() + self.shape.unopened_max() >= self.members.len()
    }

    /// Records of that operation, in order.
    pub fn items_to_race(&self) -> &[Item<I>] {
        self.ops.iter().find(|op| !op.confirmed && !op.raced).map_or(&[], |op| &op.items)
    }

    /// That operation counts as raced from now on; its records, and their bytes together.
    pub fn begin_race(&mut self) -> Option<(Vec<Item<I>>, Vec<u8>)>
    where
        I: Copy,
    {
        let op = self.ops.iter_mut().find(|op| !op.confirmed && !op.raced)?;
        op.raced = true;
        let (items, data_index, offset, length) = (op.items.clone(), op.data_index, op.offset, op.length);
        Some((items, self.item_bytes(data_index, offset, length).to_vec()))
    }

    /// The records of the operation that begins there are for these purposes now.
    pub fn set_purposes(&mut self, data_index: usize, offset: usize, purposes: &[I])
    where
        I: Copy,
    {
        let op = self.ops.iter_mut().find(|op| op.data_index == data_index && op.offset == offset);
        let items = op.into_iter().flat_map(|op| &mut op.items);
        items.zip(purposes).for_each(|(item, &purpose)| item.purpose = purpose);
    }

    /// An operation with such a record counts as never raced.
    pub fn race_again(&mut self, purpose: I)
    where
        I: PartialEq,
    {
        let has = |op: &&mut Op<I>| op.items.iter().any(|item| item.purpose == purpose);
        self.ops.iter_mut().filter(has).for_each(|op| op.raced = false);
    }

    /// Every record that is not confirmed, sent or not.
    pub fn unconfirmed_mut(&mut self) -> impl Iterator<Item = &mut Item<I>> {
        self.ops.iter_mut().chain(&mut self.pending).flat_map(|op| &mut op.items)
    }

    /// Everything not confirmed, in order: to be appended elsewhere.
    pub fn take_unconfirmed(&mut self) -> Vec<Item<I>> {
        let pending = self.pending.take();
        self.ops.drain(..).chain(pending).flat_map(|op| op.items).collect()
    }

    /// Bytes of a record given by its item, or of an operation.
    pub fn item_bytes(&self, data_index: usize, offset: usize, length: usize) -> &[u8] {
        let start = data_index * self.chunk_bytes + offset;
        &self.bytes[start..start + length]
    }

    pub fn last_op(&self) -> OpNumber {
        self.last_op
    }

    /// Last operation that `member` was sent.
    pub fn member_last(&self, member: usize) -> OpNumber {
        self.members[member].sent
    }

    pub fn is_settled(&self) -> bool {
        self.pending.is_none() && self.ops.is_empty()
    }

    /// When the oldest unconfirmed operation was sent.
    pub fn oldest_sent_us(&self) -> Option<u64> {
        self.ops.front().map(|op| op.sent_us)
    }

    /// When everything under way was sent.
    pub fn sent_times_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        let owed = self.owed.iter_mut().flatten().map(|owed| &mut owed.sent_us);
        self.ops.iter_mut().map(|op| &mut op.sent_us).chain(owed)
    }

    /// Members that have not acknowledged an operation that was sent before `before_us`.
    pub fn laggards(&self, before_us: u64) -> Vec<usize> {
        let late: Vec<_> = self.ops.iter().filter(|op| !op.confirmed && op.sent_us < before_us).collect();
        let lags = |member: &usize| late.iter().any(|op| self.owes(*member, op));
        (0..self.members.len()).filter(lags).collect()
    }

    fn owes(&self, member: usize, op: &Op<I>) -> bool {
        self.members[member].acked < op.op && self.shape.participants(op.data_index).any(|other| other == member)
    }

    /// Members that have not been told what is stable, with that, if nobody was told anything for `idle_us`: parities
    /// fold it, and data chunks need nothing of it any more to be what they are after a restart.
    pub fn stable_untold(&mut self, now_us: u64, idle_us: u64) -> Vec<(usize, OpNumber)> {
        if self.told_us + idle_us > now_us {
            return Vec::new();
        }
        let untold = self.take_untold();
        self.told_us = if untold.is_empty() { self.told_us } else { now_us };
        untold
    }

    /// Members that have not been told what is stable, with that: from now on they have.
    pub fn take_untold(&mut self) -> Vec<(usize, OpNumber)> {
        let members = self.members.iter_mut().enumerate();
        let untold = members.filter(|(_, progress)| progress.told < progress.stable);
        let tell = |(member, progress): (usize, &mut Progress)| {
            progress.told = progress.stable;
            (member, progress.stable)
        };
        untold.map(tell).collect()
    }

    /// Rule R1: what a member was told stable, every participant has confirmed.
    pub fn invariant_only_the_confirmed_prefix_is_stable(&self) {
        for (member, progress) in self.members.iter().enumerate() {
            let Progress { sent, acked, stable, told } = *progress;
            assert!(told <= stable && stable <= self.stable, "{member}: told {told:?} of {stable:?}");
            assert!(stable <= acked && acked <= sent, "{member}: {acked:?} acked, {stable:?} stable, {sent:?} sent");
            let first_owed = self.ops.iter().find(|op| self.owes(member, op)).map(|op| op.op);
            assert!(first_owed.is_none_or(|op| op > self.stable), "{member} lacks stable operations");
            assert!(acked == sent || first_owed.is_some(), "{member} owes {sent:?}, which nothing waits for");
        }
    }
}

#[cfg(test)]
mod tests;

//! A stripe that still takes appends, or waits to be sealed: its bytes at the owner, its operations, who holds what.
//!
//! ```text
//! record -> pending operation -> (end of turn) sent to data node and parities -> confirmed by all m+1 -> stable prefix
//! ```
//! Records that arrive in one turn share one operation: one message to each of `m+1` nodes, whatever their number.
//!
//! Invariants: rule R1, nothing beyond the prefix that every participant confirmed is ever told stable; rule R7, each
//! append names the participant's previous operation.
//!
//! Must not know: nodes, sessions, keys. `I` is whatever the engine wants to be told about when a record is confirmed.

use std::collections::VecDeque;

use shorttail_units::OpNumber;

/// An operation that is not confirmed yet.
#[derive(Debug)]
pub struct Op<I> {
    pub op: OpNumber,
    pub data_index: usize,
    pub offset: usize,
    pub length: usize,
    pub sent_us: u64,
    pub confirmed: bool,
    pub items: Vec<Item<I>>,
}

/// A record within an operation.
#[derive(Debug)]
pub struct Item<I> {
    pub purpose: I,
    pub data_index: usize,
    pub offset: usize,
    pub length: usize,
}

/// What to send for an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Append {
    pub op: OpNumber,
    /// Operation before this one on the data node; on every parity it is `op - 1`.
    pub data_previous: OpNumber,
    pub stable: OpNumber,
    pub data_index: usize,
    pub offset: usize,
    pub length: usize,
}

#[derive(Debug)]
pub struct OpenStripe<I> {
    data_count: usize,
    parity_count: usize,
    chunk_bytes: usize,
    /// `data_count x chunk_bytes`.
    bytes: Vec<u8>,
    fills: Vec<usize>,
    /// Chunk that this turn's records go to.
    turn_index: usize,
    pending: Option<Op<I>>,
    last_op: OpNumber,
    chunk_last: Vec<OpNumber>,
    /// Per member, the last operation it acknowledged.
    acked: Vec<OpNumber>,
    ops: VecDeque<Op<I>>,
    stable: OpNumber,
    /// The stable operation that all parities were told last.
    told: OpNumber,
    told_us: u64,
    /// Bit per member that confirmed the seal.
    pub seal_confirmed: u128,
}

impl<I> OpenStripe<I> {
    /// `bytes` is a buffer of `data_count x chunk_bytes`; what it contains does not matter.
    pub fn new(data_count: usize, parity_count: usize, chunk_bytes: usize, bytes: Vec<u8>) -> Self {
        assert_eq!(bytes.len(), data_count * chunk_bytes, "buffer of a stripe");
        OpenStripe {
            data_count,
            parity_count,
            chunk_bytes,
            bytes,
            fills: vec![0; data_count],
            turn_index: 0,
            pending: None,
            last_op: OpNumber(0),
            chunk_last: vec![OpNumber(0); data_count],
            acked: vec![OpNumber(0); data_count + parity_count],
            ops: VecDeque::new(),
            stable: OpNumber(0),
            told: OpNumber(0),
            told_us: 0,
            seal_confirmed: 0,
        }
    }

    /// A stripe that was read back from nodes and only waits to be emptied.
    pub fn from_chunks(data_count: usize, parity_count: usize, chunks: &[Vec<u8>], chunk_bytes: usize) -> Self {
        let mut bytes = vec![0; data_count * chunk_bytes];
        for (place, chunk) in bytes.chunks_exact_mut(chunk_bytes).zip(chunks) {
            place[..chunk.len()].copy_from_slice(chunk);
        }
        let mut stripe = Self::new(data_count, parity_count, chunk_bytes, bytes);
        stripe.fills = chunks.iter().map(Vec::len).collect();
        stripe
    }

    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    /// Bytes of data chunk `data_index` in use.
    pub fn chunk(&self, data_index: usize) -> &[u8] {
        let start = data_index * self.chunk_bytes;
        &self.bytes[start..start + self.fills[data_index]]
    }

    pub fn fills(&self) -> &[usize] {
        &self.fills
    }

    /// The data chunk that a record of `length` goes to, keeping to this turn's chunk while it has room.
    pub fn room_for(&self, length: usize) -> Option<usize> {
        (0..self.data_count)
            .map(|step| (self.turn_index + step) % self.data_count)
            .find(|&index| self.fills[index] + length <= self.chunk_bytes)
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

    /// The pending operation becomes an operation in flight; what to send for it.
    pub fn flush(&mut self, now_us: u64) -> Option<Append> {
        let mut op = self.pending.take()?;
        op.sent_us = now_us;
        let append = Append {
            op: op.op,
            data_previous: self.chunk_last[op.data_index],
            stable: self.stable,
            data_index: op.data_index,
            offset: op.offset,
            length: op.length,
        };
        self.last_op = op.op;
        self.chunk_last[op.data_index] = op.op;
        self.told = self.stable;
        self.told_us = now_us;
        self.ops.push_back(op);
        Some(append)
    }

    pub fn append_bytes(&self, append: &Append) -> &[u8] {
        let start = append.data_index * self.chunk_bytes + append.offset;
        &self.bytes[start..start + append.length]
    }

    /// The next turn writes to the next chunk, so that chunks fill evenly.
    pub fn end_turn(&mut self) {
        self.turn_index = (self.turn_index + 1) % self.data_count;
    }

    /// Takes a cumulative acknowledgement of `member`; the records that are confirmed by it, in order.
    pub fn acknowledge(&mut self, member: usize, op: OpNumber) -> Vec<Item<I>> {
        if op > self.last_op || op <= self.acked[member] {
            return Vec::new();
        }
        self.acked[member] = op;
        let parities = self.acked[self.data_count..].iter().copied().min().unwrap_or(OpNumber(u32::MAX));
        let mut confirmed = Vec::new();
        for op in &mut self.ops {
            if op.op > parities {
                break;
            }
            if !op.confirmed && op.op <= self.acked[op.data_index] {
                op.confirmed = true;
                confirmed.append(&mut op.items);
            }
        }
        while self.ops.front().is_some_and(|op| op.confirmed) {
            self.stable = self.ops.pop_front().expect("a front").op;
        }
        confirmed
    }

    /// Everything not confirmed, in order: to be appended elsewhere.
    pub fn take_unconfirmed(&mut self) -> Vec<Item<I>> {
        let pending = self.pending.take();
        self.ops.drain(..).chain(pending).flat_map(|op| op.items).collect()
    }

    /// Bytes of a record given by its item.
    pub fn item_bytes(&self, data_index: usize, offset: usize, length: usize) -> &[u8] {
        let start = data_index * self.chunk_bytes + offset;
        &self.bytes[start..start + length]
    }

    pub fn last_op(&self) -> OpNumber {
        self.last_op
    }

    /// Last operation that `member` was sent.
    pub fn member_last(&self, member: usize) -> OpNumber {
        if member < self.data_count { self.chunk_last[member] } else { self.last_op }
    }

    pub fn is_settled(&self) -> bool {
        self.pending.is_none() && self.ops.is_empty()
    }

    /// When the oldest unconfirmed operation was sent.
    pub fn oldest_sent_us(&self) -> Option<u64> {
        self.ops.front().map(|op| op.sent_us)
    }

    /// Members that have not acknowledged an operation that was sent before `before_us`.
    pub fn laggards(&self, before_us: u64) -> Vec<usize> {
        let late: Vec<_> = self.ops.iter().filter(|op| !op.confirmed && op.sent_us < before_us).collect();
        let lags = |member: &usize| {
            let owes = |op: &&Op<I>| *member >= self.data_count || op.data_index == *member;
            late.iter().any(|op| owes(op) && self.acked[*member] < op.op)
        };
        (0..self.acked.len()).filter(lags).collect()
    }

    /// The stable operation, if parities have not been told of it for `idle_us`.
    pub fn stable_untold(&mut self, now_us: u64, idle_us: u64) -> Option<OpNumber> {
        if self.parity_count == 0 || self.told >= self.stable || self.told_us + idle_us > now_us {
            return None;
        }
        self.told = self.stable;
        self.told_us = now_us;
        Some(self.stable)
    }

    /// Rule R1: what parities were told stable, every participant has confirmed.
    pub fn invariant_only_the_confirmed_prefix_is_stable(&self) {
        assert!(self.told <= self.stable, "told {:?}, stable {:?}", self.told, self.stable);
        for member in self.data_count..self.acked.len() {
            assert!(self.acked[member] >= self.stable, "parity {member} lacks stable operations");
        }
        for (index, last) in self.chunk_last.iter().enumerate() {
            let acked = self.acked[index];
            let first_open = self.ops.iter().find(|op| op.data_index == index && op.op > acked).map(|op| op.op);
            assert!(acked >= *last || first_open.is_some_and(|op| op > self.stable), "data chunk {index} lags");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARITY: [usize; 2] = [2, 3];

    fn stripe() -> OpenStripe<u32> {
        OpenStripe::new(2, 2, 100, vec![0; 200])
    }

    fn put(stripe: &mut OpenStripe<u32>, data_index: usize, purpose: u32) -> Append {
        stripe.append(data_index, 10, purpose).1.fill(purpose as u8);
        stripe.flush(0).expect("a pending operation")
    }

    fn confirmed(items: Vec<Item<u32>>) -> Vec<u32> {
        items.into_iter().map(|item| item.purpose).collect()
    }

    #[test]
    fn an_operation_is_confirmed_by_its_data_node_and_every_parity() {
        let mut stripe = stripe();
        put(&mut stripe, 0, 1);
        for member in [0, PARITY[0]] {
            assert!(stripe.acknowledge(member, OpNumber(1)).is_empty());
        }
        assert_eq!(confirmed(stripe.acknowledge(PARITY[1], OpNumber(1))), [1]);
        assert_eq!(stripe.stable, OpNumber(1));
    }

    #[test]
    fn a_laggard_blocks_stability_but_not_the_confirmation_of_others() {
        let mut stripe = stripe();
        put(&mut stripe, 0, 1);
        let second = put(&mut stripe, 1, 2);
        assert_eq!(second.stable, OpNumber(0));
        stripe.acknowledge(1, OpNumber(2));
        stripe.acknowledge(PARITY[0], OpNumber(2));
        assert_eq!(confirmed(stripe.acknowledge(PARITY[1], OpNumber(2))), [2]);
        assert_eq!(stripe.stable, OpNumber(0), "operation 1 is not held by its data node");
        stripe.invariant_only_the_confirmed_prefix_is_stable();
        assert_eq!(stripe.laggards(1), [0]);
        assert_eq!(confirmed(stripe.acknowledge(0, OpNumber(1))), [1]);
        assert_eq!(stripe.stable, OpNumber(2));
    }

    #[test]
    fn appends_name_the_participants_previous_operation() {
        let mut stripe = stripe();
        put(&mut stripe, 0, 1);
        put(&mut stripe, 1, 2);
        let third = put(&mut stripe, 0, 3);
        assert_eq!((third.op, third.data_previous, third.offset), (OpNumber(3), OpNumber(1), 10));
    }

    #[test]
    fn records_of_one_turn_share_an_operation() {
        let mut stripe = stripe();
        stripe.append(0, 10, 1);
        assert!(!stripe.needs_flush(0, 10, 100));
        stripe.append(0, 10, 2);
        assert!(stripe.needs_flush(1, 10, 100) && stripe.needs_flush(0, 10, 25));
        assert_eq!(stripe.flush(0).map(|append| append.length), Some(20));
        assert_eq!(confirmed(stripe.take_unconfirmed()), [1, 2]);
    }

    #[test]
    fn a_full_chunk_gives_way_to_the_next_and_a_full_stripe_to_none() {
        let mut stripe = stripe();
        for purpose in 0..10 {
            put(&mut stripe, 0, purpose);
        }
        assert_eq!(stripe.room_for(10), Some(1));
        for purpose in 0..10 {
            put(&mut stripe, 1, purpose);
        }
        assert_eq!(stripe.room_for(10), None);
    }
}

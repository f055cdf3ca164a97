//! The replies of one connection: in order, without those that the client does not want (CLIENT REPLY), and arrays of
//! values with all of their elements, or as one error.
//!
//! An array has a place for its header and one for each element behind it. The header leaves when all elements are
//! there, and so do they; the error of one leaves instead of it all. An array that has become long leaves as its
//! elements come:
//!
//! ```text
//! gathered --all are there--> header and elements
//!    |  '--one is an error--> the error; the others are dropped, also those that come later
//!    '--long, or nothing else brings it on--> header; elements as they come, also errors
//! ```
//!
//! Must not know: what was asked.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;

use shorttail_wire::resp::encode;

use super::limits;
use crate::command::Access;
use crate::reply_queue::{PLACE_BYTES, ReplyQueue};

#[derive(Debug, Default)]
pub struct Replies {
    pub queue: ReplyQueue,
    /// What is opened or pushed now is unwanted.
    pub is_mute: bool,
    unwanted: HashSet<u64>,
    /// Those that are gathered, and those that failed while elements of them are still to come.
    arrays: VecDeque<Array>,
    /// Places of headers and filled elements of arrays that are gathered, and the bytes of these.
    gathered_count: usize,
    gathered_bytes: usize,
}

#[derive(Debug)]
struct Array {
    header: u64,
    element_count: usize,
    filled_count: usize,
    bytes: usize,
    has_failed: bool,
}

impl Array {
    fn elements(&self) -> Range<u64> {
        self.header + 1..self.header + 1 + self.element_count as u64
    }
}

impl Replies {
    /// As [`ReplyQueue::open`], of a command whose latency is counted.
    pub fn open_timed(&mut self, access: Access) -> u64 {
        let seq = self.open();
        self.queue.time(access);
        seq
    }

    /// As [`ReplyQueue::open`].
    pub fn open(&mut self) -> u64 {
        let seq = self.queue.open();
        if self.is_mute {
            self.unwanted.insert(seq);
        }
        seq
    }

    /// Opens the place of an array's header; the next places to be opened are those of its elements.
    pub fn open_array(&mut self, element_count: usize) {
        // It has taken as long as its last element, unless it got long.
        let header = self.open_timed(Access::Read);
        self.gathered_count += 1;
        self.arrays.push_back(Array { header, element_count, filled_count: 0, bytes: 0, has_failed: false });
    }

    /// As [`ReplyQueue::push`].
    pub fn push(&mut self, reply: &[u8]) {
        if !self.is_mute {
            self.queue.push(reply);
        }
    }

    /// As [`ReplyQueue::fill`].
    pub fn fill(&mut self, seq: u64, mut reply: Vec<u8>) {
        if self.is_unwanted(seq) {
            reply.clear();
        }
        let place = self.arrays.partition_point(|array| array.header < seq).checked_sub(1);
        match place.filter(|&place| self.arrays[place].elements().contains(&seq)) {
            Some(place) => self.fill_element(place, seq, reply),
            None => self.queue.fill(seq, reply),
        }
    }

    pub fn is_wanted(&self, seq: u64) -> bool {
        !self.unwanted.contains(&seq)
    }

    /// Are arrays gathered?
    pub fn has_arrays(&self) -> bool {
        !self.arrays.is_empty()
    }

    fn is_unwanted(&mut self, seq: u64) -> bool {
        !self.unwanted.is_empty() && self.unwanted.remove(&seq)
    }

    fn fill_element(&mut self, place: usize, seq: u64, mut reply: Vec<u8>) {
        if !self.arrays[place].has_failed && reply.first() == Some(&b'-') {
            self.fail(place, std::mem::take(&mut reply));
        }
        let array = &mut self.arrays[place];
        array.filled_count += 1;
        if array.has_failed {
            reply.clear();
        } else {
            array.bytes += reply.len();
            self.gathered_count += 1;
            self.gathered_bytes += reply.len();
        }
        let is_whole = array.filled_count == array.element_count;
        self.queue.fill(seq, reply);
        if is_whole {
            self.let_go(place);
        }
        while self.gathered_bytes + self.gathered_count * PLACE_BYTES > limits::ARRAYS_BYTES_MAX
            && let Some(place) = self.arrays.iter().position(|array| !array.has_failed)
        {
            self.let_go(place);
        }
    }

    /// An error is the whole reply.
    fn fail(&mut self, place: usize, error: Vec<u8>) {
        self.forget_gathered(place);
        let array = &mut self.arrays[place];
        array.has_failed = true;
        array.elements().for_each(|seq| self.queue.blank(seq));
        self.queue.fill(array.header, error);
    }

    /// Whatever comes of the array leaves in its turn.
    fn let_go(&mut self, place: usize) {
        if !self.arrays[place].has_failed {
            self.forget_gathered(place);
        }
        let Some(Array { header, element_count, has_failed: false, .. }) = self.arrays.remove(place) else { return };
        let mut reply = Vec::new();
        if !self.is_unwanted(header) {
            encode::array(&mut reply, element_count);
        }
        self.queue.fill(header, reply);
    }

    fn forget_gathered(&mut self, place: usize) {
        self.gathered_count -= 1 + self.arrays[place].filled_count;
        self.gathered_bytes -= self.arrays[place].bytes;
    }

    /// Nothing is under way any more: elements of the first array wait for the client to take something.
    pub fn let_first_go(&mut self) -> bool {
        let is_first = |array: &Array| !array.has_failed && self.queue.is_first(array.header);
        let has_to = self.arrays.front().is_some_and(is_first) && self.queue.output().is_empty();
        if has_to {
            self.let_go(0);
        }
        has_to
    }

    /// May another request be asked? What is gathered has a bound of its own.
    pub fn has_room(&mut self) -> bool {
        self.queue.waiting_count() - self.gathered_count < limits::REPLIES_WAITING_MAX
            && self.queue.held_bytes() - self.gathered_bytes < limits::OUTPUT_BYTES_MAX
            && self.queue.output().len() < limits::OUTPUT_BYTES_MAX
    }
}

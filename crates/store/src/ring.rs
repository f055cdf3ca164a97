//! A ring in memory that two processes share: one puts messages, the other takes them, and neither waits or wakes.
//!
//! ```text
//! words    0 put | 8 room | 16 closed | 24 closed partitions, a bit each | 40 data
//! put      the writer's: words that it put since the beginning
//! room     the reader's: up to where it may; for all of that the reader has memory
//! message  its bytes, in words: length | bytes, zeros; from the end of the data on at the beginning
//! ```
//! A message counts from the moment in which the writer learns that it was taken in: it is there, whole, and after that
//! the ring was open. Whoever closes the ring, or a partition, and then takes what is there has every such message:
//! each side writes its own word first and looks at the other's afterwards, so one of the two sees the other. What was
//! put at that very moment may have been taken or not, and the writer takes it to be unknown.
//!
//! What the other process writes may be anything: it is copied before it is looked at, and lengths are checked.
//!
//! Must not know: what messages say.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use shorttail_units::PartitionId;

use crate::limits::{PARTITION_COUNT_MAX, RING_HEAD_WORDS, RING_WORDS};
use crate::mapping::SharedWords;

const PUT: usize = 0;
const ROOM: usize = 8;
const CLOSED: usize = 16;
const PARTITIONS: usize = 24;

const WORD_BYTES: usize = size_of::<u64>();

/// What lies in a ring is no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("what lies in the ring is no message")]
pub struct RingBroken;

/// Words that a message takes.
fn words_of(message_bytes: usize) -> usize {
    1 + message_bytes.div_ceil(WORD_BYTES)
}

/// The word of the data at this place since the beginning.
fn place_of(at: u64) -> usize {
    RING_HEAD_WORDS + (at % RING_WORDS as u64) as usize
}

fn partition_bit(partition: PartitionId) -> (usize, u64) {
    let number = usize::from(partition.0) % PARTITION_COUNT_MAX;
    (PARTITIONS + number / u64::BITS as usize, 1 << (number % u64::BITS as usize))
}

/// The end that takes messages; it made the ring.
#[derive(Debug)]
pub struct RingReader {
    words: SharedWords,
    /// Words taken since the beginning.
    taken: u64,
    room: u64,
}

impl RingReader {
    /// An empty ring without room.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> io::Result<Self> {
        Ok(RingReader { words: SharedWords::new(RING_HEAD_WORDS + RING_WORDS)?, taken: 0, room: 0 })
    }

    /// What the other end opens.
    pub fn file(&self) -> &Arc<File> {
        self.words.file()
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.words.get()[at]
    }

    pub fn has_messages(&self) -> bool {
        self.word(PUT).load(Ordering::Acquire) != self.taken
    }

    /// Takes the next message, in place of what `message` was; returns how much of its room is used now, in bytes.
    ///
    /// # Errors
    /// The other end did what it must not do.
    pub fn take(&mut self, message: &mut Vec<u8>) -> Result<Option<usize>, RingBroken> {
        let put = self.word(PUT).load(Ordering::Acquire);
        if put == self.taken {
            return Ok(None);
        }
        // It cannot have put more than there was room.
        let there = put.checked_sub(self.taken).filter(|_| put <= self.room).ok_or(RingBroken)?;
        let length =
            usize::try_from(self.word(place_of(self.taken)).load(Ordering::Relaxed)).map_err(|_| RingBroken)?;
        let words = Some(length).filter(|&length| length <= RING_WORDS * WORD_BYTES).map(words_of);
        let words = words.filter(|&words| words as u64 <= there).ok_or(RingBroken)?;
        message.clear();
        for at in self.taken + 1..self.taken + words as u64 {
            message.extend_from_slice(&self.word(place_of(at)).load(Ordering::Relaxed).to_le_bytes());
        }
        message.truncate(length);
        self.taken += words as u64;
        Ok(Some(words * WORD_BYTES))
    }

    /// Room that there could be beyond what there is, in bytes.
    pub fn missing_room_bytes(&self) -> usize {
        RING_WORDS * WORD_BYTES - self.room_bytes()
    }

    /// Room that is not used yet, and messages that were not taken.
    pub fn room_bytes(&self) -> usize {
        (self.room - self.taken) as usize * WORD_BYTES
    }

    /// Lets the other end put so many bytes more.
    ///
    /// # Panics
    /// If there is no place for them.
    pub fn give_room(&mut self, bytes: usize) {
        assert!(bytes <= self.missing_room_bytes() && bytes.is_multiple_of(WORD_BYTES), "room in the ring");
        self.room += (bytes / WORD_BYTES) as u64;
        self.word(ROOM).store(self.room, Ordering::Release);
    }

    /// From now on nothing that is put counts.
    pub fn close(&self) {
        self.word(CLOSED).store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// From now on nothing that is put for this partition counts.
    pub fn close_to(&self, partition: PartitionId) {
        let (word, bit) = partition_bit(partition);
        self.word(word).fetch_or(bit, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }
}

/// The end that puts messages.
#[derive(Debug)]
pub struct RingWriter {
    words: SharedWords,
    put: u64,
    /// The most room that there was at once.
    room_words_max: u64,
    /// The room for which the reader was asked to come.
    asked_at_room: Option<u64>,
}

impl RingWriter {
    /// The ring that another process made, and nobody put anything into.
    ///
    /// # Errors
    /// What the system says; `InvalidData`: it is no ring, or not a fresh one.
    pub fn open(file: &Arc<File>) -> io::Result<Self> {
        let words = SharedWords::of_file(file)?;
        if words.get().len() != RING_HEAD_WORDS + RING_WORDS || words.get()[PUT].load(Ordering::Acquire) != 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(RingWriter { words, put: 0, room_words_max: 0, asked_at_room: None })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.words.get()[at]
    }

    fn room(&self) -> u64 {
        self.word(ROOM).load(Ordering::Acquire)
    }

    /// Puts a message about a partition. True: the reader has it, if it lives, and acts on it before it does anything
    /// that is asked of it from now on. False: it may have it or not.
    #[must_use]
    pub fn put(&mut self, partition: PartitionId, message: &[u8]) -> bool {
        let words = words_of(message.len()) as u64;
        let room = self.room().checked_sub(self.put).filter(|&room| room <= RING_WORDS as u64).unwrap_or(0);
        self.room_words_max = self.room_words_max.max(room);
        if room < words {
            return false;
        }
        self.word(place_of(self.put)).store(message.len() as u64, Ordering::Relaxed);
        let (whole, rest) = message.as_chunks::<WORD_BYTES>();
        let mut last = [0; WORD_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        let all = whole.iter().chain((!rest.is_empty()).then_some(&last));
        for (at, bytes) in (self.put + 1..).zip(all) {
            self.word(place_of(at)).store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        self.put += words;
        self.word(PUT).store(self.put, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let (word, bit) = partition_bit(partition);
        self.word(CLOSED).load(Ordering::SeqCst) == 0 && self.word(word).load(Ordering::SeqCst) & bit == 0
    }

    /// Is it time that the reader comes? Asked for once, until it came.
    pub fn wants_reader(&mut self) -> bool {
        let room = self.room();
        let is_wanted = room.saturating_sub(self.put) < self.room_words_max / 2 && self.asked_at_room != Some(room);
        if is_wanted {
            self.asked_at_room = Some(room);
        }
        is_wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: PartitionId = PartitionId(1);

    fn ring(room_bytes: usize) -> (RingReader, RingWriter) {
        let mut reader = RingReader::new().expect("a ring");
        reader.give_room(room_bytes);
        let writer = RingWriter::open(reader.file()).expect("the other end");
        (reader, writer)
    }

    fn take(reader: &mut RingReader) -> Option<Vec<u8>> {
        let mut message = vec![9; 3];
        reader.take(&mut message).expect("messages").map(|_| message)
    }

    #[test]
    fn messages_of_all_lengths_come_as_they_were_put_round_after_round() {
        let (mut reader, mut writer) = ring(RING_WORDS * WORD_BYTES);
        for round in 0..100_usize {
            let lengths = [0, 1, 7, 8, 9, 200, 1000 + round, 16_000];
            for length in lengths {
                let message: Vec<u8> = (0..length).map(|at| (at + round) as u8).collect();
                assert!(writer.put(ONE, &message));
                assert!(reader.has_messages());
                assert_eq!(take(&mut reader), Some(message));
            }
            assert_eq!((take(&mut reader), reader.has_messages()), (None, false));
            let missing = reader.missing_room_bytes();
            reader.give_room(missing);
        }
    }

    #[test]
    fn nothing_is_put_beyond_the_room_and_what_was_taken_makes_none_by_itself() {
        let (mut reader, mut writer) = ring(10 * WORD_BYTES);
        assert!(writer.put(ONE, &[1; 32]) && writer.put(ONE, &[2; 32]));
        assert!(!writer.put(ONE, &[]), "there is no room");
        assert_eq!(take(&mut reader), Some(vec![1; 32]));
        assert_eq!(reader.room_bytes(), 5 * WORD_BYTES);
        assert!(!writer.put(ONE, &[]), "nobody gave any");
        reader.give_room(WORD_BYTES);
        assert!(writer.put(ONE, &[]) && !writer.put(ONE, &[]));
        assert_eq!([take(&mut reader), take(&mut reader), take(&mut reader)], [Some(vec![2; 32]), Some(vec![]), None]);
    }

    #[test]
    fn what_is_put_into_a_closed_ring_does_not_count_but_is_there() {
        let (mut reader, mut writer) = ring(1024);
        reader.close_to(ONE);
        assert!(!writer.put(ONE, b"one") && writer.put(PartitionId(65), b"other"));
        reader.close();
        assert!(!writer.put(PartitionId(65), b"late"));
        assert_eq!(take(&mut reader), Some(b"one".to_vec()), "whether it counts is not the ring's to say");
    }

    #[test]
    fn the_reader_is_asked_to_come_once_for_each_half() {
        for room_bytes in [RING_WORDS * WORD_BYTES, 4096] {
            the_reader_is_asked_once(room_bytes);
        }
    }

    fn the_reader_is_asked_once(room_bytes: usize) {
        let (mut reader, mut writer) = ring(room_bytes);
        let mut asked = 0;
        for _ in 0..1000 {
            if !writer.put(ONE, &[0; 120]) {
                break;
            }
            asked += u32::from(writer.wants_reader());
        }
        assert_eq!(asked, 1);
        while take(&mut reader).is_some() {}
        let missing = room_bytes - reader.room_bytes();
        reader.give_room(missing);
        assert!(!writer.wants_reader());
        while writer.put(ONE, &[0; 120]) {}
        assert!(writer.wants_reader() && !writer.wants_reader());
    }

    #[test]
    fn a_writer_that_does_what_it_must_not_is_noticed() {
        let spoil = |at: usize, value: u64| {
            let (mut reader, mut writer) = ring(1024);
            assert!(writer.put(ONE, b"right"));
            writer.word(at).store(value, Ordering::Relaxed);
            let mut message = Vec::new();
            reader.take(&mut message)
        };
        assert_eq!(spoil(PUT, u64::MAX), Err(RingBroken), "more than there was room");
        assert_eq!(spoil(place_of(0), 6), Ok(Some(16)), "a length that may be");
        for length in [9, u64::MAX, u64::MAX - 7, (RING_WORDS * WORD_BYTES) as u64] {
            assert_eq!(spoil(place_of(0), length), Err(RingBroken), "a length of {length}");
        }
        let (mut reader, writer) = ring(1024);
        reader.taken = 8;
        writer.word(PUT).store(7, Ordering::Relaxed);
        assert_eq!(reader.take(&mut Vec::new()), Err(RingBroken), "put back");
    }

    #[test]
    fn only_a_fresh_ring_is_opened() {
        let (reader, mut writer) = ring(1024);
        assert!(writer.put(ONE, b"one"));
        assert!(RingWriter::open(reader.file()).is_err(), "somebody else's");
        let other = SharedWords::new(512).expect("memory");
        assert!(RingWriter::open(other.file()).is_err(), "of another size");
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        file.set_len(((RING_HEAD_WORDS + RING_WORDS) * WORD_BYTES) as u64).expect("its size");
        assert!(RingWriter::open(&file).is_err(), "a file that may get shorter");
    }
}

//! What a command's reply means for the statistics.
//!
//! A command runs in the engine, perhaps on another core, and never sees the counters. So it ends each reply with
//! one byte, the tally, which the session takes off before the reply goes to the client.

use crate::command::{Effect, StoreError};
use crate::session::Counters;

/// What a command does to its object, and what its reply means.
pub type Applied = (Effect, Tally);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Tally {
    Nothing = 0,
    GetHit,
    GetMiss,
    TouchHit,
    TouchMiss,
    DeleteHit,
    DeleteMiss,
    IncrHit,
    IncrMiss,
    DecrHit,
    DecrMiss,
    CasHit,
    CasMiss,
    CasBadval,
    DebugGet,
    TooLarge,
    NoMemory,
    /// The engine refused for another reason.
    Refused,
    /// The command was only read, but must change the object: the reply is its request line, to be issued again.
    Again,
}

const ALL: [Tally; 19] = [
    Tally::Nothing,
    Tally::GetHit,
    Tally::GetMiss,
    Tally::TouchHit,
    Tally::TouchMiss,
    Tally::DeleteHit,
    Tally::DeleteMiss,
    Tally::IncrHit,
    Tally::IncrMiss,
    Tally::DecrHit,
    Tally::DecrMiss,
    Tally::CasHit,
    Tally::CasMiss,
    Tally::CasBadval,
    Tally::DebugGet,
    Tally::TooLarge,
    Tally::NoMemory,
    Tally::Refused,
    Tally::Again,
];

impl Tally {
    pub fn of_error(error: StoreError) -> Self {
        match error {
            StoreError::OutOfMemory => Tally::NoMemory,
            StoreError::TooLarge => Tally::TooLarge,
            _ => Tally::Refused,
        }
    }

    pub fn of(byte: u8) -> Option<Self> {
        ALL.get(usize::from(byte)).copied()
    }

    pub fn put(self, reply: &mut Vec<u8>) {
        reply.push(self as u8);
    }

    /// Takes the tally off a reply.
    ///
    /// # Panics
    /// If the reply was not written by a memcached command.
    pub fn take(reply: &mut Vec<u8>) -> Self {
        let byte = reply.pop().expect("each reply ends with its tally");
        Self::of(byte).expect("a tally")
    }

    pub fn is_refusal(self) -> bool {
        matches!(self, Tally::TooLarge | Tally::NoMemory | Tally::Refused)
    }

    pub fn count(self, counters: &mut Counters) {
        let places: [Option<&mut u64>; 2] = match self {
            Tally::Nothing | Tally::Refused | Tally::Again => [None, None],
            Tally::GetHit => [Some(&mut counters.get_commands), Some(&mut counters.get_hits)],
            Tally::GetMiss => [Some(&mut counters.get_commands), Some(&mut counters.get_misses)],
            Tally::TouchHit => [Some(&mut counters.touch_commands), Some(&mut counters.touch_hits)],
            Tally::TouchMiss => [Some(&mut counters.touch_commands), Some(&mut counters.touch_misses)],
            Tally::DeleteHit => [Some(&mut counters.delete_hits), None],
            Tally::DeleteMiss => [Some(&mut counters.delete_misses), None],
            Tally::IncrHit => [Some(&mut counters.incr_hits), None],
            Tally::IncrMiss => [Some(&mut counters.incr_misses), None],
            Tally::DecrHit => [Some(&mut counters.decr_hits), None],
            Tally::DecrMiss => [Some(&mut counters.decr_misses), None],
            Tally::CasHit => [Some(&mut counters.cas_hits), None],
            Tally::CasMiss => [Some(&mut counters.cas_misses), None],
            Tally::CasBadval => [Some(&mut counters.cas_badval), None],
            Tally::DebugGet => [Some(&mut counters.meta_commands), None],
            Tally::TooLarge => [Some(&mut counters.store_too_large), None],
            Tally::NoMemory => [Some(&mut counters.store_no_memory), None],
        };
        places.into_iter().flatten().for_each(|place| *place += 1);
    }
}

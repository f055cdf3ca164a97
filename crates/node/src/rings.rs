//! Appends that owners on this machine put into rings: taken before anything else is done.
//!
//! ```text
//! owner   put --it counts--> acknowledged, by the owner itself
//! node    whatever comes, from anybody: first all that lies in rings is taken
//!         a later owner fences a partition: closed to it, what was put is taken, then it is fenced
//!         the session ends: closed, what was put is taken
//! ```
//! So what counts is held before anything can tell that it is not. Memory for all that may be put is promised
//! beforehand: no append is refused for want of it. One that is refused all the same (its chunk is damaged) is told of
//! by a message, and its stripe is left.
//!
//! Must not know: what appends do, whose memory rings are.

use std::fmt::Debug;

use shorttail_store::limits::RING_ROOM_BYTES_MIN;
use shorttail_store::{ChunkStore, RingBroken, RingReader};
use shorttail_wire::node::{NearMemory, NodeRequest, next_frame};

use crate::requests::Holdings;
use crate::session::Session;

/// Makes rings that owners on this machine find.
pub trait MakeRing: Debug + Send {
    /// A ring and where it is found; `None`: the system has none, and owners send messages.
    fn make(&mut self) -> Option<(RingReader, NearMemory)>;
}

/// The ring of a session.
#[derive(Debug)]
pub(crate) struct Ring {
    reader: RingReader,
    /// What was taken last; kept for its memory.
    message: Vec<u8>,
    /// There are no messages in it.
    is_broken: bool,
}

impl Ring {
    /// `None`: there is no memory for what may be put.
    pub fn new(reader: RingReader, store: &mut ChunkStore) -> Option<Self> {
        let mut ring = Ring { reader, message: Vec::new(), is_broken: false };
        ring.give_room(store);
        if ring.reader.room_bytes() < RING_ROOM_BYTES_MIN {
            store.redeem(ring.reader.room_bytes());
            return None;
        }
        Some(ring)
    }

    pub fn reader(&self) -> &RingReader {
        &self.reader
    }

    /// Is there something to take, or too little room, for which there may be memory now?
    pub fn wants_care(&self) -> bool {
        self.reader.has_messages() || self.reader.room_bytes() < RING_ROOM_BYTES_MIN
    }

    /// As much as memory can be promised for.
    fn give_room(&mut self, store: &mut ChunkStore) {
        let promised = store.promise(self.reader.missing_room_bytes(), self.reader.room_bytes());
        self.reader.give_room(promised);
    }

    /// Takes all that was put, and makes room for more.
    ///
    /// # Errors
    /// The session is to end.
    pub fn take_all(&mut self, holdings: &mut Holdings, session: &mut Session) -> Result<(), RingMisused> {
        let taken = self.take(holdings, session);
        if taken.is_ok() {
            self.give_room(&mut holdings.store);
        }
        taken
    }

    /// Takes all that was put before this; nothing that is put from now on counts. As [`Ring::take_all`], but the
    /// session ends anyway.
    pub fn end(mut self, holdings: &mut Holdings, session: &mut Session) {
        self.reader.close();
        // Behind something that is no append may be appends.
        while !self.is_broken && self.take(holdings, session).is_err() {}
        holdings.store.redeem(self.reader.room_bytes());
    }

    fn take(&mut self, holdings: &mut Holdings, session: &mut Session) -> Result<(), RingMisused> {
        let mut message = std::mem::take(&mut self.message);
        let outcome = loop {
            match self.reader.take(&mut message) {
                Ok(None) => break Ok(()),
                Ok(Some(room_bytes)) => {
                    // An operation takes less memory than its message took of the ring.
                    holdings.store.redeem(room_bytes);
                    if let Err(misused) = take_append(&message, holdings, session) {
                        break Err(misused);
                    }
                    if session.check_output().is_err() {
                        break Err(RingMisused::Unread);
                    }
                }
                Err(RingBroken) => {
                    self.is_broken = true;
                    break Err(RingMisused::Hurt);
                }
            }
        };
        self.message = message;
        holdings.stats.messages_damaged += u64::from(outcome == Err(RingMisused::Hurt));
        outcome
    }
}

/// An owner did what it must not do, or what it did was hurt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RingMisused {
    /// A message is no append.
    Message,
    /// What lies there is no message.
    Hurt,
    /// It does not read what was refused.
    Unread,
}

fn take_append(message: &[u8], holdings: &mut Holdings, session: &mut Session) -> Result<(), RingMisused> {
    let frame = next_frame(message).ok().flatten().filter(|(_, length)| *length == message.len());
    let (frame, _) = frame.ok_or(RingMisused::Hurt)?;
    let request = NodeRequest::parse(&frame).map_err(|_| RingMisused::Hurt)?;
    let NodeRequest::Append { .. } = request else { return Err(RingMisused::Message) };
    holdings.take_append(frame.tag, &request, session);
    Ok(())
}

//! Replies to a client that sends on before it reads, as those do that write a whole pipeline first. What its socket
//! does not take is put aside here, so that its session has room and takes the next requests.
//!
//! ```text
//! session: output --> socket, while it takes all
//!             '-----> backlog, while there is room --> socket, before any later output
//! ```
//! Where there is no room the output stays with the session, which takes no more requests then, until others leave
//! room.
//!
//! Must not know: protocols, sockets.

use std::collections::{BTreeSet, VecDeque};
use std::io;

/// Bytes that are put aside for one client: replies of some millions of counters, or of a thousand values that are not
/// large.
const BACKLOG_BYTES_MAX: usize = 64 << 20;

/// Bytes that are put aside for all clients of a gateway; each core has its part, and room for one client at least.
const BACKLOGS_BYTES_MAX: usize = 256 << 20;

/// Bytes of a piece that takes further output: its memory is given back when all of it has left.
const PIECE_BYTES: usize = 256 << 10;

/// Room for the clients of one core.
#[derive(Debug)]
pub struct BacklogRoom {
    bytes_left: usize,
    /// Clients for whose output there was none.
    waiting: BTreeSet<u64>,
    has_grown: bool,
}

impl BacklogRoom {
    pub fn of_core(core_count: usize) -> Self {
        let bytes_left = (BACKLOGS_BYTES_MAX / core_count).max(BACKLOG_BYTES_MAX);
        BacklogRoom { bytes_left, waiting: BTreeSet::new(), has_grown: false }
    }

    /// A client for whose output there was none is to be looked at when there is more: nothing else may tell of it.
    pub fn wait(&mut self, client: u64) {
        self.waiting.insert(client);
    }

    /// Those that wait, if there is more than when they were looked at.
    pub fn take_waiting(&mut self) -> BTreeSet<u64> {
        if std::mem::take(&mut self.has_grown) { std::mem::take(&mut self.waiting) } else { BTreeSet::new() }
    }

    fn give_back(&mut self, bytes: usize) {
        self.bytes_left += bytes;
        self.has_grown |= bytes > 0;
    }
}

/// Bytes that wait for a socket, in pieces: however many there are, none is moved when it takes some.
#[derive(Debug, Default)]
pub struct Pieces {
    pieces: VecDeque<Vec<u8>>,
    /// Bytes of the first piece that have left.
    sent: usize,
    /// That have not.
    bytes: usize,
}

impl Pieces {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes all of the output, of which so many bytes have left: none, if something is here that is to leave before.
    pub fn take(&mut self, output: &mut Vec<u8>, sent: usize) {
        if output.len() == sent {
            output.clear();
            return output.shrink_to(PIECE_BYTES);
        }
        if self.pieces.is_empty() {
            self.sent = sent;
        }
        assert!(sent == 0 || self.pieces.is_empty(), "{sent} bytes left before others");
        self.bytes += output.len() - sent;
        match self.pieces.back_mut() {
            Some(last) if last.len() + output.len() <= PIECE_BYTES => last.append(output),
            _ => self.pieces.push_back(std::mem::take(output)),
        }
    }

    /// Has `write` take piece after piece from the front, until it leaves some: it answers how many bytes it took.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn send(&mut self, mut write: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        while let Some(piece) = self.pieces.front() {
            let count = write(&piece[self.sent..])?;
            self.bytes -= count;
            self.sent += count;
            if self.sent < piece.len() {
                break;
            }
            self.pieces.pop_front();
            self.sent = 0;
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
pub struct Backlog {
    pieces: Pieces,
}

impl Backlog {
    pub fn bytes(&self) -> usize {
        self.pieces.bytes
    }

    /// Takes all of the output, of which so many bytes have left, if there is some, and room for it: half of what
    /// others leave of the room, so that there is always some for one more.
    pub fn take(&mut self, output: &mut Vec<u8>, sent: usize, room: &mut BacklogRoom) -> bool {
        let bytes_max = BACKLOG_BYTES_MAX.min((room.bytes_left + self.bytes()) / 2);
        let bytes = output.len() - sent;
        if bytes == 0 || self.bytes() + bytes > bytes_max {
            return false;
        }
        self.pieces.take(output, sent);
        room.bytes_left -= bytes;
        true
    }

    /// See [`Pieces::send`].
    ///
    /// # Errors
    /// Those of `write`.
    pub fn send(&mut self, room: &mut BacklogRoom, write: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        let before = self.bytes();
        let result = self.pieces.send(write);
        room.give_back(before - self.bytes());
        result
    }

    /// Its client is gone.
    pub fn clear(&mut self, room: &mut BacklogRoom) {
        room.give_back(self.bytes());
        *self = Backlog::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn fill(backlog: &mut Backlog, room: &mut BacklogRoom) -> usize {
        (0..).take_while(|_| backlog.take(&mut vec![0; MIB], 0, room)).count()
    }

    #[test]
    fn a_client_has_room_for_so_much_and_another_one_always_for_some() {
        for (core_count, first_mib, next) in [(1, 64, [64, 64, 32]), (4, 32, [16, 8, 4]), (64, 32, [16, 8, 4])] {
            let mut room = BacklogRoom::of_core(core_count);
            let mut first = Backlog::default();
            assert_eq!(fill(&mut first, &mut room), first_mib, "{core_count} cores");
            let mut output = vec![0; 1];
            assert!(!first.take(&mut output, 0, &mut room) && output.len() == 1, "it stays where it is");
            let mut others = next.map(|_| Backlog::default());
            assert_eq!(others.each_mut().map(|other| fill(other, &mut room)), next, "{core_count} cores");
            [first].iter_mut().chain(&mut others).for_each(|backlog| backlog.clear(&mut room));
            assert_eq!(fill(&mut Backlog::default(), &mut room), first_mib, "all of it is back");
        }
    }

    #[test]
    fn who_found_no_room_is_told_of_once_there_is_more() {
        let mut room = BacklogRoom::of_core(4);
        let mut others: [Backlog; 4] = Default::default();
        others.iter_mut().for_each(|other| _ = fill(other, &mut room));
        let mut late = Backlog::default();
        assert!(!late.take(&mut vec![0; 4 * MIB], 0, &mut room));
        room.wait(7);
        assert!(room.take_waiting().is_empty(), "there is no more than before");
        others[0].send(&mut room, |piece| Ok(piece.len())).expect("its client reads");
        assert_eq!(room.take_waiting(), BTreeSet::from([7]));
        assert!(late.take(&mut vec![0; 4 * MIB], 0, &mut room));
        others[1].clear(&mut room);
        assert!(room.take_waiting().is_empty(), "it was told once");
    }

    #[test]
    fn what_was_put_aside_leaves_in_its_order_and_makes_room() {
        let mut room = BacklogRoom::of_core(64);
        let mut backlog = Backlog::default();
        let said: Vec<u8> = (0..4 * PIECE_BYTES).map(|place| (place % 251) as u8).collect();
        let (mut at, mut step) = (0, 1);
        while at < said.len() {
            let end = said.len().min(at + step);
            assert!(backlog.take(&mut said[at..end].to_vec(), 0, &mut room));
            (at, step) = (end, step * 3);
        }
        assert_eq!(backlog.bytes(), said.len());
        let mut heard = Vec::new();
        while backlog.bytes() > 0 {
            // A socket that takes this much at a time.
            let mut takes = PIECE_BYTES / 3;
            let write = |piece: &[u8]| {
                let count = takes.min(piece.len());
                heard.extend_from_slice(&piece[..count]);
                takes = 0;
                Ok(count)
            };
            backlog.send(&mut room, write).expect("it takes some");
        }
        assert!(heard == said);
        assert_eq!(fill(&mut backlog, &mut room), BACKLOG_BYTES_MAX / MIB / 2, "all room is back");
    }

    #[test]
    fn nothing_of_a_large_output_is_moved() {
        let (mut pieces, mut output) = (Pieces::default(), (0..16 * MIB).map(|place| place as u8).collect::<Vec<_>>());
        let (begin, mut sent) = (output.as_ptr(), 1000);
        pieces.take(&mut output, sent);
        pieces.take(&mut vec![7; 10], 0);
        while pieces.bytes() > 10 {
            let mut takes = PIECE_BYTES / 4;
            let write = |piece: &[u8]| {
                if takes == 0 {
                    return Ok(0);
                }
                assert_eq!(piece.as_ptr(), begin.wrapping_add(sent), "where it was made");
                assert_eq!((piece.len(), piece[0]), (16 * MIB - sent, sent as u8));
                let count = takes.min(piece.len());
                sent += count;
                takes = 0;
                Ok(count)
            };
            pieces.send(write).expect("it takes some");
        }
        pieces.send(|piece| Ok(piece.len())).expect("it takes all");
        assert_eq!(pieces.bytes(), 0);
    }
}

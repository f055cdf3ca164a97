//! Room for the values of striped objects that are read: so many bytes at once, the others wait in their order.
//!
//! ```text
//! admit --fits, nobody waits--> under way --leave--> the next ones that fit
//!   '------------------------> waits ------------------'
//! admit, as the next one --fits-----------^    '--- comes before all that wait
//! ```
//! A value that is larger than all of the room is read alone. What is under way waits for nodes only, never for what
//! waits here, so all that waits is read in the end.
//!
//! Must not know: what is read, by whom.

use std::collections::VecDeque;

#[derive(Debug)]
pub(in crate::engine) struct ReadRoom<R> {
    bytes_max: usize,
    bytes: usize,
    waiting: VecDeque<(usize, R)>,
}

impl<R> ReadRoom<R> {
    pub fn new(bytes_max: usize) -> Self {
        ReadRoom { bytes_max, bytes: 0, waiting: VecDeque::new() }
    }

    /// The reader back if there is room now; otherwise it waits.
    pub fn admit(&mut self, bytes: usize, reader: R) -> Option<R> {
        if !self.waiting.is_empty() || !self.fits(bytes) {
            self.waiting.push_back((bytes, reader));
            return None;
        }
        self.bytes += bytes;
        Some(reader)
    }

    /// As [`ReadRoom::admit`], of one whose turn has come already: before all that wait.
    pub fn admit_next(&mut self, bytes: usize, reader: R) -> Option<R> {
        if !self.fits(bytes) {
            self.waiting.push_front((bytes, reader));
            return None;
        }
        self.bytes += bytes;
        Some(reader)
    }

    /// A read of so many bytes is over.
    pub fn leave(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }

    /// The first that waits, if there is room now.
    pub fn next(&mut self) -> Option<R> {
        let (bytes, _) = self.waiting.front()?;
        if !self.fits(*bytes) {
            return None;
        }
        let (bytes, reader) = self.waiting.pop_front()?;
        self.bytes += bytes;
        Some(reader)
    }

    /// Empties it: nothing is under way, nobody waits.
    pub fn take_all(&mut self) -> impl Iterator<Item = R> + use<R> {
        self.bytes = 0;
        std::mem::take(&mut self.waiting).into_iter().map(|(_, reader)| reader)
    }

    fn fits(&self, bytes: usize) -> bool {
        self.bytes == 0 || self.bytes + bytes <= self.bytes_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_waits_in_its_order() {
        let mut room = ReadRoom::new(10);
        assert_eq!((room.admit(6, 'a'), room.admit(4, 'b')), (Some('a'), Some('b')), "up to the edge");
        assert_eq!((room.admit(5, 'c'), room.admit(1, 'd')), (None, None), "none overtakes");
        room.leave(4);
        assert_eq!(room.next(), None);
        room.leave(6);
        assert_eq!((room.next(), room.next(), room.next()), (Some('c'), Some('d'), None));
    }

    #[test]
    fn what_would_fit_waits_behind_what_does_not() {
        let mut room = ReadRoom::new(10);
        assert_eq!((room.admit(6, 'a'), room.admit(5, 'b'), room.admit(4, 'c')), (Some('a'), None, None));
        room.leave(6);
        assert_eq!((room.next(), room.next(), room.next()), (Some('b'), Some('c'), None));
    }

    #[test]
    fn whose_turn_has_come_overtakes_those_that_wait() {
        let mut room = ReadRoom::new(10);
        assert_eq!((room.admit(6, 'a'), room.admit(6, 'b'), room.admit(2, 'c')), (Some('a'), None, None));
        assert_eq!((room.admit_next(4, 'd'), room.admit_next(6, 'e')), (Some('d'), None));
        room.leave(6);
        assert_eq!((room.next(), room.next()), (Some('e'), None));
        room.leave(4);
        room.leave(6);
        assert_eq!((room.next(), room.next()), (Some('b'), Some('c')));
    }

    #[test]
    fn a_value_above_the_room_is_read_alone() {
        let mut room = ReadRoom::new(10);
        assert_eq!(room.admit(11, 'a'), Some('a'));
        assert_eq!(room.admit(1, 'b'), None);
        room.leave(11);
        assert_eq!(room.next(), Some('b'));
        assert_eq!(room.admit(50, 'c'), None);
        assert_eq!(room.take_all().collect::<Vec<_>>(), ['c']);
        assert_eq!(room.admit(50, 'd'), Some('d'), "nothing is under way any more");
    }
}

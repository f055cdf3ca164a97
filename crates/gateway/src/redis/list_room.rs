//! Room for keys that are listed before any of them leaves: so many bytes for all connections of a core, until their
//! clients take them. One has at most half of what others leave, so that there is always some for one more.
//!
//! Must not know: who lists, which keys.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::limits::LISTS_BYTES_MAX;

/// The room of one core; its clones are the same room.
#[derive(Debug, Clone, Default)]
pub struct ListRoom(Arc<AtomicUsize>);

/// A part of a list. It leaves its room when it is dropped.
#[derive(Debug)]
pub struct Piece {
    bytes: Vec<u8>,
    room: ListRoom,
}

/// Why there is no room for a piece.
#[derive(Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// The list is longer than any may be.
    TooLong,
    /// Others have what it would need.
    Taken,
}

impl ListRoom {
    /// Takes the next piece of a list that has so many bytes already.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn take(&self, listed_bytes: usize, bytes: Vec<u8>) -> Result<Piece, NoRoom> {
        let others_bytes = self.0.load(Ordering::Relaxed) - listed_bytes;
        let list_bytes = listed_bytes + bytes.len();
        if list_bytes > LISTS_BYTES_MAX / 2 {
            return Err(NoRoom::TooLong);
        }
        if list_bytes > (LISTS_BYTES_MAX - others_bytes) / 2 {
            return Err(NoRoom::Taken);
        }
        self.0.fetch_add(bytes.len(), Ordering::Relaxed);
        Ok(Piece { bytes, room: self.clone() })
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.room.0.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: usize = LISTS_BYTES_MAX / 16;

    /// A list as long as it may be, and why it may be no longer.
    fn fill(room: &ListRoom) -> (Vec<Piece>, NoRoom) {
        let mut list = Vec::new();
        loop {
            match room.take(list.len() * PART, vec![0; PART]) {
                Ok(piece) => list.push(piece),
                Err(why) => return (list, why),
            }
        }
    }

    #[test]
    fn there_is_always_room_for_one_more_list() {
        let room = ListRoom::default();
        let (first, why) = fill(&room);
        assert_eq!((first.len(), why), (8, NoRoom::TooLong));
        let lists = [(); 3].map(|()| fill(&room));
        assert_eq!(lists.each_ref().map(|(list, _)| list.len()), [4, 2, 1]);
        assert!(lists.iter().all(|(_, why)| *why == NoRoom::Taken));
        assert!(room.take(0, vec![0; PART / 2]).is_ok());
        drop((first, lists));
        assert_eq!(fill(&room).0.len(), 8, "all room is back");
        assert_eq!(room.0.load(Ordering::Relaxed), 0);
    }
}

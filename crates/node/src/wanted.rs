//! Chunks that a core is asked for by whoever gives them to other nodes.
//!
//! It sees to them last in a turn: what other nodes want waits for whatever else there is, and of copies, which take
//! time, few are made in one turn.
//!
//! Must not know: who wants them.

use std::collections::VecDeque;

use shorttail_store::ChunkStore;

use crate::giver::{Found, Wanted};
use crate::limits::GIVE_COPIES_TURN_MAX;

/// What a core was asked for and has not seen to.
#[derive(Debug, Default)]
pub(crate) struct WantedChunks {
    waiting: VecDeque<Wanted>,
    /// Some were found that the giver does not know of yet.
    has_found: bool,
}

impl WantedChunks {
    pub fn push(&mut self, wanted: Wanted) {
        self.waiting.push_back(wanted);
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Last in a turn: finds as much as there is time for. Is the giver to be woken, as all that was asked for together
    /// is found?
    pub fn find(&mut self, store: &ChunkStore, mut tell: impl FnMut(Found)) -> bool {
        let mut copy_count = 0;
        let is_in_time = |wanted: &Wanted, copy_count| !wanted.is_copy() || copy_count < GIVE_COPIES_TURN_MAX;
        while let Some(wanted) = self.waiting.pop_front_if(|wanted| is_in_time(wanted, copy_count)) {
            copy_count += usize::from(wanted.is_copy());
            tell(wanted.find(store));
            self.has_found = true;
        }
        self.waiting.is_empty() && std::mem::take(&mut self.has_found)
    }
}

//! Keys that were written while a record that may be of them could not be read: each keeps its lock until that can be
//! compared, or is gone.
//!
//! ```text
//! kept --a node is back, a flush, a second later--> due --so many a tick--> compared --> released
//!   ^---------------------------- it cannot be read yet ----------------------'
//! ```
//! There may be very many, as nothing else holds up whoever writes while more nodes are away than the code survives.
//!
//! Must not know: what is compared.

use std::collections::VecDeque;

use crate::engine::Engine;
use crate::engine::limits::COMPARED_MAX;
use crate::engine::read::lookup::LookupPurpose;
use crate::engine::state::pool::PoolKey;

/// Their locks. The first `due_count` of them are to be tried again.
#[derive(Debug, Default)]
pub struct Doubtful {
    locks: VecDeque<PoolKey>,
    due_count: usize,
}

impl Doubtful {
    pub(super) fn keep(&mut self, lock: PoolKey) {
        self.locks.push_back(lock);
    }

    fn take_due(&mut self) -> Option<PoolKey> {
        self.due_count = self.due_count.checked_sub(1)?;
        self.locks.pop_front()
    }
}

impl Engine {
    /// What could not be compared may be readable again, or gone.
    pub(in crate::engine) fn verify_doubtful(&mut self) {
        self.doubtful.due_count = self.doubtful.locks.len();
        self.verify_some_doubtful();
    }

    /// The index names none of what was to be compared any more.
    pub(in crate::engine) fn verify_all_doubtful(&mut self) {
        self.verify_doubtful();
        while self.doubtful.due_count > 0 {
            self.verify_some_doubtful();
        }
    }

    pub(in crate::engine) fn verify_some_doubtful(&mut self) {
        for _ in 0..COMPARED_MAX {
            let Some(lock) = self.doubtful.take_due() else { return };
            let Some(version) = self.round_mut(lock).map(|round| round.version) else { continue };
            self.begin_lookup_of(lock, LookupPurpose::Verify { lock, version });
        }
    }
}

#[cfg(test)]
mod tests {
    use shorttail_units::CodeShape;

    use super::*;
    use crate::engine::state::testing::{ask, engine_of_ready_nodes};

    /// Clients would wait for all of them.
    #[test]
    fn however_many_there_are_some_are_compared_in_a_tick() {
        let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 2);
        for number in 0..2 * COMPARED_MAX + 1 {
            ask(&mut engine, format!("set key{number} 0 0 1\r\n1\r\n").as_bytes());
        }
        let locks: Vec<PoolKey> = engine.locks.iter().map(|(lock, _)| lock).collect();
        locks.into_iter().for_each(|lock| engine.doubtful.keep(lock));
        let mut left_after = |is_pressed| {
            match is_pressed {
                true => engine.verify_doubtful(),
                false => engine.verify_some_doubtful(),
            }
            engine.doubtful.locks.len()
        };
        let left = [false, true, false, false, false].map(&mut left_after);
        assert_eq!(left, [2 * COMPARED_MAX + 1, COMPARED_MAX + 1, 1, 0, 0]);
    }

    /// Whoever stores one of the keys after the flush would be refused.
    #[test]
    fn after_a_flush_nothing_is_left_to_be_compared() {
        let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 2);
        let lock = PoolKey::from_raw(u64::MAX);
        (0..2 * COMPARED_MAX).for_each(|_| engine.doubtful.keep(lock));
        let floor = engine.take_version();
        engine.apply_floor(floor);
        assert_eq!(engine.doubtful.locks.len(), 0);
    }
}

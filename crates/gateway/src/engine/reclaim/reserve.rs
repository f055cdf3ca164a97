//! How much of the last memory is left to whom.
//!
//! ```text
//! stripes that still fit:  0 ........ 1 ............... one for each partition, two for each engine .. beside that ..
//!                          void       jobs, what replaces what a job would move                     clients
//!                          records                        deletes, where nothing may be evicted ... and there clients
//!                                                                                                   leave these theirs
//! ```
//! Where something may be evicted there is always something to give up, and deletes take what jobs take. Elsewhere only
//! deletes and what they leave to cleaning make room. So cleaning keeps what it needs to empty any stripe, and deletes
//! have as much as it takes until every stripe has garbage that is worth it: a tombstone is at most twice as long as
//! the record that it ends, so those of `n` stripes' memory leave garbage of half of it.
//!
//! What clients leave is still there when nodes die, as many as the code survives and more than a stripe needs are:
//! each node keeps its part of it. One that has less than the others, and is full first, keeps it, too.
//!
//! Must not know: how memory is reclaimed.

use shorttail_units::NodeId;
use smallvec::SmallVec;

use crate::engine::limits::{CRAMPED_STRIPES, DELETE_PART, DELETE_PART_MAX};
use crate::engine::sessions::nodes::Node;
use crate::engine::{Engine, WhenFull};

/// Who appends: how much memory is left to others, and whether it matters that a node is slow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Urgency {
    /// Leaves a reserve to all that follows.
    Client,
    /// Ends an object.
    Deleting,
    /// Was in a stripe that is gone, or ends what cleaning would have to move.
    Replacing,
    /// Nobody waits: opens no stripe to go round slow nodes.
    Cleaning,
    /// Declares a stripe void: may take the last memory, as it gives some back.
    Freeing,
}

/// What memory is short, as of the last tick, or stripe opened.
#[derive(Debug, Default)]
pub struct Shortage {
    /// Hardly a stripe fits any more.
    pub is_cramped: bool,
    /// Since when that is so, while all nodes are there that are needed.
    pub cramped_us: Option<u64>,
    /// What fits is left to others.
    pub is_kept_from_clients: bool,
    pub is_kept_from_deletes: bool,
}

/// How many stripes of `member_count` chunks on as many nodes fit on nodes with room for these numbers of chunks: the
/// largest number of which no node's share, at most one chunk of each, is missing.
pub(super) fn stripes_that_fit(rooms: &[u64], member_count: u64) -> u64 {
    let mut count = u64::MAX;
    loop {
        let usable: u64 = rooms.iter().map(|&room| room.min(count)).sum();
        if usable / member_count >= count {
            return count;
        }
        count = usable / member_count;
    }
}

impl Engine {
    /// Is there memory for what clients write, and for deletes?
    pub(in crate::engine) fn look_at_room(&mut self) {
        let spare = self.spare_stripes();
        self.shortage.is_cramped = spare <= CRAMPED_STRIPES;
        let is_strict = self.config.when_full == WhenFull::Error;
        let is_for_clients =
            || spare >= self.stripes_left_by(Urgency::Client) && self.stripes_above(self.kept() - 1) > 0;
        self.shortage.is_kept_from_clients = self.shortage.is_cramped || is_strict && !is_for_clients();
        self.shortage.is_kept_from_deletes = is_strict && spare < self.stripes_left_by(Urgency::Deleting);
        // While nodes are away nothing can be known of memory, nor done for it.
        let is_cramped = self.shortage.is_cramped && self.too_few_nodes().is_ok();
        self.shortage.cramped_us = self.shortage.cramped_us.or(Some(self.now.mono_us)).filter(|_| is_cramped);
    }

    /// Is the room of open stripes not for these either, as cleaning opened them for itself?
    pub(in crate::engine) fn is_kept_from(&self, urgency: Urgency) -> bool {
        match urgency {
            Urgency::Client => self.shortage.is_kept_from_clients,
            Urgency::Deleting => self.shortage.is_kept_from_deletes,
            Urgency::Replacing | Urgency::Cleaning | Urgency::Freeing => false,
        }
    }

    /// Stripes whose memory is left to others.
    pub(in crate::engine) fn stripes_left_by(&self, urgency: Urgency) -> u64 {
        let is_strict = self.config.when_full == WhenFull::Error;
        match urgency {
            Urgency::Client if is_strict => self.reserved_stripes() + self.stripes_for_deletes(),
            Urgency::Client => self.reserved_stripes(),
            Urgency::Deleting if is_strict => self.reserved_stripes(),
            Urgency::Deleting | Urgency::Replacing | Urgency::Cleaning => CRAMPED_STRIPES,
            Urgency::Freeing => 0,
        }
    }

    /// Stripes whose memory is left to cleaning: each partition's log may need one, and one declares voids.
    pub(super) fn reserved_stripes(&self) -> u64 {
        // Those of all engines: they share the memory, and each must be able to clean whatever the others do.
        u64::from(self.config.partition_count) + 2 * u64::from(self.config.engine_count)
    }

    /// Stripes whose memory is left to deletes: a part of all, and each partition's log may have begun one.
    fn stripes_for_deletes(&self) -> u64 {
        let chunk_bytes = self.chunk_room_bytes(self.config.chunk_bytes);
        let all: u64 = self.taking_nodes().map(|node| node.core_bytes() / chunk_bytes).sum();
        let all = all / self.config.member_count() as u64;
        (all / DELETE_PART + u64::from(self.config.partition_count)).min(all / DELETE_PART_MAX)
    }

    /// How many more stripes clients may open.
    pub(in crate::engine) fn stripes_for_clients(&self) -> u64 {
        let left = self.spare_stripes().saturating_sub(self.stripes_left_by(Urgency::Client));
        left.min(self.stripes_above(self.kept()))
    }

    /// Bytes that clients leave on each node. So do repair and moves: they may bring a chunk to the only node that has
    /// none of its stripe, which is the one that was full first. But no more: eviction ends where clients find room.
    pub(in crate::engine) fn kept_bytes(&self) -> u64 {
        self.kept() * self.chunk_room_bytes(self.config.chunk_bytes)
    }

    /// Chunks that clients leave on each node: so many that what they leave in all fits without those that may die.
    fn kept(&self) -> u64 {
        self.kept_by(self.taking_nodes().count() as u64)
    }

    /// Those of so many nodes.
    fn kept_by(&self, node_count: u64) -> u64 {
        let member_count = self.config.member_count() as u64;
        let dying_count = node_count.saturating_sub(member_count).min(self.config.tolerance() as u64);
        let staying_count = (node_count - dying_count).max(member_count);
        (self.stripes_left_by(Urgency::Client) * member_count).div_ceil(staying_count)
    }

    /// Might clients store what takes so many bytes of a core of each member, if all nodes were there and held nothing?
    pub(in crate::engine) fn might_ever_fit(&self, core_bytes: u64) -> bool {
        let (chunk_bytes, member_count) =
            (self.chunk_room_bytes(self.config.chunk_bytes), self.config.member_count() as u64);
        let rooms: SmallVec<[u64; 32]> = self.nodes.iter().map(|node| node.core_bytes() / chunk_bytes).collect();
        let needed = core_bytes.div_ceil(chunk_bytes);
        let kept = self.kept_by(rooms.len() as u64);
        let is_large_enough = |room: &&u64| **room >= needed + kept;
        let left = self.stripes_left_by(Urgency::Client);
        rooms.iter().filter(is_large_enough).count() as u64 >= member_count
            && stripes_that_fit(&rooms, member_count) >= needed + left
    }

    /// How many more packed stripes fit, each on `k+m` ready nodes: as many as leave every node its room. Pieces of
    /// other sizes may lie so that a few less do.
    pub(in crate::engine) fn spare_stripes(&self) -> u64 {
        self.stripes_above(0)
    }

    /// Chunks that each node has room for once all is freed that is being emptied, in the order of the nodes.
    pub(in crate::engine) fn rooms_to_come(&self) -> SmallVec<[(NodeId, u64); 32]> {
        let chunk_bytes = self.chunk_room_bytes(self.config.chunk_bytes);
        let room = |node: &Node| (node.id, node.free_bytes() / chunk_bytes + self.frees_pending_on(node.id));
        let mut rooms: SmallVec<[(NodeId, u64); 32]> = self.taking_nodes().map(room).collect();
        let emptied = self.stripes_emptied().map(|slot| &self.stripes.at(slot).members);
        for node in emptied.chain(self.voids.members_of_emptied()).flat_map(|members| members.iter()) {
            if let Ok(place) = rooms.binary_search_by_key(node, |&(id, _)| id) {
                rooms[place].1 += 1;
            }
        }
        rooms
    }

    /// The same beside so many chunks on each node.
    fn stripes_above(&self, kept: u64) -> u64 {
        let chunk_bytes = self.chunk_room_bytes(self.config.chunk_bytes);
        let room = |node: &Node| (node.free_bytes() / chunk_bytes).saturating_sub(kept);
        let rooms: SmallVec<[u64; 32]> = self.taking_nodes().map(room).collect();
        stripes_that_fit(&rooms, self.config.member_count() as u64)
    }
}

#[cfg(test)]
mod tests {
    use shorttail_units::{CodeShape, PartitionId};

    use super::*;
    use crate::engine::state::testing::engine_of_ready_nodes;
    use crate::engine::write::log::PlaceError;

    /// Nodes with room for so many chunks, in RS(2,2), where clients leave six stripes.
    fn engine(rooms: &[u64]) -> Engine {
        let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(2, 2).expect("a code"), rooms.len() as u16);
        let chunk_bytes = engine.chunk_room_bytes(engine.config.chunk_bytes);
        for (node, room) in engine.nodes.iter_mut().zip(rooms) {
            node.sessions[0].memory_bytes = room * chunk_bytes;
        }
        assert_eq!(engine.stripes_left_by(Urgency::Client), 6);
        engine
    }

    #[test]
    fn what_clients_leave_is_there_without_those_that_may_die() {
        for (rooms, kept, stripes) in [
            // As many nodes as a stripe has members: none may die.
            (&[9, 9, 9, 9][..], 6, 3),
            (&[9, 9, 9, 6], 6, 0),
            (&[9, 9, 9, 9, 9], 6, 3),
            (&[9, 9, 9, 9, 6], 6, 3),
            (&[9, 9, 9, 6, 6], 6, 0),
            (&[9, 9, 9, 9, 9, 9], 6, 4),
            // Two of them may die, and six keep what four would.
            (&[9, 9, 9, 9, 9, 9, 9, 9], 4, 10),
        ] {
            let engine = engine(rooms);
            assert_eq!((engine.kept(), engine.stripes_for_clients()), (kept, stripes), "{rooms:?}");
        }
    }

    /// Where something may be evicted, that goes on until repair finds room, however many nodes there are.
    #[test]
    fn what_is_evicted_for_clients_makes_room_for_repair_too() {
        for node_count in [4, 5, 6, 9, 16, 60] {
            let with_rooms = |room: u64| {
                let mut engine = engine(&vec![room; node_count]);
                engine.config.when_full = WhenFull::Evict;
                engine
            };
            let engine = (0..).map(with_rooms).find(|engine| !engine.is_short_of_memory()).expect("some room suffices");
            let needed = engine.chunk_room_bytes(engine.config.chunk_bytes) + engine.kept_bytes();
            assert!(engine.nodes.iter().all(|node| node.free_bytes() >= needed), "{node_count} nodes");
            assert_eq!(engine.stripes_left_by(Urgency::Client), engine.reserved_stripes());
        }
    }

    /// It is full before the others, which are filled all the same.
    #[test]
    fn who_has_no_more_than_it_keeps_is_no_member() {
        let mut engine = engine(&[6, 99, 99, 99, 99]);
        // Those of a turn lie on the same nodes; the next one would lie on the emptiest.
        for partition in [0, 1, 2, 3, 0] {
            let slot = engine.open_stripe(PartitionId(partition), Urgency::Client).expect("there is room");
            assert!(engine.stripes.at(slot).members.iter().all(|node| node.0 != 0));
        }
    }

    /// Of a value of many stripes each core has its part.
    #[test]
    fn a_value_needs_room_for_its_part_on_the_fullest_core() {
        let mut engine = engine(&[40; 8]);
        let chunk_bytes = engine.chunk_room_bytes(engine.config.chunk_bytes);
        for node in engine.nodes.iter_mut() {
            node.sessions.resize_with(4, Default::default);
            node.sessions.iter_mut().for_each(|session| session.memory_bytes = 40 * chunk_bytes);
        }
        let needed = |stripe_count| chunk_bytes * Node::stripes_on_core(stripe_count, 4);
        assert_eq!(engine.striped_fits(needed(80)), Ok(()));
        assert!(engine.choose_members(engine.config.shape, needed(80), true).is_ok());
        for node in engine.nodes.iter_mut() {
            node.sessions[1].used_bytes = 30 * chunk_bytes;
        }
        assert_eq!(engine.choose_members(engine.config.shape, needed(80), true), Err(PlaceError::Wait));
        assert_eq!([80, 120, 130, 160].map(|it| engine.might_ever_fit(needed(it))), [true, true, false, false]);
    }

    #[test]
    fn as_many_stripes_fit_as_find_different_nodes() {
        for (rooms, members, fit) in [
            (&[5, 5, 5][..], 3, 5),
            (&[5, 5, 0], 3, 0),
            (&[9, 1, 1, 1], 2, 3),
            (&[1, 1, 1, 1], 3, 1),
            (&[4, 4, 4, 4], 3, 5),
            (&[100, 1, 1], 3, 1),
            (&[], 3, 0),
        ] {
            assert_eq!(stripes_that_fit(rooms, members), fit, "{rooms:?}");
        }
    }
}

//! How many more stripes fit, and what a stripe that is freed adds to that, where nodes differ in room.
//!
//! A stripe has one chunk on a node at most. So whichever `j` nodes have most room, each stripe has at least `k+m-j` of
//! its chunks on the others, and no more fit than what these have room for divided by that. What is freed where there
//! is room anyway adds nothing:
//!
//! ```text
//! k+m = 3, room for chunks   5 | 5 | 1    one stripe fits
//! freed there                + | + |      none is won: what was moved away took one
//! freed there                + |   | +    one is won
//! ```
//!
//! Must not know: what a stripe holds.

use shorttail_units::NodeId;
use smallvec::SmallVec;

/// What more stripes fit on nodes.
#[derive(Debug)]
pub struct Headroom {
    /// For each number of nodes with most room, how many stripes the others allow.
    bounds: SmallVec<[f64; 24]>,
    /// The place of each node by its room, least first; in the order of the nodes.
    places: SmallVec<[(NodeId, usize); 32]>,
}

impl Headroom {
    /// On nodes with room for these numbers of chunks, stripes of so many. With fewer nodes none fits whatever is
    /// freed.
    pub fn of(rooms: &[(NodeId, u64)], member_count: usize) -> Self {
        let mut by_room: SmallVec<[(u64, NodeId); 32]> = rooms.iter().map(|&(node, room)| (room, node)).collect();
        by_room.sort_unstable();
        let mut places: SmallVec<_> = by_room.iter().enumerate().map(|(place, &(_, node))| (node, place)).collect();
        places.sort_unstable();
        let mut left: u64 = by_room.iter().map(|(room, _)| room).sum();
        let mut bounds = SmallVec::new();
        let enough = if rooms.len() >= member_count { member_count } else { 0 };
        for roomiest in 0..enough {
            bounds.push(left as f64 / (member_count - roomiest) as f64);
            left -= by_room[by_room.len() - 1 - roomiest].0;
        }
        Headroom { bounds, places }
    }

    /// At most how many more stripes would fit, one at most, if each of these nodes had room for one more chunk: the
    /// order by room stays that of before.
    pub fn gain(&self, members: &[NodeId]) -> f64 {
        // If all of them take chunks, no more than `j` are among the `j` roomiest: each bound grows by 1 or more.
        let takes = |node| self.place_of(node).is_some();
        if self.bounds.is_empty() || members.iter().all(takes) { 1.0 } else { self.added(members).clamp(0.0, 1.0) }
    }

    fn place_of(&self, node: &NodeId) -> Option<usize> {
        let at = self.places.binary_search_by_key(node, |&(id, _)| id).ok()?;
        Some(self.places[at].1)
    }

    fn added(&self, members: &[NodeId]) -> f64 {
        let places: SmallVec<[usize; 24]> = members.iter().filter_map(|node| self.place_of(node)).collect();
        let after = self.bounds.iter().enumerate().map(|(roomiest, bound)| {
            let others = self.places.len() - roomiest;
            let freed = places.iter().filter(|&&place| place < others).count();
            bound + freed as f64 / (members.len() - roomiest) as f64
        });
        lowest(after) - lowest(self.bounds.iter().copied())
    }
}

fn lowest(bounds: impl Iterator<Item = f64>) -> f64 {
    bounds.fold(f64::MAX, f64::min)
}

#[cfg(test)]
mod tests {
    use super::super::reserve::stripes_that_fit;
    use super::*;

    fn gain(rooms: &[u64], freed: &[u16]) -> f64 {
        let rooms: Vec<_> = rooms.iter().enumerate().map(|(node, &room)| (NodeId(node as u16), room)).collect();
        let members: Vec<_> = freed.iter().map(|&node| NodeId(node)).collect();
        Headroom::of(&rooms, freed.len()).gain(&members)
    }

    #[test]
    fn where_nodes_are_alike_each_chunk_counts() {
        for rooms in [[7, 7, 7, 7, 7], [7, 8, 7, 6, 7], [7, 7, 7, 7, 1]] {
            assert_eq!(gain(&rooms, &[0, 1, 2]), 1.0, "{rooms:?}");
            assert!((gain(&rooms, &[0, 1, 9]) - 2.0 / 3.0).abs() < 1e-9, "{rooms:?}: one of them takes nothing");
        }
    }

    /// Whole stripes are counted elsewhere, and alike.
    #[test]
    fn as_many_fit_as_are_opened() {
        for rooms in [&[5, 5, 1][..], &[5, 5, 1, 1], &[7, 8, 7, 6, 7], &[9, 1, 1, 1], &[100, 1, 1], &[0, 4, 4]] {
            let named: Vec<_> = rooms.iter().enumerate().map(|(node, &room)| (NodeId(node as u16), room)).collect();
            let fit = lowest(Headroom::of(&named, 3).bounds.iter().copied());
            assert_eq!(fit.floor() as u64, stripes_that_fit(rooms, 3), "{rooms:?}");
        }
    }

    #[test]
    fn where_all_take_chunks_the_long_way_says_the_same() {
        for rooms in [[5, 5, 1, 3], [2, 9, 9, 9], [4, 4, 4, 4], [1, 1, 6, 6]] {
            let named: Vec<_> = (0..4).map(|node| (NodeId(node), rooms[usize::from(node)])).collect();
            for left_out in 0..4 {
                let members: Vec<_> = (0..4).filter(|&node| node != left_out).map(NodeId).collect();
                let added = Headroom::of(&named, 3).added(&members);
                assert!(added >= 1.0 - 1e-9, "{added}: {rooms:?} without {left_out}");
            }
        }
    }

    #[test]
    fn where_every_node_is_needed_the_fullest_decides() {
        assert_eq!(gain(&[5, 5, 1], &[0, 1, 2]), 1.0);
        assert_eq!(gain(&[5, 5, 1], &[0, 2, 9]), 1.0, "one chunk less, where there is plenty");
        assert_eq!(gain(&[5, 5, 1], &[0, 1, 9]), 0.0, "what is freed on a node that takes nothing is none");
        assert_eq!(gain(&[5, 1, 1], &[0, 1, 9]), 0.5, "half of what the two would have to give");
        assert_eq!(gain(&[5, 5], &[0, 1, 9]), 1.0, "with too few nodes nothing is known to be short");
    }
}

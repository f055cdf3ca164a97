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
        let place = |node: &NodeId| self.places.binary_search_by_key(node, |&(id, _)| id).ok();
        let places: SmallVec<[usize; 24]> = members.iter().filter_map(place).map(|at| self.places[at].1).collect();
        // If all of them take chunks, no more than `j` are among the `j` roomiest.
        if places.len() == members.len() || self.bounds.is_empty() {
            return 1.0;
        }
        let after = self.bounds.iter().enumerate().map(|(roomiest, bound)| {
            let others = self.places.len() - roomiest;
            let freed = places.iter().filter(|&&place| place < others).count();
            bound + freed as f64 / (members.len() - roomiest) as f64
        });
        (lowest(after) - lowest(self.bounds.iter().copied())).clamp(0.0, 1.0)
    }
}

fn lowest(bounds: impl Iterator<Item = f64>) -> f64 {
    bounds.fold(f64::MAX, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gain(rooms: &[u64], freed: &[u16]) -> f64 {
        let rooms: Vec<_> = rooms.iter().enumerate().map(|(node, &room)| (NodeId(node as u16), room)).collect();
        let members: Vec<_> = freed.iter().map(|&node| NodeId(node)).collect();
        Headroom::of(&rooms, freed.len()).gain(&members)
    }

    #[test]
    fn whatever_is_freed_counts_where_nodes_are_alike() {
        for freed in [[0, 1, 2], [2, 3, 4], [0, 2, 4]] {
            assert!((gain(&[7, 7, 7, 7, 7], &freed) - 1.0).abs() < 1e-9, "{freed:?}");
            assert!((gain(&[7, 8, 7, 6, 7], &freed) - 1.0).abs() < 1e-9, "{freed:?}");
        }
        // Nobody needs the small one.
        assert!((gain(&[7, 7, 7, 7, 1], &[0, 1, 2]) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn where_every_node_is_needed_the_fullest_decides() {
        assert_eq!(gain(&[5, 5, 1], &[0, 1, 2]), 1.0);
        assert_eq!(gain(&[5, 5, 1, 0], &[0, 1, 3]), 1.0);
        assert_eq!(gain(&[5, 5, 1], &[0, 1, 9]), 0.0, "what is freed on a node that takes nothing is none");
        assert_eq!(gain(&[5, 1, 1], &[0, 1, 9]), 0.5, "half of what the two would have to give");
        assert_eq!(gain(&[5, 5], &[0, 1, 9]), 1.0, "with too few nodes nothing is known to be short");
    }
}

//! Which nodes hold the chunks of a stripe.
//!
//! By rule ([`Placement`]) the least loaded nodes of all are taken, or those of one coding set, or nodes that are
//! drawn. Whatever the rule: distinct nodes by construction, so a stripe loses at most one chunk with a node; at most
//! as many in a failure domain as the code can lose (one, if it can lose none), where that is possible, with coding
//! sets within some set; and the order within the stripe turns from stripe to stripe, so that each node holds data and
//! parity chunks alike.
//!
//! Nodes that are evaded (slow, say) are chosen like any other and then replaced. Who stands in is who did so least
//! often: load says what a node holds, the redirection count what was put on it for the sake of others.
//!
//! Sources: Hydra 5 and 7.2.1 (coding sets, and what they are compared with); ShortTail 3.2.2 (the fault tolerance rule
//! and the load-balancing rule of redirected writes). Deviations: of nodes with the same redirection count the less
//! loaded one is taken; of two coding sets drawn the less loaded one, where Hydra leaves a set no choice; and of sets
//! none is drawn in which a failure domain would have to hold more chunks than in others.
//!
//! Must not know: sessions, time, or why a node is a candidate or evaded.

mod choose;
mod domains;
mod draw;
mod name;
mod order;
mod sets;
#[cfg(test)]
mod tests;

use shorttail_units::NodeId;

pub use choose::{Candidates, Choice, List, Wish, choose, choose_replacement};
pub use domains::chunks_of_domain_max;
pub use draw::Draw;
pub use name::Placement;
pub use sets::CodingSets;

/// What fails together: a rack, a room, by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Domain(pub u16);

/// What names a node: its id, or in studies of clusters larger than any a wider number.
pub trait Name: Copy + Ord + std::fmt::Debug {}
impl<N: Copy + Ord + std::fmt::Debug> Name for N {}

/// A node that could hold a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate<N = NodeId> {
    pub node: N,
    /// Bytes in use, or any measure in which less is better.
    pub load: u64,
    /// Taken only if there are too few others.
    pub is_evaded: bool,
    /// Chunks that it took in the place of evaded nodes.
    pub redirect_count: u64,
    /// None: it fails alone.
    pub domain: Option<Domain>,
    /// Its coding set, if there are any.
    pub set: Option<usize>,
}

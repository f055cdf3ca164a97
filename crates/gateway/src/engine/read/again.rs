//! Reads that go back to chunks whose nodes were late, or away, when they were asked, and are in use by now.
//!
//! ```text
//! asked, no answer: excluded --no way without it--> is its node in use again? --> asked again, a few times
//!                                                   no, and none is: silent ones, until they are hung
//! waits for a silent one, and another is in use again ------------------------> begins anew
//! ```
//! So are those that answered wrongly: what they sent may have been damaged on its way. What a node refused for good
//! stays excluded.
//!
//! Must not know: which way a read takes (see `sources`).

use shorttail_codes::ChunkSet;
use shorttail_units::NodeId;
use smallvec::SmallVec;

use super::fetch::Wanted;
use crate::engine::Engine;
use crate::engine::limits::READ_AGAIN_MAX;
use crate::engine::sessions::nodes::Nodes;
use crate::engine::state::pool::PoolKey;

/// Chunks that a read goes round.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Excluded {
    pub all: ChunkSet,
    /// Those that will not do better next time.
    pub failed: ChunkSet,
    /// Times that others were asked again.
    again_count: u8,
}

impl Excluded {
    pub fn of(chunks: ChunkSet) -> Self {
        Excluded { all: chunks, ..Excluded::default() }
    }

    /// None is to be asked again.
    pub fn for_good(chunks: ChunkSet) -> Self {
        Excluded { all: chunks, failed: chunks, again_count: 0 }
    }

    pub fn add(&mut self, chunk: usize, is_for_good: bool) {
        self.all.insert(chunk);
        if is_for_good {
            self.failed.insert(chunk);
        }
    }

    /// Chunks whose nodes may answer by now: those in use; if none is, those that are silent, and may only be late.
    fn back(&self, nodes: &Nodes, members: &[NodeId], lacking: ChunkSet) -> ChunkSet {
        let open = self.all - self.failed - lacking;
        let of = |is_back: &dyn Fn(NodeId) -> bool| open.iter().filter(|&chunk| is_back(members[chunk])).collect();
        let ready: ChunkSet = of(&|node| nodes.is_ready(node));
        if ready.is_empty() { of(&|node| nodes.is_reachable(node)) } else { ready }
    }

    /// Begins anew with those that are back; false: there are none, or it was done often enough.
    pub fn forgive(&mut self, back: ChunkSet) -> bool {
        let is_worth_it = !back.is_empty() && self.again_count < READ_AGAIN_MAX;
        if is_worth_it {
            self.all = self.all - back;
            self.again_count += 1;
        }
        is_worth_it
    }
}

impl Engine {
    /// A fetch has no way: begins anew if a chunk that it goes round may be had by now.
    pub(super) fn fetch_again(&mut self, key: PoolKey) -> bool {
        let Some(fetch) = self.fetches.get_mut(key) else { return false };
        let wanted = &fetch.wanted;
        let lacking = self.repair.avoided_by_reads(wanted.stripe, wanted.shape);
        let back = fetch.excluded.back(&self.nodes, &wanted.members, lacking);
        let is_worth_it = fetch.excluded.forgive(back);
        if is_worth_it {
            self.begin_anew(key);
        }
        is_worth_it
    }

    fn begin_anew(&mut self, key: PoolKey) {
        let Some(excluded) = self.fetches.get(key).map(|fetch| fetch.excluded) else { return };
        let Some((wanted, _)) = self.end_fetch(key) else { return };
        self.begin_fetch(wanted, excluded);
    }

    /// As [`Engine::fetch_again`], of the pieces of a stripe: what arrived stays.
    pub(super) fn pieces_again(&mut self, key: PoolKey) -> bool {
        let Some(fetch) = self.piece_fetches.get_mut(key) else { return false };
        let back = fetch.excluded.back(&self.nodes, &fetch.wanted.members, ChunkSet::EMPTY);
        fetch.forgive(back)
    }

    /// What is decoded is wrong, and no other parity is there: they are asked again, and what was late. As
    /// [`Engine::pieces_again`].
    pub(super) fn parities_again(&mut self, key: PoolKey) -> bool {
        let Some(fetch) = self.piece_fetches.get_mut(key) else { return false };
        let back = fetch.excluded.back(&self.nodes, &fetch.wanted.members, ChunkSet::EMPTY);
        fetch.forget_parities(back)
    }

    /// The node is in use again: reads that wait for one that does not answer may go on with this one.
    pub(in crate::engine) fn reread_from(&mut self, node: NodeId) {
        let nodes = &self.nodes;
        // The chunk that the node has of a stripe, if it is of use to who waits for these.
        let helps = |wanted: &Wanted, excluded: &Excluded, outstanding: SmallVec<[u8; 8]>| {
            let chunk = wanted.members.iter().position(|&member| member == node)?;
            let is_open = !excluded.failed.contains(chunk);
            let is_silent = |&other: &u8| !nodes.is_ready(wanted.members[usize::from(other)]);
            (is_open && outstanding.iter().any(is_silent)).then_some(chunk)
        };
        let fetches = self.fetches.iter().filter_map(|(key, fetch)| {
            Some((key, helps(&fetch.wanted, &fetch.excluded, fetch.outstanding().collect())?))
        });
        let fetches: Vec<(PoolKey, usize)> = fetches.collect();
        let pieces = self
            .piece_fetches
            .iter()
            .filter_map(|(key, fetch)| Some((key, helps(&fetch.wanted, &fetch.excluded, fetch.asked().collect())?)));
        let pieces: Vec<(PoolKey, usize)> = pieces.collect();
        for (key, chunk) in fetches {
            if self.fetches.get_mut(key).is_some_and(|fetch| fetch.excluded.forgive(ChunkSet::of(chunk))) {
                self.begin_anew(key);
            }
        }
        for (key, chunk) in pieces {
            if self.piece_fetches.get_mut(key).is_some_and(|fetch| fetch.forgive(ChunkSet::of(chunk))) {
                self.rely_on_ready(key);
            }
        }
    }
}

//! Reading the pieces of one stripe of a striped object, together: what is read for one helps to decode another.
//!
//! ```text
//! wanted 0 1 2 3 of RS(4,2), the node of 1 slow:  0 - 2 3 4    four requests, 1 is decoded from the answers
//! late binding, one more:                         0 1 2 3 4    five requests, the first four answers suffice
//! 2 is late:                                      0 1 2 3 + 4  a hedge is one request more
//! ```
//! A chunk is *relied on* from the moment it is asked until it fails or is given up for being late. Further chunks are
//! asked until every wanted piece can be had from what is relied on. Which pieces are gone round, and which chunks are
//! preferred instead, is decided as for single ranges (`sources.rs`). Data pieces check themselves when they arrive; a
//! parity is checked by what is decoded with it.
//!
//! Source: Hydra 4.1.2 and EC-Cache (any `k` of `k` and some more); ShortTail 3.2.1 (degraded reads).
//!
//! Must not know: what the object is, who reads it.

use std::sync::Arc;

use shorttail_codes::{ChunkSet, Code, Cost, Plan};
use shorttail_policy::Hedge;
use shorttail_wire::node::{NodeRequest, Refusal};
use smallvec::SmallVec;

use super::again::Excluded;
use super::distrust;
use super::fetch::{FetchPurpose, Wanted};
use crate::engine::state::pool::PoolKey;
use crate::engine::write::manifest::open_piece;
use crate::engine::{Engine, What};

#[derive(Debug)]
pub struct PieceFetch {
    /// Which stripe, and for whom. Its data index is no matter.
    pub(super) wanted: Wanted,
    code: Code,
    pieces: ChunkSet,
    /// Chunks that gave nothing, or are known to be lost.
    pub(super) excluded: Excluded,
    /// Chunks that are asked and late.
    given_up: ChunkSet,
    asked: SmallVec<[(u8, PoolKey); 8]>,
    parts: Vec<(u8, Vec<u8>)>,
    /// More was asked because something was late, or might be.
    is_hedged: bool,
    is_late_bound: bool,
}

impl PieceFetch {
    fn arrived(&self) -> ChunkSet {
        self.parts.iter().map(|part| part.0.into()).collect()
    }

    fn outstanding(&self) -> ChunkSet {
        self.asked().map(usize::from).collect()
    }

    /// Chunks that owe an answer.
    pub(super) fn asked(&self) -> impl Iterator<Item = u8> {
        self.asked.iter().map(|asked| asked.0)
    }

    /// Goes back to these chunks; false: there are none, or it was done often enough.
    pub(super) fn forgive(&mut self, back: ChunkSet) -> bool {
        self.given_up = self.given_up & self.outstanding();
        self.excluded.forgive(back)
    }

    /// The same with parities that arrived.
    pub(super) fn forget_parities(&mut self, back: ChunkSet) -> bool {
        let parities = self.arrived() & self.parities();
        let is_worth_it = self.forgive(back | parities);
        if is_worth_it {
            self.parts.retain(|part| !parities.contains(part.0.into()));
        }
        is_worth_it
    }

    fn parities(&self) -> ChunkSet {
        let shape = self.wanted.shape;
        ChunkSet::first(shape.chunk_count()) - ChunkSet::first(shape.data_count())
    }

    fn relied_on(&self) -> ChunkSet {
        self.arrived() | (self.outstanding() - self.given_up)
    }

    fn part(&self, chunk: usize) -> Option<&[u8]> {
        self.parts.iter().find(|part| usize::from(part.0) == chunk).map(|part| &part.1[..])
    }

    /// The piece by this plan, or by another one that leaves out parities which are damaged: those, and the piece.
    fn decode_rightly(&self, piece: usize, plan: &Plan) -> Option<(ChunkSet, Vec<u8>)> {
        let right = |left_out, plan: &Plan| {
            let bytes = self.decode(plan);
            open_piece(&bytes, self.wanted.stripe).is_some().then_some((left_out, bytes))
        };
        right(ChunkSet::EMPTY, plan).or_else(|| {
            let mut others = distrust::plans_without(&self.code, piece, self.arrived(), self.parities());
            others.find_map(|(left_out, plan)| right(left_out, &plan))
        })
    }

    fn decode(&self, plan: &Plan) -> Vec<u8> {
        let sources: SmallVec<[&[u8]; 16]> = plan.sources.iter().filter_map(|&source| self.part(source)).collect();
        let mut decoded = vec![0; self.wanted.chunk_bytes as usize];
        plan.decode(&sources, &mut decoded);
        decoded
    }
}

impl Engine {
    /// Reads these pieces of a stripe.
    pub(in crate::engine) fn start_pieces(&mut self, wanted: Wanted, pieces: ChunkSet) {
        let policy = *self.policy(wanted.partition);
        let lost = self.repair.avoided_by_reads(wanted.stripe, wanted.shape);
        let mut direct = pieces - lost;
        let (mut given_up, mut late) = (ChunkSet::EMPTY, ChunkSet::EMPTY);
        pieces.iter().for_each(|_| self.hedging.budget.earn());
        for piece in direct.iter() {
            let of_piece = Wanted { data_index: piece, ..wanted.clone() };
            let node = wanted.members[piece];
            if self.goes_round(&of_piece, lost) {
                match self.nodes.is_ready(node) && policy.read_sidestep && self.takes_probe(node) {
                    true => given_up.insert(piece),
                    false => direct.remove(piece),
                }
            } else if policy.hedge == Hedge::Adaptive && self.is_late(node) {
                // Behind what is late already it would be late too.
                late.insert(piece);
            }
        }
        self.stats.totals.degraded_reads_total += u64::from(direct != pieces || !given_up.is_empty());
        let fetch = PieceFetch {
            code: self.codes.get(wanted.shape),
            wanted,
            pieces,
            excluded: Excluded::of(lost),
            given_up,
            asked: SmallVec::new(),
            parts: Vec::with_capacity(pieces.len()),
            is_hedged: false,
            is_late_bound: false,
        };
        let key = self.piece_fetches.insert(fetch);
        self.ask_chunks(key, direct);
        // One after the other: the code can do without some of them, perhaps not without all.
        (late & direct).iter().for_each(|piece| _ = self.hedge_pieces(key, piece as u8));
        let spare = self.spare_of_next(policy.hedge);
        if spare > 0 {
            self.bind_late(key, spare);
        }
        self.go_on(key);
    }

    fn ask_chunks(&mut self, key: PoolKey, chunks: ChunkSet) {
        for chunk in chunks.iter() {
            let Some(fetch) = self.piece_fetches.get(key) else { return };
            let wanted = &fetch.wanted;
            let (stripe, length, node) = (wanted.stripe, wanted.chunk_bytes, wanted.members[chunk]);
            let is_hedgeable = self.policy(wanted.partition).hedge == Hedge::Adaptive;
            let request = NodeRequest::ReadRange { stripe, offset: 0, length, op: wanted.op };
            let tag = self.ask(node, stripe, &request, What::Piece { pieces: key, part: chunk as u8 });
            self.piece_fetches.get_mut(key).expect("it is there").asked.push((chunk as u8, tag));
            if is_hedgeable {
                self.note_hedgeable(node);
            }
        }
    }

    /// Asks for so many answers more than are needed.
    fn bind_late(&mut self, key: PoolKey, count: u8) {
        let Some(fetch) = self.piece_fetches.get_mut(key) else { return };
        fetch.is_late_bound = true;
        let (pieces, data_count) = (fetch.pieces, fetch.wanted.shape.data_count());
        let mut more = count;
        if pieces.len() < data_count {
            // What decodes one piece is one answer more than is needed of all that.
            let plans =
                pieces.iter().filter_map(|piece| self.plan_of(key, piece, ChunkSet::of(piece))).collect::<Vec<_>>();
            plans.iter().for_each(|plan| self.ask_sources_of(key, plan));
            more -= 1;
        }
        for _ in 0..more {
            let Some(chunk) = self.piece_fetches.get(key).and_then(|fetch| self.spare_chunk(fetch)) else { return };
            self.ask_chunks(key, ChunkSet::of(chunk));
        }
    }

    /// One more chunk that is of use for all pieces, if there is such a one; of the least loaded node.
    fn spare_chunk(&self, fetch: &PieceFetch) -> Option<usize> {
        let wanted = &fetch.wanted;
        let shape = wanted.shape;
        let taken = fetch.excluded.all | fetch.outstanding() | fetch.arrived();
        let covers_all = |chunk: usize| {
            let parity = chunk.checked_sub(shape.data_count());
            parity.is_some_and(|parity| fetch.pieces.iter().all(|piece| shape.covers(parity, piece)))
        };
        let is_free = |chunk: &usize| !taken.contains(*chunk) && self.nodes.is_ready(wanted.members[*chunk]);
        let rank = |&chunk: &usize| {
            let node = wanted.members[chunk];
            (!covers_all(chunk), self.is_slow_source(wanted, node), self.load_of(node))
        };
        (0..wanted.members.len()).filter(is_free).min_by_key(rank)
    }

    /// How to get a piece from what is relied on and as little else as possible, without the chunks in `avoided`.
    fn plan_of(&self, key: PoolKey, piece: usize, avoided: ChunkSet) -> Option<Arc<Plan>> {
        let fetch = self.piece_fetches.get(key)?;
        let wanted = &fetch.wanted;
        let code = &fetch.code;
        let (arrived, relied_on) = (fetch.arrived(), fetch.relied_on() - avoided);
        let closed = (fetch.excluded.all | fetch.given_up | avoided) - arrived;
        let is_usable = |chunk: usize| {
            arrived.contains(chunk) || !closed.contains(chunk) && self.nodes.is_ready(wanted.members[chunk])
        };
        let others = (0..wanted.members.len()).filter(|&chunk| chunk != piece && is_usable(chunk)).collect();
        let best = self.best_of(code, wanted, others, relied_on);
        let cost = |chunk: usize| {
            if best.contains(chunk) {
                Cost::Low
            } else if is_usable(chunk) {
                // The piece's own node is asked after all, where nothing else helps.
                Cost::High
            } else {
                Cost::Infinite
            }
        };
        let is_reachable = |chunk: usize| {
            !closed.contains(chunk) && self.nodes.is_reachable(wanted.members[chunk]) || arrived.contains(chunk)
        };
        code.cheapest_plan(piece, &cost).or_else(|_| code.read_plan(piece, &is_reachable)).ok()
    }

    fn ask_sources_of(&mut self, key: PoolKey, plan: &Plan) {
        let Some(fetch) = self.piece_fetches.get(key) else { return };
        let sources: ChunkSet = plan.sources.iter().copied().collect();
        self.ask_chunks(key, sources - fetch.arrived() - fetch.outstanding());
    }

    /// Asks until every piece can be had from what is relied on, and ends when all are there.
    fn go_on(&mut self, key: PoolKey) {
        let Some(fetch) = self.piece_fetches.get(key) else { return };
        let open = fetch.pieces - fetch.relied_on();
        let mut has_ways = true;
        for piece in open.iter() {
            match self.plan_of(key, piece, ChunkSet::EMPTY) {
                Some(plan) => self.ask_sources_of(key, &plan),
                None => has_ways = false,
            }
        }
        let Some(fetch) = self.piece_fetches.get(key) else { return };
        if !has_ways && fetch.asked.is_empty() {
            return if self.pieces_again(key) { self.go_on(key) } else { self.end_pieces(key, None) };
        }
        self.finish_pieces(key);
    }

    /// Ends the fetch if what arrived suffices.
    fn finish_pieces(&mut self, key: PoolKey) {
        let Some(fetch) = self.piece_fetches.get(key) else { return };
        let (arrived, is_racing) = (fetch.arrived(), fetch.is_late_bound || !fetch.given_up.is_empty());
        let missing = fetch.pieces - arrived;
        let is_awaited = !(fetch.outstanding() - fetch.given_up).is_empty();
        if !missing.is_empty() && is_awaited && !is_racing {
            return;
        }
        let plan = |piece| Some((piece, fetch.code.read_plan(piece, &|chunk| arrived.contains(chunk)).ok()?));
        let Some(plans) = missing.iter().map(plan).collect::<Option<Vec<(usize, Arc<Plan>)>>>() else {
            // The last answer came, and something that there was no way to is still missing.
            if fetch.asked.is_empty() {
                self.go_on(key);
            }
            return;
        };
        let mut decoded = Vec::with_capacity(plans.len());
        let mut damaged = ChunkSet::EMPTY;
        for (piece, plan) in &plans {
            let Some((left_out, bytes)) = fetch.decode_rightly(*piece, plan) else {
                return self.ask_another_parity(key);
            };
            damaged |= left_out;
            decoded.push((*piece as u8, bytes));
        }
        self.stats.totals.hedges_won_total += u64::from(fetch.is_hedged && !missing.is_empty());
        self.stats.totals.late_bound_total += u64::from(fetch.is_late_bound && !missing.is_empty());
        let (stripe, members) = (fetch.wanted.stripe, Arc::clone(&fetch.wanted.members));
        damaged.iter().for_each(|parity| self.suspect_chunk(members[parity], stripe));
        self.end_pieces(key, Some(decoded));
    }

    /// What was decoded is damaged, and data pieces check themselves: so a parity is. With one more, another set may
    /// do; or the pieces that were gone round, which prove themselves.
    fn ask_another_parity(&mut self, key: PoolKey) {
        let Some(fetch) = self.piece_fetches.get(key) else { return };
        let taken = fetch.excluded.all | fetch.outstanding() | fetch.arrived();
        let (members, is_over) = (&fetch.wanted.members, fetch.asked.is_empty());
        let (free, own) = (fetch.parities() - taken, fetch.pieces - taken);
        if let Some(parity) = free.iter().filter(|&parity| self.nodes.is_ready(members[parity])).last() {
            return self.ask_chunks(key, ChunkSet::of(parity));
        }
        let ready: ChunkSet = own.iter().filter(|&piece| self.nodes.is_ready(members[piece])).collect();
        if !ready.is_empty() {
            self.suspect_parities(key);
            return self.ask_chunks(key, ready);
        }
        if !is_over {
            return;
        }
        // One that is silent may only be late, and takes longest.
        let is_silent = |&chunk: &usize| self.nodes.is_reachable(members[chunk]);
        let silent: ChunkSet = own.iter().filter(is_silent).chain(free.iter().find(is_silent)).collect();
        if self.parities_again(key) {
            return self.go_on(key);
        }
        if !silent.is_empty() {
            return self.ask_chunks(key, silent);
        }
        if let Some(fetch) = self.piece_fetches.get(key) {
            tracing::warn!(stripe = ?fetch.wanted.stripe, "damaged parities");
            self.suspect_parities(key);
            self.end_pieces(key, None);
        }
    }

    /// One of the parities that arrived is damaged, or was hurt on its way.
    fn suspect_parities(&mut self, key: PoolKey) {
        let Some(fetch) = self.piece_fetches.get(key) else { return };
        let (stripe, members) = (fetch.wanted.stripe, Arc::clone(&fetch.wanted.members));
        let parities = fetch.arrived() & fetch.parities();
        parities.iter().for_each(|parity| self.suspect_chunk(members[parity], stripe));
    }

    fn end_pieces(&mut self, key: PoolKey, decoded: Option<Vec<(u8, Vec<u8>)>>) {
        let Some(fetch) = self.piece_fetches.remove(key) else { return };
        fetch.asked.iter().for_each(|&(_, tag)| self.let_go_of(tag));
        let FetchPurpose::Piece { read, number } = fetch.wanted.purpose else { return };
        let Some(decoded) = decoded else { return self.striped_unreadable(read) };
        let pieces = fetch.pieces;
        let whole = fetch.parts.into_iter().chain(decoded).filter(|part| pieces.contains(part.0.into()));
        self.pieces_read(read, number, whole);
    }

    /// Bytes arrived from chunk `part`.
    pub(in crate::engine) fn piece_arrived(&mut self, key: PoolKey, part: u8, bytes: &[u8]) {
        let Some(fetch) = self.piece_fetches.get_mut(key) else { return };
        let wanted = &fetch.wanted;
        let is_data = usize::from(part) < wanted.shape.data_count();
        if bytes.len() != wanted.chunk_bytes as usize || is_data && open_piece(bytes, wanted.stripe).is_none() {
            tracing::warn!(stripe = ?wanted.stripe, part, "damaged piece");
            return self.piece_failed(key, part, Some(Refusal::Damaged), false);
        }
        let Some(place) = fetch.asked.iter().position(|asked| asked.0 == part) else { return };
        fetch.asked.swap_remove(place);
        fetch.parts.push((part, bytes.to_vec()));
        // With it there may be a way to what there was none to.
        self.go_on(key);
    }

    /// Chunk `part` gave nothing: refused, late, or its session ended.
    pub(in crate::engine) fn piece_refused(&mut self, key: PoolKey, part: u8, refusal: Option<Refusal>) {
        self.piece_failed(key, part, refusal, refusal.is_some());
    }

    /// `is_for_good`: asked again it would be the same.
    fn piece_failed(&mut self, key: PoolKey, part: u8, refusal: Option<Refusal>, is_for_good: bool) {
        let Some(fetch) = self.piece_fetches.get_mut(key) else { return };
        if refusal.is_some() {
            let (node, stripe) = (fetch.wanted.members[usize::from(part)], fetch.wanted.stripe);
            self.doubt_chunk(node, stripe, refusal);
        }
        let Some(fetch) = self.piece_fetches.get_mut(key) else { return };
        fetch.asked.retain(|asked| asked.0 != part);
        fetch.excluded.add(usize::from(part), is_for_good);
        if self.is_replaced(key) {
            // No use to wait for the rest: the reader has a newer value to read.
            return self.end_pieces(key, None);
        }
        self.go_on(key);
    }

    /// Does the object that is read not exist any more?
    fn is_replaced(&self, key: PoolKey) -> bool {
        let Some(FetchPurpose::Piece { read, .. }) = self.piece_fetches.get(key).map(|fetch| fetch.wanted.purpose)
        else {
            return false;
        };
        self.striped_reads.get(read).is_some_and(|read| !self.striped.contains_key(&read.first()))
    }

    /// A request is late. If a token is to be had, it is not relied on any more; false: none is.
    pub(super) fn hedge_pieces(&mut self, key: PoolKey, part: u8) -> bool {
        let Some(fetch) = self.piece_fetches.get(key) else { return true };
        if self.policy(fetch.wanted.partition).hedge != Hedge::Adaptive || !self.may_give_up(key, part) {
            return true;
        }
        if !self.take_token() {
            return false;
        }
        self.give_up(key, part);
        true
    }

    /// The node of chunk `part` is fail-slow: whatever the policy lets, it is not relied on any more.
    pub(super) fn sidestep_pieces(&mut self, key: PoolKey, part: u8) {
        let Some(fetch) = self.piece_fetches.get(key) else { return };
        if self.policy(fetch.wanted.partition).read_sidestep && self.may_give_up(key, part) {
            self.give_up(key, part);
        }
    }

    /// Is there a way for every piece without this chunk?
    fn may_give_up(&self, key: PoolKey, part: u8) -> bool {
        let Some(fetch) = self.piece_fetches.get(key) else { return false };
        let chunk = ChunkSet::of(part.into());
        let missing = fetch.pieces - (fetch.relied_on() - chunk);
        (fetch.outstanding() - fetch.given_up).contains(part.into())
            && missing.iter().all(|piece| self.plan_of(key, piece, chunk).is_some())
    }

    /// Whatever does not answer is not relied on any more.
    pub(super) fn rely_on_ready(&mut self, key: PoolKey) {
        let Some(fetch) = self.piece_fetches.get_mut(key) else { return };
        let silent = |&chunk: &u8| !self.nodes.is_ready(fetch.wanted.members[usize::from(chunk)]);
        let silent: ChunkSet = fetch.asked().filter(silent).map(usize::from).collect();
        fetch.given_up |= silent;
        self.go_on(key);
    }

    fn give_up(&mut self, key: PoolKey, part: u8) {
        if let Some(fetch) = self.piece_fetches.get_mut(key) {
            self.stats.totals.degraded_reads_total += u64::from(fetch.given_up.is_empty());
            fetch.given_up.insert(part.into());
            fetch.is_hedged = true;
            self.go_on(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use shorttail_units::{CodeShape, Epoch, NodeId, OpNumber, PartitionId, StripeId};

    use super::*;
    use crate::engine::read::fetch::Extent;
    use crate::engine::state::testing::engine_of_ready_nodes;

    /// Else every read would ask, and hear that there is nothing, until all that a node lost is rebuilt.
    #[test]
    fn what_is_known_to_be_lost_is_not_asked() {
        let shape = CodeShape::reed_solomon(4, 2).expect("a code");
        let mut engine = engine_of_ready_nodes(shape, 6);
        let stripe = StripeId::new(Epoch(1), 7);
        [0, 4].into_iter().for_each(|chunk| engine.repair.mark(stripe, chunk, shape));
        let wanted = Wanted {
            stripe,
            shape,
            partition: PartitionId(0),
            members: (0..6).map(NodeId).collect(),
            data_index: 0,
            chunk_bytes: 1_000,
            offset: 0,
            extent: Extent::Bytes(1_000),
            op: OpNumber(0),
            purpose: FetchPurpose::Piece { read: PoolKey::from_raw(1), number: 0 },
        };
        engine.start_pieces(wanted, ChunkSet::first(4));
        let (_, fetch) = engine.piece_fetches.iter().next().expect("it waits");
        assert_eq!(fetch.outstanding(), [1, 2, 3, 5].into_iter().collect());
    }
}

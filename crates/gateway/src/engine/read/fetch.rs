//! Reading bytes of a chunk: from its node, by decoding exactly the range wanted from other chunks of
//! the stripe, or both.
//!
//! ```text
//! way: direct -------------------- answered ---------------> done, the others are let go
//!      degraded, both at once --- enough parts arrived ----> decode -> done
//!      direct --late--> hedge: a degraded read beside it
//!      a source late --> hedge: another source is asked
//! ```
//! What fails (gone, damaged, wrong checksum, refused) is excluded, and the range is read from the sources that the
//! code's plan names; each failure excludes one more chunk, until there is no plan (see `again`). The first way that
//! ends wins. The length of a record is not known to the owner: a degraded read of one asks for a guess first, and
//! again when the record turns out longer.

use std::sync::Arc;

use shorttail_codes::{ChunkSet, Plan};
use shorttail_policy::Hedge;
use shorttail_store::record::{Record, record_bytes};
use shorttail_units::{CodeShape, NodeId, OpNumber, PartitionId, StripeId};
use shorttail_wire::node::{NodeRequest, Refusal};
use smallvec::SmallVec;

use super::again::Excluded;
use super::distrust;
use crate::engine::state::index::StripeSlot;
use crate::engine::state::pool::PoolKey;
use crate::engine::takeover::reconstruct::whole_chunk;
use crate::engine::{Engine, What};

/// Who wants the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FetchPurpose {
    Lookup(PoolKey),
    /// A chunk of a stripe that a job empties.
    Job(PoolKey),
    /// Pieces of a striped object's stripe (`pieces.rs`).
    Piece {
        read: PoolKey,
        number: u32,
    },
    /// A key listed by a scan.
    Scan(PoolKey),
    /// A chunk of an inherited stripe.
    Gather,
}

impl FetchPurpose {
    /// Does a client wait for it? Work in the background is never hedged.
    pub fn is_urgent(self) -> bool {
        matches!(self, FetchPurpose::Lookup(_) | FetchPurpose::Piece { .. } | FetchPurpose::Scan(_))
    }
}

/// How much is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The record that begins at the offset.
    Record,
    Bytes(u32),
}

/// What is wanted from where.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub stripe: StripeId,
    pub shape: CodeShape,
    pub partition: PartitionId,
    pub members: Arc<[NodeId]>,
    pub data_index: usize,
    /// Payload bytes of the stripe's chunks.
    pub chunk_bytes: u32,
    pub offset: u32,
    pub extent: Extent,
    /// 0: the stripe is sealed; else decode exactly at this operation (rule R5).
    pub op: OpNumber,
    pub purpose: FetchPurpose,
}

impl Wanted {
    /// The node that has the chunk.
    pub fn holder(&self) -> NodeId {
        self.members[self.data_index]
    }

    /// The chunk itself.
    pub fn own(&self) -> ChunkSet {
        ChunkSet::of(self.data_index)
    }

    /// Do the bytes prove themselves to be what is wanted, if they are of a kind that can?
    fn is_whole(&self, bytes: &[u8]) -> bool {
        match self.purpose {
            FetchPurpose::Lookup(_) | FetchPurpose::Scan(_) => Record::parse(bytes, self.stripe).is_ok(),
            // All that a chunk holds.
            FetchPurpose::Job(_) | FetchPurpose::Gather => whole_chunk(bytes, self.stripe).is_some(),
            FetchPurpose::Piece { .. } => true,
        }
    }
}

/// A degraded read under way.
#[derive(Debug)]
struct Degraded {
    plan: Arc<Plan>,
    /// Bytes asked of each source.
    length: u32,
    /// Sources that have not answered.
    asked: SmallVec<[(u8, PoolKey); 8]>,
    parts: Vec<(u8, Vec<u8>)>,
}

impl Degraded {
    fn decode(&self, plan: &Plan) -> Vec<u8> {
        let part = |&source: &usize| self.parts.iter().find(|&&(chunk, _)| usize::from(chunk) == source);
        let sources: SmallVec<[&[u8]; 16]> =
            plan.sources.iter().filter_map(part).map(|(_, bytes)| &bytes[..]).collect();
        let mut decoded = vec![0; self.length as usize];
        plan.decode(&sources, &mut decoded);
        decoded
    }

    /// Chunks that were asked, answered or not.
    fn taken(&self) -> ChunkSet {
        self.arrived() | self.asked.iter().map(|&(chunk, _)| chunk.into()).collect()
    }

    fn arrived(&self) -> ChunkSet {
        self.parts.iter().map(|&(chunk, _)| chunk.into()).collect()
    }
}

#[derive(Debug)]
pub struct Fetch {
    pub(super) wanted: Wanted,
    /// Chunks that gave nothing.
    pub(super) excluded: Excluded,
    /// The request to the chunk's own node, while it is awaited.
    direct: Option<PoolKey>,
    degraded: Option<Box<Degraded>>,
    /// The degraded read was begun because something was late.
    is_hedged: bool,
    /// Sources to ask beyond those that suffice.
    spare: u8,
}

/// What the parts that arrived give by some plan.
enum Decoded {
    Whole(Vec<u8>),
    /// A record that is longer than what was asked for.
    Longer(u32),
    /// It does not prove itself: a source is damaged.
    Wrong(Vec<u8>),
}

impl Fetch {
    /// Chunks that owe an answer.
    pub(super) fn outstanding(&self) -> impl Iterator<Item = u8> {
        let direct = self.direct.map(|_| self.wanted.data_index as u8);
        let sources = self.degraded.iter().flat_map(|degraded| degraded.asked.iter().map(|&(chunk, _)| chunk));
        direct.into_iter().chain(sources)
    }

    fn decoded_by(&self, plan: &Plan) -> Decoded {
        let Some(degraded) = &self.degraded else { return Decoded::Wrong(Vec::new()) };
        let mut decoded = degraded.decode(plan);
        if self.wanted.extent == Extent::Record {
            let room = (self.wanted.chunk_bytes - self.wanted.offset) as usize;
            match record_bytes(&decoded) {
                Ok(needed) if needed > decoded.len() && needed <= room => return Decoded::Longer(needed as u32),
                Ok(needed) if needed <= decoded.len() => decoded.truncate(needed),
                Ok(_) | Err(_) => {}
            }
        }
        if self.wanted.is_whole(&decoded) { Decoded::Whole(decoded) } else { Decoded::Wrong(decoded) }
    }
}

/// Why no bytes came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FetchError {
    /// The stripe's node no longer has the chunk: the object may have moved. Only told for direct reads of records.
    Gone,
    /// Too many chunks of the stripe cannot be read.
    Unreadable,
}

/// How a fetch begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Direct,
    /// `spare`: sources beyond those that suffice.
    Degraded {
        spare: u8,
    },
    /// Both at once.
    Both {
        spare: u8,
        is_hedge: bool,
    },
}

impl Engine {
    /// Bytes of a data chunk of a packed stripe that is sealed.
    pub(in crate::engine) fn wanted(
        &self,
        slot: StripeSlot,
        data_index: usize,
        offset: u32,
        extent: Extent,
        purpose: FetchPurpose,
    ) -> Wanted {
        let stripe = self.stripes.at(slot);
        Wanted {
            stripe: stripe.id,
            shape: self.config.shape,
            partition: stripe.partition,
            members: stripe.members.clone(),
            data_index,
            chunk_bytes: self.config.chunk_bytes as u32,
            offset,
            extent,
            op: OpNumber(0),
            purpose,
        }
    }

    pub(in crate::engine) fn start_fetch(&mut self, wanted: Wanted) {
        self.start_fetch_without(wanted, ChunkSet::EMPTY);
    }

    /// As [`Engine::start_fetch`], without the chunks in `excluded`.
    pub(in crate::engine) fn start_fetch_without(&mut self, wanted: Wanted, excluded: ChunkSet) {
        if wanted.purpose.is_urgent() {
            self.hedging.budget.earn();
        }
        self.begin_fetch(wanted, Excluded::for_good(excluded));
    }

    pub(super) fn begin_fetch(&mut self, wanted: Wanted, mut excluded: Excluded) {
        excluded.all |= self.repair.avoided_by_reads(wanted.stripe, wanted.shape);
        let way = self.way_to(&wanted, excluded.all);
        let (spare, is_hedged) = match way {
            Way::Direct => (0, false),
            Way::Degraded { spare } => (spare, false),
            Way::Both { spare, is_hedge } => (spare, is_hedge),
        };
        let fetch = self.fetches.insert(Fetch { wanted, excluded, direct: None, degraded: None, is_hedged, spare });
        if !matches!(way, Way::Degraded { .. }) {
            self.fetch_direct(fetch);
        }
        if way != Way::Direct {
            self.fetch_degraded(fetch, None);
        }
    }

    fn fetch_direct(&mut self, key: PoolKey) {
        let wanted = &self.fetches.get(key).expect("it is there").wanted;
        let (stripe, offset, part) = (wanted.stripe, wanted.offset, wanted.data_index as u8);
        let node = wanted.holder();
        let request = match wanted.extent {
            Extent::Record => NodeRequest::ReadRecord { stripe, offset },
            Extent::Bytes(length) => NodeRequest::ReadRange { stripe, offset, length, op: wanted.op },
        };
        let is_hedgeable = self.is_hedgeable(wanted);
        let tag = self.ask(node, stripe, &request, What::Fetch { fetch: key, part });
        self.fetches.get_mut(key).expect("it is there").direct = Some(tag);
        if is_hedgeable {
            self.note_hedgeable(node);
        }
    }

    /// Asks the sources of a plan that avoids the excluded chunks; `length`: of the record, once known.
    fn fetch_degraded(&mut self, key: PoolKey, length: Option<u32>) {
        let Some(fetch) = self.fetches.get(key) else { return };
        let code = self.codes.get(fetch.wanted.shape);
        let Some(plan) = self.choose_plan(&code, &fetch.wanted, fetch.excluded.all) else {
            if fetch.direct.is_some() {
                return;
            }
            // Its own node is silent, and may only be late.
            if self.may_be_asked(&fetch.wanted, fetch.excluded.all) {
                self.fetch_direct(key);
            } else if !self.fetch_again(key) {
                self.fetch_failed(key, FetchError::Unreadable);
            }
            return;
        };
        let wanted = &fetch.wanted;
        let room = wanted.chunk_bytes - wanted.offset;
        let length = match wanted.extent {
            Extent::Bytes(length) => length,
            Extent::Record => length.unwrap_or_else(|| self.record_guess.bytes()).min(room),
        };
        let spare = self.choose_spare(&fetch.wanted, fetch.excluded.all, &plan, fetch.spare);
        let sources: SmallVec<[usize; 16]> = plan.sources.iter().copied().chain(spare).collect();
        self.stats.totals.degraded_reads_total += 1;
        let parts = Vec::with_capacity(sources.len());
        let fetch = self.fetches.get_mut(key).expect("it is there");
        fetch.degraded = Some(Box::new(Degraded { plan, length, asked: SmallVec::new(), parts }));
        self.ask_sources(key, &sources);
    }

    /// Asks chunks for the range of a degraded read.
    fn ask_sources(&mut self, key: PoolKey, sources: &[usize]) {
        for &chunk in sources {
            let Some(fetch) = self.fetches.get(key) else { return };
            let Some(degraded) = &fetch.degraded else { return };
            let wanted = &fetch.wanted;
            let (stripe, node, is_hedgeable) = (wanted.stripe, wanted.members[chunk], self.is_hedgeable(wanted));
            let request =
                NodeRequest::ReadRange { stripe, offset: wanted.offset, length: degraded.length, op: wanted.op };
            let tag = self.ask(node, stripe, &request, What::Fetch { fetch: key, part: chunk as u8 });
            let degraded = self.fetches.get_mut(key).and_then(|fetch| fetch.degraded.as_mut());
            degraded.expect("it is there").asked.push((chunk as u8, tag));
            if is_hedgeable {
                self.note_hedgeable(node);
            }
        }
    }

    fn is_hedgeable(&self, wanted: &Wanted) -> bool {
        wanted.purpose.is_urgent() && self.policy(wanted.partition).hedge == Hedge::Adaptive
    }

    /// A request of a fetch is late. If a token is to be had, another way to the same bytes is begun; false: none is.
    pub(super) fn hedge_fetch(&mut self, key: PoolKey, part: u8) -> bool {
        let Some(fetch) = self.fetches.get(key) else { return true };
        let is_direct = usize::from(part) == fetch.wanted.data_index;
        if !self.is_hedgeable(&fetch.wanted) || is_direct && fetch.degraded.is_some() {
            return true;
        }
        let code = self.codes.get(fetch.wanted.shape);
        let Some(degraded) = &fetch.degraded else {
            if self.choose_plan(&code, &fetch.wanted, fetch.excluded.all).is_none() {
                return true;
            }
            if !self.take_token() {
                return false;
            }
            self.begin_hedge(key);
            return true;
        };
        // A source is late: more is asked, so that what else arrives suffices without it.
        let others = self.sources_without(&code, &fetch.wanted, (degraded.taken(), fetch.excluded.all), part);
        if others.is_empty() {
            return true;
        }
        if !self.take_token() {
            return false;
        }
        self.ask_sources(key, &others);
        true
    }

    /// The node of chunk `part` is fail-slow: whatever the policy lets, the fetch goes on without it.
    pub(super) fn sidestep_fetch(&mut self, key: PoolKey, part: u8) {
        let Some(fetch) = self.fetches.get(key) else { return };
        if !self.policy(fetch.wanted.partition).read_sidestep {
            return;
        }
        if usize::from(part) == fetch.wanted.data_index {
            return self.begin_hedge(key);
        }
        let code = self.codes.get(fetch.wanted.shape);
        let Some(degraded) = &fetch.degraded else { return };
        let others = self.sources_without(&code, &fetch.wanted, (degraded.taken(), fetch.excluded.all), part);
        self.ask_sources(key, &others);
    }

    /// A degraded read beside the direct one.
    fn begin_hedge(&mut self, key: PoolKey) {
        if let Some(fetch) = self.fetches.get_mut(key).filter(|fetch| fetch.degraded.is_none()) {
            fetch.is_hedged = true;
            self.fetch_degraded(key, None);
        }
    }

    /// Bytes arrived from chunk `part`.
    pub(in crate::engine) fn fetched(&mut self, key: PoolKey, part: u8, bytes: &[u8]) {
        let Some(fetch) = self.fetches.get_mut(key) else { return };
        if usize::from(part) == fetch.wanted.data_index {
            fetch.direct = None;
            return self.fetch_done(key, bytes);
        }
        let Some(degraded) = &mut fetch.degraded else { return };
        let Some(place) = degraded.asked.iter().position(|&(chunk, _)| chunk == part) else { return };
        if bytes.len() != degraded.length as usize {
            return self.fetch_refused(key, part, None);
        }
        degraded.asked.swap_remove(place);
        degraded.parts.push((part, bytes.to_vec()));
        if let Some(plan) = self.sufficient_plan(key) {
            self.decode(key, &plan);
        }
    }

    /// A plan whose sources have all arrived.
    fn sufficient_plan(&mut self, key: PoolKey) -> Option<Arc<Plan>> {
        let fetch = self.fetches.get(key)?;
        let degraded = fetch.degraded.as_ref()?;
        let arrived = degraded.arrived();
        if degraded.plan.sources.iter().all(|&source| arrived.contains(source)) {
            return Some(Arc::clone(&degraded.plan));
        }
        if degraded.parts.len() < degraded.plan.sources.len() {
            return None;
        }
        let code = self.codes.get(fetch.wanted.shape);
        code.read_plan(fetch.wanted.data_index, &|chunk| arrived.contains(chunk)).ok()
    }

    fn decode(&mut self, key: PoolKey, plan: &Plan) {
        let fetch = self.fetches.get(key).expect("it has enough parts");
        match fetch.decoded_by(plan) {
            Decoded::Whole(bytes) => self.decoded(key, &bytes),
            Decoded::Longer(needed) => self.fetch_longer(key, needed),
            // A source is damaged. The chunk itself was only gone round; and others may be right sooner than it is
            // read.
            Decoded::Wrong(bytes) => {
                if fetch.direct.is_none() && self.may_be_asked(&fetch.wanted, fetch.excluded.all) {
                    self.fetch_direct(key);
                }
                self.decode_otherwise(key, &bytes);
            }
        }
    }

    /// Is the chunk's own node one that is used, if as a last resort, and has not failed this fetch?
    fn may_be_asked(&self, wanted: &Wanted, excluded: ChunkSet) -> bool {
        !excluded.contains(wanted.data_index) && self.nodes.is_reachable(wanted.holder())
    }

    fn decoded(&mut self, key: PoolKey, bytes: &[u8]) {
        let fetch = self.fetches.get_mut(key).expect("it has enough parts");
        self.stats.totals.hedges_won_total += u64::from(fetch.is_hedged);
        self.stats.totals.late_bound_total += u64::from(fetch.spare > 0);
        fetch.excluded.add(fetch.wanted.data_index, true);
        self.fetch_done(key, bytes);
    }

    /// What was decoded is wrong: with other sources, one more as long as there is one. When there is none, what is
    /// late is waited for, and the chunk itself; if it is not to be had, `wrong` is the answer: whoever looks at it
    /// sees that it is damaged.
    fn decode_otherwise(&mut self, key: PoolKey, wrong: &[u8]) {
        let Some(fetch) = self.fetches.get(key) else { return };
        let Some(degraded) = &fetch.degraded else { return };
        let (wanted, arrived) = (&fetch.wanted, degraded.arrived());
        let code = self.codes.get(wanted.shape);
        let mut longest = 0;
        let mut right = None;
        for (left_out, plan) in distrust::plans_without(&code, wanted.data_index, arrived, arrived) {
            match fetch.decoded_by(&plan) {
                Decoded::Whole(bytes) => right = Some((left_out, bytes)),
                Decoded::Longer(needed) => longest = longest.max(needed),
                Decoded::Wrong(_) => {}
            }
            if right.is_some() {
                break;
            }
        }
        if let Some((left_out, bytes)) = right {
            let (members, stripe) = (Arc::clone(&wanted.members), wanted.stripe);
            left_out.iter().for_each(|chunk| self.suspect_chunk(members[chunk], stripe));
            return self.decoded(key, &bytes);
        }
        if longest > degraded.length {
            return self.fetch_longer(key, longest);
        }
        let is_prompt = |&(_, tag): &(u8, PoolKey)| self.awaited.get(tag).is_some_and(|awaited| !awaited.is_hedged);
        if degraded.asked.iter().any(is_prompt) {
            return;
        }
        let taken = fetch.excluded.all | degraded.taken() | wanted.own();
        match self.choose_other(wanted, taken) {
            Some(other) => self.ask_sources(key, &[other]),
            None if !degraded.asked.is_empty() => {}
            None if fetch.direct.is_some() => _ = self.drop_degraded(key),
            None => self.decoded(key, wrong),
        }
    }

    /// The guess was too short.
    fn fetch_longer(&mut self, key: PoolKey, needed: u32) {
        self.drop_degraded(key);
        self.fetch_degraded(key, Some(needed));
    }

    /// What a degraded read still waits for is let go; how much it asked of each source.
    fn drop_degraded(&mut self, key: PoolKey) -> Option<u32> {
        let degraded = self.fetches.get_mut(key)?.degraded.take()?;
        degraded.asked.iter().for_each(|&(_, tag)| self.let_go_of(tag));
        Some(degraded.length)
    }

    /// Chunk `part` gave no bytes: refused, late, or its session ended.
    pub(in crate::engine) fn fetch_refused(&mut self, key: PoolKey, part: u8, refusal: Option<Refusal>) {
        let Some(fetch) = self.fetches.get_mut(key) else { return };
        let is_direct = usize::from(part) == fetch.wanted.data_index;
        let is_asked = |degraded: &Degraded| degraded.asked.iter().any(|&(chunk, _)| chunk == part);
        let is_awaited =
            if is_direct { fetch.direct.is_some() } else { fetch.degraded.as_deref().is_some_and(is_asked) };
        if !is_awaited {
            return;
        }
        fetch.excluded.add(usize::from(part), refusal.is_some());
        if refusal.is_some() {
            let (node, stripe) = (fetch.wanted.members[usize::from(part)], fetch.wanted.stripe);
            self.doubt_chunk(node, stripe, refusal);
        }
        let Some(fetch) = self.fetches.get_mut(key) else { return };
        if is_direct {
            fetch.direct = None;
            if fetch.wanted.extent == Extent::Record && refusal == Some(Refusal::NoChunk) {
                return self.fetch_failed(key, FetchError::Gone);
            }
            if fetch.degraded.is_none() {
                self.fetch_degraded(key, None);
            }
            return;
        }
        let length = self.drop_degraded_without(key, part);
        self.fetch_degraded(key, length);
    }

    /// As [`Engine::drop_degraded`]; `failed` is not owed any more.
    fn drop_degraded_without(&mut self, key: PoolKey, failed: u8) -> Option<u32> {
        if let Some(degraded) = self.fetches.get_mut(key).and_then(|fetch| fetch.degraded.as_mut()) {
            degraded.asked.retain(|&mut (chunk, _)| chunk != failed);
        }
        self.drop_degraded(key)
    }

    /// Takes the fetch out; what it still waits for is let go.
    pub(super) fn end_fetch(&mut self, key: PoolKey) -> Option<(Wanted, ChunkSet)> {
        self.drop_degraded(key);
        let fetch = self.fetches.remove(key)?;
        if let Some(direct) = fetch.direct {
            self.let_go_of(direct);
        }
        Some((fetch.wanted, fetch.excluded.all))
    }

    /// A chunk of the stripe has another holder: who reads of the stripe asks that one from now on. What was asked of
    /// the one before is answered ahead of the free that it is told next.
    pub(in crate::engine) fn redirect_reads(&mut self, stripe: StripeId, members: &Arc<[NodeId]>) {
        let fetches = self.fetches.values_mut().map(|fetch| &mut fetch.wanted);
        let pieces = self.piece_fetches.values_mut().map(|fetch| &mut fetch.wanted);
        let reads = fetches.chain(pieces).chain(self.deferred.wanted_mut());
        reads.filter(|wanted| wanted.stripe == stripe).for_each(|wanted| wanted.members.clone_from(members));
        for fetch in self.fetches.values_mut().filter(|fetch| fetch.wanted.stripe == stripe) {
            // Who is to rebuild it does not have it yet.
            fetch.excluded.all |= self.repair.avoided_by_reads(stripe, fetch.wanted.shape);
        }
    }

    /// What is being read for a picture is not wanted any more.
    pub(in crate::engine) fn drop_gathering_fetches(&mut self) {
        let is_gathering = |fetch: &Fetch| fetch.wanted.purpose == FetchPurpose::Gather;
        let keys: Vec<PoolKey> =
            self.fetches.iter().filter(|(_, fetch)| is_gathering(fetch)).map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| _ = self.fetches.remove(key));
    }

    fn fetch_done(&mut self, key: PoolKey, bytes: &[u8]) {
        self.fetch_ends(key, Ok(bytes));
    }

    fn fetch_failed(&mut self, key: PoolKey, error: FetchError) {
        self.fetch_ends(key, Err(error));
    }

    fn fetch_ends(&mut self, key: PoolKey, result: Result<&[u8], FetchError>) {
        let Some((wanted, excluded)) = self.end_fetch(key) else { return };
        match wanted.purpose {
            FetchPurpose::Lookup(lookup) => self.lookup_fetched(lookup, wanted, excluded, result),
            FetchPurpose::Job(job) => self.job_fetched(job, wanted, excluded, result),
            FetchPurpose::Piece { .. } => unreachable!("pieces are read by the stripe"),
            FetchPurpose::Scan(scan) => self.scan_fetched(scan, wanted, excluded, result),
            FetchPurpose::Gather => self.gather_fetched(wanted.stripe, wanted.data_index, result),
        }
    }
}

#[cfg(test)]
mod tests {
    use shorttail_units::{Epoch, Version};

    use super::*;

    /// Decoded with a damaged source, a chunk that is to be emptied or learnt from is decoded with others.
    #[test]
    fn all_that_a_chunk_holds_proves_itself_record_by_record() {
        let stripe = StripeId::new(Epoch(1), 1);
        let record = Record::object(b"key", b"value", Version::new(Epoch(1), 1));
        let mut chunk = vec![0; 2 * record.encoded_bytes(Epoch(1))];
        let half = chunk.len() / 2;
        chunk.chunks_mut(half).for_each(|place| record.encode(stripe, place));
        for purpose in [FetchPurpose::Job(PoolKey::from_raw(0)), FetchPurpose::Gather] {
            let shape = CodeShape::reed_solomon(2, 1).expect("a code");
            let (chunk_bytes, extent, op) = (chunk.len() as u32, Extent::Bytes(chunk.len() as u32), OpNumber(0));
            let (partition, members) = (PartitionId(0), Arc::from([]));
            let wanted = Wanted {
                stripe,
                shape,
                partition,
                members,
                data_index: 0,
                chunk_bytes,
                offset: 0,
                extent,
                op,
                purpose,
            };
            assert!(wanted.is_whole(&chunk) && wanted.is_whole(&chunk[..half]) && wanted.is_whole(&[0; 9]));
            let mut damaged = chunk.clone();
            damaged[half + 10] ^= 4;
            assert!(!wanted.is_whole(&damaged), "{purpose:?}");
        }
    }
}

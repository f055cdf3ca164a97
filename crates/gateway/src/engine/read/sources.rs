//! Which way a read takes, and from which chunks a degraded one decodes.
//!
//! The cheapest set that suffices is the code's plan over the chunks that are to be had. Nodes that are slow, late or
//! at their bound are left out, as long as there is a plan without them: the slowest first, at most as many as the code
//! can do without. Who is only at its bound is gone round where all others that are asked are not busy. Where there is
//! a choice the most loaded nodes are left out too.
//!
//! Must not know: what is read for, or how it is asked.

use std::sync::Arc;

use shorttail_codes::{ChunkSet, Code, Cost, Plan};
use shorttail_policy::{Hedge, Policy};
use shorttail_units::{NodeId, PartitionId};
use smallvec::SmallVec;

use super::fetch::{Wanted, Way};
use crate::engine::Engine;
use crate::engine::limits::{DEGRADED_GUESS_BYTES, DEGRADED_GUESS_BYTES_MAX};

/// Chunks to ask, the best first.
type Chosen = SmallVec<[usize; 8]>;

impl Engine {
    pub(super) fn way_to(&mut self, wanted: &Wanted, excluded: ChunkSet) -> Way {
        let node = wanted.holder();
        let policy = *self.policy(wanted.partition);
        let is_urgent = wanted.purpose.is_urgent();
        let spare = if is_urgent { self.spare_of_next(policy.hedge) } else { 0 };
        if excluded.contains(wanted.data_index) || !self.nodes.is_ready(node) {
            return Way::Degraded { spare };
        }
        if policy.read_sidestep && self.is_avoided_of(wanted, excluded) {
            return if self.takes_probe(node) { Way::Both { spare, is_hedge: false } } else { Way::Degraded { spare } };
        }
        if spare > 0 {
            // The holder is the first of `k + spare`.
            return Way::Both { spare: spare - 1, is_hedge: false };
        }
        if policy.reads_least_loaded && self.is_least_loaded_elsewhere(wanted, excluded) {
            return Way::Degraded { spare: 0 };
        }
        if is_urgent && policy.hedge == Hedge::Adaptive && self.is_late(node) && self.has_plan(wanted, excluded) {
            // Behind what is late already it would be late too.
            if self.take_token() {
                return Way::Both { spare: 0, is_hedge: true };
            }
        }
        Way::Direct
    }

    /// How many more sources than needed the next read asks.
    pub(super) fn spare_of_next(&mut self, hedge: Hedge) -> u8 {
        match hedge {
            Hedge::LateBinding(rule) if rule.is_next(&mut self.hedging.late_binding_due) => rule.more,
            _ => 0,
        }
    }

    /// Had a read better go round the holder at once, as the policy has it?
    pub(super) fn goes_round(&mut self, wanted: &Wanted, excluded: ChunkSet) -> bool {
        let node = wanted.holder();
        let policy = *self.policy(wanted.partition);
        if !self.nodes.is_ready(node) || policy.read_sidestep && self.is_avoided_of(wanted, excluded) {
            return true;
        }
        policy.reads_least_loaded && self.is_least_loaded_elsewhere(wanted, excluded)
    }

    pub(super) fn has_plan(&mut self, wanted: &Wanted, excluded: ChunkSet) -> bool {
        let code = self.codes.get(wanted.shape);
        self.choose_plan(&code, wanted, excluded).is_some()
    }

    /// LLF (Hu et al. 2017): are all sources of the degraded read less loaded than the holder?
    fn is_least_loaded_elsewhere(&mut self, wanted: &Wanted, excluded: ChunkSet) -> bool {
        let own = self.load_of(wanted.holder());
        if own == 0 {
            return false;
        }
        let code = self.codes.get(wanted.shape);
        let Some(plan) = self.choose_plan(&code, wanted, excluded) else { return false };
        plan.sources.iter().all(|&source| self.load_of(wanted.members[source]) < own)
    }

    /// The plan of a degraded read. `None`: too many chunks are not to be had.
    pub(super) fn choose_plan(&self, code: &Code, wanted: &Wanted, excluded: ChunkSet) -> Option<Arc<Plan>> {
        let members = &wanted.members;
        let free = ChunkSet::first(members.len()) - excluded - wanted.own();
        let ready = free.iter().filter(|&chunk| self.nodes.is_ready(members[chunk])).collect();
        let best = self.best_of(code, wanted, ready, ChunkSet::EMPTY);
        let cost = |chunk: usize| {
            if best.contains(chunk) {
                Cost::Low
            } else if ready.contains(chunk) {
                Cost::High
            } else {
                Cost::Infinite
            }
        };
        let reachable = |chunk: usize| free.contains(chunk) && self.nodes.is_reachable(members[chunk]);
        let plan = code.cheapest_plan(wanted.data_index, &cost);
        plan.or_else(|_| code.read_plan(wanted.data_index, &reachable)).ok()
    }

    /// Those of these chunks that are best decoded from: none of a slow node and, where any `k` suffice, no more than
    /// that, what is `relied_on` before what is not, the least loaded first.
    pub(super) fn best_of(&self, code: &Code, wanted: &Wanted, chunks: ChunkSet, relied_on: ChunkSet) -> ChunkSet {
        let turn = wanted.stripe.raw() as usize;
        let rank = |chunk: usize| {
            let node = wanted.members[chunk];
            let is_new = !relied_on.contains(chunk);
            let is_slow = is_new && self.is_slow_source(wanted, node);
            // Ties go round, so that no chunk is always the one that is asked.
            (is_new, is_slow, self.load_of(node), (chunk + turn) % wanted.members.len(), chunk)
        };
        let mut ranked: SmallVec<[_; 24]> = chunks.iter().map(rank).collect();
        ranked.sort_unstable();
        let is_any_k_enough = code.tolerance() == code.parity_count();
        let kept = if is_any_k_enough { code.data_count() } else { ranked.len() };
        let best = ranked.into_iter().take(kept).filter(|&(_, is_slow, ..)| !is_slow);
        best.map(|(.., chunk)| chunk).collect()
    }

    /// Is this node better not asked for what is to be decoded?
    pub(super) fn is_slow_source(&self, wanted: &Wanted, node: NodeId) -> bool {
        self.policy(wanted.partition).read_sidestep
            && (self.monitor.is_fail_slow(node) || self.is_full(node) || self.is_late(node))
    }

    /// Further sources for late binding: the least loaded ones.
    pub(super) fn choose_spare(&self, wanted: &Wanted, excluded: ChunkSet, plan: &Plan, count: u8) -> Chosen {
        let mut taken = excluded | wanted.own() | plan.sources.iter().copied().collect();
        let mut spare = SmallVec::new();
        while spare.len() < usize::from(count) {
            let Some(chunk) = self.choose_other(wanted, taken) else { break };
            taken.insert(chunk);
            spare.push(chunk);
        }
        spare
    }

    /// One more source that is not `taken`.
    pub(super) fn choose_other(&self, wanted: &Wanted, taken: ChunkSet) -> Option<usize> {
        let members = &wanted.members;
        let is_free = |chunk: &usize| !taken.contains(*chunk) && self.nodes.is_ready(members[*chunk]);
        let sidesteps = self.policy(wanted.partition).read_sidestep;
        let rank = |chunk: &usize| {
            let node = members[*chunk];
            let is_slow = self.monitor.is_fail_slow(node) || self.is_full(node);
            (sidesteps && is_slow, sidesteps && self.is_late(node), self.load_of(node))
        };
        (0..members.len()).filter(is_free).min_by_key(rank)
    }

    /// What else to ask for a degraded read, of whose sources that are `taken` this one is late: as little as makes the
    /// others suffice.
    pub(super) fn sources_without(
        &self,
        code: &Code,
        wanted: &Wanted,
        (taken, excluded): (ChunkSet, ChunkSet),
        late: u8,
    ) -> Chosen {
        if code.tolerance() == code.parity_count() {
            // Any one will do: the least loaded.
            return self.choose_other(wanted, excluded | taken | wanted.own()).into_iter().collect();
        }
        let left_out = excluded | wanted.own() | ChunkSet::of(late.into());
        let cost = |chunk: usize| {
            if left_out.contains(chunk) || !self.nodes.is_ready(wanted.members[chunk]) {
                Cost::Infinite
            } else if taken.contains(chunk) {
                Cost::Low
            } else {
                Cost::High
            }
        };
        let plan = code.cheapest_plan(wanted.data_index, &cost).ok();
        let sources = plan.iter().flat_map(|plan| &plan.sources);
        sources.copied().filter(|&source| !taken.contains(source)).collect()
    }

    /// Is the holder one of the slowest of these, and no more than the code can do without? Or is it at its bound, and
    /// those that are asked instead are not busy? All can be at theirs, and would be asked several times as much.
    fn is_avoided_of(&mut self, wanted: &Wanted, excluded: ChunkSet) -> bool {
        let members = &wanted.members;
        let node = wanted.holder();
        if self.monitor.is_fail_slow(node) {
            let is_there = |chunk: usize| self.nodes.is_ready(members[chunk]) && !excluded.contains(chunk);
            let there: SmallVec<[NodeId; 16]> =
                (0..members.len()).filter(|&chunk| is_there(chunk)).map(|chunk| members[chunk]).collect();
            let room = wanted.shape.tolerance().saturating_sub(members.len() - there.len());
            let slower = self.monitor.fail_slow().take_while(|&slow| slow != node);
            return slower.filter(|slow| there.contains(slow)).count() < room && self.has_plan(wanted, excluded);
        }
        if !self.is_full(node) {
            return false;
        }
        let code = self.codes.get(wanted.shape);
        let is_free =
            |&source: &usize| self.nodes.is_ready(members[source]) && !self.is_slow_source(wanted, members[source]);
        self.choose_plan(&code, wanted, excluded).is_some_and(|plan| plan.sources.iter().all(is_free))
    }

    pub(super) fn load_of(&self, node: NodeId) -> usize {
        self.monitor.outstanding(node).0 as usize
    }

    pub(in crate::engine) fn policy(&self, partition: PartitionId) -> &Policy {
        &self.policies[usize::from(partition.0)]
    }
}

/// Bytes that a degraded read asks for when it does not know how long the record is: enough for nine of ten records
/// lately.
#[derive(Debug)]
pub(in crate::engine) struct RecordGuess {
    bytes: u32,
}

impl Default for RecordGuess {
    fn default() -> Self {
        RecordGuess { bytes: DEGRADED_GUESS_BYTES }
    }
}

impl RecordGuess {
    /// A record had this length. Up eight times as fast as down: the guess stays where one of nine is longer.
    pub fn learn(&mut self, length: usize) {
        let step = self.bytes / 64 + 1;
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.bytes = if length > self.bytes { self.bytes + 8 * step } else { self.bytes - step };
        self.bytes = self.bytes.clamp(64, DEGRADED_GUESS_BYTES_MAX);
    }

    pub fn bytes(&self) -> u32 {
        self.bytes.next_multiple_of(64)
    }
}

#[cfg(test)]
mod tests {
    use shorttail_monitor::{Class, Opinion, Opinions};
    use shorttail_units::{CodeShape, Now, OpNumber, PartitionId, StripeId};

    use super::*;
    use crate::engine::limits::OUTSTANDING_BYTES_MAX;
    use crate::engine::read::fetch::{Extent, FetchPurpose};
    use crate::engine::sessions::nodes::NodePhase;
    use crate::engine::state::testing::engine_of_ready_nodes;

    const MEMBERS: u16 = 6;

    fn engine() -> Engine {
        engine_of_ready_nodes(CodeShape::reed_solomon(4, 2).expect("a code"), MEMBERS)
    }

    /// A chunk of a stripe that lies on the nodes in their order.
    fn wanted(engine: &Engine, data_index: usize) -> Wanted {
        Wanted {
            stripe: StripeId::default(),
            shape: engine.config.shape,
            partition: PartitionId(0),
            members: (0..MEMBERS).map(NodeId).collect(),
            data_index,
            chunk_bytes: engine.config.chunk_bytes as u32,
            offset: 0,
            extent: Extent::Bytes(100),
            op: OpNumber(0),
            purpose: FetchPurpose::Gather,
        }
    }

    /// Other cores of the gateway say that these are slow, the first one most.
    fn call_slow(engine: &mut Engine, nodes: &[u16]) {
        let report = |(place, &node): (usize, &u16)| Opinion {
            node: NodeId(node),
            class: Class::Read,
            fail_slow: true,
            latency_us: 90_000 - 10_000 * place as u64,
            peers_us: 300,
        };
        let reports = nodes.iter().enumerate().map(report).collect();
        engine.handle_opinions(Now { mono_us: 1_000, ..Now::default() }, &Opinions { reports });
    }

    fn fill(engine: &mut Engine, node: u16) {
        engine.monitor.sent(NodeId(node), Class::Read, OUTSTANDING_BYTES_MAX as u32, 0);
    }

    fn is_direct(engine: &mut Engine, data_index: usize) -> bool {
        let is_direct = is_direct_without(engine, data_index, ChunkSet::EMPTY);
        let wanted = wanted(engine, data_index);
        assert_eq!(engine.goes_round(&wanted, ChunkSet::EMPTY), !is_direct);
        is_direct
    }

    fn is_direct_without(engine: &mut Engine, data_index: usize, excluded: ChunkSet) -> bool {
        let wanted = wanted(engine, data_index);
        engine.way_to(&wanted, excluded) == Way::Direct
    }

    /// Those elsewhere help nobody, and those that have lost their chunk are gone round already.
    #[test]
    fn the_slowest_of_a_stripe_are_gone_round_and_no_more_than_the_code_does_without() {
        let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(4, 2).expect("a code"), 2 * MEMBERS);
        call_slow(&mut engine, &[7, 8, 0, 1, 2]);
        let slow = [0, 1, 2];
        assert_eq!(slow.map(|chunk| is_direct(&mut engine, chunk)), [false, false, true]);
        let mut without = |lost| slow.map(|chunk| is_direct_without(&mut engine, chunk, ChunkSet::of(lost)));
        assert_eq!([4, 1].map(&mut without), [[false, true, true], [false, false, true]]);
    }

    #[test]
    fn a_slow_node_is_gone_round_although_a_slower_one_does_not_answer_at_all() {
        let mut engine = engine();
        call_slow(&mut engine, &[0, 1, 2]);
        assert_eq!([0, 1, 2, 3].map(|chunk| is_direct(&mut engine, chunk)), [false, false, true, true]);
        // With it there is room for one more.
        engine.nodes.get_mut(NodeId(0)).expect("a node").phase = NodePhase::Suspect;
        assert_eq!([0, 1, 2, 3].map(|chunk| is_direct(&mut engine, chunk)), [false, false, true, true]);
    }

    #[test]
    fn a_node_at_its_bound_is_gone_round_unless_the_others_are_busy_too() {
        let mut engine = engine();
        fill(&mut engine, 0);
        assert_eq!([0, 1].map(|chunk| is_direct(&mut engine, chunk)), [false, true]);
        fill(&mut engine, 5);
        assert_eq!([0, 1].map(|chunk| is_direct(&mut engine, chunk)), [false, true]);
        (1..5).for_each(|node| fill(&mut engine, node));
        assert!((0..4).all(|chunk| is_direct(&mut engine, chunk)), "each read would be four");
    }

    #[test]
    fn the_guess_follows_the_records_and_spares_nine_of_ten_a_second_asking() {
        let mut guess = RecordGuess::default();
        let lengths = |round: usize| if round.is_multiple_of(20) { 5_000 } else { 700 + round * 37 % 500 };
        (0..5_000).for_each(|round| guess.learn(lengths(round)));
        let short = (0..5_000).filter(|&round| {
            guess.learn(lengths(round));
            lengths(round) > guess.bytes() as usize
        });
        let share = short.count() as f64 / 5_000.0;
        assert!(share < 0.15, "{share}");
        assert!(guess.bytes() < 2_500, "{}", guess.bytes());
        (0..10_000).for_each(|_| guess.learn(100));
        assert!(guess.bytes() <= 192, "{}", guess.bytes());
    }
}

//! The tenures of a core: an engine each, with its own sessions with the nodes.
//!
//! ```text
//! terms name it  -> engine begins -> takes over -> serves -> lets go, or a later epoch fenced -> dropped
//!  as one to come -> engine prepares --^
//! ```
//!
//! An engine whose tenure the coordinator names no more goes on to answer what is under way: the nodes
//! decide when it is over.
//!
//! Must not know: where requests come from.

use std::collections::BTreeMap;

use mio::Registry;
use shorttail_gateway::engine::limits::HELD_US_MAX;
use shorttail_gateway::engine::{Engine, EngineConfig, Standing};
use shorttail_gateway::request::StoreStats;
use shorttail_gateway::terms::{TermsTaken, is_over, state_at_end, state_of, tell_nodes};
use shorttail_policy::Policy;
use shorttail_units::{NodeId, Now, PartitionId};
use shorttail_wire::control::{NodeSeen, TenureState, Terms, View};

use super::counted::Counted;
use super::peers::{Peers, nodes_back};
use super::shares::{Share, is_of_core};
use crate::config::Address;

pub struct Tenure {
    pub epoch: u32,
    pub engine: Engine,
    pub peers: Peers,
    terms: TermsTaken,
    /// Since when the coordinator does not name it any more.
    ending_since_us: Option<u64>,
    /// What was published last.
    told: Option<Standing>,
    /// When it was last found to be proven.
    proven_us: Option<u64>,
}

/// A tenure whose engine is gone.
struct EndedTenure {
    state: TenureState,
    since_us: u64,
    /// The coordinator names it, so that its partitions are to be served from here.
    is_named: bool,
}

pub struct Tenures {
    /// What every engine has in common.
    config: EngineConfig,
    core: usize,
    core_count: usize,
    running: BTreeMap<u32, Tenure>,
    /// Those whose engine is gone, until the coordinator tells of terms that do not name them.
    ended: BTreeMap<u32, EndedTenure>,
    counted: Counted,
    place_next: u16,
    /// What the latest view says of nodes.
    view: View,
    addresses: BTreeMap<NodeId, Address>,
    tenure_count: usize,
    /// By partition.
    policies: Vec<Policy>,
}

impl Tenures {
    pub fn new(config: EngineConfig, core: usize, core_count: usize) -> Self {
        let policies = vec![config.policy; usize::from(config.partition_count)];
        Tenures {
            config,
            core,
            core_count,
            running: BTreeMap::new(),
            ended: BTreeMap::new(),
            counted: Counted::default(),
            place_next: 0,
            view: View::default(),
            addresses: BTreeMap::new(),
            tenure_count: 1,
            policies,
        }
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Tenure> {
        self.running.values_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Tenure> {
        self.running.values()
    }

    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// The engine that serves a tenure, if it does.
    pub fn serving(&mut self, epoch: u32) -> Option<&mut Engine> {
        let tenure = self.running.get_mut(&epoch)?;
        (!tenure.terms.lets_go() && tenure.engine.standing() == Standing::Serving).then_some(&mut tenure.engine)
    }

    /// Did nodes end a tenure so long ago, and not this gateway, which let nothing go?
    pub fn has_ended(&self, epoch: u32, before_us: u64) -> bool {
        let ended = self.ended.get(&epoch);
        ended.is_some_and(|ended| ended.state == TenureState::Ended && ended.since_us <= before_us)
    }

    pub fn of_place(&mut self, place: u16) -> Option<&mut Tenure> {
        self.running.values_mut().find(|tenure| tenure.peers.place() == place)
    }

    /// All tenures of this gateway, as the coordinator has them now.
    pub fn handle_terms(&mut self, now: Now, terms: &[Terms]) {
        self.ended.retain(|epoch, _| terms.iter().any(|terms| terms.epoch.0 == *epoch));
        // It may have ended before.
        self.ended.values_mut().for_each(|ended| ended.is_named = true);
        for tenure in self.running.values_mut() {
            let named = terms.iter().any(|terms| terms.epoch.0 == tenure.epoch);
            tenure.ending_since_us = if named { None } else { Some(tenure.ending_since_us.unwrap_or(now.mono_us)) };
        }
        for terms in terms {
            let epoch = terms.epoch.0;
            let own = |partition: &u16| is_of_core(*partition, self.core, self.core_count);
            let partitions: Vec<PartitionId> = terms.partitions.iter().copied().filter(own).map(PartitionId).collect();
            if partitions.is_empty() || self.ended.contains_key(&epoch) {
                continue;
            }
            if !self.running.contains_key(&epoch) {
                self.begin(now, terms, partitions);
            }
            let tenure = self.running.get_mut(&epoch).expect("begun above");
            tenure.terms.take(&mut tenure.engine, now, terms);
        }
    }

    fn begin(&mut self, now: Now, terms: &Terms, partitions: Vec<PartitionId>) {
        let epoch = terms.epoch;
        tracing::info!(epoch = epoch.0, prepares = terms.prepares, partitions = partitions.len(), "a tenure begins");
        let mut config = self.config.clone();
        config.epoch = epoch;
        config.core = self.core as u16;
        // Epochs have 23 bits and cores 8.
        config.owner = epoch.0 << 8 | self.core as u32;
        config.partitions = partitions;
        config.engine_count = (self.tenure_count.max(1) * self.core_count).min(usize::from(u16::MAX)) as u16;
        let mut engine = Engine::new(config, now);
        if terms.prepares {
            engine.prepare();
        }
        for (partition, &policy) in (0..).zip(&self.policies) {
            engine.set_policy(PartitionId(partition), policy);
        }
        while self.running.values().any(|tenure| tenure.peers.place() == self.place_next) {
            self.place_next = self.place_next.wrapping_add(1);
        }
        let mut peers = Peers::new(self.place_next);
        self.place_next = self.place_next.wrapping_add(1);
        peers.set_addresses(self.addresses.clone(), |_| false);
        tell_nodes(&mut engine, &self.view);
        let tenure = Tenure {
            epoch: epoch.0,
            engine,
            peers,
            terms: TermsTaken::default(),
            ending_since_us: None,
            told: None,
            proven_us: None,
        };
        self.running.insert(epoch.0, tenure);
    }

    pub fn take_view(&mut self, view: &View) {
        let back = nodes_back(&self.view, view);
        self.view = view.clone();
        self.addresses = super::addresses(view);
        self.tenure_count = view.tenures.len();
        self.config.node_count = view.node_count_expected;
        for tenure in self.running.values_mut() {
            tenure.peers.set_addresses(self.addresses.clone(), |node| back.contains(&node));
            tenure.engine.handle_node_count(view.node_count_expected);
            tell_nodes(&mut tenure.engine, view);
        }
    }

    pub fn set_policies(&mut self, changed: &[(PartitionId, Policy)]) {
        for &(partition, policy) in changed {
            self.policies[usize::from(partition.0)] = policy;
            self.running.values_mut().for_each(|tenure| tenure.engine.set_policy(partition, policy));
        }
    }

    /// Makes a change to every engine, and to those to come.
    pub fn change(&mut self, of_config: impl Fn(&mut EngineConfig), of_engine: impl Fn(&mut Engine)) {
        of_config(&mut self.config);
        self.running.values_mut().for_each(|tenure| of_engine(&mut tenure.engine));
    }

    /// Takes out engines that are over, to be looked through for replies a last time: each has an answer to all that it
    /// was asked.
    pub fn take_over(&mut self, now: Now) -> Vec<Tenure> {
        let is_over = |tenure: &Tenure| is_over(&tenure.engine, tenure.ending_since_us, now);
        let over: Vec<u32> =
            self.running.values().filter(|tenure| is_over(tenure)).map(|tenure| tenure.epoch).collect();
        let mut taken = Vec::new();
        for epoch in over {
            let mut tenure = self.running.remove(&epoch).expect("listed above");
            let state = state_at_end(tenure.engine.standing());
            tenure.engine.give_up_all(now);
            self.counted.keep(&tenure.engine);
            let is_named = tenure.ending_since_us.is_none();
            self.ended.insert(epoch, EndedTenure { state, since_us: now.mono_us, is_named });
            taken.push(tenure);
        }
        taken
    }

    /// Did an engine come to stand otherwise since this was asked last?
    pub fn has_changed(&mut self) -> bool {
        let mut has_changed = false;
        for tenure in self.running.values_mut() {
            let standing = Some(tenure.engine.standing());
            has_changed |= std::mem::replace(&mut tenure.told, standing) != standing;
        }
        has_changed
    }

    /// Is everything answered that this core has, as far as it is not yet to come? While nodes do not confirm an owner
    /// its replies wait; when they have waited for long, and not before, they become errors.
    pub fn do_all_serve(&mut self, now: Now) -> bool {
        let mut do_all = !self.ended.values().any(|ended| ended.is_named);
        for tenure in self.running.values_mut() {
            do_all &= tenure.is_to_come() || tenure.serves(now);
        }
        do_all
    }

    /// What all engines did that ever were here, and what the present ones hold; `None`: there never was any.
    pub fn stats(&self) -> Option<StoreStats> {
        self.counted.stats(self.iter().map(|tenure| &tenure.engine))
    }

    pub fn nodes_seen(&self) -> Vec<NodeSeen> {
        self.counted.nodes(self.iter().map(|tenure| &tenure.engine))
    }

    /// What the coordinator is to know. How those ended that it does not name it knows, or does not want to: it told
    /// this gateway so, and others follow.
    pub fn shares(&self, now: Now) -> Vec<Share> {
        let running = self.running.values().map(|tenure| tenure.share(now));
        let ended = self.ended.iter().filter(|(_, ended)| ended.is_named);
        let ended = ended.map(|(&epoch, ended)| Share { epoch, state: ended.state, proven_by: 0 });
        running.chain(ended).collect()
    }
}

impl Tenure {
    fn share(&self, now: Now) -> Share {
        let (engine, terms) = (&self.engine, &self.terms);
        Share { epoch: self.epoch, state: state_of(engine.standing()), proven_by: terms.proven_by(engine, now) }
    }

    fn is_to_come(&self) -> bool {
        matches!(self.engine.standing(), Standing::Preparing | Standing::Prepared)
    }

    fn serves(&mut self, now: Now) -> bool {
        if self.engine.is_proven(now) {
            self.proven_us = Some(now.mono_us);
        }
        let is_proven = self.proven_us.is_some_and(|proven_us| now.mono_us < proven_us + HELD_US_MAX);
        is_proven && self.engine.standing() == Standing::Serving
    }

    pub fn close(&mut self, registry: &Registry) {
        self.peers.close_all(registry);
    }
}

//! What keeps the cluster from serving or from storing, in words, and what does not fit in it.
//!
//! Must not know: who reads it.

use std::collections::BTreeSet;

use shorttail_wire::control::{NodeState, Standing, TenureState};

use crate::coordinator::Coordinator;
use crate::limits::UNPROVEN_MS_MAX;
use crate::members::{GatewayMember, NodeMember};

/// A node that has room for chunks in less than one part in so many of its memory is full: that much is kept for
/// cleaning.
const FULL_PART: u64 = 20;
/// So much in pieces that no chunk fits in is worth telling, in percent of the memory: some lies about in any store,
/// and up to 3 are kept for what is not in chunks yet.
const PIECES_PERCENT: u64 = 10;
/// The kind of the problem that the operator ends.
const LOSSES: &str = "losses";

/// How many chunks some stripe may lack at most.
pub(crate) struct Lacking {
    /// Lost with memory that was given up, and not rebuilt yet.
    pub lost: usize,
    /// Nodes that are away with chunks that count.
    pub away: Vec<u16>,
}

impl Lacking {
    pub fn count(&self) -> usize {
        self.lost + self.away.len()
    }
}

/// Something that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// In one word: the same as long as it lasts, whatever the numbers in its text.
    pub kind: &'static str,
    /// For people.
    pub text: String,
    /// If it grows, that is worth telling: how far it is.
    pub extent: u16,
}

impl Coordinator {
    /// What is wrong now, in the order in which it is to be read.
    pub fn problems(&self) -> Vec<Problem> {
        let unserved = self.unserved_problem();
        let unreadable = self.unreadable_problem();
        let is_readable = unserved.is_none() && unreadable.is_none();
        let few_nodes = self.few_nodes_problem(is_readable).or_else(|| self.few_reached_problem());
        let unstored = few_nodes.map(|text| ("few-nodes", text));
        let unstored = unstored.or_else(|| self.full_problem().map(|text| ("full", text)));
        let told = [
            unserved.map(|text| ("unserved", text)),
            unreadable.map(|text| (if self.has_unreadable_stripes() { "unreadable" } else { "away" }, text)),
            self.waiting_problem().map(|text| ("not-given-up", text)),
            self.lossy_problem().map(|text| (LOSSES, text)),
            unstored,
            self.pages_problem().map(|text| ("pages", text)),
            self.cut_off_problem().map(|text| ("cut-off", text)),
            self.short_problem().map(|text| ("short-of-nodes", text)),
            self.epochs_problem().map(|text| ("epochs", text)),
        ];
        let extent = |kind: &str| if kind == LOSSES { self.lossy_count() } else { 0 };
        let all = told.into_iter().flatten().chain(self.layout_problems());
        all.map(|(kind, text)| Problem { kind, extent: extent(kind), text }).collect()
    }

    /// What stripes lack, as members told last.
    pub(crate) fn lacking(&self) -> Lacking {
        let told = |gateway: &GatewayMember| gateway.status.totals.lost_of_stripe_max as usize + gateway.untold_losses;
        Lacking { lost: self.living().map(told).max().unwrap_or(0), away: self.away() }
    }

    /// Did stripes lose more than can be made up for, as owners know?
    pub(crate) fn has_unreadable_stripes(&self) -> bool {
        self.lacking().lost > self.settings.code.tolerance()
    }

    /// What they may lack at worst, node `beside` being left out of account.
    pub(crate) fn lacking_at_worst(&self, beside: u16) -> usize {
        let is_away = |&&id: &&u16| id != beside && !self.is_loss_untold(&self.nodes[&id]);
        self.lost_at_worst(beside) + self.away().iter().filter(is_away).count()
    }

    /// Gateways whose word counts.
    pub(crate) fn living(&self) -> impl Iterator<Item = &GatewayMember> {
        self.gateways.values().filter(|gateway| gateway.presence.is_alive())
    }

    /// Nodes that are away with chunks that count.
    fn away(&self) -> Vec<u16> {
        let dead = self.nodes.iter().filter(|(_, node)| node.presence.state == NodeState::Dead);
        let mut away: Vec<u16> = dead.map(|(&id, _)| id).collect();
        if !away.is_empty() {
            let told = self.told_of_nodes();
            away.retain(|&id| !self.is_empty_as(&told, id));
        }
        away
    }

    fn unserved_problem(&self) -> Option<String> {
        let all = usize::from(self.settings.partition_count);
        let unserved_count = all - self.partitions_where(|standing| standing.state == TenureState::Serving);
        if unserved_count == 0 {
            return self.unproven_problem();
        }
        if self.rests() {
            // Who has the other partitions by now was told to nobody, and whoever had them may serve on.
            return Some(format!(
                "{unserved_count} of {all} partitions have no owner that is heard: nothing can be saved, so nobody is let in or \
                 told to follow; an owner that is only out of sight serves on"
            ));
        }
        if self.alive_gateways().next().is_none() {
            return Some(
                "no gateway is alive: nobody serves, and what is stored is not known; start a gateway".to_owned(),
            );
        }
        Some(format!(
            "{unserved_count} of {all} partitions are not served yet: requests for them wait until a gateway took them over"
        ))
    }

    fn unproven_problem(&self) -> Option<String> {
        let all = usize::from(self.settings.partition_count);
        let count = all - self.partitions_where(|standing| standing.proven_by != 0);
        let needed = self.settings.code.tolerance() + 1;
        let is_unproven = |epoch: &u32| self.standing_of(*epoch).is_some_and(|standing| standing.proven_by == 0);
        let owners = self.durable.tenures.iter().filter(|(epoch, _)| is_unproven(epoch));
        let owners: BTreeSet<u16> = owners.map(|(_, tenure)| tenure.gateway).collect();
        let alive = self.nodes_alive().count();
        let advice = if alive < needed { "start the nodes that are away" } else { "see to the network between them" };
        (count > 0).then(|| {
            format!(
                "too few nodes confirm {} as the owner of {count} of {all} partitions, and {needed} must: requests for them \
                 are refused; {advice}",
                gateways_named(owners.into_iter())
            )
        })
    }

    fn cut_off_problem(&self) -> Option<String> {
        let (needed, nodes) = self.reach_needed();
        // A node that is late counts as reached, for a while.
        let reached = |id: u16| match self.reached_count(id) {
            reached if reached < needed => format!("gateway {id} reaches {reached} of {nodes} nodes"),
            _ => format!("gateway {id} was not confirmed by nodes in time"),
        };
        let loads = self.loads_of(|id| self.is_cut_off(id));
        let has_heirs = self.alive_gateways().any(|id| self.may_own(id));
        let told = |(&id, &load): (&u16, &usize)| match load {
            0 => reached(id),
            _ if has_heirs => format!("{}, and hands over {load} partitions", reached(id)),
            _ => format!("{}, and keeps {load} partitions as no other gateway could own them", reached(id)),
        };
        let told: Vec<String> = loads.iter().map(told).collect();
        (!told.is_empty()).then(|| {
            format!(
                "{}: no more is given to it until it reaches {needed} of {nodes} for {} s; see to the network between it and the \
                 nodes",
                told.join(", "),
                UNPROVEN_MS_MAX / 1000
            )
        })
    }

    /// Of gateways that own something all the same, as no other one reaches enough nodes.
    fn short_problem(&self) -> Option<String> {
        let (needed, nodes) = self.reach_needed();
        let is_short = |&id: &u16| self.is_short(id, self.now_us) && !self.is_cut_off(id);
        let told = |id: u16| format!("gateway {id} reaches {} of {nodes} nodes", self.reached_count(id));
        let told: Vec<String> = self.alive_gateways().filter(is_short).map(told).collect();
        (!told.is_empty()).then(|| {
            format!(
                "{}, and {needed} are needed to read and to store everything; see to the network between them",
                told.join(", ")
            )
        })
    }

    /// How many partitions have an owner that lives and reports this.
    fn partitions_where(&self, holds: impl Fn(&Standing) -> bool) -> usize {
        let tenures = self.durable.tenures.iter().filter(|(_, tenure)| self.is_owner_alive(tenure));
        let tenures = tenures.filter(|(epoch, _)| self.standing_of(**epoch).is_some_and(|standing| holds(&standing)));
        tenures.map(|(_, tenure)| tenure.partitions.len()).sum()
    }

    /// Partitions that answer requests.
    pub(crate) fn partitions_served(&self) -> u16 {
        self.partitions_where(Standing::is_served) as u16
    }

    fn unreadable_problem(&self) -> Option<String> {
        let lacking = self.lacking();
        let code = self.settings.code;
        let tolerance = code.tolerance();
        let Lacking { lost, away } = &lacking;
        if *lost > tolerance {
            return Some(format!(
                "some stripes lost {lost} chunks and {code} survives the loss of {tolerance}: objects in them cannot be read \
                 any more; write their keys again, or flush"
            ));
        }
        if lacking.count() <= tolerance {
            return None;
        }
        let beside = match lost {
            0 => String::new(),
            _ => format!(", beside {lost} of a stripe's chunks that are lost"),
        };
        Some(format!(
            "{} away{beside}, and {code} survives the loss of {tolerance}: objects that lack more chunks cannot be read until \
             they are all back; start again what has its memory in a file, let run what was stopped; what a node had that \
             died without such a file is lost: start it empty with its number (`--id`)",
            nodes_are(away)
        ))
    }

    fn few_nodes_problem(&self, is_readable: bool) -> Option<String> {
        let alive = self.nodes_alive().count();
        let needed = self.settings.code.chunk_count();
        let served = if is_readable { "what is stored is served, and " } else { "" };
        (alive < needed).then(|| {
            format!(
                "only {alive} nodes are alive and a stripe needs {needed}: {served}nothing new is stored; start nodes"
            )
        })
    }

    /// Owners may miss nodes that are heard here, or are not late enough yet to be dead: then they store nothing.
    fn few_reached_problem(&self) -> Option<String> {
        let (needed, nodes) = (self.settings.code.chunk_count(), self.nodes_to_store_on());
        let is_told = |id: u16| self.is_cut_off(id) || self.is_short(id, self.now_us);
        let serving = self.alive_gateways().filter(|&id| !is_told(id) && self.is_settled_owner(id));
        let reached = serving.map(|id| (id, self.reached_of(id, &nodes)));
        let short: Vec<_> = reached.filter(|(_, reached)| reached.len() < needed).collect();
        if short.is_empty() || nodes.len() < needed {
            return None;
        }
        let missed = nodes.iter().filter(|node| short.iter().any(|(_, reached)| !reached.contains(node)));
        let missed: Vec<String> = missed.map(u16::to_string).collect();
        let told =
            |(id, reached): &(u16, BTreeSet<u16>)| format!("gateway {id} reaches {} of {}", reached.len(), nodes.len());
        Some(format!(
            "{} nodes and a stripe needs {needed}: nothing new is stored in what it owns; let run what was stopped of nodes \
             {}, start what died, or see to the network",
            short.iter().map(told).collect::<Vec<_>>().join(", "),
            missed.join(", ")
        ))
    }

    /// Whether memory suffices only those know who store: it may lie in pieces, or be kept for others.
    fn full_problem(&self) -> Option<String> {
        if !self.living().any(|gateway| gateway.recent.refuses(self.now_us)) {
            return None;
        }
        let alive: Vec<&NodeMember> = self.nodes_alive().map(|(_, node)| node).collect();
        let sum = |bytes: fn(&NodeMember) -> u64| alive.iter().map(|node| bytes(node)).sum::<u64>();
        let limit = sum(|node| node.memory_limit_bytes).max(1);
        let used = sum(|node| node.status.memory_used_bytes);
        let in_pieces = limit.saturating_sub(used + sum(|node| node.status.memory_room_bytes));
        let percent = |bytes: u64| bytes.saturating_mul(100) / limit;
        let pieces = match percent(in_pieces) {
            percent @ PIECES_PERCENT.. => format!(", {percent} % is free in pieces that no chunk fits in"),
            _ => String::new(),
        };
        let has_room = |node: &&&NodeMember| node.status.memory_room_bytes > node.memory_limit_bytes / FULL_PART;
        let needed = self.settings.code.chunk_count();
        let rest = match alive.iter().filter(has_room).count() {
            0 => "no node has room for more chunks".to_owned(),
            roomy if roomy < needed => {
                format!("only {roomy} of {} nodes have room for more chunks and a stripe needs {needed}", alive.len())
            }
            _ => "the rest is kept for deletes and cleaning".to_owned(),
        };
        Some(format!(
            "stores are refused for want of memory: {} % is in use{pieces}, {rest}; delete objects, or add nodes or memory",
            percent(used)
        ))
    }

    /// What a node may have and what its machine has are two things.
    fn pages_problem(&self) -> Option<String> {
        let short: Vec<u16> =
            self.nodes_alive().filter(|(_, node)| node.status.lacks_pages).map(|(&id, _)| id).collect();
        let (them, their) = if short.len() == 1 { ("it", "its") } else { ("them", "their") };
        (!short.is_empty()).then(|| {
            format!(
                "{} short of {their} --memory, as the file system of --memory-file or the machine's memory is full: only what \
                 is there already is used of {them}; make room there",
                nodes_are(&short)
            )
        })
    }
}

/// For people.
fn nodes_are(ids: &[u16]) -> String {
    let named: Vec<String> = ids.iter().map(u16::to_string).collect();
    if ids.len() == 1 { format!("node {} is", named[0]) } else { format!("nodes {} are", named.join(", ")) }
}

/// For people.
fn gateways_named(ids: impl Iterator<Item = u16>) -> String {
    let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
    if ids.len() == 1 { format!("gateway {}", ids[0]) } else { format!("gateways {}", ids.join(", ")) }
}

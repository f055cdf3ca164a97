//! Faults: which, when, and how they end.

use shorttail_chaos::{self as chaos, Corrupt, FaultKind, Loss};
use shorttail_gateway::engine::{Engine, Standing};

use super::{Event, World, endpoint_of, endpoint_of_gateway};
use crate::config::FaultWeights;

/// How long a crashed node stays away, a stalled one stands still, and so on, in microseconds.
const AWAY_US: std::ops::Range<u64> = 20_000..400_000;
const STALL_US: std::ops::Range<u64> = 5_000..400_000;
const SLOW_US: std::ops::Range<u64> = 20_000..400_000;
const CUT_US: std::ops::Range<u64> = 10_000..600_000;
const MISREAD_US: std::ops::Range<u64> = 20_000..2_000_000;
const LOSE_US: std::ops::Range<u64> = 20_000..1_000_000;
const GATEWAY_AWAY_US: std::ops::Range<u64> = 5_000..200_000;
/// Bits that turn over at once.
const ROT_BITS_MAX: u64 = 20;
const GATEWAY_STALL_US: std::ops::Range<u64> = 1_000..150_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Crash,
    Stall,
    BreakSession,
    Slow,
    Cut,
    GatewayCrash,
    GatewayStall,
    HandOver,
    CutCoordinator,
    Restart,
    Membership,
    Rot,
    Misread,
    Lose,
    Coordinator,
    PartNodes,
    StallCore,
}

/// Which fault is how likely, in the order in which they are drawn.
fn table(weights: &FaultWeights) -> [(u32, Fault); 17] {
    [
        (weights.crash, Fault::Crash),
        (weights.stall, Fault::Stall),
        (weights.break_session, Fault::BreakSession),
        (weights.slow, Fault::Slow),
        (weights.cut, Fault::Cut),
        (weights.gateway_crash, Fault::GatewayCrash),
        (weights.gateway_stall, Fault::GatewayStall),
        (weights.hand_over, Fault::HandOver),
        (weights.cut_coordinator, Fault::CutCoordinator),
        (weights.restart, Fault::Restart),
        (weights.membership, Fault::Membership),
        (weights.rot, Fault::Rot),
        (weights.misread, Fault::Misread),
        (weights.lose, Fault::Lose),
        (weights.coordinator, Fault::Coordinator),
        (weights.part_nodes, Fault::PartNodes),
        (weights.stall_core, Fault::StallCore),
    ]
}

fn drawn(weights: &FaultWeights, mut at: u64) -> Option<Fault> {
    for (weight, fault) in table(weights) {
        if at < u64::from(weight) {
            return Some(fault);
        }
        at -= u64::from(weight);
    }
    None
}

fn sum(weights: &FaultWeights) -> u64 {
    table(weights).iter().map(|&(weight, _)| u64::from(weight)).sum()
}

impl World {
    pub(super) fn start_faults(&mut self) {
        if sum(&self.config.faults) > 0 {
            self.schedule_fault();
        }
    }

    fn schedule_fault(&mut self) {
        let mean_us = self.config.fault_us_mean;
        let delay_us = self.rng.exponential_us(mean_us, 10 * mean_us);
        self.schedule.after(delay_us, Event::Fault);
    }

    pub(super) fn fault(&mut self) {
        if !self.is_active {
            return;
        }
        self.schedule_fault();
        self.switch_policy();
        let at = self.rng.below(sum(&self.config.faults));
        let Some(fault) = drawn(&self.config.faults, at) else { return };
        let node = self.draw_node();
        let gateway = if self.gateways.len() == 1 { 0 } else { self.rng.index(self.gateways.len()) };
        match fault {
            Fault::GatewayCrash => {
                let away_us = self.draw_length(GATEWAY_AWAY_US);
                self.crash_gateway_number(gateway, away_us);
            }
            Fault::GatewayStall => {
                // With others beside it a stall is to outlast the lease.
                let longest_us = if self.gateways.len() == 1 { GATEWAY_STALL_US.end } else { 4 * GATEWAY_STALL_US.end };
                let stall_us = self.draw_length(GATEWAY_STALL_US.start..longest_us);
                self.stall_gateway(gateway, stall_us);
            }
            Fault::HandOver => self.hand_over_any(),
            Fault::Coordinator => self.disturb_coordinator(node),
            Fault::Membership if self.config.coordinated => self.order_membership(),
            Fault::Membership => self.change_membership(),
            Fault::CutCoordinator => {
                let cut_us = self.draw_length(CUT_US);
                self.cut_coordinator(gateway, cut_us);
            }
            Fault::BreakSession => self.break_session_of(node),
            Fault::Crash => {
                self.change_victims();
                let Some(node) = self.draw_victim() else { return };
                let away_us = self.draw_length(AWAY_US);
                let away_us = self.length_of_absence(away_us);
                self.crash_node(node, away_us);
            }
            Fault::Restart => self.restart_some(node),
            Fault::Rot => {
                let Some(node) = self.draw_victim() else { return };
                let (count, seed) = (1 + self.rng.below(ROT_BITS_MAX) as u32, self.rng.next_u64());
                self.rot(node, count, seed);
            }
            Fault::Misread => {
                let Some(node) = self.draw_victim() else { return };
                self.misread(node);
            }
            Fault::Stall | Fault::StallCore | Fault::Slow | Fault::Cut
                if self.disturbed_count() >= self.config.disturbed_max => {}
            Fault::Stall => {
                let stall_us = self.draw_length(STALL_US);
                self.stall_node(node, stall_us);
            }
            Fault::StallCore => self.stall_some_core(node),
            Fault::PartNodes => self.part_nodes(node),
            Fault::Slow => self.slow_node(node),
            Fault::Lose => self.lose_answers(node),
            Fault::Cut => self.cut_node(gateway, node),
        }
    }

    /// Whom a fault befalls.
    fn draw_node(&mut self) -> usize {
        let node = self.rng.index(self.nodes.len());
        match self.config.spares_others {
            true => self.victims.iter().copied().nth(node % self.victims.len().max(1)).unwrap_or(node),
            false => node,
        }
    }

    /// Whose memory a fault concerns.
    fn draw_victim(&mut self) -> Option<usize> {
        let victims = self.victims();
        self.rng.choose(&victims).copied()
    }

    /// How long a fault lasts, in microseconds.
    pub(super) fn draw_length(&mut self, usual_us: std::ops::Range<u64>) -> u64 {
        self.rng.range(usual_us) * self.config.fault_length
    }

    /// Once everything is whole again it may be others that lose their memory, again as many as may fail.
    fn change_victims(&mut self) {
        // Whose memory is read wrong counts as lost until then.
        let may_change = self.config.victims_change && self.config.faults.misread == 0;
        if may_change && self.is_whole() && self.knows_losses() {
            self.draw_victims((0..self.nodes.len()).collect());
            self.counts.victim_changes += 1;
        }
    }

    pub(super) fn draw_victims(&mut self, mut numbers: Vec<usize>) {
        self.rng.shuffle(&mut numbers);
        self.victims = numbers.into_iter().take(self.config.code.tolerance()).collect();
    }

    fn disturbed_count(&self) -> usize {
        let stands_still =
            |node: usize| self.network.is_stalled(endpoint_of(node)) || self.nodes[node].stalled_core.is_some();
        let is_disturbed = |node: &usize| !self.nodes[*node].is_up() || stands_still(*node);
        self.members().iter().filter(|node| is_disturbed(node)).count()
    }

    /// Does every stripe have all its chunks, in the eyes of its owner?
    pub fn is_whole(&self) -> bool {
        // One that prepared for a hand-over that never came owns nothing.
        let owns = |engine: &&Engine| !matches!(engine.standing(), Standing::Preparing | Standing::Prepared);
        let engines = || self.gateways.iter().flat_map(super::GatewayHost::engines).filter(owns);
        let partitions = engines().map(|engine| engine.config().partitions.len()).sum::<usize>();
        let is_all = partitions == usize::from(self.config.partition_count) && self.is_settled();
        is_all && engines().all(Engine::is_whole)
    }

    /// A node loses its memory and comes back empty.
    pub fn crash_node(&mut self, node: usize, away_us: u64) {
        if self.nodes[node].is_up() {
            self.counts.crashes += 1;
            self.stop_node(node);
            self.schedule.after(away_us, Event::Restart { node });
        }
    }

    /// Whatever was cut between the gateway and nodes is mended now.
    pub fn mend_all(&mut self) {
        self.network.heal(&mut self.schedule);
    }

    /// A node's process, or those of all nodes at once and perhaps of all gateways.
    fn restart_some(&mut self, node_drawn: usize) {
        let is_all = self.rng.chance_ppm(200_000);
        for node in 0..self.nodes.len() {
            if is_all || node == node_drawn {
                let away_us = self.draw_length(AWAY_US);
                self.restart_process(node, away_us);
            }
        }
        if is_all && self.rng.chance_ppm(500_000) {
            for gateway in 0..self.gateways.len() {
                let away_us = self.draw_length(GATEWAY_AWAY_US);
                self.crash_gateway_number(gateway, away_us);
            }
        }
    }

    /// A node's process dies and another one goes on with its memory; without `keeps_memory` it comes back empty.
    pub fn restart_process(&mut self, node: usize, away_us: u64) {
        if self.nodes[node].is_up() {
            self.counts.restarts += 1;
            self.note(format_args!("node {node} restarts"));
            self.end_process(node);
            self.hurt_kept_memory(node);
            self.schedule.after(away_us, Event::Restart { node });
        }
    }

    /// So many bits of the sealed chunks of a node turn over; how many did.
    pub fn flip_bits(&mut self, node: usize, count: u32) -> u32 {
        self.flip_bits_by(node, count, 1)
    }

    /// So many bits turn over anywhere in a node's chunks; how many did. One seed chooses the same bits.
    pub fn rot(&mut self, node: usize, count: u32, seed: u64) -> u32 {
        let host = &mut self.nodes[node];
        host.is_rotten = true;
        let flipped = host.cores.iter_mut().map(|core| core.rot(count, seed)).sum();
        self.counts.rotten_bits += u64::from(flipped);
        self.note(format_args!("{flipped} bits of node {node} turn over"));
        flipped
    }

    /// Sealed chunks that nodes know to be damaged.
    pub fn damaged_chunks(&self) -> u64 {
        self.nodes.iter().map(super::nodes::NodeHost::damaged_chunks).sum()
    }

    /// Messages that nodes noticed to be hurt.
    pub fn messages_damaged(&self) -> u64 {
        let cores = self.nodes.iter().flat_map(|node| &node.cores);
        cores.map(|core| core.stats().messages_damaged).sum()
    }

    /// As [`World::flip_bits`]; one seed chooses the same bits.
    pub fn flip_bits_by(&mut self, node: usize, count: u32, seed: u64) -> u32 {
        self.is_spoilt = true;
        self.nodes[node].cores.iter_mut().map(|core| core.flip_bits(count, seed)).sum()
    }

    /// A bit in the header of each sealed chunk of a node turns over, the bit `first` of the first one, the next of
    /// each other one; of how many.
    pub fn flip_header_bits(&mut self, node: usize, first: usize) -> usize {
        self.is_spoilt = true;
        let cores = &mut self.nodes[node].cores;
        cores.iter_mut().fold(0, |flipped, core| flipped + core.flip_header_bits(first + flipped))
    }

    /// A bit of each parity chunk that a node holds of stripes that take appends turns over; how many did.
    pub fn flip_open_parities(&mut self, node: usize) -> u32 {
        self.is_spoilt = true;
        self.nodes[node].cores.iter_mut().map(shorttail_node::Node::flip_open_parities).sum()
    }

    /// So many sealed chunks of each core of a node can no longer be identified; how many.
    pub fn tear_descriptions(&mut self, node: usize, count: usize) -> u32 {
        self.is_spoilt = true;
        self.nodes[node].cores.iter_mut().map(|core| core.tear_descriptions(count)).sum()
    }

    /// A node takes nothing of the stripes that there are now, whatever owners think of it.
    pub fn refuse_all_there_is(&mut self, node: usize) {
        let stripes: Vec<_> = self.scan_all().into_keys().collect();
        self.nodes[node].cores.iter_mut().for_each(|core| core.refuse(&stripes));
    }

    /// A node's process dies in the middle of folding, and is back at once with its memory; how many
    /// folds were cut short.
    pub fn crash_folding(&mut self, node: usize) -> u32 {
        let interrupted = self.nodes[node].cores.iter_mut().map(shorttail_node::Node::interrupt_folds).sum();
        self.note(format_args!("node {node} dies in {interrupted} folds and keeps its memory"));
        self.break_all_of(node);
        interrupted
    }

    /// A node's process stands still, as by SIGSTOP; its memory and sessions stay.
    pub fn stall_node(&mut self, node: usize, stall_us: u64) {
        if self.nodes[node].is_up() {
            self.counts.stalls += 1;
            self.note(format_args!("node {node} stalls for {stall_us} us"));
            self.network.stall(endpoint_of(node));
            self.schedule.after(stall_us, Event::Resume { node });
        }
    }

    /// The thread of one of a node's cores stands still until [`World::core_goes_on`].
    pub fn stall_core(&mut self, node: usize, core: usize) {
        self.counts.stalls += 1;
        self.counts.core_stalls += 1;
        self.note(format_args!("core {core} of node {node} stalls"));
        self.nodes[node].stalled_core = Some(core);
    }

    fn stall_some_core(&mut self, node: usize) {
        if self.nodes[node].is_up() && self.nodes[node].stalled_core.is_none() {
            let core = self.rng.index(self.nodes[node].cores.len());
            let until_us = self.schedule.now_us() + self.draw_length(STALL_US);
            self.stall_core(node, core);
            self.nodes[node].core_stalls_until_us = until_us;
            self.schedule.at(until_us, Event::CoreGoesOn { node });
        }
    }

    /// Its time is over, unless that was in an earlier life of the process.
    pub(super) fn core_stall_ends(&mut self, node: usize) {
        if self.schedule.now_us() >= self.nodes[node].core_stalls_until_us {
            self.core_goes_on(node);
        }
    }

    pub fn core_goes_on(&mut self, node: usize) {
        if self.nodes[node].stalled_core.take().is_some() {
            self.note(format_args!("all cores of node {node} go on"));
            self.demand_node_turn(node);
        }
    }

    pub fn is_stalled(&self, node: usize) -> bool {
        self.network.is_stalled(endpoint_of(node))
    }

    /// Nodes that may lose their memory, or be given up.
    pub fn victims(&self) -> Vec<usize> {
        self.victims.iter().copied().collect()
    }

    fn slow_node(&mut self, node: usize) {
        self.counts.slowdowns += 1;
        let times = self.rng.range(3..200);
        let slow_us = self.draw_length(SLOW_US);
        self.note(format_args!("node {node} is {times} times slower for {slow_us} us"));
        self.network.slow_down(endpoint_of(node), times);
        self.schedule.after(slow_us, Event::FullSpeed { node });
    }

    /// Of what the node reads in its memory a share is wrong, and nothing but its content tells.
    fn misread(&mut self, node: usize) {
        self.counts.misreads += 1;
        let share_ppm = *self.rng.choose(&[20_000, 200_000, 500_000]).expect("shares");
        let misread_us = self.draw_length(MISREAD_US);
        self.apply_fault(
            node,
            chaos::Fault { kind: FaultKind::Corrupt(Corrupt { share_ppm }), for_us: Some(misread_us) },
        );
    }

    /// Of the node's answers a share does not leave, and nothing tells that they were there.
    fn lose_answers(&mut self, node: usize) {
        self.counts.losses += 1;
        let share_ppm = *self.rng.choose(&[20_000, 200_000]).expect("shares");
        let lose_us = self.draw_length(LOSE_US);
        let kind = FaultKind::Drop(Loss { share_ppm, reset: false });
        self.apply_fault(node, chaos::Fault { kind, for_us: Some(lose_us) });
    }

    fn cut_node(&mut self, gateway: usize, node: usize) {
        let gateway = endpoint_of_gateway(gateway);
        let cut_us = self.draw_length(CUT_US);
        let (to_node, to_gateway) = [(true, true), (true, false), (false, true)][self.rng.index(3)];
        if to_node {
            self.cut(gateway, endpoint_of(node), cut_us);
        }
        if to_gateway {
            self.cut(endpoint_of(node), gateway, cut_us);
        }
        // Now and then a gateway loses sight of more nodes.
        if self.gateways.len() > 1 && self.rng.chance_ppm(300_000) {
            for other in (0..self.nodes.len()).filter(|&other| other != node) {
                if self.rng.chance_ppm(500_000) {
                    self.cut(gateway, endpoint_of(other), cut_us);
                }
            }
        }
    }

    /// A node and another one lose sight of each other, or only one of the other; now and then it is several others.
    fn part_nodes(&mut self, node: usize) {
        let others: Vec<usize> = self.members().into_iter().filter(|&other| other != node).collect();
        let Some(&first) = self.rng.choose(&others) else { return };
        let share_ppm = *self.rng.choose(&[0, 0, 500_000]).expect("shares");
        let cut_us = self.draw_length(CUT_US);
        let (there, back) = [(true, true), (true, false), (false, true)][self.rng.index(3)];
        for other in others {
            if other != first && !self.rng.chance_ppm(share_ppm) {
                continue;
            }
            self.counts.partings += 1;
            if there {
                self.cut(endpoint_of(node), endpoint_of(other), cut_us);
            }
            if back {
                self.cut(endpoint_of(other), endpoint_of(node), cut_us);
            }
        }
    }

    pub(super) fn cut(&mut self, from: crate::network::Endpoint, to: crate::network::Endpoint, cut_us: u64) {
        self.counts.cuts += 1;
        self.note(format_args!("endpoint {} is cut off from {} for {cut_us} us", to.0, from.0));
        self.network.cut(from, to);
        self.schedule.after(cut_us, Event::Mend { from, to });
    }

    /// Nothing that a node sends reaches the gateway for so long.
    pub fn cut_replies_of(&mut self, node: usize, cut_us: u64) {
        self.cut(endpoint_of(node), endpoint_of_gateway(0), cut_us);
    }

    /// Nothing that the gateway sends reaches a node for so long.
    pub fn cut_requests_to(&mut self, node: usize, cut_us: u64) {
        self.cut(endpoint_of_gateway(0), endpoint_of(node), cut_us);
    }

    /// Nothing that a gateway sends reaches a node for so long, nor the other way round.
    pub fn cut_gateway_from(&mut self, gateway: usize, node: usize, cut_us: u64) {
        self.cut(endpoint_of_gateway(gateway), endpoint_of(node), cut_us);
        self.cut(endpoint_of(node), endpoint_of_gateway(gateway), cut_us);
    }

    /// Nothing that one of these nodes sends reaches the other one for so long; everybody else reaches both.
    pub fn cut_nodes(&mut self, one: usize, other: usize, cut_us: u64) {
        self.cut(endpoint_of(one), endpoint_of(other), cut_us);
        self.cut(endpoint_of(other), endpoint_of(one), cut_us);
    }

    /// Nothing that a node sends reaches a gateway for so long.
    pub fn cut_replies_to(&mut self, gateway: usize, node: usize, cut_us: u64) {
        self.cut(endpoint_of(node), endpoint_of_gateway(gateway), cut_us);
    }

    /// A bit of the next message from the first gateway to a node turns over.
    pub fn flip_next_request(&mut self, node: usize, bit: usize) {
        self.network.flip_next(endpoint_of_gateway(0), endpoint_of(node), bit);
    }

    /// A bit of the next message from a node to the first gateway turns over.
    pub fn flip_next_reply(&mut self, node: usize, bit: usize) {
        self.network.flip_next(endpoint_of(node), endpoint_of_gateway(0), bit);
    }

    /// The sessions of a node break; its memory stays.
    pub fn break_session_of(&mut self, node: usize) {
        let sessions = self.network.sessions_of(endpoint_of(node));
        if let Some(&session) = self.rng.choose(&sessions) {
            self.counts.breaks += 1;
            self.note(format_args!("session {session} of node {node} breaks"));
            self.network.break_session(&mut self.schedule, session);
            self.note_trouble_of(node);
        }
    }

    /// All sessions of a node break; its memory stays.
    pub fn break_all_of(&mut self, node: usize) {
        for session in self.network.sessions_of(endpoint_of(node)) {
            self.counts.breaks += 1;
            self.note(format_args!("session {session} of node {node} breaks"));
            self.network.break_session(&mut self.schedule, session);
        }
    }

    /// The first gateway dies and is back after so long; somebody takes over, with a higher epoch.
    pub fn crash_gateway(&mut self, away_us: u64) {
        self.crash_gateway_number(0, away_us);
    }

    pub fn crash_gateway_number(&mut self, gateway: usize, away_us: u64) {
        if self.gateways[gateway].is_up {
            self.counts.takeovers += 1;
            self.stop_gateway(gateway);
            self.schedule.after(away_us, Event::GatewayRestart { gateway });
        }
    }

    /// Every owner has given nearly all versions of its epoch.
    pub fn use_up_versions(&mut self) {
        self.note(format_args!("versions are used up"));
        let engines = self.gateways.iter_mut().flat_map(|host| host.engines_mut());
        engines.for_each(shorttail_gateway::engine::Engine::use_up_versions);
    }

    /// A gateway's process stands still, as by SIGSTOP.
    pub fn stall_gateway(&mut self, gateway: usize, stall_us: u64) {
        if self.gateways[gateway].is_up {
            self.counts.stalls += 1;
            self.counts.gateway_stalls += 1;
            self.note(format_args!("gateway {gateway} stalls for {stall_us} us"));
            self.network.stall(endpoint_of_gateway(gateway));
            self.schedule.after(stall_us, Event::GatewayResume { gateway });
        }
    }

    /// Ends every fault now.
    pub(super) fn end_faults(&mut self) {
        self.note(format_args!("all faults end"));
        self.network.heal(&mut self.schedule);
        self.network.stop_flips();
        self.end_faults_of_coordinator();
        for node in 0..self.nodes.len() {
            self.restart_node(node);
            self.resume_node(node);
            self.core_goes_on(node);
            self.network.slow_down(endpoint_of(node), 1);
            self.clear_fault(node);
        }
        for gateway in 0..self.gateways.len() {
            self.restart_gateway(gateway);
            self.resume_gateway(gateway);
            self.mend_coordinator(gateway);
        }
    }
}

//! What befalls the coordinators, their store, and the ways between them and to members.

use shorttail_coordinator::claim::Question;
use shorttail_units::Incarnation;

use super::{ControlEvent, Event, STORE, Who, World, endpoint_of_coordinator};
use crate::world::{Violation, endpoint_of};

/// Lengths of faults, in microseconds, as in [`crate::world::faults`]: ten times longer in these runs.
const AWAY_US: std::ops::Range<u64> = 5_000..400_000;
const STALL_US: std::ops::Range<u64> = 5_000..300_000;
const CUT_US: std::ops::Range<u64> = 10_000..600_000;
/// Of several: longer than members wait for beats, now and then longer than a lease.
const LONG_STALL_US: std::ops::Range<u64> = 100_000..1_000_000;
const STORE_AWAY_US: std::ops::Range<u64> = 10_000..500_000;
/// How soon after records left for the store it dies, if it is to.
const DIES_US: u64 = 5_000;
/// How many of the crashes of nodes last until the node is given up, and how long these take.
const LONG_PPM: u32 = 150_000;
const LONG_US: std::ops::Range<u64> = 13_000_000..25_000_000;

impl World {
    /// One of the faults that there are with real coordinators only; `node`: the one that may lose sight of one.
    pub(in crate::world) fn disturb_coordinator(&mut self, node: usize) {
        let place = self.draw_coordinator();
        match self.rng.below(10) {
            0 | 1 => {
                let away_us = self.draw_length(AWAY_US);
                self.crash_coordinator_number(place, away_us);
            }
            2..=4 => self.crash_coordinator_at_save(),
            5 | 6 => {
                let usual_us = if self.config.coordinator_count > 1 { LONG_STALL_US } else { STALL_US };
                let stall_us = self.draw_length(usual_us);
                self.stall_coordinator_number(place, stall_us);
            }
            7 => {
                let away_us = self.draw_length(STORE_AWAY_US);
                self.lose_store(away_us);
            }
            8 if self.config.coordinator_count > 1 => {
                let cut_us = self.draw_length(LONG_STALL_US);
                self.cut_from_store(place, cut_us);
            }
            _ => {
                let cut_us = self.draw_length(CUT_US);
                self.cut_member(Who::Node(node), cut_us);
            }
        }
    }

    /// Mostly the one that leads.
    fn draw_coordinator(&mut self) -> usize {
        let any = self.rng.index(self.coordinators.processes.len());
        let leader = self.leader().filter(|_| self.rng.chance_ppm(600_000));
        leader.unwrap_or(any)
    }

    /// The coordinator's process that leads dies; another one begins after so long, with what the store has.
    pub fn crash_coordinator(&mut self, away_us: u64) {
        let place = self.leader().unwrap_or(0);
        self.crash_coordinator_number(place, away_us);
    }

    fn crash_coordinator_number(&mut self, place: usize, away_us: u64) {
        if self.coordinators.processes[place].is_up {
            self.coordinators.counts.coordinator_crashes += 1;
            self.stop_coordinator(place);
            self.schedule.after(away_us, Event::Control(ControlEvent::Start { place }));
        }
    }

    /// A coordinator's process dies while records are on their way to the store, the next time.
    pub fn crash_coordinator_at_save(&mut self) {
        self.coordinators.dies_at_save = true;
    }

    pub(super) fn may_die_at_save(&mut self, place: usize) {
        if std::mem::take(&mut self.coordinators.dies_at_save) {
            let (life, delay_us) = (self.coordinators.processes[place].life, self.rng.below(DIES_US));
            self.schedule.after(delay_us, Event::Control(ControlEvent::Die { place, life }));
        }
    }

    pub(super) fn die_at_save(&mut self, place: usize) {
        let away_us = self.draw_length(AWAY_US);
        self.crash_coordinator_number(place, away_us);
    }

    /// A coordinator's process stands still when its records are to leave for the store, the next time; they leave
    /// after it.
    pub fn stall_coordinator_at_save(&mut self, stall_us: u64) {
        self.coordinators.stalls_at_save_us = Some(stall_us);
    }

    /// For how long.
    pub(super) fn may_stall_before(&mut self, place: usize, question: &Question) -> u64 {
        let is_save = matches!(question, Question::Save { .. });
        let Some(stall_us) = self.coordinators.stalls_at_save_us.take_if(|_| is_save) else { return 0 };
        self.stall_coordinator_number(place, stall_us);
        stall_us
    }

    /// The coordinator's process that leads stands still.
    pub fn stall_coordinator(&mut self, stall_us: u64) {
        let place = self.leader().unwrap_or(0);
        self.stall_coordinator_number(place, stall_us);
    }

    fn stall_coordinator_number(&mut self, place: usize, stall_us: u64) {
        if self.coordinators.processes[place].is_up {
            self.counts.stalls += 1;
            self.counts.coordinator_stalls += 1;
            self.note(format_args!("coordinator {place} stalls for {stall_us} us"));
            self.network.stall(endpoint_of_coordinator(place));
            self.schedule.after(stall_us, Event::Control(ControlEvent::Resume { place }));
        }
    }

    pub(super) fn resume_coordinator(&mut self, place: usize) {
        if self.network.is_stalled(endpoint_of_coordinator(place)) {
            self.note(format_args!("coordinator {place} goes on"));
            self.network.resume(endpoint_of_coordinator(place));
        }
    }

    /// The metadata store does not answer for so long.
    pub fn lose_store(&mut self, away_us: u64) {
        self.note(format_args!("the metadata store is away for {away_us} us"));
        self.coordinators.counts.store_absences += 1;
        let until_us = self.schedule.now_us() + away_us;
        self.coordinators.store.away_until_us = self.coordinators.store.away_until_us.max(until_us);
    }

    /// The metadata store takes nothing of a coordinator any more, but prolongs its lease; or of none it takes nothing.
    pub fn refuse_saves_of(&mut self, place: Option<usize>) {
        self.note(format_args!("the metadata store takes nothing of coordinator {place:?}"));
        self.coordinators.store.refused = place;
    }

    /// A coordinator's questions do not reach the store for so long, or the answers do not reach it, or neither.
    pub fn cut_from_store(&mut self, place: usize, cut_us: u64) {
        let (to_store, to_coordinator) = [(true, true), (true, false), (false, true)][self.rng.index(3)];
        if to_store {
            self.cut(endpoint_of_coordinator(place), STORE, cut_us);
        }
        if to_coordinator {
            self.cut(STORE, endpoint_of_coordinator(place), cut_us);
        }
    }

    /// The store hears a coordinator, and its answers do not arrive for so long.
    pub fn cut_answers_of_store(&mut self, place: usize, cut_us: u64) {
        self.cut(STORE, endpoint_of_coordinator(place), cut_us);
    }

    /// A member and one of the coordinators, or all of them, lose sight of each other for so long, or one of them does.
    pub(in crate::world) fn cut_member(&mut self, who: Who, cut_us: u64) {
        let (to_member, to_coordinator) = [(true, true), (true, false), (false, true)][self.rng.index(3)];
        let (count, one) = (self.coordinators.processes.len(), self.draw_coordinator());
        let is_all = count > 1 && self.rng.chance_ppm(300_000);
        for coordinator in (0..count).filter(|&place| is_all || place == one).map(endpoint_of_coordinator) {
            if to_member {
                self.cut(coordinator, who.endpoint(), cut_us);
            }
            if to_coordinator {
                self.cut(who.endpoint(), coordinator, cut_us);
            }
        }
    }

    /// These gateways and nodes reach each other only, until all is mended.
    pub fn divide(&mut self, gateways: &[usize], nodes: &[usize]) {
        let members = |is_here: bool| {
            let gateways = (0..self.gateways.len()).filter(move |gateway| gateways.contains(gateway) == is_here);
            let nodes = (0..self.nodes.len()).filter(move |node| nodes.contains(node) == is_here);
            gateways.map(Who::Gateway).chain(nodes.map(Who::Node)).map(Who::endpoint)
        };
        let here: Vec<_> = members(true).collect();
        let there: Vec<_> =
            members(false).chain((0..self.coordinators.processes.len()).map(endpoint_of_coordinator)).collect();
        self.note(format_args!("gateways {gateways:?} and nodes {nodes:?} are cut off from everybody else"));
        self.network.partition(&here, &there);
    }

    /// How long a node stays away that lost its memory: now and then until it is given up.
    pub(in crate::world) fn length_of_absence(&mut self, usual_us: u64) -> u64 {
        let is_long = self.config.coordinated && self.rng.chance_ppm(LONG_PPM);
        if is_long { self.rng.range(LONG_US) } else { usual_us }
    }

    /// A bit of the next message from a node to the first coordinator turns over.
    pub fn flip_next_to_coordinator(&mut self, node: usize, bit: usize) {
        self.network.flip_next(endpoint_of(node), endpoint_of_coordinator(0), bit);
    }

    /// A bit of the next message from the first coordinator to a node turns over.
    pub fn flip_next_of_coordinator(&mut self, node: usize, bit: usize) {
        self.network.flip_next(endpoint_of_coordinator(0), endpoint_of(node), bit);
    }

    /// A node that came back hears that its memory counts as lost; it wipes it.
    pub(super) fn node_is_given_up(&mut self, node: usize, through: Incarnation) {
        if !self.victims.contains(&node) {
            let text = format!("node {node} lost nothing, and incarnations through {} are given up", through.0);
            self.fail(Violation::Audit(text));
        }
        self.stop_node(node);
    }

    pub(in crate::world) fn end_faults_of_coordinator(&mut self) {
        if !self.config.coordinated {
            return;
        }
        self.coordinators.dies_at_save = false;
        self.coordinators.stalls_at_save_us = None;
        self.coordinators.store.away_until_us = 0;
        self.coordinators.store.refused = None;
        self.start_coordinators();
        (0..self.coordinators.processes.len()).for_each(|place| self.resume_coordinator(place));
    }
}

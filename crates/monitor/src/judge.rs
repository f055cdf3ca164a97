//! What the monitor does when slices are over: it observes, compares, and changes standings.

use shorttail_units::NodeId;

use crate::adaptive;
use crate::class::Class;
use crate::config::Detector;
use crate::fixed;
use crate::lane::Period;
use crate::monitor::Monitor;
use crate::opinions::{Opinion, Opinions, REPORT_US};
use crate::peers::Sums;
use crate::standing::Standing;
use crate::track::{Evidence, Track};
use crate::verdict::{Judgement, Reason, Verdict};

/// The 95th of a hundred is looked up this often.
const REFRESH_US: u64 = 100_000;
/// Histograms of the last seconds are halved this often.
const FADE_US: u64 = 2_000_000;
/// A latency counts in a slice at most so many floors, beside what holds for everyone: one alone of more is not slow.
const CLIP_FLOORS: u64 = 4;
const CLIP_COMMON: u64 = 4;

impl Monitor {
    /// Judges slices that are over. To be called at [`Self::poll_deadline`] or later, after the answers that are there
    /// were handed in; calling it often costs little.
    pub fn tick(&mut self, now_us: u64) {
        let now_us = self.clock.at(now_us);
        for class in Class::ALL {
            if let Some(period) = self.lanes[class.index()].period(now_us) {
                self.judge(class, &period);
            }
        }
        if now_us >= self.window_end_us {
            self.judge_windows(now_us);
        }
        if now_us >= self.refresh_us {
            self.refresh(now_us);
        }
        self.clock.ask(self.deadline_us());
    }

    fn judge(&mut self, class: Class, period: &Period) {
        self.slices_judged += 1;
        let at = class.index();
        let active = self.nodes.iter().filter(|node| node.tracks[at].is_active(period.now_us)).count();
        let samples = match self.config.detector {
            Detector::Adaptive => self.config.adaptive.slice_samples,
            _ => self.config.slice_samples,
        };
        self.lanes[at].follow(period.now_us, active, samples, self.config.slice_us);
        match self.config.detector {
            Detector::Adaptive => self.judge_adaptive(class, period),
            Detector::Fixed { by_age } => self.judge_fixed(class, by_age, period),
            Detector::Off => self.observe(class, period),
        }
        self.end_reports(class, period.now_us);
    }

    fn observe(&mut self, class: Class, period: &Period) {
        let clip_us = self.lanes[class.index()].clip_us;
        self.seen.clear();
        for node in &mut self.nodes {
            self.seen.push(node.tracks[class.index()].observe(period, clip_us));
        }
    }

    fn judge_adaptive(&mut self, class: Class, period: &Period) {
        let at = class.index();
        self.observe(class, period);
        let comparison = &mut self.comparisons[at];
        let slow = self.nodes.iter().map(|node| node.tracks[at].is_slow());
        comparison.gather_few(self.seen.iter().zip(slow), period.now_us);
        let rule = &self.config.adaptive;
        self.lanes[at].clip_us = CLIP_FLOORS * rule.floor_us + CLIP_COMMON * comparison.common_us();
        if !self.lanes[at].is_calibrated() {
            return;
        }
        for place in 0..self.nodes.len() {
            let (config, comparison) = (&self.config, &self.comparisons[at]);
            let slice_us = self.lanes[at].slice_us();
            let track = &mut self.nodes[place].tracks[at];
            let judgement = adaptive::judge_period(config, period, comparison, slice_us, &self.seen[place], track)
                .or_else(|| adaptive::judge_untried(config, period.now_us, track));
            if let Some(judgement) = judgement {
                self.change(place, class, judgement);
            }
        }
    }

    fn judge_fixed(&mut self, class: Class, by_age: bool, period: &Period) {
        let at = class.index();
        let mut changes = std::mem::take(&mut self.changes);
        let tracks = self.nodes.iter_mut().map(|node| &mut node.tracks[at]);
        let change = |place, judgement| changes.push((place, judgement));
        fixed::judge(&self.config, by_age, &mut self.lanes[at], period, tracks, change);
        for (place, judgement) in changes.drain(..) {
            self.change(place, class, judgement);
        }
        self.changes = changes;
    }

    fn judge_windows(&mut self, now_us: u64) {
        self.window_end_us = now_us + self.config.adaptive.window_us;
        for class in Class::ALL {
            let at = class.index();
            self.seen.clear();
            self.seen.extend(self.nodes.iter().map(|node| node.tracks[at].window));
            if self.config.detector == Detector::Adaptive && self.lanes[at].is_calibrated() {
                let slow = self.nodes.iter().map(|node| node.tracks[at].is_slow());
                let mut comparison = std::mem::take(&mut self.window_comparison);
                comparison.gather(self.seen.iter().zip(slow), now_us);
                for place in 0..self.nodes.len() {
                    let track = &mut self.nodes[place].tracks[at];
                    let judgement = adaptive::judge_window(&self.config, &comparison, now_us, track);
                    if let Some(judgement) = judgement {
                        self.change(place, class, judgement);
                    }
                }
                self.window_comparison = comparison;
            }
            self.nodes.iter_mut().for_each(|node| node.tracks[at].window = Sums::default());
        }
    }

    fn refresh(&mut self, now_us: u64) {
        self.refresh_us = now_us + REFRESH_US;
        let fades = now_us >= self.fade_us;
        if fades {
            self.fade_us = now_us + FADE_US;
        }
        for class in Class::ALL {
            let at = class.index();
            self.lanes[at].sizes.rescale();
            self.p95s.clear();
            for node in &mut self.nodes {
                let track = &mut node.tracks[at];
                track.latencies.refresh();
                if fades {
                    track.latencies.fade();
                }
                if !track.is_slow() {
                    self.p95s.extend(track.latencies.scaled_p95_us);
                }
            }
            self.p95s.sort_unstable();
            self.peers_p95_us[at] = self.p95s.get(self.p95s.len() / 2).copied();
        }
        self.sort_slowest();
    }

    /// Changes the standing of one class of a node, and says so.
    fn change(&mut self, place: usize, class: Class, judgement: Judgement) {
        let now_us = self.clock.now_us();
        let node = &mut self.nodes[place];
        let track = &mut node.tracks[class.index()];
        if judgement.fail_slow {
            track.standing.set_slow(now_us, &self.config.adaptive);
            track.begin_slow(judgement.evidence);
        } else {
            track.standing.set_normal(now_us);
            track.end_slow_opinion();
        }
        self.announce(place, class, judgement);
    }

    fn announce(&mut self, place: usize, class: Class, judgement: Judgement) {
        let Judgement { fail_slow, reason, evidence } = judgement;
        let Evidence { latency_us, peers_us, threshold_us, samples } = evidence;
        let id = self.nodes[place].id;
        self.say(Verdict { node: id, class, fail_slow, reason, latency_us, peers_us, threshold_us, samples });
        self.settle(place);
    }

    /// Makes the node's flag that of its classes.
    fn settle(&mut self, place: usize) {
        let now_us = self.clock.now_us();
        let node = &mut self.nodes[place];
        let is_slow = node.tracks.iter().any(|track| track.is_slow());
        match (is_slow, node.flagged_since_us) {
            (true, None) => node.flagged_since_us = Some(now_us),
            (false, Some(since_us)) => {
                node.flagged_us += now_us - since_us;
                node.flagged_since_us = None;
            }
            _ => {}
        }
        self.sort_slowest();
    }

    fn sort_slowest(&mut self) {
        let nodes = &self.nodes;
        let flagged = (0..nodes.len()).filter(|&place| nodes[place].flagged_since_us.is_some());
        self.slowest.clear();
        // There are fewer places than a u16 can tell.
        self.slowest.extend(flagged.map(|place| place as u16));
        self.slowest.sort_by_key(|&place| {
            let tracks = &nodes[usize::from(place)].tracks;
            let slow = tracks.iter().filter(|track| track.is_slow());
            std::cmp::Reverse(slow.map(Track::severity_us).max())
        });
    }

    pub(crate) fn forget_standing(&mut self, place: usize) {
        for class in Class::ALL {
            let track = &mut self.nodes[place].tracks[class.index()];
            let was_slow = track.is_slow();
            track.reported_until_us = None;
            if was_slow {
                let evidence = track.evidence;
                self.change(place, class, Judgement { fail_slow: false, reason: Reason::Forgotten, evidence });
            } else {
                track.standing = Standing::default();
            }
        }
    }

    /// This engine's own opinions of nodes that it asked lately, for the others.
    pub fn opinions(&self) -> Opinions {
        let now_us = self.clock.now_us();
        let opinions = self.nodes.iter().flat_map(|node| {
            Class::ALL.into_iter().filter_map(move |class| {
                let track = &node.tracks[class.index()];
                track.has_opinion(now_us).then_some(Opinion {
                    node: node.id,
                    class,
                    fail_slow: track.standing.is_slow(),
                    latency_us: track.evidence.latency_us,
                    peers_us: track.evidence.peers_us,
                })
            })
        });
        Opinions { reports: opinions.collect() }
    }

    /// Takes merged opinions. They hold for a while, and only for nodes of which this engine has no opinion of its own.
    pub fn take_opinions(&mut self, merged: &Opinions, now_us: u64) {
        let now_us = self.clock.at(now_us);
        for place in 0..self.nodes.len() {
            for class in Class::ALL {
                let opinion = find(merged, self.nodes[place].id, class);
                self.take_opinion(place, class, opinion, now_us);
            }
        }
    }

    fn take_opinion(&mut self, place: usize, class: Class, opinion: Option<Opinion>, now_us: u64) {
        let judges = self.config.detector != Detector::Off;
        let track = &mut self.nodes[place].tracks[class.index()];
        let was_slow = track.is_slow();
        let counts = judges && opinion.is_some_and(|opinion| opinion.fail_slow) && !track.has_opinion(now_us);
        track.reported_until_us = counts.then_some(now_us + REPORT_US);
        if let Some(Opinion { latency_us, peers_us, .. }) = opinion.filter(|_| counts && !was_slow) {
            track.begin_slow(Evidence { latency_us, peers_us, threshold_us: 0, samples: 0 });
        }
        if track.is_slow() != was_slow {
            let (fail_slow, evidence) = (track.is_slow(), track.evidence);
            self.announce(place, class, Judgement { fail_slow, reason: Reason::Reported, evidence });
        }
    }

    /// What others said runs out, or is replaced by what this gateway saw.
    fn end_reports(&mut self, class: Class, now_us: u64) {
        for place in 0..self.nodes.len() {
            let track = &mut self.nodes[place].tracks[class.index()];
            let Some(until_us) = track.reported_until_us else { continue };
            if now_us < until_us {
                continue;
            }
            track.reported_until_us = None;
            if !track.is_slow() {
                let evidence = track.evidence;
                self.announce(place, class, Judgement { fail_slow: false, reason: Reason::Reported, evidence });
            }
        }
    }
}

fn find(merged: &Opinions, node: NodeId, class: Class) -> Option<Opinion> {
    merged.reports.iter().find(|opinion| opinion.node == node && opinion.class == class).copied()
}

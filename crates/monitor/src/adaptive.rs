//! The default rule: a node is fail-slow when its requests take longer than its peers would have taken for them, by
//! more than a floor and more than a few times, for longer than a hiccup lasts.
//!
//! ```text
//!   each period:   slow   time is added to the track's slow time  --> reaches the patience: fail-slow
//!                  good   time is taken off
//!   each window:   slow by less, several windows in a row                              --> fail-slow
//! ```
//!
//! A slice counts once, with its length; one with a single request counts half.
//!
//! Must not know: slices, how latencies are gathered.

use crate::config::{AdaptiveConfig, MonitorConfig};
use crate::lane::Period;
use crate::peers::{Common, Peers, Sums};
use crate::track::{Evidence, Track};
use crate::verdict::{Judgement, Reason};

/// Fewer requests of a node do not make it a peer of others ...
const PEER_SAMPLES: u32 = 4;
/// ... unless so few are asked that there would be no peers: then any request does, if so many nodes have one.
const FEW_PEERS: usize = 3;
/// A slice with fewer requests counts for less.
const FULL_SAMPLES: u32 = 2;
/// What held for everyone is believed for so long when a period has too few peers.
const COMMON_US: u64 = 1_000_000;
/// A window needs so many requests.
const WINDOW_SAMPLES: u32 = 32;

/// A fail-slow node that misses so many probes gets none.
const UNTRIED_PROBES: u64 = 20;

/// Room for the comparisons of a period, and what the last one found.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    peers: Peers,
    /// Requests of a node that make it a peer in this period.
    peer_samples: u32,
    latest: Option<(Common, u64)>,
}

impl Comparison {
    /// Takes what is seen of each node.
    pub fn gather<'a>(&mut self, seen: impl Iterator<Item = (&'a Sums, bool)>, now_us: u64) {
        self.take_peers(seen, PEER_SAMPLES);
        self.note_common(now_us);
    }

    /// The same, where there may be few requests.
    pub fn gather_few<'a>(&mut self, seen: impl Iterator<Item = (&'a Sums, bool)> + Clone, now_us: u64) {
        self.take_peers(seen.clone(), PEER_SAMPLES);
        if self.peers.count() < 2 {
            self.take_peers(seen.clone(), 1);
            if self.peers.count() < FEW_PEERS {
                self.take_peers(seen, PEER_SAMPLES);
            }
        }
        self.note_common(now_us);
    }

    fn take_peers<'a>(&mut self, seen: impl Iterator<Item = (&'a Sums, bool)>, samples: u32) {
        self.peer_samples = samples;
        self.peers.clear();
        let peers = seen.filter(|(sums, is_slow)| is_peer(sums, *is_slow, samples));
        peers.for_each(|(sums, _)| self.peers.add(sums));
        self.peers.sort();
    }

    fn note_common(&mut self, now_us: u64) {
        if self.peers.count() >= 2
            && let Some(common) = self.peers.common_without(&Sums::default(), false)
        {
            self.latest = Some((common, now_us));
        }
    }

    /// What holds for everyone, in excess of what is usual.
    pub fn common_us(&self) -> u64 {
        self.latest.map_or(0, |(common, _)| u64::try_from(common.excess_us()).unwrap_or(0))
    }

    /// What the peers would have taken for these requests, in all. A slow node is always compared, or its verdict had
    /// no end while nobody else is asked: with what held for everyone last, else with what is usual.
    pub fn would_take_us(&self, own: &Sums, is_slow: bool, now_us: u64) -> Option<u64> {
        let now = self.peers.common_without(own, is_peer(own, is_slow, self.peer_samples));
        let is_believed = |at_us: u64| is_slow || now_us - at_us <= COMMON_US;
        let latest = || self.latest.filter(|&(_, at_us)| is_believed(at_us)).map(|(common, _)| common);
        now.or_else(latest).or_else(|| is_slow.then_some(Common::USUAL)).map(|common| common.would_take_us(own))
    }
}

/// A fail-slow track that nobody asked for longer than its back-off is tried again.
pub fn judge_untried(config: &MonitorConfig, now_us: u64, track: &Track) -> Option<Judgement> {
    let is_asked = track.outstanding > 0
        || track.sent_us.is_some_and(|sent_us| now_us - sent_us < UNTRIED_PROBES * config.probe_interval_us);
    let is_over = !is_asked && track.standing.is_served(now_us, &config.adaptive);
    is_over.then_some(Judgement { fail_slow: false, reason: Reason::Untried, evidence: track.evidence })
}

fn is_peer(sums: &Sums, is_slow: bool, samples: u32) -> bool {
    sums.samples >= samples && !is_slow
}

/// How slow is slow.
#[derive(Clone, Copy, Debug)]
struct Bar {
    floor_us: u64,
    ratio_halves: u64,
    threshold_us: u64,
}

impl Bar {
    fn evidence(&self, own: &Sums, peers_us: u64) -> Evidence {
        let count = u64::from(own.samples.max(1));
        let peers_us = peers_us / count;
        let threshold_us = (peers_us + self.floor_us).max(peers_us * self.ratio_halves / 2).max(self.threshold_us);
        Evidence { latency_us: own.mean_us(), peers_us, threshold_us, samples: own.samples }
    }
}

fn is_above(evidence: &Evidence) -> bool {
    evidence.latency_us > evidence.threshold_us
}

/// Judges a period of one track. `None`: its standing stays as it is.
pub fn judge_period(
    config: &MonitorConfig,
    period: &Period,
    comparison: &Comparison,
    slice_us: u64,
    seen: &Sums,
    track: &mut Track,
) -> Option<Judgement> {
    let rule = &config.adaptive;
    let is_slow = track.standing.is_slow();
    if seen.samples == 0 {
        return None;
    }
    let peers_us = comparison.would_take_us(seen, track.is_slow(), period.now_us)?;
    track.compared(period.now_us);
    let evidence = bar(config, rule.floor_us, is_slow).evidence(seen, peers_us);
    let time_us = period.length_us * u64::from(seen.samples.min(FULL_SAMPLES)) / u64::from(FULL_SAMPLES);
    if is_above(&evidence) {
        // What disturbs a moment disturbs the slices on both sides of it.
        let patience_us = rule.patience_us + 2 * slice_us;
        track.evidence = evidence;
        let is_slow = track.standing.bad(time_us, patience_us);
        return is_slow.then_some(Judgement { fail_slow: true, reason: Reason::Slices, evidence });
    }
    let is_over = track.standing.good(time_us, seen.samples, period.now_us, rule);
    is_over.then_some(Judgement { fail_slow: false, reason: Reason::Slices, evidence })
}

/// Judges a window of one track.
pub fn judge_window(
    config: &MonitorConfig,
    comparison: &Comparison,
    now_us: u64,
    track: &mut Track,
) -> Option<Judgement> {
    let rule = &config.adaptive;
    let seen = track.window;
    if seen.samples < WINDOW_SAMPLES || track.is_slow() {
        return None;
    }
    let peers_us = comparison.would_take_us(&seen, false, now_us)?;
    let evidence = bar(config, rule.window_floor_us, false).evidence(&seen, peers_us);
    let is_slow = track.standing.window(is_above(&evidence), rule);
    is_slow.then_some(Judgement { fail_slow: true, reason: Reason::Horizon, evidence })
}

/// Half of everything suffices to stay fail-slow.
fn bar(config: &MonitorConfig, floor_us: u64, is_slow: bool) -> Bar {
    let AdaptiveConfig { ratio, .. } = config.adaptive;
    let threshold_us = config.threshold_us.unwrap_or(0);
    if is_slow {
        // At least one: what takes no longer than with the peers is good.
        Bar { floor_us: floor_us / 2, ratio_halves: ratio.max(2), threshold_us: threshold_us / 2 }
    } else {
        Bar { floor_us, ratio_halves: 2 * ratio, threshold_us }
    }
}

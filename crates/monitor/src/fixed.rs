//! The paper's rule: a slice whose mean latency exceeds `x` makes its node fail-slow, and one that does not makes it
//! normal again. A slice is judged once, when it is over and all its requests have ended.
//!
//! `x` is as set, or three times the mean of the normal nodes. If no node is normal, `x` is learnt anew from all.
//!
//! Source: ShortTail, section 3.1. Deviations: a slice with too few requests says nothing unless the node is fail-slow
//! already (then there are only probes); slices that outlive the ring of cells are judged together, when the last of
//! their requests ends; `by_age` (not in the paper) also judges a slice by what is outstanding.
//!
//! Must not know: sizes, peers.

use crate::config::MonitorConfig;
use crate::lane::{Lane, Period};
use crate::slice::Cell;
use crate::track::{Evidence, Track};
use crate::verdict::{Judgement, Reason};

/// A slice needs a quarter of the requests that `t` was chosen for.
const SAMPLES_SHARE: u32 = 4;

/// Judges what ended by `period`. Calls `change` with the place of every track whose standing changes.
pub fn judge<'a>(
    config: &MonitorConfig,
    by_age: bool,
    lane: &mut Lane,
    period: &Period,
    tracks: impl Iterator<Item = &'a mut Track>,
    mut change: impl FnMut(usize, Judgement),
) {
    let samples_min = (config.slice_samples / SAMPLES_SHARE).max(1);
    let threshold_us = lane.threshold_us(config).filter(|_| lane.is_calibrated());
    let (mut sum_us, mut samples) = (0, 0);
    let (mut all_us, mut all) = (0, 0);
    let mut is_anyone_normal = false;
    for (place, track) in tracks.enumerate() {
        let was_slow = track.standing.is_slow();
        is_anyone_normal |= !was_slow;
        let mut is_slow = was_slow;
        let mut evidence = track.evidence;
        let mut take = |cell: &Cell, age_us: u64, aged: u32| {
            let count = cell.ended + aged;
            let mean_us = (cell.sum_us + age_us) / u64::from(count);
            if aged == 0 {
                all_us += cell.sum_us;
                all += u64::from(count);
                if !was_slow {
                    sum_us += cell.sum_us;
                    samples += u64::from(count);
                }
            }
            let Some(threshold_us) = threshold_us else { return };
            let is_above = mean_us > threshold_us;
            if count >= samples_min || was_slow {
                evidence = Evidence { latency_us: mean_us, peers_us: lane.mean_us(), threshold_us, samples: count };
                // What is outstanding may still become slow, so it never makes a node normal.
                is_slow = is_above || (is_slow && aged > 0);
            }
        };
        for cell in track.cells.before(period.slice).filter(|cell| !cell.is_judged) {
            if cell.outstanding() == 0 {
                cell.is_judged = true;
                take(cell, 0, 0);
            } else if by_age {
                take(cell, cell.ages_us(period.now_us), cell.outstanding());
            }
        }
        let elder = *track.cells.elder();
        if by_age && elder.outstanding() > 0 {
            take(&elder, elder.ages_us(period.now_us), elder.outstanding());
        }
        if let Some(elder) = track.cells.take_elder() {
            take(&elder, 0, 0);
        }
        if is_slow != was_slow {
            change(place, Judgement { fail_slow: is_slow, reason: Reason::Slices, evidence });
        } else if is_slow {
            track.evidence = evidence;
        }
    }
    if is_anyone_normal {
        lane.learn_mean(sum_us, samples);
    } else {
        lane.learn_mean(all_us, all);
    }
}

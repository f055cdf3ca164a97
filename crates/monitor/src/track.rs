//! One class of one node: its slices, its histograms, its standing.
//!
//! Must not know: other nodes.

use crate::histogram::Histogram;
use crate::lane::Period;
use crate::peers::Sums;
use crate::slice::{Cell, Cells};
use crate::standing::Standing;

/// What led to the latest judgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Evidence {
    pub latency_us: u64,
    pub peers_us: u64,
    pub threshold_us: u64,
    pub samples: u32,
}

#[derive(Clone, Debug, Default)]
pub struct Track {
    pub cells: Cells,
    /// Ended in the window of the horizon that runs.
    pub window: Sums,
    pub standing: Standing,
    /// Of the judgement that made it fail-slow, or a later one that kept it so.
    pub evidence: Evidence,
    /// Mean latency while fail-slow, the latest counting most; and the mean age of what was outstanding when looked at.
    slow_us: u64,
    age_us: u64,
    /// Others call it fail-slow, until then.
    pub reported_until_us: Option<u64>,
    /// When a request was sent last.
    pub sent_us: Option<u64>,
    /// Requests that moved bytes and ended since it was compared last.
    pub work: u32,
    /// Such requests while it was compared with peers, and since when they are counted.
    compared: u32,
    compared_since_us: u64,
    /// When it was compared last, after enough requests for an opinion.
    seen_us: Option<u64>,
    pub outstanding: u32,
    pub latencies: Latencies,
}

/// Latencies for people, and for hedges.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// All since the node was added.
    pub total: Histogram,
    /// Of the last seconds.
    pub recent: Histogram,
    /// The same, as if each request had been of the base size.
    pub scaled: Histogram,
    /// 95 of 100 of the scaled ones, looked up now and then.
    pub scaled_p95_us: Option<u64>,
}

/// Fewer latencies say nothing about 95 of 100.
const P95_SAMPLES: u64 = 32;
/// Fewer are not faded, so that a quiet node keeps some.
const FADE_SAMPLES: u64 = 1024;

impl Latencies {
    #[inline]
    pub fn record(&mut self, latency_us: u64, scaled_us: u64) {
        self.total.record(latency_us);
        self.recent.record(latency_us);
        self.scaled.record(scaled_us);
    }

    pub fn refresh(&mut self) {
        self.scaled_p95_us = if self.scaled.count() < P95_SAMPLES { None } else { self.scaled.quantile_us(950) };
    }

    pub fn fade(&mut self) {
        if self.recent.count() >= FADE_SAMPLES {
            self.recent.fade();
            self.scaled.fade();
        }
    }
}

/// A node that was not asked for longer does not count when the rate of requests is measured.
const ACTIVE_US: u64 = 1_000_000;

/// An opinion of a node is this old at most ...
const OPINION_US: u64 = 2_000_000;
/// ... and rests on so much work in that time, unless it is that the node is slow: a sign of life now and then is
/// good although work is not.
const OPINION_SAMPLES: u32 = 16;

/// The severity moves by 1/4 with each request: there are few, most of them probes.
const SEVERITY_GAIN: u64 = 4;

impl Track {
    pub fn is_slow(&self) -> bool {
        self.standing.is_slow() || self.reported_until_us.is_some()
    }

    /// How slow it is, to rank those that are fail-slow.
    pub fn severity_us(&self) -> u64 {
        self.slow_us.max(self.age_us)
    }

    /// It became fail-slow.
    pub fn begin_slow(&mut self, evidence: Evidence) {
        self.evidence = evidence;
        self.slow_us = evidence.latency_us;
    }

    /// A request ended while it is fail-slow.
    pub fn end_slow(&mut self, latency_us: u64) {
        self.slow_us = (self.slow_us * (SEVERITY_GAIN - 1) + latency_us) / SEVERITY_GAIN;
    }

    /// What is to be judged after a period: requests of the slices that had a whole slice of time to end since they
    /// were over, each slice once, and what is outstanding of those before. No latency counts more than `clip_us`.
    pub fn observe(&mut self, period: &Period, clip_us: u64) -> Sums {
        let mut sums = Sums::default();
        let mut ages_us = 0;
        if self.outstanding > 0 {
            ages_us += add_outstanding(&mut sums, self.cells.elder(), period.now_us, clip_us);
        }
        for cell in self.cells.before(period.slice - 1) {
            ages_us += add_outstanding(&mut sums, cell, period.now_us, clip_us);
            if !cell.is_judged {
                cell.is_judged = true;
                sums.samples += cell.ended;
                sums.sum_us += cell.clipped_us;
                sums.expected_us += cell.expected_us;
            }
        }
        self.cells.take_elder();
        self.age_us = ages_us / u64::from(self.outstanding.max(1));
        sums
    }

    /// The node was asked lately.
    pub fn is_active(&self, now_us: u64) -> bool {
        self.sent_us.is_some_and(|sent_us| now_us - sent_us <= ACTIVE_US)
    }

    /// Requests were compared with those of peers. How many there were says nothing: signs of life are no work.
    pub fn compared(&mut self, now_us: u64) {
        let work = std::mem::take(&mut self.work);
        if now_us - self.compared_since_us > OPINION_US {
            (self.compared, self.compared_since_us) = (0, now_us);
        }
        self.compared = self.compared.saturating_add(work);
        if self.standing.is_slow() || self.compared >= OPINION_SAMPLES {
            self.seen_us = Some(now_us);
        }
    }

    /// It is not fail-slow any more: probes suffice for that, but not for an opinion.
    pub fn end_slow_opinion(&mut self) {
        if self.compared < OPINION_SAMPLES {
            self.seen_us = None;
        }
    }

    /// This gateway judged the node itself, lately.
    pub fn has_opinion(&self, now_us: u64) -> bool {
        self.seen_us.is_some_and(|seen_us| now_us.saturating_sub(seen_us) <= OPINION_US)
    }

    /// The session ended: what was under way is forgotten.
    pub fn forget(&mut self) {
        self.cells = Cells::default();
        self.window = Sums::default();
        self.outstanding = 0;
    }
}

/// Adds what is outstanding of a cell, and returns its ages.
fn add_outstanding(sums: &mut Sums, cell: &Cell, now_us: u64, clip_us: u64) -> u64 {
    let count = u64::from(cell.outstanding());
    if count == 0 {
        return 0;
    }
    let ages_us = cell.ages_us(now_us);
    sums.samples += cell.outstanding();
    sums.sum_us += ages_us.min(count.saturating_mul(clip_us));
    sums.expected_us += cell.expected_outstanding_us;
    ages_us
}

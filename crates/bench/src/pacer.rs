//! When operations start: at once (closed loop), or by a schedule that does not wait for answers (open loop).
//!
//! In an open loop each operation has an intended start, and its latency counts from there. A server that stalls for
//! a second then shows in every operation that should have started in that second ("coordinated omission" is the
//! error of counting only the ones that did). Times are nanoseconds since an arbitrary origin and come as arguments.

use rand::Rng;
use rand::rngs::SmallRng;

/// Spacing of an open loop's starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Arrivals {
    /// Equal gaps.
    Even,
    /// Exponential gaps, as of many independent clients.
    Poisson,
    /// Burstier: the generalised Pareto gaps of Facebook's ETC pool, scaled to the rate.
    Etc,
}

/// Scale and shape of the gaps of the ETC pool (Atikoglu et al. 2012), in microseconds; they begin at 0.
const ETC_GAP_SCALE: f64 = 16.0292;
const ETC_GAP_SHAPE: f64 = 0.154971;

/// A gap of the ETC pool in multiples of the mean one; `u` is in [0, 1).
fn etc_gap(u: f64) -> f64 {
    let mean = ETC_GAP_SCALE / (1.0 - ETC_GAP_SHAPE);
    ETC_GAP_SCALE * ((1.0 - u).powf(-ETC_GAP_SHAPE) - 1.0) / ETC_GAP_SHAPE / mean
}

/// When a phase ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Operations(u64),
    /// Nanoseconds after the start of the phase.
    Duration(u64),
}

/// The schedule of one phase.
pub struct Pacer {
    open: Option<OpenLoop>,
    end_ns: Option<u64>,
    operations_left: u64,
}

struct OpenLoop {
    gap_ns: f64,
    arrivals: Arrivals,
    next_ns: f64,
}

/// Answer of [`Pacer::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// An operation starts, and was meant to start at `intended_ns`.
    Start { intended_ns: u64 },
    /// Nothing before this time.
    WaitUntil(u64),
    /// No more operations in this phase.
    Finished,
}

impl Pacer {
    /// `rate` is in operations a second; none is a closed loop.
    pub fn new(rate: Option<f64>, arrivals: Arrivals, limit: Limit, now_ns: u64) -> Self {
        let open = rate.map(|rate| OpenLoop { gap_ns: 1e9 / rate, arrivals, next_ns: now_ns as f64 });
        let (operations_left, end_ns) = match limit {
            Limit::Operations(count) => (count, None),
            Limit::Duration(duration_ns) => (u64::MAX, Some(now_ns.saturating_add(duration_ns))),
        };
        Pacer { open, end_ns, operations_left }
    }

    /// Takes the next operation if one is due.
    pub fn poll(&mut self, now_ns: u64, rng: &mut SmallRng) -> Turn {
        let intended_ns = self.open.as_ref().map_or(now_ns, |open| open.next_ns as u64);
        if self.operations_left == 0 || self.end_ns.is_some_and(|end| intended_ns >= end) {
            return Turn::Finished;
        }
        if intended_ns > now_ns {
            return Turn::WaitUntil(intended_ns);
        }
        self.operations_left -= 1;
        if let Some(open) = &mut self.open {
            open.next_ns += match open.arrivals {
                Arrivals::Even => open.gap_ns,
                Arrivals::Poisson => -(1.0 - rng.random::<f64>()).ln() * open.gap_ns,
                Arrivals::Etc => etc_gap(rng.random()) * open.gap_ns,
            };
        }
        Turn::Start { intended_ns }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn starts(pacer: &mut Pacer, now_ns: u64) -> Vec<u64> {
        let mut rng = SmallRng::seed_from_u64(1);
        std::iter::from_fn(|| match pacer.poll(now_ns, &mut rng) {
            Turn::Start { intended_ns } => Some(intended_ns),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn an_even_open_loop_keeps_its_rate_and_waits_between() {
        let mut pacer = Pacer::new(Some(1000.0), Arrivals::Even, Limit::Duration(SECOND), 0);
        let mut rng = SmallRng::seed_from_u64(1);
        assert_eq!(pacer.poll(0, &mut rng), Turn::Start { intended_ns: 0 });
        assert_eq!(pacer.poll(0, &mut rng), Turn::WaitUntil(1_000_000));
        assert_eq!(starts(&mut pacer, 2 * SECOND).len(), 999);
        assert_eq!(pacer.poll(2 * SECOND, &mut rng), Turn::Finished);
    }

    #[test]
    fn a_late_loop_is_told_the_intended_starts() {
        let mut pacer = Pacer::new(Some(10.0), Arrivals::Even, Limit::Operations(3), 0);
        assert_eq!(starts(&mut pacer, SECOND), [0, SECOND / 10, SECOND / 5]);
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_an_exponential() {
        let mut pacer = Pacer::new(Some(1e6), Arrivals::Poisson, Limit::Operations(100_000), 0);
        let starts = starts(&mut pacer, u64::MAX / 2);
        let gaps: Vec<f64> = starts.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1000.0).abs() < 15.0, "{mean}");
        assert!((variance.sqrt() - 1000.0).abs() < 30.0, "{}", variance.sqrt());
    }

    #[test]
    fn gaps_of_the_etc_pool_keep_the_rate_and_scatter_more_than_exponential_ones() {
        let mut pacer = Pacer::new(Some(1e6), Arrivals::Etc, Limit::Operations(200_000), 0);
        let starts = starts(&mut pacer, u64::MAX / 2);
        let gaps: Vec<f64> = starts.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean - 1000.0).abs() < 20.0, "{mean}");
        // Of a generalised Pareto distribution: mean / sqrt(1 - 2 shape).
        assert!((deviation / mean - (1.0 - 2.0 * ETC_GAP_SHAPE).powf(-0.5)).abs() < 0.05, "{deviation}");
    }

    #[test]
    fn a_closed_loop_starts_whenever_asked_until_its_limit() {
        let mut pacer = Pacer::new(None, Arrivals::Even, Limit::Operations(2), 5);
        assert_eq!(starts(&mut pacer, 9), [9, 9]);
        let mut timed = Pacer::new(None, Arrivals::Even, Limit::Duration(10), 5);
        assert_eq!(starts(&mut timed, 15), Vec::<u64>::new());
    }
}

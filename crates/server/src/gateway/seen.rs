//! What a core tells of the nodes' speed: the engine's picture in the classes of the control protocol.

use shorttail_gateway::engine::Watched;
use shorttail_monitor::Histogram;
use shorttail_wire::control::{LATENCY_BOUNDS_US, LatencyHistogram, NodeSeen};

/// All of it but who the node is and whether it is connected.
pub fn node_seen(watched: &Watched<'_>) -> NodeSeen {
    NodeSeen {
        fail_slow: watched.fail_slow,
        requests_in_flight: watched.outstanding,
        flagged_us: watched.flagged_us,
        redirect_count: watched.redirect_count,
        read_latency: in_classes(watched.reads),
        write_latency: in_classes(watched.writes),
        ..NodeSeen::default()
    }
}

fn in_classes(latencies: &Histogram) -> LatencyHistogram {
    let mut classes = Vec::new();
    let mut below = 0;
    for bound in LATENCY_BOUNDS_US {
        let count = latencies.count_below(bound + 1);
        if count > below {
            classes.push((bound, count - below));
        }
        below = count;
    }
    if latencies.count() > below {
        classes.push((u64::MAX, latencies.count() - below));
    }
    LatencyHistogram { classes, sum_us: latencies.sum_us() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_is_in_a_class_that_is_hardly_wider_than_the_one_it_was_counted_in() {
        let mut latencies = Histogram::new();
        for latency_us in [1, 9, 250, 250, 1_000, 48_000, 90_000_000] {
            latencies.record(latency_us);
        }
        let classes = in_classes(&latencies);
        assert!(classes.is_well_formed());
        assert_eq!(classes.classes.iter().map(|class| class.1).sum::<u64>(), 7);
        assert_eq!(classes.sum_us, latencies.sum_us());
        assert_eq!(classes.classes.first(), Some(&(10, 2)));
        assert_eq!(classes.classes.last(), Some(&(u64::MAX, 1)));
    }
}

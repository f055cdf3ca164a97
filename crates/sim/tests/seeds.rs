//! The usual run: two thousand seeds, the proof that a seed is one run, and seeds that once failed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use shorttail_sim::command::{SeedReport, run_seed};
use shorttail_sim::config::Profile;
use shorttail_sim::world::Counts;

/// Seeds of the usual run per profile: 2 030 in all.
const SEEDS: [(Profile, u64); 6] = [
    (Profile::Mixed, 900),
    (Profile::Calm, 250),
    (Profile::Crash, 400),
    (Profile::Stall, 400),
    (Profile::Large, 30),
    (Profile::Full, 50),
];

fn run_all(profile: Profile, seeds: u64) -> (Counts, Vec<String>) {
    let next = AtomicU64::new(0);
    let totals = Mutex::new((Counts::default(), Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    let report = run_seed(profile, seed);
                    let mut totals = totals.lock().expect("no thread panics here");
                    totals.0.add(&report.counts);
                    if report.failure.is_some() {
                        totals.1.push(report.explain(60));
                    }
                }
            });
        }
    });
    totals.into_inner().expect("no thread panics here")
}

#[test]
fn the_usual_seeds_show_no_violation() {
    let mut counts = Counts::default();
    let mut failures = Vec::new();
    for (profile, seeds) in SEEDS {
        let (some, failed) = run_all(profile, seeds);
        counts.add(&some);
        failures.extend(failed);
    }
    assert!(failures.is_empty(), "{} seeds failed\n{}", failures.len(), failures.join("\n"));
    // What the run is for must have happened in it.
    assert!(counts.answered > 500_000, "{counts:?}");
    assert!(
        counts.crashes > 1_000 && counts.stalls > 1_000 && counts.breaks > 1_000 && counts.cuts > 500,
        "{counts:?}"
    );
    assert!(counts.unknown > 100 && counts.degraded_reads > 1_000, "{counts:?}");
    assert!(counts.folds > 100_000 && counts.seals > 10_000 && counts.installs > 10_000, "{counts:?}");
    assert!(counts.stripes_audited > 50_000 && counts.acknowledgements_audited > 5_000, "{counts:?}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    for (profile, seed) in [(Profile::Mixed, 7), (Profile::Crash, 11), (Profile::Large, 3), (Profile::Stall, 30)] {
        let (first, again) = (run_seed(profile, seed), run_seed(profile, seed));
        assert_eq!(first.trace_hash, again.trace_hash, "{}", first.replay());
        assert_eq!((first.events, first.counts), (again.events, again.counts));
        assert_ne!(first.trace_hash, run_seed(profile, seed + 1).trace_hash);
    }
}

fn passes(profile: Profile, seed: u64) {
    let report: SeedReport = run_seed(profile, seed);
    assert!(report.failure.is_none(), "{}", report.explain(60));
}

/// A flush that too few nodes could make durable was refused and had emptied the index all the same.
#[test]
fn a_refused_flush_changes_nothing() {
    passes(Profile::Stall, 5);
    passes(Profile::Crash, 32);
}

/// A round whose older record could not be read was released with both records in the index.
#[test]
fn an_unreadable_older_record_does_not_come_back() {
    passes(Profile::Large, 8);
    passes(Profile::Full, 90);
}

/// A read beside a round that waits for a verification followed a location that a flush had taken away.
#[test]
fn a_read_does_not_follow_what_a_flush_ended() {
    passes(Profile::Large, 74);
}

/// Bytes stored were counted wrongly for records that moved into a later epoch's stripe, and cleaning stopped.
#[test]
fn memory_comes_back_after_a_take_over() {
    passes(Profile::Takeover, 62);
}

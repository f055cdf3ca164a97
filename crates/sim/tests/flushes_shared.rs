//! Flushes where several gateways share the partitions: asked of any of them, done by all owners, whatever becomes of these.

use shorttail_sim::cli::run_seed;
use shorttail_sim::config::Profile;
use shorttail_sim::world::Counts;

/// Runs these seeds, and answers what happened in them.
fn run(seeds: std::ops::Range<u64>) -> Counts {
    let mut counts = Counts::default();
    let mut failures = Vec::new();
    for seed in seeds {
        let report = run_seed(Profile::Flushes, seed);
        counts.add(&report.counts);
        failures.extend(report.failure.is_some().then(|| report.explain(60)));
    }
    assert!(failures.is_empty(), "{} seeds failed\n{}", failures.len(), failures.join("\n"));
    counts
}

#[test]
fn flushes_at_any_gateway_are_of_everything() {
    let seed = |name: &str, usual: u64| std::env::var(name).map_or(usual, |text| text.parse().expect("a number"));
    let counts = run(seed("FIRST", 0)..seed("END", 40));
    println!("{counts:?}");
}

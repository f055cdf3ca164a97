//! The catalogue of slowness, in virtual time: every entry is safe, and clients hardly notice.

mod binding;
mod damaged;
mod large;
mod opinions;
mod pause;
mod race;
mod recovery;

use shorttail_policy::{Policy, PolicyName};
use shorttail_sim::faults_slow::{ALL_SLOW, CATALOGUE, Observed, Ratios, Scenario, Setting, Target, Values, run};

/// Bounds are for the median run, since a 99th percentile of some seconds is a matter of few requests.
const SEEDS: [u64; 3] = [1, 2, 3];
/// RS(4,2) with two nodes to spare, and with none.
const SPARE: u16 = 8;
const NO_SPARE: u16 = 6;

/// Small values, stored as usual.
fn setting(target: Target, node_count: u16) -> Setting {
    Setting { target, node_count, policy: Policy::default(), values: Values::Small }
}

/// One run per seed.
fn observed(scenario: Option<&Scenario>, setting: Setting) -> Vec<Observed> {
    SEEDS.into_iter().map(|seed| observed_in(seed, scenario, setting)).collect()
}

fn observed_in(seed: u64, scenario: Option<&Scenario>, setting: Setting) -> Observed {
    let (name, after_us) = scenario.map_or(("healthy", CATALOGUE[0].after_us), |it| (it.name, it.after_us));
    let observed = run(scenario, after_us, setting, seed);
    observed.unwrap_or_else(|violation| panic!("{name}, seed {seed}: {violation}"))
}

/// Tails as multiples of the healthy runs of the same seeds, in order.
struct Spread {
    reads: Vec<f64>,
    writes: Vec<f64>,
    striped: Vec<f64>,
}

impl Spread {
    fn of(ratios: &[Ratios]) -> Self {
        let sorted = |of: fn(&Ratios) -> f64| {
            let mut ratios: Vec<f64> = ratios.iter().map(of).collect();
            ratios.sort_unstable_by(f64::total_cmp);
            ratios
        };
        Spread { reads: sorted(|it| it.reads), writes: sorted(|it| it.writes), striped: sorted(|it| it.striped) }
    }

    fn median(&self) -> Ratios {
        let of = |ratios: &[f64]| ratios[ratios.len() / 2];
        Ratios { reads: of(&self.reads), writes: of(&self.writes), striped: of(&self.striped) }
    }
}

/// At the onset and afterwards.
fn spreads(seen: &[Observed], healthy: &[Observed]) -> (Spread, Spread) {
    let (onset, after): (Vec<_>, Vec<_>) = seen.iter().zip(healthy).map(|(seen, healthy)| seen.ratios(healthy)).unzip();
    (Spread::of(&onset), Spread::of(&after))
}

/// What is beyond its bounds.
fn complaints(scenario: &Scenario, runs: &[Observed], healthy: &[Observed]) -> Vec<String> {
    let (onset, after) = spreads(runs, healthy);
    let mut complaints = Vec::new();
    let mut claim = |holds: bool, what: String| {
        if !holds {
            complaints.push(format!("{}: {what}", scenario.name));
        }
    };
    for (when, is, bound) in [("at the onset", onset, scenario.onset), ("afterwards", after, scenario.after)] {
        for (what, of_runs, bound) in [
            ("reads", &is.reads, bound.reads),
            ("writes", &is.writes, bound.writes),
            ("striped writes", &is.striped, bound.striped),
        ] {
            let is_within = of_runs[of_runs.len() / 2] <= bound;
            claim(is_within, format!("p99 of {what} {when} is {of_runs:.2?} times the healthy one, not {bound}"));
        }
    }
    for seen in runs {
        let is_found = seen.found.contains(&seen.slow_node);
        claim(scenario.is_found.is_none_or(|wanted| wanted == is_found), format!("found out: {is_found}"));
        claim(seen.found.iter().all(|&node| node == seen.slow_node), format!("others were blamed: {:?}", seen.found));
        claim(seen.counts.refused == 0 && seen.counts.unknown == 0, format!("errors: {:?}", seen.counts));
        let budget = 256 + seen.requests / 10;
        claim(seen.stats.totals.hedges_sent_total <= budget, format!("{} hedges", seen.stats.totals.hedges_sent_total));
    }
    complaints
}

fn check(setting: Setting, wanted: impl Fn(&Scenario) -> bool) {
    let healthy = observed(None, setting);
    assert!(healthy.iter().all(|run| run.found.is_empty()), "nobody is slow");
    let entries = CATALOGUE.iter().filter(|scenario| wanted(scenario));
    let complaints: Vec<String> = entries
        .flat_map(|scenario| {
            if std::env::var("SHOW").is_ok() {
                let seen = observed(Some(scenario), setting);
                let (onset, after) = spreads(&seen, &healthy);
                println!(
                    "{}: {:.2?} {:.2?} | {:.2?} | {:.2?}",
                    scenario.name,
                    onset.striped,
                    after.striped,
                    onset.median(),
                    after.median()
                );
            }
            complaints(scenario, &observed(Some(scenario), setting), &healthy)
        })
        .collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn a_slow_holder_of_data_is_hardly_noticed() {
    check(setting(Target::Data, SPARE), |_| true);
}

/// These entries differ for a node that holds parity, and so is asked for little but to fold. Campaigns try all.
#[test]
fn a_slow_holder_of_parity_is_hardly_noticed() {
    let names = [
        "+1 ms",
        "+5 ms",
        "+500 ms",
        "ramp to 50 ms in a second",
        "link of 20 KiB/s",
        "+50 ms, writes only",
        "stopped for 1 s",
        "stopped 50 ms, running 2 ms",
        "hears nothing for 1 s",
    ];
    let is_campaign = std::env::var("SHORTTAIL_CAMPAIGN").is_ok();
    check(setting(Target::Parity, SPARE), |scenario| is_campaign || names.contains(&scenario.name));
}

/// Striped values have a piece on nearly every node: what is late is written again elsewhere.
#[test]
fn a_slow_holder_of_pieces_is_hardly_noticed_by_large_writes() {
    let names = ["+5 ms", "+50 ms", "link of 20 KiB/s", "+50 ms, writes only", "stopped for 1 s"];
    let large = Setting { values: Values::Large, ..setting(Target::Data, SPARE) };
    check(large, |scenario| names.contains(&scenario.name));
}

/// Without a spare node the slow one stays a member, and holds data chunks that stay empty.
#[test]
fn with_no_node_to_spare_writes_go_on() {
    let names = ["+5 ms", "+50 ms", "1 % of replies +200 ms", "+50 ms, writes only", "stopped for 1 s"];
    check(setting(Target::Parity, NO_SPARE), |scenario| names.contains(&scenario.name));
}

#[test]
fn when_all_are_slow_nobody_is_blamed_and_who_waits_does_so_once_or_twice() {
    let seen = observed(Some(&ALL_SLOW), setting(Target::Data, SPARE));
    let healthy = observed(None, setting(Target::Data, SPARE));
    assert_eq!(complaints(&ALL_SLOW, &seen, &healthy), [""; 0]);
}

/// The catalogue shows something: without sidestepping, a slow node is noticed.
#[test]
fn the_baseline_waits_for_a_slow_node() {
    let plain = Setting { policy: Policy::of(PolicyName::Ecwide), ..setting(Target::Parity, SPARE) };
    let scenario = CATALOGUE.iter().find(|scenario| scenario.name == "+5 ms").expect("an entry");
    let run = |scenario: Option<&Scenario>| observed_in(1, scenario, plain);
    let (healthy, seen) = (run(None), run(Some(scenario)));
    let (onset, after) = seen.ratios(&healthy);
    assert!(onset.writes > 4.0 && after.writes > 4.0 && after.reads > 4.0, "{onset:?} {after:?}");
    // Its log is metadata: that goes round, values do not.
    assert_eq!(seen.stats.totals.degraded_reads_total, 0);
}

/// What the techniques do is seen in their counters.
#[test]
fn hedges_win_and_writes_are_redirected() {
    let scenario = CATALOGUE.iter().find(|scenario| scenario.name == "+50 ms").expect("an entry");
    let seen = observed(Some(scenario), setting(Target::Data, SPARE));
    for Observed { stats, .. } in seen {
        assert!(stats.totals.hedges_won_total > 10 && stats.totals.cancelled_total > 10, "{stats:?}");
        assert!(stats.totals.redirected_writes_total > 10 && stats.totals.degraded_reads_total > 10, "{stats:?}");
        assert!(stats.totals.slices_judged_total > 10, "{stats:?}");
    }
}

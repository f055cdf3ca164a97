//! The request monitor against the catalogue of slow and of innocent nodes: bounds on what
//! `shorttail sim detect` prints.

use shorttail_monitor::{Detector, MonitorConfig};
use shorttail_sim::detect::catalogue::{innocent, slow};
use shorttail_sim::detect::stream::run;
use shorttail_sim::detect::table::Row;

/// Milliseconds within which the adaptive detector must find each slow node. About twice what was measured.
const FOUND_MS: &[(&str, u64)] = &[
    ("+1 ms", 10_000),
    ("+2 ms", 250),
    ("+5 ms", 200),
    ("+50 ms", 200),
    ("+500 ms", 200),
    ("+50 ms, reads only", 250),
    ("+50 ms, writes only", 200),
    ("1 % of replies +200 ms", 5_000),
    ("ramp to 50 ms in 10 s", 1_000),
    ("square wave 10 s, 50 ms", 200),
    ("stopped 50 ms, running 2 ms", 200),
    ("5 % of a CPU: 95 ms of 100 stopped", 200),
    ("link of 1 Mbit/s", 5_000),
    ("memory pressure: 60 ms each second", 10_000),
    ("stopped for 1 s", 200),
    ("stopped for 20 s", 200),
    ("+50 ms, 32 waiting clients", 250),
    ("+50 ms, one waiting client", 600),
    ("+50 ms, 200 requests a second", 800),
    ("+50 ms, 50 reads a second", 4_000),
    ("+20 ms, bimodal sizes", 200),
    ("50/2 ms, 32 waiting clients", 250),
];

const SEED: u64 = 1;

#[test]
fn every_slow_node_is_found_soon_and_no_other_is_suspected() {
    let entries = slow();
    assert_eq!(
        entries.iter().map(|entry| entry.name).collect::<Vec<_>>(),
        FOUND_MS.iter().map(|it| it.0).collect::<Vec<_>>()
    );
    let mut complaints = Vec::new();
    for (entry, &(name, found_ms)) in entries.iter().zip(FOUND_MS) {
        let outcome = run(entry.experiment, MonitorConfig::default(), SEED);
        if outcome.detect_us.is_none_or(|us| us > found_ms * 1000) || outcome.false_verdicts > 0 {
            complaints.push(format!("{name}: at most {found_ms} ms and no false verdict, but {outcome:?}"));
        }
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn nobody_is_suspected_where_nobody_or_everybody_is_slow() {
    let mut complaints = Vec::new();
    for entry in innocent() {
        let outcome = run(entry.experiment, MonitorConfig::default(), SEED);
        if outcome.false_verdicts > 0 || outcome.detect_us.is_some() {
            complaints.push(format!("{}: {outcome:?}", entry.name));
        }
        assert!(outcome.operations > 1000, "{}: the experiment hardly ran: {outcome:?}", entry.name);
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// Where the paper's rule fails, and what ages add to it: what the comparison in decision 0008 rests on.
#[test]
fn the_fixed_rule_suspects_hiccups_and_waits_for_a_stopped_node() {
    let of = |detector, name: &str| {
        let entries = [slow(), innocent()];
        let entry = entries.iter().flatten().find(|entry| entry.name == name).expect("it is in the catalogue");
        let config = MonitorConfig { detector, ..MonitorConfig::default() };
        Row::of(entry, config, SEED..SEED + 1)
    };
    assert!(of(Detector::Fixed { by_age: false }, "healthy").false_verdicts() > 0);
    let paper = of(Detector::Fixed { by_age: false }, "stopped for 1 s").flagged_percent();
    let ages = of(Detector::Fixed { by_age: true }, "stopped for 1 s").flagged_percent();
    assert!(paper < 50 && ages > 50, "flagged {paper} % and {ages} % of the time");
}

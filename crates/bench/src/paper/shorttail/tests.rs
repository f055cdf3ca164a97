//! What is compared, what comes of it, and how it is shown.

use super::*;
use crate::report::LatencyReport;
use crate::scene::Watch;

fn sample(label: &str, repetition: usize, p99_us: f64) -> Sample {
    let latency = LatencyReport { mean_us: p99_us / 10.0, p50_us: p99_us / 20.0, p99_us, ..LatencyReport::default() };
    Sample {
        repetition,
        label: label.to_owned(),
        slow_node: 3,
        operations: 10,
        errors: 0,
        throughput_per_s: 100.0,
        all: latency.clone(),
        reads: latency.clone(),
        writes: latency,
        watch: Watch::default(),
        trace: None,
    }
}

/// ECWide-H at 100 ms, every further subject at half of the one before, with an outlier in each.
fn results(figure: Figure) -> Results {
    let subjects = plan::subjects(figure);
    let mut samples = Vec::new();
    for (index, subject) in subjects.iter().enumerate() {
        let p99_us = 1e5 / f64::from(1 << index.min(20));
        samples.extend([p99_us, p99_us * 1.1, p99_us * 99.0].map(|p99_us| sample(&subject.label, 1, p99_us / 1.1)));
    }
    Results {
        figure,
        workload: "w".to_owned(),
        machine: "m".to_owned(),
        nodes: 24,
        code: "lrc:12+2+2".to_owned(),
        delay_ms: 100,
        connections: 16,
        rate_per_s: Some(500.0),
        repetitions: 3,
        seconds: 10.0,
        warm_up: 3.0,
        rows: rows(figure, &subjects, &samples),
        samples,
    }
}

#[test]
fn rows_are_medians_and_shares_of_the_first() {
    let results = results(Figure::Six);
    let labels: Vec<&str> = results.rows.iter().map(|row| row.subject.label.as_str()).collect();
    assert_eq!(labels, ["ECWide-H", "LLF", "ShortTail", "ours"]);
    assert!((results.rows[0].p99_ms - 100.0).abs() < 1e-9);
    let ratios: Vec<f64> = results.rows.iter().map(|row| (row.p99_ratio * 1e6).round() / 1e6).collect();
    assert_eq!(ratios, [1.0, 0.5, 0.25, 0.125]);
}

#[test]
fn the_paper_is_quoted_where_it_says_something() {
    let p99 = |figure, label| published::of(figure, label).and_then(|published| published.p99);
    assert!((p99(Figure::Six, "ShortTail").expect("said") - 0.4897).abs() < 1e-9);
    assert!((p99(Figure::Seven, "LLF").expect("follows") - 0.3623 / 0.38).abs() < 1e-9);
    assert!((p99(Figure::Eight, "+Small Write Opt").expect("said") - 0.4896).abs() < 1e-9);
    assert_eq!(p99(Figure::Six, "ours"), None);
    assert_eq!(published::of(Figure::Nine, "x = 60 ms"), None);
}

#[test]
fn each_step_of_figure_8_adds_one_technique() {
    let flags: Vec<String> = plan::subjects(Figure::Eight).iter().map(|subject| subject.flags.join(" ")).collect();
    assert!(flags[3].starts_with(&flags[2]) && flags[4].starts_with(&flags[3]));
    assert!(flags[2].ends_with("--read-sidestep on") && flags[4].ends_with("--small-write replicate"));
}

#[test]
fn figure_9_covers_the_ranges_of_the_paper_and_less() {
    let subjects = plan::subjects(Figure::Nine);
    let values = |wanted: char| {
        let of = |subject: &Subject| subject.parameter.filter(|(name, _)| *name == wanted).map(|(_, value)| value);
        subjects.iter().filter_map(of).collect::<Vec<f64>>()
    };
    assert_eq!(values('t')[..5], [10.0, 15.0, 20.0, 25.0, 30.0]);
    assert!(values('x').contains(&20.0) && values('x').contains(&90.0) && values('x').contains(&10.0));
    assert!(subjects[0].flags.contains(&"10000us".to_owned()), "{:?}", subjects[0].flags);
}

#[test]
fn tables_and_figures_show_every_subject() {
    for figure in Figure::ALL {
        let results = results(figure);
        let (table, drawn) = (table::table(&results), figures::draw(&results));
        for row in &results.rows {
            assert!(table.contains(&row.subject.label));
            assert!(figure == Figure::Nine || drawn.contains(&row.subject.label));
        }
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{figure}");
    }
    assert!(table::table(&results(Figure::Six)).contains("(25 | 49)"));
    assert!(figures::draw(&results(Figure::Nine)).contains("threshold x"));
}

#[test]
fn a_node_called_slow_without_reason_is_counted() {
    let mut results = results(Figure::Six);
    results.samples[0].watch.flagged_after = [3].into();
    results.samples[1].watch.flagged_after = [3, 4].into();
    assert!(table::table(&results).contains("in 1 the status called a node slow that was not"));
}

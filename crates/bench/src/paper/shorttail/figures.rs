//! The figures in the paper's own form: bars of average, median and P99; lines over a parameter for figure 9.

use super::Results;
use super::plan::Figure;
use crate::svg::{Axis, Bars, Panel, Series, document};

pub fn draw(results: &Results) -> String {
    if results.figure == Figure::Nine {
        let (by_slice, by_threshold) = (lines(results, 't'), lines(results, 'x'));
        return document(&[&by_slice, &by_threshold]);
    }
    let latencies = bars(results);
    let shares = shares(results);
    document(&[&latencies, &shares])
}

fn bars(results: &Results) -> Bars {
    let of = |figure: fn(&super::Row) -> f64| results.rows.iter().map(figure).collect::<Vec<f64>>();
    Bars {
        title: format!("{}: latencies", results.figure.title()),
        unit: "latency, milliseconds".to_owned(),
        names: results.rows.iter().map(|row| row.subject.label.clone()).collect(),
        groups: vec![
            ("average".to_owned(), of(|row| row.average_ms)),
            ("median".to_owned(), of(|row| row.median_ms)),
            ("P99".to_owned(), of(|row| row.p99_ms)),
        ],
    }
}

/// P99 as a share of the first subject's, beside the paper's.
fn shares(results: &Results) -> Bars {
    let ours = results.rows.iter().map(|row| 100.0 * row.p99_ratio).collect();
    let published = |row: &super::Row| row.published.and_then(|published| published.p99).unwrap_or_default();
    let theirs = results.rows.iter().map(|row| 100.0 * published(row)).collect();
    Bars {
        title: format!("{}: P99 beside that of ECWide-H", results.figure.title()),
        unit: "% of ECWide-H's P99".to_owned(),
        names: results.rows.iter().map(|row| row.subject.label.clone()).collect(),
        groups: vec![("here".to_owned(), ours), ("in the paper".to_owned(), theirs)],
    }
}

fn lines(results: &Results, parameter: char) -> Panel {
    let mut points: Vec<(f64, f64, f64)> = results
        .rows
        .iter()
        .filter_map(|row| {
            Some((row.subject.parameter.filter(|(name, _)| *name == parameter)?.1, row.p99_ms, row.average_ms))
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let logarithm = |ms: f64| ms.max(1e-3).log10();
    let of =
        |figure: fn(&(f64, f64, f64)) -> f64| points.iter().map(|point| (point.0, logarithm(figure(point)))).collect();
    let series: Vec<Series> = vec![
        Series { name: "P99".to_owned(), points: of(|point| point.1) },
        Series { name: "average".to_owned(), points: of(|point| point.2) },
    ];
    let all = || series.iter().flat_map(|series| &series.points).map(|point| point.1);
    let (low, high) = (all().fold(f64::INFINITY, f64::min).clamp(-3.0, 6.0), all().fold(-3.0, f64::max));
    let title = match parameter {
        't' => "timeslice t, milliseconds",
        _ => "threshold x, milliseconds",
    };
    let largest = points.iter().map(|point| point.0).fold(1.0, f64::max);
    Panel {
        title: format!("{}: {parameter}", results.figure.title()),
        x: Axis::linear(title, largest, false),
        y: Axis::decades("latency, milliseconds", low.floor() as i32, high.ceil() as i32),
        series,
    }
}

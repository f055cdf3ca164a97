//! Figure 16: how evenly nodes are loaded.

use std::fmt::Write;

use serde::Serialize;
use shorttail_placement::Placement;

use super::cluster::Cluster;
use super::loss::sizes;
use super::{Axis, BASE, HydraOptions, LOOK_AT_ALL_MAX, Panel, Parameters, Series};

/// One point: a rule, a size, what came out.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    rule: String,
    node_count: usize,
    /// The fullest node in units of the mean, once filled.
    filled: f64,
    /// The same after every stripe was replaced in random order.
    replaced: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Results {
    base: Parameters,
    seed: u64,
    points: Vec<Point>,
}

pub fn run(options: &HydraOptions) -> Results {
    let mut points = Vec::new();
    for node_count in sizes(100, options.nodes_max) {
        eprintln!("figure 16: {node_count} nodes");
        for rule in rules(node_count) {
            let parameters = Parameters { node_count, ..BASE };
            let mut cluster = Cluster::filled(rule, &parameters, options.seed);
            let filled = cluster.fullest();
            cluster.replace_all();
            points.push(Point { rule: rule.to_string(), node_count, filled, replaced: cluster.fullest() });
        }
    }
    Results { base: BASE, seed: options.seed, points }
}

fn rules(node_count: usize) -> Vec<Placement> {
    let mut rules = vec![Placement::Random, Placement::TwoChoices];
    rules.extend([0, 1, 2, 4].map(|spare_count| Placement::CodingSets { spare_count }));
    if node_count <= LOOK_AT_ALL_MAX {
        rules.push(Placement::LeastLoaded);
    }
    rules
}

pub fn table(results: &Results) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "Figure 16: the fullest node in units of the mean\nk = 8, r = 2, S = 16\n\n{:>10}  {:<16}{:>12}{:>12}",
        "nodes", "rule", "filled", "replaced"
    );
    for Point { rule, node_count, filled, replaced } in &results.points {
        let _ = writeln!(out, "{node_count:>10}  {rule:<16}{filled:>12.3}{replaced:>12.3}");
    }
    out.push('\n');
    out
}

/// One of the points' numbers.
type Number = fn(&Point) -> f64;

pub fn panels(results: &Results) -> Vec<Panel> {
    let panel = |title: &str, value: Number| {
        let largest = results.points.iter().map(|point| point.node_count).max().unwrap_or(100);
        let rules = results.points.iter().take_while(|point| point.node_count == results.points[0].node_count);
        let series = rules.map(|first| {
            let mine = results.points.iter().filter(|point| point.rule == first.rule);
            let points = mine.map(|point| ((point.node_count as f64).log10(), value(point))).collect();
            Series { name: first.rule.clone(), points }
        });
        let highest = results.points.iter().map(value).fold(1.0, f64::max);
        Panel {
            title: title.to_owned(),
            x: Axis::decades("nodes", 2, (largest as f64).log10() as i32),
            y: Axis::linear("fullest node, in units of the mean", highest, true),
            series: series.collect(),
        }
    };
    vec![panel("Load, once filled", |point| point.filled), panel("Load, every stripe replaced", |point| point.replaced)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_order_holds_in_a_small_cluster() {
        let fullest = |rule| Cluster::filled(rule, &Parameters { node_count: 1000, ..BASE }, 5).fullest();
        let [random, two_choices] = [Placement::Random, Placement::TwoChoices].map(fullest);
        let sets = fullest(Placement::CodingSets { spare_count: 2 });
        assert!(random > 1.3 * two_choices, "random {random}, two choices {two_choices}");
        assert!(sets < random && sets >= 1.0, "coding sets {sets}, random {random}");
    }

    #[test]
    fn replacing_keeps_the_number_of_chunks() {
        let parameters = Parameters { node_count: 120, ..BASE };
        let mut cluster = Cluster::filled(Placement::TwoChoices, &parameters, 2);
        let before = cluster.members.clone();
        cluster.replace_all();
        assert_eq!(before.len(), cluster.members.len());
        assert_ne!(before, cluster.members);
        assert!(cluster.fullest() >= 1.0);
    }
}

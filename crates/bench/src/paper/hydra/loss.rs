//! Figure 15: how likely it is that some stripe is lost.

use std::fmt::Write;

use serde::Serialize;
use shorttail_placement::{Draw, Placement};

use super::cluster::Cluster;
use super::{Axis, BASE, HydraOptions, LOOK_AT_ALL_MAX, Panel, Parameters, Series, exact, family, formulas};

/// One point: a rule, its parameters, what came out.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Which panel it belongs to, and where it is there.
    varied: &'static str,
    at: f64,
    rule: String,
    parameters: Parameters,
    draws: u64,
    lost: u64,
    probability: f64,
    /// Half of the interval that holds the probability in 95 of 100 cases.
    error: f64,
    /// What is drawn, counted; of the placements that were drawn from if the rule is coding sets.
    exact: Option<f64>,
    /// The paper's.
    formula: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Results {
    base: Parameters,
    seed: u64,
    points: Vec<Point>,
    random_over_coding_sets: Ratio,
}

/// Random placement's probability over that of coding sets, at the base parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ratio {
    exact: f64,
    formula: f64,
    drawn: f64,
    /// Between these in 95 of 100 cases.
    drawn_from: f64,
    drawn_to: f64,
}

impl Ratio {
    fn of(random: &Point, sets: &Point) -> Option<Self> {
        let drawn = random.probability / sets.probability;
        // Of the logarithm, as both are many: (1-p)/(n p) each.
        let variance = |point: &Point| (1.0 - point.probability) / (point.draws as f64 * point.probability);
        let factor = (1.96 * (variance(random) + variance(sets)).sqrt()).exp();
        Some(Ratio {
            exact: random.exact? / sets.exact?,
            formula: random.formula? / sets.formula?,
            drawn,
            drawn_from: drawn / factor,
            drawn_to: drawn * factor,
        })
    }
}

/// Sets of failing nodes are drawn for so many placements of each kind in turn.
const PLACEMENTS: u64 = 4;

pub fn run(options: &HydraOptions) -> Results {
    let mut points = Vec::new();
    for (varied, at, parameters) in plan(options.nodes_max) {
        eprintln!("figure 15: {varied} = {at}");
        for rule in parameters.rules() {
            // As many draws as cost the same, but enough to see what happens every tenth time.
            let draws = (options.draws * BASE.failed_count as u64 / parameters.failed_count as u64).max(400);
            let (lost, of_sets) = count_losses(rule, &parameters, draws, options.seed);
            let probability = lost as f64 / draws as f64;
            points.push(Point {
                varied,
                at,
                rule: rule.to_string(),
                parameters,
                draws,
                lost,
                probability,
                error: 1.96 * (probability * (1.0 - probability) / draws as f64).sqrt(),
                exact: if rule == Placement::Random { Some(exact::random(&parameters)) } else { of_sets },
                formula: formulas::loss_probability(rule, &parameters),
            });
        }
    }
    let at_base = |name: &str| {
        let point = points.iter().find(|point| point.parameters == BASE && family(&point.rule) == name);
        point.expect("the base is among what is varied")
    };
    let ratio = Ratio::of(at_base("random"), at_base("coding-sets"));
    let random_over_coding_sets = ratio.expect("both have formulas, and the base is small enough to count");
    Results { base: BASE, seed: options.seed, points, random_over_coding_sets }
}

/// Each parameter by itself, the others as in the paper's base; then larger clusters, with a share and
/// with a number failing.
fn plan(nodes_max: usize) -> Vec<(&'static str, f64, Parameters)> {
    let mut plan = Vec::new();
    for parity_count in [1, 2, 3] {
        plan.push(("r", parity_count as f64, Parameters { parity_count, ..BASE }));
    }
    for spare_count in [0, 1, 2, 3, 4] {
        plan.push(("l", f64::from(spare_count), Parameters { spare_count, ..BASE }));
    }
    for chunks_per_node in [2, 4, 16, 100] {
        plan.push(("S", chunks_per_node as f64, Parameters { chunks_per_node, ..BASE }));
    }
    for failed_count in [5, 10, 15, 20] {
        plan.push(("f, %", failed_count as f64 / 10.0, Parameters { failed_count, ..BASE }));
    }
    for node_count in sizes(1000, nodes_max) {
        let failed_count = node_count / 100;
        plan.push(("nodes, 1 % fail", node_count as f64, Parameters { node_count, failed_count, ..BASE }));
    }
    for node_count in sizes(1000, nodes_max) {
        let share_kept = BASE.failed_count;
        plan.push(("nodes, 10 fail", node_count as f64, Parameters { node_count, failed_count: share_kept, ..BASE }));
    }
    plan
}

/// Powers of ten.
pub fn sizes(from: usize, to: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(from), |size| Some(size * 10)).take_while(move |&size| size <= to)
}

/// In how many of the draws some stripe is lost; and of coding sets, how likely that was.
fn count_losses(rule: Placement, parameters: &Parameters, draws: u64, seed: u64) -> (u64, Option<f64>) {
    let placements = if parameters.node_count > 10_000 { 1 } else { PLACEMENTS };
    let (mut lost, mut exact) = (0, (parameters.node_count <= LOOK_AT_ALL_MAX).then_some(0.0));
    for placement in 0..placements {
        let cluster = Cluster::filled(rule, parameters, seed.wrapping_mul(1000) + placement);
        let here = exact.and_then(|_| exact::in_sets(&cluster.sets, &cluster.members, parameters));
        exact = exact.zip(here).map(|(sum, here)| sum + here / placements as f64);
        let stripes = StripesOfNodes::new(&cluster, parameters);
        let mut draw = Draw::new(!seed ^ placement << 32);
        let mut failing = Failing::new(parameters);
        let share = draws / placements + u64::from(placement < draws % placements);
        lost += (0..share).filter(|_| failing.is_some_stripe_lost(&stripes, &mut draw)).count() as u64;
    }
    (lost, exact)
}

/// Which stripes a node is a member of.
struct StripesOfNodes {
    begins: Vec<u32>,
    stripes: Vec<u32>,
}

impl StripesOfNodes {
    fn new(cluster: &Cluster, parameters: &Parameters) -> Self {
        let mut begins = vec![0u32; parameters.node_count + 1];
        cluster.members.iter().for_each(|&node| begins[node as usize + 1] += 1);
        for node in 0..parameters.node_count {
            begins[node + 1] += begins[node];
        }
        let mut ends = begins.clone();
        let mut stripes = vec![0u32; cluster.members.len()];
        for (place, &node) in cluster.members.iter().enumerate() {
            stripes[ends[node as usize] as usize] = (place / parameters.chunk_count()) as u32;
            ends[node as usize] += 1;
        }
        StripesOfNodes { begins, stripes }
    }

    fn of(&self, node: u32) -> &[u32] {
        let [begin, end] = [node as usize, node as usize + 1].map(|place| self.begins[place] as usize);
        &self.stripes[begin..end]
    }
}

/// What fails in one draw.
struct Failing {
    /// All nodes, in an order that each draw changes.
    nodes: Vec<u32>,
    failed_count: usize,
    /// Failed chunks of each stripe.
    counts: Vec<u8>,
    fatal: u8,
}

impl Failing {
    fn new(parameters: &Parameters) -> Self {
        Failing {
            nodes: (0..parameters.node_count as u32).collect(),
            failed_count: parameters.failed_count,
            counts: vec![0; parameters.stripe_count()],
            fatal: parameters.parity_count as u8 + 1,
        }
    }

    fn is_some_stripe_lost(&mut self, stripes: &StripesOfNodes, draw: &mut Draw) -> bool {
        for place in 0..self.failed_count {
            let other = place + draw.below(self.nodes.len() - place);
            self.nodes.swap(place, other);
        }
        let failed = &self.nodes[..self.failed_count];
        let mut is_lost = false;
        for stripe in failed.iter().flat_map(|&node| stripes.of(node)) {
            let count = &mut self.counts[*stripe as usize];
            *count += 1;
            is_lost |= *count >= self.fatal;
        }
        failed.iter().flat_map(|&node| stripes.of(node)).for_each(|&stripe| self.counts[stripe as usize] = 0);
        is_lost
    }
}

pub fn table(results: &Results) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "Figure 15: probability that some stripe is lost\n\
         base: k = 8, r = 2, l = 2, S = 16, 1 % of 1000 nodes fail\n\n\
         {:<18}{:>10}  {:<16}{:>22}{:>12}{:>12}{:>10}",
        "varied", "at", "rule", "drawn", "exact", "formula", "draws"
    );
    for point in &results.points {
        let drawn = format!("{:.5} +- {:.5}", point.probability, point.error);
        let [exact, formula] =
            [point.exact, point.formula].map(|value| value.map_or("-".to_owned(), |value| format!("{value:.5}")));
        let Point { varied, at, rule, draws, .. } = point;
        let _ = writeln!(out, "{varied:<18}{at:>10}  {rule:<16}{drawn:>22}{exact:>12}{formula:>12}{draws:>10}");
    }
    let Ratio { exact, formula, drawn, drawn_from, drawn_to } = results.random_over_coding_sets;
    let _ = writeln!(
        out,
        "\nrandom over coding sets, base parameters: {exact:.2} exactly, {formula:.2} by the paper's formulas, \
         {drawn:.2} drawn (95 %: {drawn_from:.2} to {drawn_to:.2})\n"
    );
    out
}

pub fn panels(results: &Results) -> Vec<Panel> {
    let mut varied: Vec<&str> = results.points.iter().map(|point| point.varied).collect();
    varied.dedup();
    varied.into_iter().map(|varied| panel(results, varied)).collect()
}

/// What was drawn, and the formulas; probabilities below one in a million are drawn there.
fn panel(results: &Results, varied: &str) -> Panel {
    let here: Vec<&Point> = results.points.iter().filter(|point| point.varied == varied).collect();
    let is_size = varied.starts_with("nodes");
    let x_at = |point: &Point| if is_size { point.at.log10() } else { point.at };
    let mut names: Vec<&str> = here.iter().map(|point| family(&point.rule)).collect();
    names.sort_unstable();
    names.dedup();
    let line = |name: &str, value: &dyn Fn(&Point) -> Option<f64>| {
        let mine = here.iter().filter(|point| family(&point.rule) == name);
        mine.filter_map(|point| Some((x_at(point), value(point)?.max(1e-6).log10()))).collect::<Vec<_>>()
    };
    let mut series: Vec<Series> = names
        .iter()
        .map(|name| Series { name: (*name).to_owned(), points: line(name, &|point| Some(point.probability)) })
        .collect();
    for name in ["random", "coding-sets"] {
        series.push(Series { name: format!("{name}, formula"), points: line(name, &|point| point.formula) });
    }
    let at_max = here.iter().map(|point| point.at).fold(1.0, f64::max);
    Panel {
        title: format!("Probability that some stripe is lost, by {varied}"),
        x: if is_size { Axis::decades(varied, 3, at_max.log10() as i32) } else { Axis::linear(varied, at_max, true) },
        y: Axis::decades("probability", -6, 0),
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small enough to count by hand: twelve nodes in one set of six chunks and six spare, three of them fail; with
    /// stripes on every combination, any three are fatal.
    #[test]
    fn what_is_lost_is_counted() {
        let parameters = Parameters { node_count: 6, failed_count: 3, data_count: 4, ..BASE };
        assert_eq!(count_losses(Placement::Random, &parameters, 40, 1).0, 40, "every stripe is on all nodes");
        let survivable = Parameters { failed_count: 2, ..parameters };
        assert_eq!(count_losses(Placement::Random, &survivable, 40, 1).0, 0);
    }

    /// Two sets of six: lost only if all three fail in one; 2 x 20 of 220 triples.
    #[test]
    fn draws_agree_with_counting() {
        let parameters = Parameters { node_count: 12, failed_count: 3, data_count: 4, spare_count: 0, ..BASE };
        let (lost, exact) = count_losses(Placement::CodingSets { spare_count: 0 }, &parameters, 20_000, 3);
        assert!((lost as f64 / 20_000.0 - 40.0 / 220.0).abs() < 0.01, "{lost}");
        assert!((exact.expect("small sets") - 40.0 / 220.0).abs() < 1e-12);
    }

    /// The sets are 76 of twelve nodes and eight of eleven, and after so many stripes each triple of a set is fatal.
    #[test]
    fn coding_sets_at_the_base_parameters() {
        let sets = Placement::CodingSets { spare_count: 2 };
        let (_, exact) = count_losses(sets, &BASE, 4, 1);
        assert!((0.01240..0.01241).contains(&exact.expect("small sets")), "{exact:?}");
        assert_eq!(count_losses(Placement::Random, &BASE, 4, 1).1, None, "its draws say nothing of sets");
    }
}

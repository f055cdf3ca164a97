//! `bench paper hydra`: figures 15 and 16 of "Hydra: resilient and highly available remote memory" (FAST 2022): how
//! likely it is that some stripe is lost when many nodes fail at once, and how evenly nodes are loaded, for each
//! rule of placement.
//!
//! - Figure 15: the probability that some stripe is lost. Stripes are placed by the functions that the owner uses, and
//!   sets of failing nodes are drawn; beside it the same counted exactly (`exact`), and the paper's closed formulas.
//! - Figure 16: the fullest node in units of the mean. The same placement; once filled, and once more after every
//!   stripe was replaced in random order.
//!
//! Each node holds `S` chunks ("slabs"), so there are `N S / (k+r)` stripes; `f` of the nodes fail together. A
//! stripe is lost when more than `r` of its nodes fail. The paper prints the exponent of its formula as `C(N, r+1)`;
//! with its text ("exactly r+1 random nodes") and its figure only the number of subsets of those that fail,
//! `C(f N, r+1)`, agrees.
//!
//! Deviation: of coding sets two are drawn and the less loaded one is taken.

mod balance;
mod cluster;
mod exact;
mod formulas;
mod loss;

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use shorttail_placement::Placement;

use crate::svg::{Axis, Draw, Panel, Series, document};

/// Redraws figures 15 and 16 of the Hydra paper.
#[derive(Clone, Debug, clap::Args)]
pub struct HydraOptions {
    /// Which figures; both by default.
    #[arg(long = "figure", value_delimiter = ',', default_values_t = [15, 16])]
    pub figures: Vec<u32>,
    /// Sets of failing nodes that are drawn for each probability, at 1000 nodes; fewer for more.
    #[arg(long, default_value_t = 100_000)]
    pub draws: u64,
    /// The largest cluster.
    #[arg(long, default_value_t = 1_000_000)]
    pub nodes_max: usize,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write one JSON file for each figure into this directory.
    #[arg(long, value_name = "DIR")]
    pub json: Option<PathBuf>,
    /// Draw each figure into this directory.
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
}

/// What one point of a figure is about.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
struct Parameters {
    /// `k` and `r` of the paper.
    data_count: usize,
    parity_count: usize,
    /// `l`: nodes of a coding set beyond `k+r`.
    spare_count: u8,
    /// `S`: chunks on each node.
    chunks_per_node: usize,
    node_count: usize,
    failed_count: usize,
}

/// The paper's.
const BASE: Parameters = Parameters {
    data_count: 8,
    parity_count: 2,
    spare_count: 2,
    chunks_per_node: 16,
    node_count: 1000,
    failed_count: 10,
};

/// Clusters beyond this are not placed by rules that look at every node for each stripe.
const LOOK_AT_ALL_MAX: usize = 1000;

impl Parameters {
    fn chunk_count(&self) -> usize {
        self.data_count + self.parity_count
    }

    fn stripe_count(&self) -> usize {
        self.node_count * self.chunks_per_node / self.chunk_count()
    }

    fn rules(&self) -> Vec<Placement> {
        let sets = Placement::CodingSets { spare_count: self.spare_count };
        let mut rules = vec![Placement::Random, Placement::TwoChoices, sets];
        if self.node_count <= LOOK_AT_ALL_MAX {
            rules.push(Placement::LeastLoaded);
        }
        rules
    }
}

/// Computes the figures, prints tables and writes JSON and SVG.
///
/// # Errors
/// An unknown figure, or a directory that cannot be written.
pub fn run(options: &HydraOptions) -> anyhow::Result<()> {
    ensure!(options.figures.iter().all(|figure| [15, 16].contains(figure)), "there are figures 15 and 16");
    ensure!((1000..=10_000_000).contains(&options.nodes_max), "--nodes-max must be between 1000 and 10000000");
    ensure!((100..=10_000_000).contains(&options.draws), "--draws must be between 100 and 10000000");
    for directory in options.json.iter().chain(&options.svg) {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    }
    if options.figures.contains(&15) {
        let results = loss::run(options);
        print!("{}", loss::table(&results));
        write_json(options.json.as_deref(), "figure-15.json", &results)?;
        write_svg(options.svg.as_deref(), "figure-15.svg", &loss::panels(&results))?;
    }
    if options.figures.contains(&16) {
        let results = balance::run(options);
        print!("{}", balance::table(&results));
        write_json(options.json.as_deref(), "figure-16.json", &results)?;
        write_svg(options.svg.as_deref(), "figure-16.svg", &balance::panels(&results))?;
    }
    Ok(())
}

fn write_json(directory: Option<&Path>, name: &str, results: &impl serde::Serialize) -> anyhow::Result<()> {
    let Some(directory) = directory else { return Ok(()) };
    let path = directory.join(name);
    std::fs::write(&path, crate::json::to_lines(results)?).with_context(|| format!("cannot write {}", path.display()))
}

fn write_svg(directory: Option<&Path>, name: &str, panels: &[Panel]) -> anyhow::Result<()> {
    let Some(directory) = directory else { return Ok(()) };
    let path = directory.join(name);
    let drawn: Vec<&dyn Draw> = panels.iter().map(|panel| panel as &dyn Draw).collect();
    std::fs::write(&path, document(&drawn)).with_context(|| format!("cannot write {}", path.display()))
}

/// What kind of rule it is, `l` left out.
fn family(rule: &str) -> &str {
    rule.split(':').next().unwrap_or(rule)
}

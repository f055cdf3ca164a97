//! What the project promises about ratios of medians.

use serde::Serialize;

use super::{Cell, Median, Ratios, find};
use crate::peers::System;

/// A promise about a ratio of medians.
#[derive(Clone, Debug, Serialize)]
pub struct Goal {
    pub name: &'static str,
    pub ratio: f64,
    pub bound: f64,
    pub met: bool,
}

/// What the project promises, for the cells that were measured.
pub fn goals(medians: &[Median]) -> Vec<Goal> {
    let ratio = |operation: &'static str, connections: usize, peer: System, figure: fn(&Ratios) -> f64| {
        let of = |system: System| find(medians, Cell { system: system.name(), operation, connections });
        Some(figure(&of(System::Shorttail)?.divided_by(of(peer)?)))
    };
    let at_most = |name, ratio: Option<f64>, bound| ratio.map(|ratio| Goal { name, ratio, bound, met: ratio <= bound });
    let at_least =
        |name, ratio: Option<f64>, bound| ratio.map(|ratio| Goal { name, ratio, bound, met: ratio >= bound });
    let (cpu, throughput, p50) = (|r: &Ratios| r.cpu_per_operation, |r: &Ratios| r.throughput, |r: &Ratios| r.p50);
    [
        at_most("CPU per GET at 64 connections, of memcached, at most", ratio("get", 64, System::Memcached, cpu), 1.6),
        at_most(
            "CPU per SET at 64 connections, of Redis with WAIT, at most",
            ratio("set", 64, System::Redis, cpu),
            0.9,
        ),
        at_least(
            "GET throughput at 64 connections, of memcached, at least",
            ratio("get", 64, System::Memcached, throughput),
            0.9,
        ),
        at_least(
            "SET throughput at 64 connections, of memcached, at least",
            ratio("set", 64, System::Memcached, throughput),
            0.75,
        ),
        at_most("GET p50 with one connection, of memcached, at most", ratio("get", 1, System::Memcached, p50), 1.7),
    ]
    .into_iter()
    .flatten()
    .collect()
}

//! A cluster of nodes that are all alike and always there, filled by a rule of placement.

use std::collections::BTreeMap;

use shorttail_placement::{Candidate, Candidates, CodingSets, Draw, Placement, Wish, choose};
use shorttail_units::CodeShape;

use super::Parameters;

/// Loads of nodes, and which nodes each stripe is on.
pub struct Cluster {
    placement: Placement,
    shape: CodeShape,
    loads: Vec<u64>,
    /// Nodes of each coding set, if the rule has such.
    pub sets: Vec<Vec<usize>>,
    /// Nodes of stripe after stripe.
    pub members: Vec<u32>,
    draw: Draw,
}

impl Cluster {
    /// Every node holds its chunks.
    pub fn filled(placement: Placement, parameters: &Parameters, seed: u64) -> Self {
        let shape = CodeShape::reed_solomon(parameters.data_count, parameters.parity_count).expect("small counts");
        let sets = match placement {
            Placement::CodingSets { spare_count } => {
                let nodes: BTreeMap<u32, _> = (0..parameters.node_count as u32).map(|node| (node, None)).collect();
                let sets = CodingSets::new(&nodes, shape, spare_count);
                sets.members().iter().map(|set| set.iter().map(|&node| node as usize).collect()).collect()
            }
            _ => Vec::new(),
        };
        let loads = vec![0; parameters.node_count];
        let mut cluster = Cluster { placement, shape, loads, sets, members: Vec::new(), draw: Draw::new(seed) };
        for turn in 0..parameters.stripe_count() {
            let members = cluster.place(turn as u64);
            cluster.members.extend(members);
        }
        cluster
    }

    /// Every stripe gives way to a new one, in random order.
    pub fn replace_all(&mut self) {
        let chunk_count = self.shape.chunk_count();
        let stripe_count = self.members.len() / chunk_count;
        let mut order: Vec<usize> = (0..stripe_count).collect();
        for left in (1..stripe_count).rev() {
            order.swap(left, self.draw.below(left + 1));
        }
        for (turn, stripe) in order.into_iter().enumerate() {
            let range = stripe * chunk_count..(stripe + 1) * chunk_count;
            self.members[range.clone()].iter().for_each(|&node| self.loads[node as usize] -= 1);
            let members = self.place(turn as u64);
            self.members[range].copy_from_slice(&members);
        }
    }

    /// The fullest node in units of the mean.
    pub fn fullest(&self) -> f64 {
        let sum: u64 = self.loads.iter().sum();
        let max = self.loads.iter().copied().max().unwrap_or(0);
        max as f64 * self.loads.len() as f64 / sum.max(1) as f64
    }

    fn place(&mut self, turn: u64) -> Vec<u32> {
        let wish = Wish { shape: self.shape, turn, seed: self.draw.number() };
        let members = choose(self.placement, &Places { loads: &self.loads, sets: &self.sets }, &wish);
        let members = members.expect("there are enough nodes").members;
        members.iter().for_each(|&node| self.loads[node as usize] += 1);
        members
    }
}

struct Places<'a> {
    loads: &'a [u64],
    sets: &'a [Vec<usize>],
}

impl Candidates<u32> for Places<'_> {
    fn count(&self) -> usize {
        self.loads.len()
    }

    fn at(&self, place: usize) -> Candidate<u32> {
        let (node, load) = (place as u32, self.loads[place]);
        Candidate { node, load, is_evaded: false, redirect_count: 0, domain: None, set: None }
    }

    fn set_count(&self) -> usize {
        self.sets.len()
    }

    fn set(&self, number: usize) -> &[usize] {
        &self.sets[number]
    }
}

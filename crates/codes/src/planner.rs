//! Finds which chunks, combined how, give a lost one. Works for every generator matrix, not only for MDS codes.
//!
//! Let `t` be the row of the wanted chunk in the whole generator (identity on top of the parity rows). Available data
//! chunks can cancel anything in their own columns, so only the columns of *missing* data chunks matter: a combination
//! of available parity rows must equal `t` there. That system has at most as many unknowns as there are parities,
//! however many data chunks the stripe has; no large matrix is inverted.
//!
//! Fewest chunks first: `t` itself (a lost parity is encoded again), then a single parity, which is how a local group
//! repairs itself, then any parities, the sparsest rows preferred. Chunks of high cost count as missing while there is
//! a combination without them; then as few of them as possible are allowed.

use crate::chunk_set::ChunkSet;
use crate::field::multiply;
use crate::limits::HIGH_COST_TRIED_MAX;
use crate::matrix::{self, Generator};

/// A sum of scaled chunks: `(chunk index, coefficient)`, indexes ascending, coefficients not zero.
pub type Combination = Vec<(usize, u8)>;

/// The chunks that may be read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Readable {
    /// At the usual cost.
    pub low: ChunkSet,
    /// Only if it cannot be avoided.
    pub high: ChunkSet,
}

impl Readable {
    pub fn all(self) -> ChunkSet {
        self.low | self.high
    }
}

/// A combination of readable chunks that equals chunk `wanted`; `None` if there is none.
pub fn combination(generator: &Generator, wanted: usize, readable: Readable) -> Option<Combination> {
    combination_of(generator, wanted, readable.low)
        .or_else(|| readable.high.contains(wanted).then(|| vec![(wanted, 1)]))
        .or_else(|| combination_with_few(generator, wanted, readable))
        .or_else(|| combination_of(generator, wanted, readable.all()))
}

/// With as few chunks of high cost as possible, if there are not too many to try.
fn combination_with_few(generator: &Generator, wanted: usize, readable: Readable) -> Option<Combination> {
    let high: Vec<usize> = readable.high.iter().collect();
    if high.len() > HIGH_COST_TRIED_MAX {
        return None;
    }
    let with = |choice: u32| {
        let chosen = high.iter().enumerate().filter(|&(place, _)| choice >> place & 1 == 1).map(|(_, &chunk)| chunk);
        combination_of(generator, wanted, readable.low | chosen.collect())
    };
    let sizes = 1..=u32::try_from(high.len()).expect("a few");
    let choices = |size: u32| (1u32..1 << high.len()).filter(move |choice| choice.count_ones() == size);
    sizes.into_iter().find_map(|size| choices(size).filter_map(with).min_by_key(Vec::len))
}

/// Can every missing data chunk be decoded? (Parities then can be, too.) The rank of what the parities say of them.
pub fn is_decodable(generator: &Generator, available: ChunkSet) -> bool {
    let missing: Vec<usize> = (0..generator.data_count()).filter(|&data| !available.contains(data)).collect();
    let parities = (0..generator.parity_count()).filter(|&parity| available.contains(generator.data_count() + parity));
    let at_missing = |parity: usize| missing.iter().map(|&data| generator.row(parity)[data]).collect();
    matrix::rank(parities.map(at_missing).collect()) == missing.len()
}

/// A combination of `available` chunks that equals chunk `wanted`.
fn combination_of(generator: &Generator, wanted: usize, available: ChunkSet) -> Option<Combination> {
    if available.contains(wanted) {
        return Some(vec![(wanted, 1)]);
    }
    let system = System::new(generator, wanted, available);
    let all = system.parities.as_slice();
    system.solve(&[]).or_else(|| system.solve_with_one()).or_else(|| system.solve(all))
}

struct System<'a> {
    generator: &'a Generator,
    available: ChunkSet,
    /// Row of the wanted chunk.
    target: Vec<u8>,
    /// Data chunks that may not be read.
    missing: Vec<usize>,
    /// Parities that may be read, those of the fewest data chunks first.
    parities: Vec<usize>,
}

impl<'a> System<'a> {
    fn new(generator: &'a Generator, wanted: usize, available: ChunkSet) -> Self {
        let data_count = generator.data_count();
        let target = match wanted.checked_sub(data_count) {
            Some(parity) => generator.row(parity).to_vec(),
            None => (0..data_count).map(|data| u8::from(data == wanted)).collect(),
        };
        let missing = (0..data_count).filter(|&data| !available.contains(data)).collect();
        let may_read = |&parity: &usize| available.contains(data_count + parity);
        let mut parities: Vec<usize> = (0..generator.parity_count()).filter(may_read).collect();
        parities.sort_by_key(|&parity| generator.row(parity).iter().filter(|&&c| c != 0).count());
        System { generator, available, target, missing, parities }
    }

    /// The shortest combination with exactly one parity.
    fn solve_with_one(&self) -> Option<Combination> {
        self.parities.iter().filter_map(|&parity| self.solve(&[parity])).min_by_key(Vec::len)
    }

    /// A combination of available data chunks and these parities.
    fn solve(&self, parities: &[usize]) -> Option<Combination> {
        let at_missing = |row: &[u8]| self.missing.iter().map(|&data| row[data]).collect::<Vec<u8>>();
        let rows: Vec<Vec<u8>> = parities.iter().map(|&parity| at_missing(self.generator.row(parity))).collect();
        let weights = matrix::solve(&rows, &at_missing(&self.target))?;
        Some(self.combine(parities, &weights))
    }

    /// Completes weighted parities with what the available data chunks must add.
    fn combine(&self, parities: &[usize], weights: &[u8]) -> Combination {
        let data_count = self.generator.data_count();
        let mut rest = self.target.clone();
        for (&parity, &weight) in parities.iter().zip(weights) {
            let row = self.generator.row(parity);
            rest.iter_mut().zip(row).for_each(|(value, &coefficient)| *value ^= multiply(weight, coefficient));
        }
        let data = rest.into_iter().enumerate().filter(|&(data, _)| self.available.contains(data));
        let parity = parities.iter().map(|&parity| data_count + parity).zip(weights.iter().copied());
        let mut combination: Combination = data.chain(parity).filter(|&(_, coefficient)| coefficient != 0).collect();
        combination.sort_unstable_by_key(|&(index, _)| index);
        combination
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two groups of three data chunks, each with an XOR parity (6, 7), and two global parities (8, 9).
    fn local_groups() -> Generator {
        let cauchy = Generator::cauchy(6, 3);
        let mut rows = vec![1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1];
        rows.extend((1..3).flat_map(|parity| cauchy.row(parity)));
        Generator::new(6, rows)
    }

    fn sources(wanted: usize, lost: &[usize]) -> Option<Vec<usize>> {
        let mut available = ChunkSet::first(10);
        lost.iter().for_each(|&index| available.remove(index));
        let combination = combination_of(&local_groups(), wanted, available)?;
        Some(combination.into_iter().map(|(index, _)| index).collect())
    }

    #[test]
    fn a_local_group_repairs_itself() {
        assert_eq!(sources(1, &[1]).as_deref(), Some(&[0, 2, 6][..]));
        assert_eq!(sources(1, &[1, 4]).as_deref(), Some(&[0, 2, 6][..]));
        assert_eq!(sources(7, &[7, 1]).as_deref(), Some(&[3, 4, 5][..]));
        assert_eq!(sources(4, &[]).as_deref(), Some(&[4][..]));
    }

    #[test]
    fn global_parities_help_when_a_group_cannot() {
        assert_eq!(sources(1, &[1, 2]).expect("one global parity").len(), 6);
        assert!(sources(1, &[0, 1, 2]).expect("three parities").contains(&6));
        assert_eq!(sources(1, &[0, 1, 2, 6]), None, "three unknowns, two equations");
        assert!(sources(1, &[0, 1, 3, 4]).is_some(), "four losses, spread over the groups");
    }

    fn sources_of(rows: &[[u8; 8]], wanted: usize, lost: &[usize]) -> Vec<usize> {
        let mut available = ChunkSet::first(8 + rows.len());
        lost.iter().for_each(|&index| available.remove(index));
        let combination = combination_of(&Generator::new(8, rows.concat()), wanted, available).expect("decodable");
        combination.into_iter().map(|(index, _)| index).collect()
    }

    #[test]
    fn sparse_parities_come_before_dense_ones_of_a_lower_index() {
        let cauchy = Generator::cauchy(8, 3);
        let global = |parity: usize| cauchy.row(parity).try_into().expect("eight");
        let rows = [global(1), global(2), [1, 1, 1, 1, 0, 0, 0, 0], [1, 2, 4, 8, 0, 0, 0, 0]];
        assert_eq!(sources_of(&rows, 0, &[0, 1]), [2, 3, 10, 11]);
    }

    #[test]
    fn one_parity_is_better_than_two_sparser_ones() {
        let rows = [[1, 1, 1, 0, 0, 0, 0, 0], [0, 1, 0, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 1, 1, 1]];
        assert_eq!(sources_of(&rows, 0, &[0, 1]), [5, 6, 7, 10]);
    }
}

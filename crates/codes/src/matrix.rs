//! Generator matrices and the small linear systems that decoding solves.
//!
//! A matrix here is the parity part of a systematic generator: one row for each parity chunk, one coefficient in it for
//! each data chunk, stored row by row.
//!
//! Source of the construction: Blömer et al., "An XOR-based erasure-resilient coding scheme" (1995): every square part
//! of a Cauchy matrix is invertible, hence any `parity_count` erasures can be decoded. (The powers of a Vandermonde
//! matrix do not promise that.)

use crate::field::{invert, multiply};

/// The parity rows of a systematic generator matrix.
#[derive(PartialEq, Eq, Debug)]
pub struct Generator {
    data_count: usize,
    /// `parity_count x data_count`.
    coefficients: Vec<u8>,
}

impl Generator {
    /// A matrix from its rows.
    pub fn new(data_count: usize, coefficients: Vec<u8>) -> Self {
        assert_eq!(coefficients.len() % data_count, 0, "whole rows");
        Generator { data_count, coefficients }
    }

    /// Cauchy rows, each column scaled so that the first row is all ones, and then each row so that
    /// the first column is.
    ///
    /// Scaling columns and rows keeps every square part invertible. It makes the first parity a plain XOR: folding
    /// into it and decoding a single erasure with it are XORs, as in RAID-5. And the parities of a single data
    /// chunk are copies.
    pub fn cauchy(data_count: usize, parity_count: usize) -> Self {
        // The points of rows and columns are the chunk indexes, all distinct, so no element is zero.
        let denominator =
            |parity: usize, data: usize| u8::try_from((data_count + parity) ^ data).expect("at most 80 chunks");
        let ratio = move |parity, data| divide(denominator(0, data), denominator(parity, data));
        let row = |parity| {
            let scale = divide(1, ratio(parity, 0));
            (0..data_count).map(move |data| multiply(ratio(parity, data), scale))
        };
        Generator { data_count, coefficients: (0..parity_count).flat_map(row).collect() }
    }

    pub fn data_count(&self) -> usize {
        self.data_count
    }

    pub fn parity_count(&self) -> usize {
        self.coefficients.len() / self.data_count
    }

    /// Coefficients of one parity, one for each data chunk.
    pub fn row(&self, parity_index: usize) -> &[u8] {
        &self.coefficients[parity_index * self.data_count..][..self.data_count]
    }

    /// All rows, one after the other.
    pub fn coefficients(&self) -> &[u8] {
        &self.coefficients
    }
}

/// Weights `w`, one for each vector, with `sum(w[v] * vectors[v]) = target`; `None` if there are none.
///
/// Vectors that are a combination of earlier ones get the weight zero.
pub fn solve(vectors: &[Vec<u8>], target: &[u8]) -> Option<Vec<u8>> {
    // One equation for each component: the vectors' values, then the target's.
    let mut equations: Vec<Vec<u8>> = (target.iter().enumerate())
        .map(|(component, &value)| vectors.iter().map(|vector| vector[component]).chain([value]).collect())
        .collect();
    let mut pivots = Vec::new();
    for column in 0..vectors.len() {
        let next = pivots.len();
        let Some(found) = (next..equations.len()).find(|&row| equations[row][column] != 0) else { continue };
        equations.swap(next, found);
        eliminate(&mut equations, next, column);
        pivots.push(column);
    }
    let value_column = vectors.len();
    if equations[pivots.len()..].iter().any(|equation| equation[value_column] != 0) {
        return None;
    }
    let mut weights = vec![0; vectors.len()];
    for (row, &column) in pivots.iter().enumerate() {
        weights[column] = equations[row][value_column];
    }
    Some(weights)
}

/// How many of the vectors, all equally long, are independent.
pub fn rank(mut vectors: Vec<Vec<u8>>) -> usize {
    let mut pivots = 0;
    for column in 0..vectors.first().map_or(0, Vec::len) {
        let Some(found) = (pivots..vectors.len()).find(|&row| vectors[row][column] != 0) else { continue };
        vectors.swap(pivots, found);
        eliminate(&mut vectors, pivots, column);
        pivots += 1;
    }
    pivots
}

/// Makes `column` one in equation `pivot` and zero in all others.
fn eliminate(equations: &mut [Vec<u8>], pivot: usize, column: usize) {
    let scale = divide(1, equations[pivot][column]);
    equations[pivot].iter_mut().for_each(|value| *value = multiply(*value, scale));
    let pivot_equation = equations[pivot].clone();
    for (row, equation) in equations.iter_mut().enumerate() {
        let factor = equation[column];
        if row != pivot && factor != 0 {
            equation.iter_mut().zip(&pivot_equation).for_each(|(value, &by)| *value ^= multiply(factor, by));
        }
    }
}

fn divide(dividend: u8, divisor: u8) -> u8 {
    multiply(dividend, invert(divisor).expect("the divisor is not zero"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Determinant by cofactors: slow, and shares nothing with the elimination above.
    fn determinant(rows: &[&[u8]], columns: &[usize]) -> u8 {
        let Some((first, rest)) = rows.split_first() else { return 1 };
        (0..columns.len()).fold(0, |sum, skip| {
            let others: Vec<usize> = (0..columns.len()).filter(|&i| i != skip).map(|i| columns[i]).collect();
            sum ^ multiply(first[columns[skip]], determinant(rest, &others))
        })
    }

    fn subsets(of: usize, size: usize) -> Vec<Vec<usize>> {
        (0u32..1 << of)
            .filter(|set| set.count_ones() as usize == size)
            .map(|set| (0..of).filter(|&i| set >> i & 1 == 1).collect())
            .collect()
    }

    fn assert_every_minor_nonzero(data_count: usize, parity_count: usize) {
        let matrix = Generator::cauchy(data_count, parity_count);
        for size in 1..=data_count.min(parity_count) {
            for row_set in subsets(parity_count, size) {
                let rows: Vec<&[u8]> = row_set.iter().map(|&row| matrix.row(row)).collect();
                for columns in subsets(data_count, size) {
                    assert_ne!(determinant(&rows, &columns), 0, "{data_count}+{parity_count} {row_set:?} {columns:?}");
                }
            }
        }
    }

    #[test]
    fn every_minor_of_a_cauchy_matrix_is_nonzero() {
        for (data_count, parity_count) in
            [(1, 1), (2, 2), (3, 2), (4, 2), (4, 4), (5, 3), (6, 3), (8, 2), (8, 3), (8, 4), (10, 4), (12, 4), (6, 6)]
        {
            assert_every_minor_nonzero(data_count, parity_count);
        }
    }

    #[test]
    fn every_small_minor_of_the_largest_matrix_is_nonzero() {
        // Up to 2x2 exhaustively: 64 data and 16 parity chunks.
        let generator = Generator::cauchy(64, 16);
        let matrix = generator.coefficients();
        assert!(matrix.iter().all(|&coefficient| coefficient != 0));
        assert!(matrix[..64].iter().all(|&coefficient| coefficient == 1));
        assert!(matrix.iter().step_by(64).all(|&coefficient| coefficient == 1));
        for (upper, lower) in (0..16).flat_map(|lower| (0..lower).map(move |upper| (upper * 64, lower * 64))) {
            for (left, right) in (0..64).flat_map(|right| (0..right).map(move |left| (left, right))) {
                let down = multiply(matrix[upper + left], matrix[lower + right]);
                let up = multiply(matrix[upper + right], matrix[lower + left]);
                assert_ne!(down, up);
            }
        }
    }

    #[test]
    fn solve_finds_weights_or_says_there_are_none() {
        let vectors = [vec![1, 2, 3], vec![2, 4, 6], vec![0, 1, 1]];
        let target = [5, 5 ^ 15, 0];
        let weights = solve(&vectors, &target);
        assert_eq!(weights, None);
        let target: Vec<u8> = (0..3).map(|i| multiply(7, vectors[0][i]) ^ multiply(9, vectors[2][i])).collect();
        assert_eq!(solve(&vectors, &target), Some(vec![7, 0, 9]));
        assert_eq!(solve(&[], &[0, 0]), Some(vec![]));
        assert_eq!(solve(&[], &[0, 1]), None);
    }
}

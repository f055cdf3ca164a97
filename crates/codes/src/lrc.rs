//! Local reconstruction codes: which coefficients the parities have.
//!
//! A local parity is the XOR of its group, so that a single loss costs one reading of its group. What the global
//! parities must be is told by patterns of losses: a group mends one loss by itself, whatever is lost beyond that falls
//! to the `g` global parities. A code that decodes *every* pattern with at most `g` losses left to them is called
//! maximally recoverable; no code with these groups can do more.
//!
//! **Points.** Each chunk gets a point, a vector of eight bits that is also an element of GF(2^8); a local parity's is
//! zero. The codewords are those with, beside the groups' XORs, `sum(point^(2^r) * chunk) = 0` for each `r < g`.
//! Squaring is additive, so when one loss of a group was expressed by the others, each of these has the column
//! `(d, d^2, d^4, ...)` with the *difference* `d` of two points, and such columns are independent exactly if the
//! differences are, as vectors of bits. So the code is maximally recoverable if and only if no set of chunks with
//! (a) an even number from each group it touches, (b) points that sum to zero, (c) at most `g` losses left to the
//! global parities exists. Points are taken one after the other, always the smallest that keeps this so.
//!
//! **Where that fails** (with eight bits there are too few points), the rows of a Cauchy matrix with `g + 1` parities
//! are taken, the first one, all ones, cut into the local parities: every `g + 1` losses are decoded, since a codeword
//! of the cut code is never lighter than that of the whole one. The same matrix serves where it is maximally
//! recoverable anyway: with one group, and with at most one global parity.
//!
//! Sources: Huang et al., "Erasure Coding in Windows Azure Storage" (ATC 2012), the pairs of coefficients of which are
//! the case `g = 2`; Gopalan et al., "Explicit maximally recoverable codes with locality" (2014); Huang et al.,
//! "Pyramid codes" (2007).

use shorttail_units::CodeShape;

use crate::field::multiply;
use crate::matrix::{self, Generator};

/// The parity rows of a code with groups, local parities first.
pub fn generator(shape: CodeShape) -> Generator {
    let data_count = shape.data_count();
    let global_rows = if is_cut_cauchy_as_good(shape) { None } else { Points::find(shape).map(|it| it.global_rows()) };
    let global_rows = global_rows.unwrap_or_else(|| cauchy_rows(shape));
    let local_row =
        |parity: usize| (0..data_count).map(move |data| u8::from(shape.covers(parity, data))).collect::<Vec<_>>();
    let local_rows = (0..shape.local_count()).flat_map(local_row);
    Generator::new(data_count, local_rows.chain(global_rows).collect())
}

/// Does the code of this shape decode every pattern of losses that any code with these groups could?
pub fn is_maximally_recoverable(shape: CodeShape) -> bool {
    is_cut_cauchy_as_good(shape) || Points::find(shape).is_some()
}

fn is_cut_cauchy_as_good(shape: CodeShape) -> bool {
    shape.local_count() <= 1 || shape.global_count() <= 1
}

/// All rows but the first of a Cauchy matrix with one parity more.
fn cauchy_rows(shape: CodeShape) -> Vec<u8> {
    let whole = Generator::cauchy(shape.data_count(), shape.global_count() + 1);
    whole.coefficients()[shape.data_count()..].to_vec()
}

const POINTS: usize = 256;

/// By sum of points, the fewest losses left to the global parities with which chunks reach that sum.
type Prices = [u8; POINTS];

/// A sum that is not reached.
const UNREACHED: u8 = u8::MAX;

/// Points of the data chunks and of the global parities.
struct Points {
    shape: CodeShape,
    data: Vec<u8>,
    globals: Vec<u8>,
    /// Of even numbers of chunks of each group: one less than their number.
    even: Vec<Prices>,
    /// Of odd numbers of chunks of each group: their number, which is what they cost with one more.
    odd: Vec<Prices>,
    /// Of global parities: their number.
    global: Prices,
}

impl Points {
    fn find(shape: CodeShape) -> Option<Points> {
        let (mut nothing, mut local_parity) = ([UNREACHED; POINTS], [UNREACHED; POINTS]);
        (nothing[0], local_parity[0]) = (0, 1);
        let mut points = Points {
            shape,
            data: Vec::new(),
            globals: Vec::new(),
            even: vec![nothing; shape.local_count()],
            odd: vec![local_parity; shape.local_count()],
            global: nothing,
        };
        for data in 0..shape.data_count() {
            points.add_data(shape.group_of(data))?;
        }
        for _ in 0..shape.global_count() {
            points.add_global()?;
        }
        Some(points)
    }

    /// Prices above this do not matter.
    fn price_max(&self) -> u8 {
        u8::try_from(self.shape.global_count()).expect("at most sixteen")
    }

    /// Takes the smallest point that, with an odd number of its group and anything else, never sums to
    /// zero too cheaply.
    fn add_data(&mut self, group: usize) -> Option<()> {
        let forbidden = self.join(&self.odd[group], &self.rest(Some(group)));
        let point = (1..=u8::MAX).find(|&point| forbidden[usize::from(point)] == UNREACHED)?;
        let (even, odd) = (self.even[group], self.odd[group]);
        for sum in 0..POINTS {
            let before = sum ^ usize::from(point);
            self.even[group][sum] = even[sum].min(odd[before]);
            // One chunk alone, or an even number of at least two and this one.
            let with_point = if before == 0 { 1 } else { even[before].saturating_add(2) };
            self.odd[group][sum] = odd[sum].min(with_point);
        }
        self.data.push(point);
        Some(())
    }

    fn add_global(&mut self) -> Option<()> {
        let reached = self.rest(None);
        let price_max = self.price_max();
        let point = (1..=u8::MAX).find(|&point| reached[usize::from(point)].saturating_add(1) > price_max)?;
        let global = self.global;
        for sum in 0..POINTS {
            self.global[sum] = global[sum].min(global[sum ^ usize::from(point)].saturating_add(1));
        }
        self.globals.push(point);
        Some(())
    }

    /// Prices of what global parities and all groups but one reach together.
    fn rest(&self, without: Option<usize>) -> Prices {
        let others = (0..self.even.len()).filter(|&group| Some(group) != without);
        others.fold(self.global, |prices, group| self.join(&prices, &self.even[group]))
    }

    fn join(&self, left: &Prices, right: &Prices) -> Prices {
        let price_max = self.price_max();
        let affordable = |prices: &Prices| -> Vec<(usize, u8)> {
            let all = prices.iter().copied().enumerate();
            all.filter(|&(_, price)| price <= price_max).collect()
        };
        let (left, right) = (affordable(left), affordable(right));
        let mut joined = [UNREACHED; POINTS];
        for &(one, price) in &left {
            for &(other, more) in right.iter().filter(|&&(_, more)| price + more <= price_max) {
                let place = &mut joined[one ^ other];
                *place = (price + more).min(*place);
            }
        }
        joined
    }

    /// The equations above, solved for the global parities.
    fn global_rows(&self) -> Vec<u8> {
        let columns: Vec<Vec<u8>> = self.globals.iter().map(|&point| self.powers(point)).collect();
        let weights_of = |&point: &u8| {
            matrix::solve(&columns, &self.powers(point)).expect("the global parities' points are independent")
        };
        let weights: Vec<Vec<u8>> = self.data.iter().map(weights_of).collect();
        let row = |parity: usize| weights.iter().map(move |weights| weights[parity]);
        (0..self.globals.len()).flat_map(row).collect()
    }

    /// `point^(2^r)` for each `r < g`.
    fn powers(&self, point: u8) -> Vec<u8> {
        let squares = std::iter::successors(Some(point), |&power| Some(multiply(power, power)));
        squares.take(self.shape.global_count()).collect()
    }
}
